"""One signal before and after a change: helped, made it worse, did nothing, or cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from palanca import expressions
from palanca.batches import FEWEST, difference
from palanca.loads import average
from palanca.model import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.batches import Difference
    from palanca.expectations import Verdict
    from palanca.loads import Match
    from palanca.model import Catalogue, Readings, Signal

FLOOR = 0.05
"""Share of the value before that matters: below it lies what one run differs from the next."""
MATTERS = 0.20
"""A change that nobody would overlook: where it is excluded, the change did nothing. Cures measured: 21 % and more."""
GOING_ANYWAY = 0.5
"""Share of a change that the trend before it would have brought by itself, from which it proves nothing."""
SAME_BUCKET = 1e-6
"""Quantiles so equal are the interpolation of one bucket that holds nearly everything, not a measurement."""
LEAST: Mapping[str, float] = {
    "s": 0.001, "requests": 0.5, "ratio": 0.02, "preemptions/min": 1.0, "preemptions/request": 0.01, "requests/s": 0.02,
}  # fmt: skip
"""Floors in the unit, for values near 0: a millisecond, half a request, two hundredths, one preemption a minute."""
_BELOW = "below the first bucket of the histogram on both sides"
_WITHIN = "within one bucket of the histogram on both sides"
_ABOVE = "above the last bucket of the histogram on both sides"


@dataclass(frozen=True)
class Compared:
    """One signal before and after: means over the batches, interval of the change, verdict, and why not more."""

    signal: str
    unit: str
    difference: Difference | None
    verdict: Verdict
    note: str = ""

    @property
    def relative(self) -> float | None:
        """Change as a share of the value before; None from 0."""
        if self.difference is None or self.difference.before == 0:
            return None
        return self.difference.change / abs(self.difference.before)


def comparable(catalogue: Catalogue, name: str) -> bool:
    """Whether a signal says how good it is to users: not the process, not a moment, not against half an hour ago."""
    spec = catalogue.signals[name]
    if spec.better is None:
        return False
    parts = [spec, *(catalogue.signals[part] for part in _parts(spec))]
    return not any(
        part.kind in {"resets", "changes", "since", "present", "samples", "now"} or part.offset or part.family == "up"
        for part in parts
    )


def _parts(spec: Signal) -> list[str]:
    return list(expressions.names(expressions.parse(spec.expr))) if spec.expr is not None else []


def compare(
    name: str, spec: Signal, sides: tuple[Readings, Readings], rows: tuple[list[int], list[int]], found: Match
) -> Compared:
    """Compare one signal over the steps of equal load, as the mean of the engines (``rows``) of each side."""
    values, states = [], []
    for side, which, steps in zip(sides, rows, (found.before, found.after), strict=True):
        one = side.signals[name]
        values.append(average(one.values[which])[steps])
        states.append(one.states[which][:, steps])
    made = difference(values[0], values[1])
    if made is None:
        return Compared(name, spec.unit, None, "cannot tell", "no numbers before, or none after")
    if found.axis is None:
        return Compared(name, spec.unit, made, "cannot tell", "the loads do not compare")
    for state, note in ((State.INTERPOLATED, _BELOW), (State.LOWER_BOUND, _ABOVE)):
        if all((one == state).all() for one in states):
            return Compared(name, spec.unit, made, "cannot tell", note)
    if spec.quantile is not None and made.before > 0 and abs(made.change) < SAME_BUCKET * made.before:
        return Compared(name, spec.unit, made, "cannot tell", _WITHIN)
    return Compared(name, spec.unit, made, *judge_difference(made, spec.unit, spec.better, found.gap))


def judge_difference(
    made: Difference, unit: str, better: Literal["lower", "higher"] | None, gap: float = 0.0
) -> tuple[Verdict, str]:
    """Verdict on one difference, and a note where nothing can be told. ``gap``: difference in load (0.06 for 6 %)."""
    size = abs(made.before)
    floor = max(FLOOR * size, gap * size, LEAST.get(unit, 0.0))
    margin = max(MATTERS * size, floor)
    if not made.enough:
        return "cannot tell", f"{min(made.batches)} batches of equal load, {FEWEST} are needed"
    if made.significant and abs(made.change) >= floor:
        if made.trend * made.change > 0 and abs(made.trend) >= GOING_ANYWAY * abs(made.change):
            return "cannot tell", "it was already going that way before the change"
        good = (made.change < 0) == (better != "higher")
        return ("helped" if good else "made it worse"), ""
    if made.significant and gap > MATTERS:
        return "cannot tell", "it differs by less than the loads do"
    if made.significant or (-margin <= made.low and made.high <= margin):
        return "did nothing", ""
    return "cannot tell", "the batches scatter too much"
