"""Tokens: who is let in, and that nothing of a secret is told."""

from __future__ import annotations

import base64
import hmac
import inspect

import pytest

from palanca.api import access
from palanca.api.access import Caller, Token, Tokens

KNOWN = Tokens(
    [Token("grafana", "read", "r-secret"), Token("ops", "write", "w-secret"), Token("ñandú", "read", "pässwörd")]
)
READER, WRITER = Caller("grafana", "read"), Caller("ops", "write")


def basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


@pytest.mark.parametrize(
    ("header", "caller"),
    [
        ("Bearer r-secret", READER),
        ("bearer w-secret", WRITER),
        ("  BEARER   w-secret  ", WRITER),
        (basic(b"anybody:w-secret"), WRITER),
        (basic(b":r-secret"), READER),
        (basic("x:pässwörd".encode()), Caller("ñandú", "read")),
        ("Bearer " + "pässwörd".encode().decode("latin-1"), Caller("ñandú", "read")),
        ("", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer r-secre", None),
        ("Bearer r-secret ,", None),
        ("Bearer R-SECRET", None),
        ("r-secret", None),
        ("Token r-secret", None),
        (basic(b"r-secret"), None),
        (basic(b"r-secret:"), None),
        ("Basic r-secret", None),
        ("Basic !!!", None),
        ("Basic " + "ÿ" * 50, None),
        (basic(b"\xff\xfe:\xff"), None),
        ("Bearer " + "x" * 100_000, None),
        ("Bearer \ud800", None),
    ],
)
def test_who_asks(header: str, caller: Caller | None) -> None:
    """A bearer token, or one as the password of Basic; anything else is nobody."""
    assert caller == KNOWN.caller(header)


@pytest.mark.parametrize("header", ["", "Bearer ", "Bearer", "Basic ", basic(b"x:"), basic(b"x"), "Basic !"])
def test_an_empty_secret_lets_nobody_in(header: str) -> None:
    """Should the settings hold one by mistake."""
    assert Tokens([Token("empty", "write", "")]).caller(header) is None


def test_secrets_are_not_shown() -> None:
    """Neither by a token nor by those who keep it; what is kept are digests."""
    assert "hidden" not in repr(Token("a", "read", "hidden"))
    assert "hidden" not in repr(vars(Tokens([Token("a", "read", "hidden")])))


def test_all_are_compared_in_constant_time() -> None:
    """Every known token is compared by digests of equal length, whichever fits: no early end, no ``==``."""
    source = inspect.getsource(Tokens.caller)
    assert hmac.compare_digest.__name__ in source
    assert "break" not in source
    assert 1 == source.count("return")
    assert {32} == {len(digest) for digest, _ in KNOWN._known}
    assert 32 == len(access._digest(b"any"))


def test_whether_there_are_any() -> None:
    """Without tokens nobody is asked for one."""
    assert KNOWN
    assert not Tokens([])
