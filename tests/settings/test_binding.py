"""Anything but loopback needs tokens, or the word that none are wanted."""

from __future__ import annotations

import pytest

from palanca.errors import UsageError
from palanca.settings import Settings, check_binding, is_loopback

TOKEN = {"name": "a", "token_file": "/t"}


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    """Names are not looked up: who knows what they mean tomorrow."""
    assert loopback == is_loopback(host)


@pytest.mark.parametrize("auth", [{"tokens": [TOKEN]}, {"disabled": True}])
def test_allowed(auth: dict[str, object]) -> None:
    """With a token, or with the word."""
    check_binding(Settings.model_validate({"listen": {"host": "0.0.0.0"}, "auth": auth}))
    check_binding(Settings())


def test_refused() -> None:
    """The message says how to mend it."""
    with pytest.raises(UsageError, match=r"listening on 0\.0\.0\.0 lets others in.*auth\.tokens.*--no-auth"):
        check_binding(Settings.model_validate({"listen": {"host": "0.0.0.0"}}))
