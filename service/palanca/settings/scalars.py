"""Values of a settings file that need more than a type: addresses, databases, spans of time, labels, headers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, WithJsonSchema

from palanca.moments import duration, seconds

LONGEST_NAME = 63
DAY_MIN = 1440
_HOST = re.compile(r"[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\]?")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # of its two slashes a path keeps one
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{6,}|#?[^\W_A-Z]([^\W A-Z]|[_.-]){0,79}")
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_POSTGRES = frozenset({"postgresql", "postgresql+psycopg", "postgres"})
_SPAN: dict[str, Any] = {
    "anyOf": [{"type": "string", "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?$"}, {"type": "number"}],
    "examples": ["30s", "1h30m"],
}


@dataclass(frozen=True)
class Address:
    """An HTTP address. ``full`` may hold user and password; ``shown``, ``str`` and ``repr`` do not."""

    shown: str
    full: SecretStr

    def __str__(self) -> str:
        """Return the address without credentials."""
        return self.shown

    @property
    def has_credentials(self) -> bool:
        """Whether user and password stand in it."""
        return "@" in urlsplit(self.full.get_secret_value()).netloc

    @classmethod
    def parse(cls, text: object) -> Address:
        """Read ``http://HOST:PORT/PATH``. Raises ``ValueError``, whose message has no credentials."""
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise ValueError(f"a {type(text).__name__} is no URL; write http://HOST:PORT")  # noqa: TRY004  a fault
        plain = text.strip().rstrip("/")
        try:
            parts = urlsplit(plain)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("this URL cannot be read; write http://HOST:PORT") from None
        if parts.scheme not in {"http", "https"} or not host or re.search(r"\s", plain) or not plain.isprintable():
            raise ValueError("this is no HTTP URL; write http://HOST:PORT or https://HOST/PATH")
        if parts.query or parts.fragment:
            raise ValueError("give the URL without ? and #; the API adds its own")
        place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
        return cls(urlunsplit((parts.scheme, place, parts.path, "", "")), SecretStr(plain))


@dataclass(frozen=True)
class Database:
    """Where the history is kept: a SQLite file (``path``) or a PostgreSQL (``url``, which may hold a password)."""

    shown: str
    path: Path | None = None
    url: SecretStr | None = None

    def __str__(self) -> str:
        """Return the place without credentials."""
        return self.shown

    @classmethod
    def parse(cls, text: object) -> Database:
        """Read a path or a URL. Raises ``ValueError``, whose message has no credentials."""
        if isinstance(text, cls):
            return text
        if not isinstance(text, str) or not text.strip() or not text.strip().isprintable():
            raise ValueError("write the path of a SQLite file, or postgresql://USER@HOST/DATABASE")
        plain = text.strip()
        scheme, mark, rest = plain.partition("://")
        if not mark or scheme == "sqlite":
            path = rest.removeprefix("/") if mark else plain
            if not path or "?" in path:
                raise ValueError("write sqlite:///PATH, or the path alone")
            return cls(path, path=Path(path))
        if scheme not in _POSTGRES:
            raise ValueError("palanca keeps its history in SQLite (a path) or PostgreSQL (postgresql://...)")
        try:
            parts = urlsplit(plain)
            host, port, name = parts.hostname or "", parts.port, parts.path.strip("/")
        except ValueError:
            raise ValueError("this URL cannot be read; write postgresql://USER@HOST:PORT/DATABASE") from None
        if not name and "dbname=" not in parts.query:
            raise ValueError("the name of the database is missing; write postgresql://USER@HOST:PORT/DATABASE")
        place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
        return cls(urlunsplit((scheme, place, parts.path, "", "")) or scheme, url=SecretStr(plain))


@dataclass(frozen=True)
class Between:
    """Validator of a span of time, in seconds."""

    low: float
    high: float

    def __call__(self, value: float) -> float:
        """Raises ``ValueError`` outside of the limits."""
        if not self.low <= value <= self.high:
            raise ValueError(f"must be between {duration(self.low)} and {duration(self.high)}")
        return value


def _text(pattern: re.Pattern[str], what: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text) or len(text) > LONGEST_NAME:
            raise ValueError(f"{text[:LONGEST_NAME]!r} is no {what}")
        return text

    return check


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text) or text.startswith("__"):
        raise ValueError(f"{text[:LONGEST_NAME]!r} is no label of a target")
    return text


def _header_value(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text.isascii() or not text.isprintable():
        raise ValueError("the value of a header is printable ASCII in one line")
    return value


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be text that can be printed, without line breaks")
    return text


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError("must be an address such as 127.0.0.1 or ::1, or the name of a host; the port is listen.port")
    return text


def _place(path: Path) -> Path:
    if _URL.match(str(path)):
        raise ValueError("must be the name of a file or folder, not a URL")
    if path == Path() or not str(path).isprintable():
        raise ValueError("must be the name of a file or folder")
    return path


def _clock(value: object) -> str:
    """Read a time of day; YAML takes 22:00 without quotes for a number of minutes."""
    text = str(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < DAY_MIN:
        text = f"{value // 60:02}:{value % 60:02}"
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text[:LONGEST_NAME]!r} is no time of day; write 22:00, in quotes")
    return text


def _zone(text: str) -> str:
    if text != "UTC":
        try:
            ZoneInfo(text)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            message = f"{text[:LONGEST_NAME]!r} is no time zone that this system knows; write e.g. Europe/Madrid or UTC"
            raise ValueError(message) from None
    return text


def _link(text: str) -> str:
    """An address with whatever stands behind it, to be shown to people."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.netloc or not text.isprintable() or re.search(r"\s", text):
        raise ValueError("this is no HTTP URL; write https://HOST/PATH")
    if "@" in parts.netloc:
        raise ValueError("this URL is shown to people: no user and password in it")
    return text


def _span(value: object) -> float:
    """Read a duration; a number, also one of a variable, is in seconds."""
    return seconds(int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip()) else value)


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004  pydantic turns only ValueError into a fault
    return value


File = Annotated[Path, AfterValidator(_place)]
Host = Annotated[str, AfterValidator(_printable), AfterValidator(_host)]
Number = Annotated[float, BeforeValidator(_no_truth), Field(allow_inf_nan=False)]
Interval = Annotated[float, BeforeValidator(_span), AfterValidator(Between(5, 3600)), WithJsonSchema(_SPAN)]
Timeout = Annotated[float, BeforeValidator(_span), AfterValidator(Between(1, 300)), WithJsonSchema(_SPAN)]
Retention = Annotated[float, BeforeValidator(_span), AfterValidator(Between(3600, 3650 * 86400)), WithJsonSchema(_SPAN)]
Digest = Annotated[float, BeforeValidator(_span), AfterValidator(Between(60, 86400)), WithJsonSchema(_SPAN)]
Patience = Annotated[float, BeforeValidator(_span), AfterValidator(Between(1, 30)), WithJsonSchema(_SPAN)]
Clock = Annotated[str, BeforeValidator(_clock)]
Zone = Annotated[str, AfterValidator(_zone)]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Channel = Annotated[
    str, AfterValidator(_text(_CHANNEL, "channel; write its ID, such as C0123456789, or its name, such as #alerts"))
]
Link = Annotated[str, AfterValidator(_link), WithJsonSchema({"type": "string", "format": "uri"})]
Url = Annotated[Address, BeforeValidator(Address.parse), WithJsonSchema({"type": "string", "format": "uri"})]
Store = Annotated[Database, BeforeValidator(Database.parse), WithJsonSchema({"type": "string"})]
Name = Annotated[str, AfterValidator(_text(_NAME, "name; write letters, digits, '.', '_' and '-'"))]
Label = Annotated[str, AfterValidator(_label)]
HeaderName = Annotated[str, AfterValidator(_text(_HEADER, "name of a header"))]
HeaderValue = Annotated[SecretStr, AfterValidator(_header_value)]
