"""Did a change help? Two periods of equal load are compared, signal by signal.

Each side is ``Readings`` in batches (``palanca.changes.plan``): the grid's interval is the window of the signals, so that
no two steps share a sample. ``palanca.loads`` picks the steps that compare, ``palanca.batches`` says whether they differ.

A signal helped or got worse if the difference is significant and at least the floor, 5 % (or a little of its unit, or
the difference in load). It did nothing if the difference is below the floor, or surely below 20 %. Otherwise nobody can
tell. The verdict on the change is that of the ``verify`` block of the rule that recommended it; what got worse by 10 %
besides is its price.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from palanca import expressions
from palanca.batches import FEWEST, difference
from palanca.changes import WARM_UP_S, differing_settings
from palanca.expectations import Outcome, Verdict, judge, outcome, overall
from palanca.loads import Match, average, load_of, match
from palanca.model import SCOPE_LABELS, State, Target, scope_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.batches import Difference
    from palanca.model import Catalogue, Diagnosis, Readings, Rule, Signal

FLOOR = 0.05
"""Share of the value before that matters: below it lies what one run differs from the next."""
MATTERS = 0.20
"""A change that nobody would overlook: where it is excluded, the change did nothing. Cures measured: 21 % and more."""
PRICE = 0.10
"""A side effect worth a line."""
LEAST: Mapping[str, float] = {
    "s": 0.001, "requests": 0.5, "ratio": 0.02, "preemptions/min": 1.0, "preemptions/request": 0.01, "requests/s": 0.02,
}  # fmt: skip
"""Floors in the unit, for values near 0: a millisecond, half a request, two hundredths, one preemption a minute."""
_BELOW = "below the first bucket of the histogram on both sides"
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


@dataclass(frozen=True)
class EngineChange:
    """What the change did to one engine, or to the engines of one scope where none is on both sides.

    ``prices`` are the signals that got worse by more than a tenth, apart from the goals. ``changed`` are settings: name,
    before, after.
    """

    target: Target
    engines: tuple[int, int]
    verdict: Verdict
    why: str
    load: Match
    signals: tuple[Compared, ...]
    outcomes: tuple[Outcome, ...]
    prices: tuple[str, ...]
    changed: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Verification:
    """The result. ``before`` and ``after`` are the first and last moment of what was compared, unix seconds."""

    verdict: Verdict
    why: str
    rule: str | None
    before: tuple[float, float]
    after: tuple[float, float]
    window: float
    left_out: float
    engines: tuple[EngineChange, ...]


def recommending_rule(diagnosis: Diagnosis) -> str | None:
    """Return the rule behind *the* recommendation of a diagnosis: the first root finding that has one."""
    for report in diagnosis.targets:
        for finding in report.findings:
            if finding.role == "root" and finding.recommendations:
                return finding.rule
    return None


def verify(
    catalogue: Catalogue, before: Readings, after: Readings, *, rule: Rule | None = None, left_out: float = WARM_UP_S
) -> Verification:
    """Compare two sides. Without a ``rule`` the latencies and the throughput decide.

    Steps of ``after`` whose process began less than ``left_out`` seconds before the beginning of their batch are left out.
    """
    window = float(before.times[-1] - before.times[-2]) if len(before.times) > 1 else 0.0
    engines = tuple(
        _engine(catalogue, (before, after), rows, rule, (window, left_out)) for rows in _pairs(before, after)
    )
    verdict, why = overall([(one.verdict, one.why) for one in engines])
    spans = [(float(side.times[0]) - window, float(side.times[-1])) for side in (before, after)]
    return Verification(verdict, why, rule.id if rule else None, spans[0], spans[1], window, left_out, engines)


Rows = tuple[Target, list[int], list[int]]


def _pairs(before: Readings, after: Readings) -> list[Rows]:
    """Engines on both sides one by one; the others together for each scope, as after a move to new pods."""
    places = {target: row for row, target in enumerate(after.targets)}
    made: list[Rows] = [
        (target, [row], [places[target]]) for row, target in enumerate(before.targets) if target in places
    ]
    left: dict[tuple[str, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, targets in enumerate((before.targets, after.targets)):
        other = set((after, before)[side].targets)
        for row, target in enumerate(targets):
            if target not in other:
                left[scope_of(target)][side].append(row)
    for scope, (old, new) in left.items():
        if old and new:
            made.append((Target.of(dict(zip(SCOPE_LABELS, scope, strict=True))), old, new))
    return made


def _engine(
    catalogue: Catalogue, sides: tuple[Readings, Readings], rows: Rows, rule: Rule | None, times: tuple[float, float]
) -> EngineChange:
    target, *chosen = rows
    warm = _warm(sides[1], chosen[1], *times)
    loads = [load_of(side, which) for side, which in zip(sides, chosen, strict=True)]
    loads[1].in_system[~warm] = np.nan
    found = match(*loads)
    if not warm.any():
        found = replace(found, axis=None, why=f"every step after lies within {times[1]:g} s of the process start")
    goals = {one.signal for one in rule.verify} if rule else set()
    signals = tuple(
        _compare(name, spec, sides, (chosen[0], chosen[1]), found)
        for name, spec in catalogue.signals.items()
        if name in sides[0].signals and name in sides[1].signals and (name in goals or comparable(catalogue, name))
    )
    facts = sides[1].facts[chosen[1][0]]
    table = {one.signal: one for one in signals}
    outcomes = tuple(outcome(one, table.get(one.signal), facts) for one in rule.verify) if rule else ()
    verdict, why = ("cannot tell", found.why) if found.axis is None else _judged(outcomes, table)
    return EngineChange(
        target, (len(chosen[0]), len(chosen[1])), verdict, why, found, signals, outcomes,
        tuple(one.signal for one in signals if one.signal not in goals and _is_price(one)),
        _settings(sides, (chosen[0][0], chosen[1][0])),
    )  # fmt: skip


def _settings(sides: tuple[Readings, Readings], rows: tuple[int, int]) -> tuple[tuple[str, str, str], ...]:
    known = [(side.info[row] if side.info else {}, side.facts[row]) for side, row in zip(sides, rows, strict=True)]
    return differing_settings(known[0], known[1])


def _judged(outcomes: Sequence[Outcome], table: Mapping[str, Compared]) -> tuple[Verdict, str]:
    return judge(outcomes, {name: (one.verdict, one.relative) for name, one in table.items()})


def _warm(after: Readings, rows: list[int], window: float, left_out: float) -> NDArray[np.bool_]:
    """Steps ``[steps]`` whose whole batch lies after the warm-up of the youngest process; unknown counts as warm."""
    uptime = after.signals.get("uptime")
    if uptime is None:
        return np.ones(len(after.times), dtype=bool)
    youngest = np.where(np.isfinite(uptime.values[rows]), uptime.values[rows], np.inf).min(axis=0)
    return np.asarray(youngest - window >= left_out - 1e-6)


def _is_price(one: Compared) -> bool:
    return one.verdict == "made it worse" and (one.relative is None or abs(one.relative) >= PRICE)


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


def _compare(
    name: str, spec: Signal, sides: tuple[Readings, Readings], rows: tuple[list[int], list[int]], found: Match
) -> Compared:
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
    return Compared(name, spec.unit, made, *judge_difference(made, spec.unit, spec.better, found.gap))


def judge_difference(
    made: Difference, unit: str, better: Literal["lower", "higher"] | None, gap: float = 0.0
) -> tuple[Verdict, str]:
    """Verdict on one difference, and a note where nothing can be told. ``gap`` is the difference in load (0.06 = 6 %)."""
    size = abs(made.before)
    floor = max(FLOOR * size, gap * size, LEAST.get(unit, 0.0))
    margin = max(MATTERS * size, floor)
    if not made.enough:
        return "cannot tell", f"{min(made.batches)} batches of equal load, {FEWEST} are needed"
    if made.significant and abs(made.change) >= floor:
        good = (made.change < 0) == (better != "higher")
        return ("helped" if good else "made it worse"), ""
    if made.significant or (-margin <= made.low and made.high <= margin):
        return "did nothing", ""
    return "cannot tell", "the batches scatter too much"
