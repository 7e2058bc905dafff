"""Small plots of one signal over time, with its thresholds and the moment at which a finding began. Pure.

Coordinates are those of the SVG: x to the right, y down. The words say all that is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palanca.quantities import clock, moment, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

WIDTH, HEIGHT = 360, 140
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 8, 20
_AIR = 1.06
"""The curve does not touch the upper edge."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LINES = 4
_IN_WORDS = frozenset({"s", "bytes", "ratio"})
"""Units that stand beside a number on the axis; longer ones stand in the title."""


@dataclass(frozen=True)
class Limit:
    """A threshold: a finding needs the signal ``op`` this value."""

    op: str
    value: float


@dataclass(frozen=True)
class Mark:
    """A place on an axis, and what is written there."""

    at: float
    text: str


@dataclass(frozen=True)
class Plot:
    """What to draw. ``path`` is empty where there are no numbers; ``dots`` are numbers with none beside them."""

    title: str
    caption: str
    description: str
    path: str
    dots: tuple[tuple[float, float], ...]
    limits: tuple[Mark, ...]
    began: float | None
    levels: tuple[Mark, ...]
    times: tuple[Mark, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def plot(
    times: Numbers, values: Numbers, *, title: str, unit: str, limits: Sequence[Limit] = (), began: float | None = None
) -> Plot:
    """Lay out the values ``[steps]`` of a signal at ``times [steps]``, unix seconds; NaN is a gap in the line."""
    known = values[np.isfinite(values)]
    begin, end = float(times[0]), float(times[-1])
    if began is not None and not begin <= began <= end:
        began = None
    levels: list[float] = [0.0, *known.tolist(), *(one.value for one in limits)]
    low, high = min(levels), max(levels)
    high = low + (high - low) * _AIR if high > low else low + 1.0

    def x(time: float) -> float:
        share = (time - begin) / (end - begin) if end > begin else 0.0
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    points = [
        (x(time), y(value)) if math.isfinite(value) else None
        for time, value in zip(times.tolist(), values.tolist(), strict=True)
    ]
    runs = _runs(points)
    on_axis = unit if unit in _IN_WORDS else "1"
    return Plot(
        title=title,
        description=_description(times, values, unit, limits, began),
        path=" ".join("M" + " L".join(f"{a:g},{b:g}" for a, b in run) for run in runs if len(run) > 1),
        dots=tuple(run[0] for run in runs if len(run) == 1),
        limits=tuple(Mark(y(one.value), f"{one.op} {number(one.value, on_axis)}") for one in limits),
        began=None if began is None else x(began),
        levels=tuple(Mark(y(value), number(value, on_axis)) for value in _ticks(low, high)),
        times=tuple(Mark(x(time), moment(time)[11:16]) for time in (begin, (begin + end) / 2, end)),
        caption=_caption(values, unit, limits),
    )


def _runs(points: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Points that follow each other without a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is not None:
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers between both."""
    rough = (high - low) / _LINES
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(one * size for one in _STEPS if one * size >= rough * (1 - 1e-9))
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)]


def _caption(values: Numbers, unit: str, limits: Sequence[Limit]) -> str:
    last = number(float(values[-1]), unit) if math.isfinite(float(values[-1])) else "no number now"
    return ", ".join([last, *(f"threshold {one.op} {number(one.value, unit)}" for one in limits)])


def _description(times: Numbers, values: Numbers, unit: str, limits: Sequence[Limit], began: float | None) -> str:
    end = float(times[-1])
    parts = [f"From {clock(float(times[0]), end)} to {moment(end)}"]
    known = values[np.isfinite(values)]
    if known.size:
        last = f", last {number(float(values[-1]), unit)}" if math.isfinite(float(values[-1])) else ", none at the end"
        parts.append(f"lowest {number(float(known.min()), unit)}, highest {number(float(known.max()), unit)}{last}")
    else:
        parts.append("no numbers")
    parts += [f"threshold {one.op} {number(one.value, unit)}" for one in limits]
    if began is not None:
        parts.append(f"the finding began at {clock(began, end)}")
    return "; ".join(parts) + "."
