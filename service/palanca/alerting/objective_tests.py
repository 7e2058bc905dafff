"""Tests of the burn-rate alerts: models that miss their objective by different shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting import names
from palanca.alerting.conditions import literal
from palanca.alerting.notation import PLAIN, constant, expected, fitting, line, rising
from palanca.alerting.objectives import ENOUGH, INTERVAL_S, MAY, Budget, budgets
from palanca.moments import duration
from palanca.signals.identity import COPY_LABELS
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.alerting.matrix import Matrix

_PER_STEP = 60.0
_MINUTES = 40
"""Longer than the longest ``for``."""
_BAD_MINUTES = 10
_FEW = 0.9
"""Share of the observations that are enough: all that there are, and slow, but of a model that has just begun."""
_SHARES = (0.5, 2.0, 4.0, 8.0, 20.0)
"""Times the share that may be slow: below all factors, and between each two of them."""


def tests(matrix: Matrix) -> list[dict[str, object]]:
    """One test of all objectives and cells for which labels fit; none without any."""
    inputs: list[dict[str, str]] = []
    checks: list[dict[str, object]] = []
    for budget in budgets(matrix):
        matchers = (*matrix.options.selector, *budget.cell.matchers)
        pinned = {one.label for one in matchers}
        case = next((label for label in ("namespace", "cluster") if label not in pinned), None)
        labels = fitting(matchers, PLAIN)
        if case is not None and labels is not None:
            inputs += _inputs(budget, labels, case, pinned)
            checks.append(_check(budget, case))
    if not checks:
        return []
    return [
        {
            "name": "burn rates",
            "interval": duration(INTERVAL_S),
            "input_series": inputs,
            "promql_expr_test": checks,
        }
    ]


def _inputs(budget: Budget, labels: Mapping[str, str], case: str, pinned: set[str]) -> list[dict[str, str]]:
    """Buckets of the models."""
    made: list[dict[str, str]] = []

    def model(name: str, fast: str | None, observed: float, **more: str) -> None:
        place = {**labels, case: name, **more}
        if fast is not None:
            made.append(line(budget.buckets[0], {**place, "le": budget.le}, fast))
        made.append(line(budget.buckets[0], {**place, "le": "+Inf"}, rising(observed, _MINUTES)))

    for times in _SHARES:
        model(f"{times:g} times", rising(_fast(times), _MINUTES), _PER_STEP)
    slow = _fast(_SHARES[-1])
    before, step, after = (literal(one) for one in (slow * _BAD_MINUTES + _PER_STEP, _PER_STEP, slow))
    recovered = f"0+{after}x{_BAD_MINUTES} {before}+{step}x{_MINUTES - _BAD_MINUTES - 1}"
    model("recovered", recovered, _PER_STEP)
    few = round(ENOUGH * _FEW / _MINUTES, 6)
    model("few requests", constant(0, _MINUTES), few)
    if pinned.isdisjoint(COPY_LABELS):
        for copy in ("x", "y"):
            model("few requests, seen twice", constant(0, _MINUTES), few, prometheus_replica=copy)
    model("missing bucket", None, _PER_STEP)
    return made


def _fast(times: float) -> float:
    """Fast observations in a step where ``times`` the share that may is slow."""
    return round(_PER_STEP * (1 - times * MAY), 6)


def _check(budget: Budget, case: str) -> dict[str, object]:
    still = _SHARES[-1] * _BAD_MINUTES / _MINUTES
    fires = [(f"{times:g} times", burn) for times in _SHARES for burn in budget.burns if burn.factor < times]
    fires += [
        ("recovered", burn)
        for burn in budget.burns
        if burn.short > (_MINUTES - _BAD_MINUTES) * INTERVAL_S and burn.factor < still
    ]
    where = f"alertname={quote(budget.alert)}, {names.OVERRIDE}={quote(budget.cell.name)}"
    query = f"count by (alertstate, {case}, {names.LONG_WINDOW}) (ALERTS{{{where}}})"
    samples = [
        ({"alertstate": "firing", case: name, names.LONG_WINDOW: duration(burn.long)}, 1.0) for name, burn in fires
    ]
    return expected(query, _MINUTES * INTERVAL_S, samples)
