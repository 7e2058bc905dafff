"""Did a change help? Two periods of equal load are compared, signal by signal.

Each side is ``Readings`` in batches (``palanca.changes.plan``): the grid's interval is the window of the signals, so
that no two steps share a sample. ``palanca.loads`` picks the steps that compare, ``palanca.batches`` says whether they
differ, ``palanca.comparison`` whether that matters.

A signal helped or got worse if the difference is significant and at least the floor, 5 % (or a little of its unit, or
the difference in load). It did nothing if the difference is below the floor, or surely below 20 %. Otherwise nobody can
tell. The verdict on the change is that of the ``verify`` block of the rule that recommended it; what got worse by 10 %
besides is its price.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from palanca.batches import FEWEST
from palanca.changes import WARM_UP_S, differing_settings
from palanca.comparison import Compared, comparable, compare
from palanca.expectations import Outcome, Verdict, judge, outcome, overall
from palanca.loads import Match, load_of, match
from palanca.model import SCOPE_LABELS, Target, scope_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from palanca.model import Catalogue, Diagnosis, Readings, Rule
PRICE = 0.10
"""A side effect worth a line."""


@dataclass(frozen=True)
class EngineChange:
    """What the change did to one engine, or to the engines of one scope where none is on both sides.

    ``prices`` are the signals that got worse by a tenth or more, apart from the goals. ``changed`` are settings: name,
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

    Steps whose batch begins less than ``left_out`` seconds after the process did are left out; where hardly any others
    are before the change, they are taken, and it is said.
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
    settled, warm = (_warm(side, which, *times) for side, which in zip(sides, chosen, strict=True))
    loads = [load_of(side, which) for side, which in zip(sides, chosen, strict=True)]
    before, after = loads[0].busy & settled, loads[1].busy & warm
    young = int(before.sum()) < FEWEST
    found = match(loads[0] if young else replace(loads[0], busy=before), replace(loads[1], busy=after))
    if not warm.any():
        found = replace(found, axis=None, why=f"every step after lies within {times[1]:g} s of the process start")
    wanted = {one.signal for one in rule.verify} if rule else set()
    signals = tuple(
        compare(name, spec, sides, (chosen[0], chosen[1]), found)
        for name, spec in catalogue.signals.items()
        if name in sides[0].signals and name in sides[1].signals and (name in wanted or comparable(catalogue, name))
    )
    facts = sides[1].facts[chosen[1][0]]
    table = {one.signal: one for one in signals}
    outcomes = tuple(outcome(one, table.get(one.signal), facts) for one in rule.verify) if rule else ()
    goals = {one.signal for one in outcomes if one.came not in {"kept", "broken"}}
    verdict, why = _judged(outcomes, table) if found.axis is not None else _untold(found.why)
    if young and verdict == "helped":
        why += f"; the process before was hardly older than {times[1]:g} s, which makes a change look better than it is"
    return EngineChange(
        target, (len(chosen[0]), len(chosen[1])), verdict, why, found, signals, outcomes,
        tuple(one.signal for one in signals if _is_price(one, catalogue, goals)),
        _settings(sides, (chosen[0][0], chosen[1][0])),
    )  # fmt: skip


def _settings(sides: tuple[Readings, Readings], rows: tuple[int, int]) -> tuple[tuple[str, str, str], ...]:
    known = [(side.info[row] if side.info else {}, side.facts[row]) for side, row in zip(sides, rows, strict=True)]
    return differing_settings(known[0], known[1])


def _judged(outcomes: Sequence[Outcome], table: Mapping[str, Compared]) -> tuple[Verdict, str]:
    return judge(outcomes, {name: (one.verdict, one.relative) for name, one in table.items()})


def _untold(why: str) -> tuple[Verdict, str]:
    return "cannot tell", why


def _warm(after: Readings, rows: list[int], window: float, left_out: float) -> NDArray[np.bool_]:
    """Steps ``[steps]`` whose whole batch lies after the warm-up of the youngest process; unknown counts as warm."""
    uptime = after.signals.get("uptime")
    if uptime is None:
        return np.ones(len(after.times), dtype=bool)
    youngest = np.where(np.isfinite(uptime.values[rows]), uptime.values[rows], np.inf).min(axis=0)
    return np.asarray(youngest - window >= left_out - 1e-6)


def _is_price(one: Compared, catalogue: Catalogue, goals: AbstractSet[str]) -> bool:
    """Whether a signal is a side effect worth a line. Tails and shares are not: they rise where the whole falls."""
    if one.signal in goals or catalogue.signals[one.signal].expr is not None:
        return False
    return one.verdict == "made it worse" and (one.relative is None or abs(one.relative) >= PRICE)
