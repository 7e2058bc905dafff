"""Burn rates: how fast the requests that miss an objective use up the share that may.

Several windows, each long one with a short one that ends the alert soon after the trouble (Google SRE workbook, chapter
5). They are judged for the model as a whole, which is what its users feel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.alerting import names, wording
from palanca.alerting.conditions import literal
from palanca.alerting.rules import AlertRule, Group, RecordingRule
from palanca.moments import duration
from palanca.releases import ReleaseRange
from palanca.signals.identity import COPY_LABELS, PROCESS_LABEL
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palanca.alerting.matrix import Matrix
    from palanca.alerting.options import Cell
    from palanca.model import Severity

MAY = 0.01
"""Share of the requests that may be slow, as the objectives are for the 99th percentile."""
INTERVAL_S = 60.0
WINDOW = "2m"
"""The shortest window of the signals; what is longer is added up of it."""
ENOUGH = 100
"""Observations in the long window: 1 % of fewer is not even one."""
STEP_S = 60.0
"""Observations are added up from their rate at steps of so many seconds, however often the rules are evaluated."""


@dataclass(frozen=True)
class Burn:
    """One pair of windows: ``factor`` times the speed that uses up the share in 30 days."""

    factor: float
    long: float
    short: float
    for_: float
    fast: bool


BURNS = (
    Burn(14.4, 3600, 300, 120, fast=True),
    Burn(6, 6 * 3600, 1800, 900, fast=True),
    Burn(3, 86400, 7200, 1800, fast=False),
    Burn(1, 3 * 86400, 6 * 3600, 1800, fast=False),
)


@dataclass(frozen=True)
class Objective:
    """One objective: its fact, the histogram that shows it, and how the alert is called."""

    fact: str
    family: str
    word: str
    title: str
    counted: str


OBJECTIVES = (
    Objective("slo.ttft_p99", "time_to_first_token", "ttft", "Too many first tokens come late", "first tokens"),
    Objective("slo.itl_p99", "inter_token_latency", "itl", "Too many gaps between tokens are long", "gaps"),
)

_BOUNDS: dict[str, tuple[tuple[str, tuple[float, ...]], ...]] = {
    "time_to_first_token": (
        ("0.4.0-0.8.3", (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)),
        ("0.8.4+", (
            0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
            2560,
        )),
    ),
    "inter_token_latency": (
        ("0.4.0-0.8.3", (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)),
        ("0.8.4+", (
            0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
        )),
    ),
}  # fmt: skip
"""Upper bounds of the buckets by release, in seconds (vllm/v1/metrics/loggers.py, vllm/engine/metrics.py)."""


def _bounds(family: str, releases: ReleaseRange | None) -> dict[str, tuple[float, ...]]:
    """Bounds of the chosen releases."""
    return {
        span: bounds
        for span, bounds in _BOUNDS[family]
        if releases is None or releases.overlaps(ReleaseRange.parse(span))
    }


def snapped(family: str, objective: float, releases: ReleaseRange | None) -> float | None:
    """The largest bucket bound of the chosen releases that is no larger than the objective; None without one.

    Only there the histogram says how many observations were faster. All in seconds.
    """
    every = {bound for bounds in _bounds(family, releases).values() for bound in bounds}
    return max((bound for bound in every if bound <= objective), default=None)


def lacking(family: str, bound: float, releases: ReleaseRange | None) -> dict[str, float]:
    """Those of the chosen releases that have no such bound, and their largest one below it.

    A lower bound is no substitute: what takes longer than it would count as slow and be within the objective.
    """
    return {
        span: max((one for one in bounds if one < bound), default=0.0)
        for span, bounds in _bounds(family, releases).items()
        if bound not in bounds
    }


@dataclass(frozen=True)
class Budget:
    """One objective for the targets of a cell, wanted and judged at ``bound`` in seconds, and its windows."""

    objective: Objective
    cell: Cell
    wanted: float
    bound: float
    buckets: tuple[str, ...]
    alert: str
    burns: tuple[Burn, ...]

    @property
    def le(self) -> str:
        """The bound as the Python server writes it."""
        return repr(float(self.bound))

    @property
    def given(self) -> bool:
        """Whether somebody set the objective."""
        return self.objective.fact in self.cell.values


def budgets(matrix: Matrix) -> tuple[Budget, ...]:
    """The objectives that can be judged and were chosen."""
    made = []
    for objective, cell, wanted, burns in _wanted(matrix):
        buckets = matrix.recorder.buckets(objective.family)
        bound = snapped(objective.family, wanted, matrix.options.releases)
        if bound is not None and buckets:
            made.append(Budget(objective, cell, wanted, bound, buckets, _name(objective, matrix), burns))
    return tuple(made)


def unjudged(matrix: Matrix) -> dict[str, str]:
    """Objectives that were chosen and that no bucket shows, wholly or for some releases, by their alert; and why."""
    made = {}
    releases = matrix.options.releases
    for objective, cell, wanted, _ in _wanted(matrix):
        name = _name(objective, matrix) + (f" ({cell.name})" if cell.matchers else "")
        bound = snapped(objective.family, wanted, releases)
        if not matrix.recorder.buckets(objective.family):
            made[name] = "no chosen release has the histogram"
        elif bound is None:
            first = min(bound for bounds in _bounds(objective.family, releases).values() for bound in bounds)
            made[name] = (
                f"the objective of {literal(wanted)} s is below {literal(first)} s, the lowest bucket; "
                "give a longer one"
            )
        elif others := lacking(objective.family, bound, releases):
            ends = ", ".join(f"{span} (the next lower one is {literal(low)} s)" for span, low in others.items())
            made[name] = f"judged at {literal(bound)} s, a bucket that these releases lack: {ends}"
    return made


def _name(objective: Objective, matrix: Matrix) -> str:
    return names.alert_name(f"{objective.word}-budget-burn", matrix.options.alert_prefix)


def _wanted(matrix: Matrix) -> Iterator[tuple[Objective, Cell, float, tuple[Burn, ...]]]:
    """The chosen objectives, their targets, the objective in seconds, and the windows of the chosen severities."""
    options = matrix.options
    for objective in OBJECTIVES:
        if not options.chosen(f"{objective.word}-high"):
            continue
        default = matrix.catalogue.facts[objective.fact].default
        for cell in options.cells("", (objective.fact,)):
            given = objective.fact in cell.values
            burns = tuple(
                one for one in BURNS if not options.severities or _severity(one, given=given) in options.severities
            )
            if burns:
                yield objective, cell, float(cell.values.get(objective.fact, default or 0)), burns


def group(matrix: Matrix) -> Group | None:
    """Recorded rates and burn-rate alerts of both objectives; None where nothing is left of them."""
    made = budgets(matrix)
    recordings = [rule for budget in made for rule in _recordings(matrix, budget)]
    alerts = [_alert(matrix, budget, burn) for budget in made for burn in budget.burns]
    return Group(names.SLO_GROUP, INTERVAL_S, (*recordings, *alerts)) if alerts else None


def _labels(budget: Budget) -> dict[str, str]:
    override = {names.OVERRIDE: budget.cell.name} if budget.cell.matchers else {}
    return {names.OBJECTIVE: literal(budget.bound), **override}


def series(objective: Objective, which: str) -> str:
    """Name of a recorded rate; ``which`` is ``slow`` or ``observed``."""
    return f"palanca:{objective.word}_{which}:per_second"


def _recordings(matrix: Matrix, budget: Budget) -> list[RecordingRule]:
    """Slow and all observations per second of each model, of the engines whose histogram has the bound."""
    bound = budget.bound
    le = f'le=~"{int(bound)}|{int(bound)}\\\\.0"' if int(bound) == bound else f"le={quote(literal(bound))}"
    own = [str(one) for one in (*matrix.options.selector, *budget.cell.matchers)]

    def rate(le: str) -> str:
        texts = [f"rate({name}{{{', '.join([le, *own])}}}[{WINDOW}])" for name in budget.buckets]
        text = texts[0] if len(texts) == 1 else f"({' or '.join(texts)})"
        return f"sum without (le, {PROCESS_LABEL}) ({text})"

    by, copies = ", ".join(names.SCOPE), ", ".join(COPY_LABELS)
    every, fast = rate('le="+Inf"'), rate(le)

    def recorded(which: str, op: str) -> RecordingRule:
        text = f"sum by ({by}) (max without ({copies}) (\n  {every}\n{op}\n  {fast}\n))"
        return RecordingRule(series(budget.objective, which), text, _labels(budget))

    return [recorded("slow", "-"), recorded("observed", "and")]


def _alert(matrix: Matrix, budget: Budget, burn: Burn) -> AlertRule:
    objective, bound = budget.objective, budget.bound
    matchers = {**_labels(budget)} | ({} if budget.cell.matchers else {names.OVERRIDE: ""})
    inside = ", ".join(f"{name}={quote(value)}" for name, value in sorted(matchers.items()))
    slow, observed = (f"{series(objective, which)}{{{inside}}}" for which in ("slow", "observed"))

    def share(window: float) -> str:
        span = duration(window)
        limit = f"{literal(burn.factor)} * {literal(MAY)}"
        return f"sum_over_time({slow}[{span}]) / sum_over_time({observed}[{span}]) > {limit}"

    step = duration(STEP_S)
    floor = f"sum_over_time({observed}[{duration(burn.long)}:{step}]) * {literal(STEP_S)} > {ENOUGH}"
    where = f"the bucket le={literal(bound)}"
    judged = (
        f"judged at {where}"
        if bound == budget.wanted
        else f"the objective of {literal(budget.wanted)} s snaps to {where}"
    )
    return AlertRule(
        alert=budget.alert,
        expr="\nand ".join([share(burn.long), share(burn.short), floor]),
        for_=burn.for_,
        labels={
            names.SEVERITY: _severity(burn, given=budget.given),
            names.CAUSE: "unexplained",
            names.RULE: f"{objective.word}-high",
            **{name: wording.plain(value) for name, value in _labels(budget).items()},
            names.LONG_WINDOW: duration(burn.long),
            names.SHORT_WINDOW: duration(burn.short),
            **wording.labels(matrix.options),
        },
        annotations={
            names.SUMMARY: objective.title,
            names.DESCRIPTION: (
                f"{{{{ $value | humanizePercentage }}}} of the {objective.counted} of {{{{ $labels.model_name }}}} in "
                f"{duration(burn.long)} took longer than {literal(bound)} s ({judged}), where {MAY:.0%} may: at least "
                f"{literal(burn.factor)} times the speed that uses up the share in 30 days."
            ),
            **wording.links(f"{objective.word}-high", matrix.options),
        },
    )


def _severity(burn: Burn, *, given: bool) -> Severity:
    """An objective that nobody set wakes nobody up."""
    if given:
        return "critical" if burn.fast else "warning"
    return "warning" if burn.fast else "info"
