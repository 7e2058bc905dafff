"""Where the history lies: a file (SQLite) or a PostgreSQL URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from palanca.errors import UsageError

_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
_SECRET_OPTIONS = ("password", "sslpassword")
_EXAMPLE = "postgresql://user@host:5432/database"


@dataclass(frozen=True)
class Address:
    """A database. ``path`` is its file, None for PostgreSQL; ``place`` names it in messages, without credentials."""

    url: URL
    path: Path | None
    place: str

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show."""
        options = [self.url.query[name] for name in _SECRET_OPTIONS if name in self.url.query]
        found = [self.url.password, *(one for text in options for one in ([text] if isinstance(text, str) else text))]
        return tuple(one for one in found if one)


def default_path(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_STATE_HOME/palanca/palanca.db``, by default below ``~/.local/state``. Raises ``UsageError``.

    A relative XDG_STATE_HOME is ignored, as the XDG Base Directory Specification asks.
    """
    state = Path(environ.get("XDG_STATE_HOME", ""))
    if state.is_absolute():
        return state / "palanca" / "palanca.db"
    if not environ.get("HOME"):
        message = "no place for the history: neither XDG_STATE_HOME nor HOME is set; name a file with --database"
        raise UsageError(message)
    return Path(environ["HOME"]) / ".local" / "state" / "palanca" / "palanca.db"


def parse_address(text: str | Path, password: str | None = None) -> Address:
    """Read a path, ``sqlite:///path`` or a ``postgresql://`` URL; ``password`` takes the place of the URL's.

    Raises ``UsageError``, which never quotes the text: it may hold a password.
    """
    plain = str(text)
    if isinstance(text, Path) or "://" not in plain:
        if not plain.strip():
            raise UsageError("the database has no name; give the path of a file, or a URL such as " + _EXAMPLE)
        return _file(Path(plain))
    scheme, _, rest = plain.partition("://")
    authority = rest.partition("?")[0].rpartition("/")[0] or rest
    if authority.count("@") > 1:
        raise UsageError("the database URL has more than one @; write @ in a password as %40")
    try:
        url = make_url(plain)
    except (ArgumentError, ValueError):
        raise UsageError(f"the database URL cannot be read; write it as {_EXAMPLE}") from None
    if scheme == "sqlite":
        return _sqlite(url)
    if scheme not in _POSTGRESQL:
        raise UsageError(f"a database of the kind {scheme!r} cannot hold the history; give a file or {_EXAMPLE}")
    if not url.database:
        raise UsageError(f"the database URL names no database; write it as {_EXAMPLE}")
    url = url.set(drivername="postgresql+psycopg")
    url = url.set(password=password) if password else url
    host = f"{url.host or 'local socket'}{f':{url.port}' if url.port else ''}"
    return Address(url, None, f"postgresql://{host}/{url.database}")


def _sqlite(url: URL) -> Address:
    if not url.database or url.database == ":memory:" or url.query:
        raise UsageError("a SQLite URL names a file and nothing else: sqlite:////var/lib/palanca/palanca.db")
    return _file(Path(url.database))


def _file(path: Path) -> Address:
    whole = path.expanduser().absolute()
    return Address(URL.create("sqlite", database=str(whole)), whole, str(whole))
