"""Secrets are read from files, late, and never shown: what is held here has no ``repr`` of its value."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from palanca.errors import Fault, RuleFileError, UsageError
from palanca.settings.scalars import Database

if TYPE_CHECKING:
    from palanca.loader import Keys
    from palanca.settings.load import Effective
    from palanca.settings.spec import Alertmanager, SourceSettings

SHORTEST_TOKEN = 16
_LARGEST = 64 * 1024


@dataclass(frozen=True)
class NamedToken:
    """One who may ask, with the token."""

    name: str
    scope: Literal["read", "write"]
    value: SecretStr


@dataclass(frozen=True)
class SourceSecrets:
    """Credentials of one source, or of the Alertmanagers; ``headers`` are all that are sent, secret or not."""

    bearer: SecretStr | None = None
    basic: tuple[str, SecretStr] | None = None
    headers: Mapping[str, SecretStr] = field(default_factory=dict)


@dataclass(frozen=True)
class ReceiverSecrets:
    """Secrets of one receiver of messages: the address to post to, a token, headers, the secret that signs."""

    url: SecretStr | None = None
    token: SecretStr | None = None
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    signing: SecretStr | None = None


@dataclass(frozen=True)
class Secrets:
    """All secrets of the settings; ``sources`` and ``receivers`` by name, ``database`` with its credentials."""

    tokens: tuple[NamedToken, ...] = ()
    sources: Mapping[str, SourceSecrets] = field(default_factory=dict)
    database: Database | None = None
    receivers: Mapping[str, ReceiverSecrets] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    alertmanager: SourceSecrets = SourceSecrets()


def read_secret(path: Path) -> SecretStr:
    """Read a file that holds a secret: one line, without the line's end. Raises ``UsageError``."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no file; name a file that holds the secret")
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        text = raw.decode("utf-8").strip()
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{path} cannot be read: {reason}; name a file that holds the secret") from None
    except ValueError:
        raise UsageError(f"{path} is not UTF-8 text; the file holds the secret and nothing else") from None
    if len(raw) > _LARGEST:
        raise UsageError(f"{path} is larger than {_LARGEST} bytes; the file holds the secret and nothing else")
    if not text:
        raise UsageError(f"{path} is empty; write the secret into it")
    if len(text.splitlines()) > 1:
        raise UsageError(f"{path} has several lines; the file holds the secret and nothing else")
    return SecretStr(text)


def read_secrets(made: Effective) -> Secrets:
    """Read every secret. Raises ``RuleFileError`` with every fault, at the setting that names the file."""
    reader = _Reader(made)
    tokens = reader.tokens()
    sources = {one.name: reader.credentials(one, ("sources", index)) for index, one in enumerate(made.settings.sources)}
    alertmanager = reader.credentials(made.settings.alertmanager, ("alertmanager",))
    database = reader.database()
    receivers = reader.receivers()
    if reader.faults:
        raise RuleFileError(reader.faults)
    return Secrets(tokens, sources, database, receivers, tuple(reader.warnings), alertmanager)


class _Reader:
    """Reads files and remembers what is wrong with them."""

    def __init__(self, made: Effective) -> None:
        self._made, self.faults, self.warnings = made, list[Fault](), list[str]()

    def tokens(self) -> tuple[NamedToken, ...]:
        """Read the tokens; short ones and those of somebody else are faults."""
        found: dict[str, str] = {}
        tokens = []
        for index, one in enumerate(self._made.settings.auth.tokens):
            at = ("auth", "tokens", index, "token_file")
            secret = self._read(one.token_file, at, _token)
            if secret is None:
                continue
            owner = found.setdefault(secret.get_secret_value(), one.name)
            if owner != one.name:
                self._fault(at, f"{one.token_file} holds the token of {owner!r} too", "each needs a token of its own")
            tokens.append(NamedToken(one.name, one.scope, secret))
        return tuple(tokens)

    def credentials(self, one: SourceSettings | Alertmanager, at: Keys) -> SourceSecrets:
        """Read the credentials that a section names; ``at`` is where it stands."""
        bearer = self._read(one.bearer_file, (*at, "bearer_file"), _header)
        pair = self._read(one.basic_file, (*at, "basic_file"), _pair)
        headers = dict(one.headers)
        for name, path in one.header_files.items():
            value = self._read(path, (*at, "header_files", name), _header)
            if value is not None:
                headers[name] = value
        user, _, password = pair.get_secret_value().partition(":") if pair else ("", "", "")
        return SourceSecrets(bearer, (user, SecretStr(password)) if pair else None, headers)

    def database(self) -> Database | None:
        """Return the database of the settings, with the URL from its file."""
        history = self._made.settings.history
        at = ("history", "database_file")
        secret = self._read(history.database_file, at, Database.parse)
        return history.database if secret is None else Database.parse(secret.get_secret_value())

    def receivers(self) -> dict[str, ReceiverSecrets]:
        """Read what the receivers of messages need."""
        notify, found = self._made.settings.notify, dict[str, ReceiverSecrets]()
        for index, slack in enumerate(notify.slack):
            at: Keys = ("notify", "slack", index)
            found[slack.name] = ReceiverSecrets(
                url=self._read(slack.webhook_url_file, (*at, "webhook_url_file"), _web_address),
                token=self._read(slack.token_file, (*at, "token_file"), _word),
            )
        for index, hook in enumerate(notify.webhooks):
            at = ("notify", "webhooks", index)
            bearer = self._read(hook.bearer_file, (*at, "bearer_file"), _header)
            headers = {} if bearer is None else {"Authorization": SecretStr(f"Bearer {bearer.get_secret_value()}")}
            for name, path in hook.header_files.items():
                value = self._read(path, (*at, "header_files", name), _header)
                headers |= {} if value is None else {name: value}
            found[hook.name] = ReceiverSecrets(
                url=hook.url.full if hook.url else self._read(hook.url_file, (*at, "url_file"), _web_address),
                headers=headers,
                signing=self._read(hook.hmac_file, (*at, "hmac_file"), _signing),
            )
        return found

    def _read(self, path: Path | None, at: Keys, check: Callable[[str], object]) -> SecretStr | None:
        if path is None:
            return None
        try:
            secret = read_secret(path)
            check(secret.get_secret_value())
        except (UsageError, ValueError) as error:
            text = str(error) if isinstance(error, UsageError) else f"{path}: {error}"
            self._fault(at, *text.split("; ", 1))
            return None
        mode = path.stat().st_mode
        if mode & stat.S_IROTH:
            self.warnings.append(f"{path} can be read by everybody (mode {stat.S_IMODE(mode):04o}); chmod o-r {path}")
        return secret

    def _fault(self, at: Keys, message: str, hint: str = "") -> None:
        self.faults.append(self._made.fault(at, message, hint))


def _token(text: str) -> None:
    _word(text)
    if len(text) < SHORTEST_TOKEN:
        raise ValueError(f"shorter than {SHORTEST_TOKEN} characters; make one with openssl rand -hex 32")


def _word(text: str) -> None:
    _header(text)
    if any(char.isspace() for char in text):
        raise ValueError("a token has no spaces in it; the file holds the token and nothing else")


def _signing(text: str) -> None:
    if len(text) < SHORTEST_TOKEN:
        raise ValueError(f"shorter than {SHORTEST_TOKEN} characters; make one with openssl rand -hex 32")


def _web_address(text: str) -> None:
    """Check the address of a webhook, without showing it: it is a secret."""
    try:
        parts = urlsplit(text)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("no HTTP address in it; the file holds https://HOST/PATH and nothing else")


def _header(text: str) -> None:
    if not text.isascii() or not text.isprintable():
        raise ValueError("not printable ASCII, which a header needs; the file holds the secret and nothing else")


def _pair(text: str) -> None:
    if ":" not in text:
        raise ValueError("no colon in it; the file holds user:password")
