"""Is the load before and after a change the same? Only then does a difference say anything about the change.

Requests come either from a fixed number of clients (closed: the requests in the system are given, the rate follows)
or at a rate (open: the rate is given, the queue follows). Metrics do not say which, and under either one of the two
numbers is an effect of the change. So loads are equal where one of them is equal, and prompts and answers are of equal
length. Clients that pause between their requests are in between: both numbers follow, in opposite directions. More
requests with fewer of them in the system, or the reverse, is what no change of the clients alone can bring; such loads
compare too, and a difference that is smaller than that of the loads says nothing.

The rate is that of arrivals, not of finished requests, which an overloaded server holds down: by the conservation of
requests, arrivals = finished + growth of (running + waiting), per batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from palanca.batches import FEWEST
from palanca.quantities import number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palanca.model import Readings

    Numbers = NDArray[np.float64]
    Steps = NDArray[np.bool_]

SAME_LOAD = 1.15
"""Loads within 15 % are equal: twice the Poisson noise of the rates of two periods of 60 s at 6 requests/s."""
SAME_SHAPE = 1.25
"""Mean lengths within 25 %: lengths of a production mix have a spread of about their mean, so that means over some
hundred requests still scatter by 5-10 %."""
REACH = 1.25
"""Steps further than 25 % from all of the other side have nothing there to be compared with."""

OPPOSED = 1.5
"""Loads that differ in opposite directions compare up to this ratio of the closer measure; beyond it no latency could
fall by as much as the loads differ."""

Axis = Literal["arrivals", "in_system"]
AXES: tuple[tuple[Axis, str, str], ...] = (
    ("arrivals", "requests arriving", "requests/s"),
    ("in_system", "requests in the system", "requests"),
)
SHAPES = (("prompt_length_mean", "prompts", "tokens"), ("generation_length_mean", "answers", "tokens"))


@dataclass(frozen=True)
class Load:
    """The load of one side in batches, each ``[steps]``; NaN where it is not known."""

    arrivals: Numbers
    in_system: Numbers
    shape: tuple[float, ...]
    """Mean lengths in the order of ``SHAPES``."""
    busy: Steps
    """Steps with requests in the system at some scrape, or finished ones."""

    def of(self, axis: Axis) -> Numbers:
        """Return one of the two measures."""
        return self.arrivals if axis == "arrivals" else self.in_system


@dataclass(frozen=True)
class Match:
    """Which steps of the two sides compare.

    ``axis`` is what is equal, or the closer measure of loads that differ in opposite directions; without one, ``why``
    says what differs.
    """

    before: Steps
    after: Steps
    axis: Axis | None
    levels: tuple[tuple[Axis, float, float], ...]
    """Each measure with its means before and after, over the compared steps (all steps where none compare)."""
    why: str = ""

    @property
    def opposed(self) -> bool:
        """Whether the loads compare since one measure rose and the other fell."""
        return self.gap > SAME_LOAD - 1

    @property
    def gap(self) -> float:
        """How far the loads are apart: 0.06 for 6 %."""
        return next((_ratio(before, after) - 1 for axis, before, after in self.levels if axis == self.axis), 0.0)


def load_of(readings: Readings, rows: list[int]) -> Load:
    """Measure the load on some engines together, the mean of one engine. Steps are one batch long."""

    def mean(name: str) -> Numbers:
        one = readings.signals.get(name)
        return np.full(len(readings.times), np.nan) if one is None else average(one.values[rows])

    now = mean("running_now") + mean("waiting_now")
    spacing = float(readings.times[1] - readings.times[0]) if len(readings.times) > 1 else math.inf
    growth = np.concatenate([[np.nan], np.diff(now)]) / spacing
    finished = mean("requests_per_second")
    in_system = mean("running") + mean("waiting")
    with np.errstate(invalid="ignore"):
        busy = np.isfinite(in_system) & ((in_system > 0) | (finished > 0))
    return Load(finished + growth, in_system, tuple(float(average(mean(name))) for name, _, _ in SHAPES), busy)


def average(values: Numbers) -> Numbers:
    """Mean over the first axis, NaN left out, NaN where there is nothing else."""
    there = np.isfinite(values)
    count = there.sum(axis=0)
    total = np.where(there, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0))


def match(before: Load, after: Load) -> Match:
    """Find the steps of equal load: all steps under load if their means agree, else those with a like one opposite."""
    sides = (before, after)
    busy = (before.busy, after.busy)
    if not busy[0].any() or not busy[1].any():
        which = "before" if not busy[0].any() else "after"
        return Match(*busy, None, _levels(sides, busy), f"there is no load {which} the change")
    shape = _shape(sides)
    if shape:
        return Match(*busy, None, _levels(sides, busy), shape)
    found = _closest(sides, busy)
    if found is not None:
        return Match(*busy, found, _levels(sides, busy))
    for axis, _, _ in AXES:
        kept = _alike(before.of(axis), after.of(axis), busy)
        if min(int(one.sum()) for one in kept) >= FEWEST and _closest(sides, kept, axis) is not None:
            return Match(*kept, axis, _levels(sides, kept))
    opposed = _opposed(_levels(sides, busy))
    if opposed is not None:
        return Match(*busy, opposed, _levels(sides, busy))
    return Match(*busy, None, _levels(sides, busy), _apart(sides, busy))


def _levels(sides: tuple[Load, Load], steps: tuple[Steps, Steps]) -> tuple[tuple[Axis, float, float], ...]:
    def mean(side: int, axis: Axis) -> float:
        return float(average(sides[side].of(axis)[steps[side]]))

    return tuple((axis, mean(0, axis), mean(1, axis)) for axis, _, _ in AXES)


def _ratio(before: float, after: float) -> float:
    """How many times the larger is the smaller; infinite where that cannot be said."""
    usable = math.isfinite(before) and math.isfinite(after) and min(before, after) > 0
    return max(before / after, after / before) if usable else math.inf


def _shape(sides: tuple[Load, Load]) -> str:
    for index, (_, word, unit) in enumerate(SHAPES):
        one, other = sides[0].shape[index], sides[1].shape[index]
        if math.isfinite(one) and math.isfinite(other) and _ratio(one, other) > SAME_SHAPE:
            return f"the {word} after are {_times(one, other)} as long as those before ({_both(one, other, unit)})"
    return ""


def _closest(sides: tuple[Load, Load], steps: tuple[Steps, Steps], only: Axis | None = None) -> Axis | None:
    ratios = [(_ratio(one, other), axis) for axis, one, other in _levels(sides, steps) if only in {None, axis}]
    best, axis = min(ratios)
    return axis if best <= SAME_LOAD else None


def _opposed(levels: tuple[tuple[Axis, float, float], ...]) -> Axis | None:
    """Return the closer measure where one rose and the other fell."""
    ratio, axis = min((_ratio(before, after), axis) for axis, before, after in levels)
    (_, *arrivals), (_, *in_system) = levels
    apart = (arrivals[1] - arrivals[0]) * (in_system[1] - in_system[0]) < 0
    return axis if apart and ratio <= OPPOSED else None


def _alike(before: Numbers, after: Numbers, busy: tuple[Steps, Steps]) -> tuple[Steps, Steps]:
    """Keep the steps whose load lies within ``REACH`` of the range of the other side."""

    def kept(mine: Numbers, steps: Steps, theirs: Numbers) -> Steps:
        known = theirs[np.isfinite(theirs)]
        if not known.size:
            return np.zeros_like(steps)
        return np.asarray(steps & (mine >= known.min() / REACH) & (mine <= known.max() * REACH))

    return kept(before, busy[0], after[busy[1]]), kept(after, busy[1], before[busy[0]])


def _apart(sides: tuple[Load, Load], steps: tuple[Steps, Steps]) -> str:
    units = {axis: (word, unit) for axis, word, unit in AXES}
    levels = [(_ratio(one, other), axis, one, other) for axis, one, other in _levels(sides, steps)]
    ratio, axis, one, other = min(levels)
    if not math.isfinite(ratio):
        return "the load is not known: running, waiting and finished requests are needed on both sides"
    word, unit = units[axis]
    return f"the load after is {_times(one, other)} that before ({word}: {_both(one, other, unit)})"


def _times(before: float, after: float) -> str:
    rounded = float(f"{after / before:.2g}")
    return f"{number(rounded, 'ratio')} times"


def _both(before: float, after: float, unit: str) -> str:
    return f"{number(before, 'ratio')} to {number(after, unit)}"
