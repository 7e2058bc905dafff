"""What a user can choose about the configuration of Alertmanager."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from palanca.alerting import names
from palanca.errors import UsageError
from palanca.moments import duration
from palanca.releases import Release

OLDEST = Release("0.25")
WEBHOOK_PATH = "/api/v1/alertmanager"
DEFAULT_BASE = "http://127.0.0.1:9797"
LONGEST_S = 4 * 86400.0
"""Alertmanager forgets after 120 h by default what it has told, and then tells it again."""


@dataclass(frozen=True)
class Routing:
    """What a user can choose about the configuration. Times in seconds. Raises ``UsageError``.

    ``receiver_url`` is where palanca takes alerts; by default it is made of ``external_url``. ``credentials_file`` is
    read by Alertmanager and holds palanca's token; empty where palanca asks for none. ``deadman_url`` is told every
    minute that alerts are evaluated. ``identity`` are labels that tell engines apart beside ``names.IDENTITY``.
    """

    release: Release = OLDEST
    external_url: str | None = None
    receiver_url: str | None = None
    credentials_file: str = "/etc/alertmanager/palanca.token"
    group_wait: float = 30.0
    group_interval: float = 300.0
    repeat_interval: float = 4 * 3600.0
    deadman_url: str | None = None
    identity: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what Alertmanager would refuse."""
        if self.release < OLDEST:
            raise UsageError(f"--alertmanager {self.release}: {OLDEST} is the oldest release that this is written for")
        for option, url in (("--receiver-url", self.receiver), ("--deadman-url", self.deadman_url)):
            if url is not None and not _is_url(url):
                raise UsageError(f"{option} {url!r}: give an URL such as http://palanca:9797{WEBHOOK_PATH}")
        for option, value, least in (
            ("--group-wait", self.group_wait, 0.0),
            ("--group-interval", self.group_interval, 1.0),
            ("--repeat-interval", self.repeat_interval, 1.0),
        ):
            if not least <= value <= LONGEST_S or round(value) != value:
                longest = duration(LONGEST_S)
                raise UsageError(f"{option} {value:g} s: give whole seconds from {duration(least)} to {longest}")
        if self.repeat_interval < self.group_interval:
            raise UsageError(
                f"--repeat-interval {duration(self.repeat_interval)} is shorter than --group-interval "
                f"{duration(self.group_interval)}; Alertmanager looks at a group once in a group interval"
            )
        for label in self.identity:
            if not label.isidentifier() or not label.isascii() or label.startswith("__"):
                raise UsageError(f"--identity {label!r} is not a label name; use letters, digits and underscores")
            if label in names.OWN_LABELS:
                raise UsageError(f"--identity {label!r} tells alerts apart, not engines; give a label of your targets")
        if any(not char.isprintable() for char in self.credentials_file):
            raise UsageError("--credentials-file must be text in one line")

    @property
    def receiver(self) -> str:
        """Where palanca takes alerts."""
        if self.receiver_url is not None:
            return self.receiver_url
        return (self.external_url or DEFAULT_BASE).rstrip("/") + WEBHOOK_PATH

    @property
    def engine(self) -> list[str]:
        """Labels that tell engines apart."""
        return list(dict.fromkeys((*names.IDENTITY, *self.identity)))


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable() and " " not in url


def parse_release(written: str) -> Release:
    """Read ``0.25`` or ``0.28.1``. Raises ``UsageError``."""
    try:
        release = Release(written.strip())
        _ = release.key
    except ValueError:
        raise UsageError(f"--alertmanager {written!r} is no release; write it as --alertmanager 0.25") from None
    return release
