"""Numbers with units as people read them: ``84 ms``, ``97 %``, ``101/min``, ``1,234 tokens/s``."""

from __future__ import annotations

import math


def quantity(value: float, unit: str) -> str:
    """Write one number with its unit; ``?`` for a number that is not known."""
    if not math.isfinite(value):
        return "?"
    if unit == "s":
        return seconds(value)
    if unit in {"ratio", "1", ""}:
        return plain(value)
    above, slash, below = unit.partition("/")
    return f"{plain(value)} {above}{slash}{below}".strip()


def seconds(value: float) -> str:
    """Write a time: microseconds to hours, three digits."""
    size = abs(value)
    if size == 0:
        return "0 s"
    if size < 0.9995e-3:  # noqa: PLR2004  three digits of more would be 1e+03 us
        return f"{value * 1e6:.3g} us"
    if size < 0.9995:  # noqa: PLR2004
        return f"{value * 1e3:.3g} ms"
    if size < 600:  # noqa: PLR2004
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min" if size < 36000 else f"{plain(value / 3600)} h"  # noqa: PLR2004


def plain(value: float) -> str:
    """Write a number with three significant digits, thousands separated, no exponent for ordinary sizes."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 100:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:.3g}"
