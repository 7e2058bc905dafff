"""What the process says of a replay at every step, and the same as checks for promtool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from tests.alerting.replays import Replay, reach
from tests.engines import shipped
from tests.servers import arithmetic

from palanca import expressions
from palanca.alerting.group import prometheus
from palanca.alerting.matrix import Exported, Matrix
from palanca.alerting.notation import expected
from palanca.alerting.options import Options
from palanca.engine import evaluate
from palanca.facts import add_facts
from palanca.model import Readings, SourceInfo, Truth
from palanca.signals.leaves import Grid
from palanca.signals.readings import read
from palanca.signals.samples import SampleReader

if TYPE_CHECKING:
    from palanca.engine import Overrides

AFTER = 45
"""Steps behind the end, in which series run out of the lookback and of the windows."""
OPTIONAL = shipped().optional_facts


@cache
def matrix(*prefixes: str) -> Matrix:
    """The exported rules, for these prefixes of vLLM's names."""
    return Matrix(shipped(), Options(prefixes=prefixes or ("vllm:",), guards=False))


@cache
def rule_file(*prefixes: str) -> str:
    return prometheus(matrix(*prefixes))


def readings(replay: Replay, steps: int) -> Readings:
    """Every signal at so many steps from 0 on, with facts."""
    grid = Grid(float((steps - 1) * replay.interval), steps, float(replay.interval))
    reader = SampleReader(replay.store(), shipped().metrics, grid, **arithmetic())
    return add_facts(read(shipped(), reader, grid, SourceInfo("replay", "")), shipped())


@dataclass
class Comparison:
    """Checks of all alerts at all steps, and how many comparisons of engines and steps they are, by state."""

    checks: list[dict[str, object]] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    rules: dict[str, set[str]] = field(default_factory=dict)


def compare(
    replay: Replay, exported: Sequence[Exported], overrides: Overrides | None = None, *, without: Sequence[str] = ()
) -> Comparison:
    """Make checks of the state of each alert at each step at which the series are older than its windows.

    Where a condition has held ever since then, but not for as long as ``for`` asks, it depends on what was before
    whether the alert is firing: there only that it is active is compared. Labels of alerts in ``without`` are not.
    """
    steps = replay.steps + AFTER
    read_ = readings(replay, steps)
    verdicts = evaluate([one.rule for one in exported], read_, OPTIONAL, overrides)
    made = Comparison()
    sure: list[dict[str, list[dict[str, str]]]] = [{} for _ in range(steps)]
    active: list[dict[str, list[dict[str, str]]]] = [{} for _ in range(steps)]
    for one, verdict in zip(exported, verdicts, strict=True):
        truth = verdict.when == Truth.TRUE
        needed = int(np.ceil(one.rule.for_ / replay.interval))
        begin = int(np.ceil(_back(one) / replay.interval))
        run = np.zeros(len(truth), dtype=int)
        for step in range(begin, steps):
            run = np.where(truth[:, step], run + 1, 0)
            unsure = bool(((run == step - begin + 1) & (run <= needed)).any())
            alerts: list[dict[str, str]] = []
            for row in np.flatnonzero(run):
                state = "firing" if run[row] > needed else "pending"
                place = {**read_.targets[row].as_dict(), **one.alert.labels, "alertname": one.alert.alert}
                kept = {label: value for label, value in place.items() if label not in without}
                alerts.append(kept if unsure else {**kept, "alertstate": state})
                made.compared["active" if unsure else state] += 1
                made.rules.setdefault("active" if unsure else state, set()).add(one.rule.id)
            made.compared["none"] += int((run == 0).sum())
            (active if unsure else sure)[step].setdefault(one.alert.alert, []).extend(alerts)
    for step in range(steps):
        moment = float(step * replay.interval)
        gone = ", ".join(without)
        for table, also in ((sure, ""), (active, "alertstate")):
            if table[step]:
                names = "|".join(sorted(table[step]))
                every = [(one, 1.0) for alerts in table[step].values() for one in alerts]
                query = f'group without ({", ".join(filter(None, [gone, also]))}) (ALERTS{{alertname=~"{names}"}})'
                made.checks.append(expected(query, moment, every))
    return made


def _back(one: Exported) -> float:
    names = expressions.names(expressions.parse(one.rule.when))
    return max(reach(name) for name in names if name in shipped().signals)
