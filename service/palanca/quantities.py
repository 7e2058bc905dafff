"""Numbers, times and lengths of time as people read them: ``84 ms``, ``0.97``, ``1,240 tokens/s``, ``3 min 30 s``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeGuard

from palanca import moments

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_LONG = 120.0
_KIBI = 1024
_TEN = 10
_SMALLEST, _LARGEST = -9, 15
"""Powers of ten that are written out; beyond them a number gets an exponent."""
_SINGULAR = re.compile(r"^([a-z]+)s(?=/|$)")
_SIGNIFICANT = 10
_FIRST_YEAR, _LAST_YEAR = 0.0, 253402300799.0  # 1970 to 9999, what RFC 3339 can write


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number; Python counts true and false among the whole numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: float | None) -> float | None:
    """Round to 10 significant digits; None for NaN and infinities. Minus zero becomes zero."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_SIGNIFICANT}g}") + 0.0


def rfc3339(time: float) -> str:
    """Unix seconds as RFC 3339 in UTC, kept within the years that it can write."""
    return moments.rfc3339(_in_range(time))


def _in_range(time: float) -> float:
    return min(max(time, _FIRST_YEAR), _LAST_YEAR) if math.isfinite(time) else 0.0


def moment(time: float) -> str:
    """Unix seconds for people: ``2026-03-01 14:03:30 UTC``."""
    return datetime.fromtimestamp(int(_in_range(time)), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(time: float, now: float) -> str:
    """Time of day, with the date where it is not that of ``now``."""
    then, today = moment(time), moment(now)
    return then.partition(" ")[2] if then[:10] == today[:10] else then


def time_span(seconds: float) -> str:
    """A length of time in the two largest units: ``45 s``, ``3 min 30 s``, ``2 h``, ``3 d 4 h``."""
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, word in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, word))
    return " ".join(f"{count} {word}" for count, word in parts[:2] if count) or "0 s"


def number(value: float | None, unit: str, digits: int = 3) -> str:
    """A value for people, with its unit: ``84 ms``, ``4.7 s``, ``0.97``, ``12 requests``, ``1,240 tokens/s``."""
    if value is None or not math.isfinite(value):
        return "without bound" if value == math.inf else "-"
    figure, word = _parts(value, unit, digits)
    return _join(figure, _SINGULAR.sub(r"\1", word) if figure == "1" else word)


def number_range(values: Iterable[float], unit: str, digits: int = 3) -> str:
    """Numbers of several engines: ``0.95-0.99``, or one number where they read the same."""
    kept = sorted(value for value in values if math.isfinite(value))
    if not kept:
        return "-"
    (low, low_word), (high, high_word) = _parts(kept[0], unit, digits), _parts(kept[-1], unit, digits)
    if (low, low_word) == (high, high_word):
        return number(kept[-1], unit, digits)
    if low_word != high_word or kept[0] < 0 or " " in low + high:
        return f"{_join(low, '' if low == '0' else low_word)} to {_join(high, high_word)}"
    return _join(f"{low}-{high}", high_word)


def _join(figure: str, word: str) -> str:
    return f"{figure}{word}" if not word or word.startswith("/") else f"{figure} {word}"


def _parts(value: float, unit: str, digits: int) -> tuple[str, str]:
    """A number and the word of its unit, in the plural."""
    if unit == "s":
        return _seconds(value, digits)
    if unit == "bytes":
        return _bytes(value, digits)
    if unit in {"", "1", "ratio"}:
        return _figure(value, digits - 1 if abs(value) < 1 else digits), ""
    return _figure(value, digits), unit.removeprefix("1") if unit.startswith("1/") else unit


def _seconds(value: float, digits: int) -> tuple[str, str]:
    if abs(value) >= _LONG:
        return ("-" if value < 0 else "") + time_span(abs(value)), ""
    if value == 0 or abs(value) >= 1:
        return _figure(value, digits - 1 if abs(value) < _TEN else digits), "s"
    return _figure(value * 1000, digits), "ms"


def _bytes(value: float, digits: int) -> tuple[str, str]:
    for word in ("bytes", "KiB", "MiB", "GiB"):
        if abs(value) < _KIBI:
            return _figure(value, digits), word
        value /= _KIBI
    return _figure(value, digits), "TiB"


def _figure(value: float, digits: int) -> str:
    """Round to significant digits, but never the digits before the point; no trailing zeros."""
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not _SMALLEST <= size <= _LARGEST:
        return f"{value:.{digits}g}"
    text = f"{value:,.{max(digits - 1 - size, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
