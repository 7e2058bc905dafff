"""Moments and durations as people write them: RFC 3339, unix seconds, ``-30m``; Prometheus durations (``5m``)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from palanca.errors import UsageError

_LATEST = 1e11
_LONGEST_S = 100 * 365 * 86400.0
_DURATION = re.compile(r"^(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?$")


def seconds(text: object) -> float:
    """Read a Prometheus duration (``5m``, ``1h30m``, ``0s``) as seconds. Raises ``ValueError``."""
    if isinstance(text, int | float) and not isinstance(text, bool) and 0 <= text < _LONGEST_S:
        return float(text)
    found = _DURATION.match(str(text).strip())
    if not str(text).strip() or found is None:
        message = f"{text!r} is not a duration such as 30s, 5m or 1h30m"
        raise ValueError(message)
    days, hours, minutes, secs = (int(part or 0) for part in found.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + secs
    if total >= _LONGEST_S:
        message = f"{text!r} is longer than 100 years"
        raise ValueError(message)
    return float(total)


def duration(value: float) -> str:
    """Write seconds as the shortest Prometheus duration: ``90`` -> ``1m30s``."""
    left = round(value)
    parts = []
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts) or "0s"


def parse_moment(text: str, *, now: float) -> float:
    """Return unix seconds. ``-30m`` counts back from ``now``. Raises ``UsageError``."""
    plain = text.strip()
    if plain.startswith("-") and plain[1:2].isdigit() and plain[-1:].isalpha():
        try:
            return _within(text, now - seconds(plain[1:]))
        except ValueError as error:
            raise UsageError(_message(text)) from error
    try:
        value = float(plain.replace("_", "?"))  # which Python reads as nothing
    except ValueError:
        return _rfc3339(text, plain)
    return _within(text, value)


def _within(text: str, value: float) -> float:
    """Return a moment from 1970 to the year 5000; what is beyond was meant as milliseconds."""
    if not 0 <= value <= _LATEST:
        raise UsageError(_message(text))
    return value


def _rfc3339(text: str, plain: str) -> float:
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError as error:
        raise UsageError(_message(text)) from error
    if moment.tzinfo is None:
        message = f"{text!r} has no time zone; write {moment.isoformat()}Z for UTC or add an offset such as +02:00"
        raise UsageError(message)
    return _within(text, moment.timestamp())


def _message(text: str) -> str:
    return f"{text!r} is no moment; write 2026-11-29T20:09:11Z, unix seconds such as 1795982951, or -30m"


def rfc3339(moment: float) -> str:
    """Write unix seconds in UTC: ``2026-11-29T20:09:11Z``, with milliseconds where they are not 0."""
    whole, milliseconds = divmod(round(moment * 1000), 1000)
    value = datetime.fromtimestamp(whole, tz=UTC).replace(microsecond=milliseconds * 1000)
    return value.isoformat(timespec="milliseconds" if milliseconds else "seconds").replace("+00:00", "Z")
