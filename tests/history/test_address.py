"""Where the history lies, and what is no place for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from palanca.errors import UsageError
from palanca.history.address import default_path, parse_address


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_STATE_HOME": "/var/state", "HOME": "/home/ana"}, "/var/state/palanca/palanca.db"),
        ({"XDG_STATE_HOME": "", "HOME": "/home/ana"}, "/home/ana/.local/state/palanca/palanca.db"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/ana"}, "/home/ana/.local/state/palanca/palanca.db"),
    ],
)
def test_default_path(environ: dict[str, str], path: str) -> None:
    """As the XDG Base Directory Specification has it."""
    assert Path(path) == default_path(environ)


def test_no_place() -> None:
    with pytest.raises(UsageError, match="--database"):
        default_path({})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/var/lib/palanca/palanca.db", "/var/lib/palanca/palanca.db"),
        (Path("/a/b c%20.db"), "/a/b c%20.db"),
        ("sqlite:////var/lib/palanca/palanca.db", "/var/lib/palanca/palanca.db"),
        ("sqlite:///palanca.db", str(Path.cwd() / "palanca.db")),
        ("postgresql://ana:secret@db:5433/palanca", "postgresql://db:5433/palanca"),
        ("postgres://ana@db/palanca?password=secret", "postgresql://db/palanca"),
        ("postgresql+psycopg:///palanca?host=/run/postgresql", "postgresql://local socket/palanca"),
    ],
)
def test_places(text: str | Path, place: str) -> None:
    """What messages call it: no user, no password."""
    assert place == parse_address(text).place


def test_secrets() -> None:
    """Each of them is known, to be kept out of messages; a password given apart takes the place of the URL's."""
    address = parse_address("postgresql://ana:one@db/palanca?password=two&sslpassword=three", "four")
    assert {"four", "two", "three"} == set(address.secrets)
    assert "four" == address.url.password
    assert () == parse_address("/a.db").secrets


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no name"),
        ("  ", "no name"),
        ("mysql://ana:secret@db/palanca", "'mysql' cannot hold the history"),
        ("postgresql://ana:sec@ret@db/palanca", "%40"),
        ("postgresql://ana:secret@db:port/palanca", "cannot be read"),
        ("postgresql://ana:secret@db", "names no database"),
        ("://secret", "cannot be read"),
        ("sqlite://", "names a file"),
        ("sqlite:///:memory:", "names a file"),
        ("sqlite:////a.db?mode=ro", "names a file"),
    ],
)
def test_no_address(text: str, said: str) -> None:
    """The message says how to write it, and never quotes it."""
    with pytest.raises(UsageError, match=said) as caught:
        parse_address(text)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
