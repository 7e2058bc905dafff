"""Tests of the exported rules for ``promtool test rules``: every alert fires, stays quiet, and is silent without data.

Alerts of the matrix are tested over recorded series, so that each value in the file is a value of the condition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from palanca.alerting import guard_tests, names, objective_tests, recording_tests, text
from palanca.alerting.notation import constant, expected, line
from palanca.alerting.trials import Search
from palanca.moments import duration
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palanca.alerting.matrix import Exported, Matrix
    from palanca.alerting.options import Cell
    from palanca.alerting.trials import Trial

RULES = "prometheus.yaml"
CASE = "case"
"""Label that tells the cases of one test apart."""
_AFTER = 4
"""Steps after the alert has fired at which it must have ended."""


def tests(matrix: Matrix) -> str:
    """Write the tests; they belong beside ``prometheus.yaml``."""
    made = [_matrix_test(one, matrix) for one in matrix.exported]
    content = {
        "rule_files": [RULES],
        "evaluation_interval": duration(matrix.options.interval),
        "tests": [
            *recording_tests.tests(matrix),
            *(one for one in made if one is not None),
            *objective_tests.tests(matrix),
            *(guard_tests.tests(matrix) if matrix.options.guards else ()),
        ],
    }
    return text.document(content)


def _matrix_test(one: Exported, matrix: Matrix) -> dict[str, object] | None:
    search = Search(one, matrix.catalogue, matrix.recorder)
    trials = search.trials()
    if not trials:
        return None
    steps = math.ceil(one.alert.for_ / matrix.options.interval)
    places = _Places(one.cell, fleet=search.fleet)
    inputs = [
        line
        for trial in trials
        for number in range(len(trial.engines))
        for line in _series(trial, number, places.labels(trial, number), steps, matrix)
    ]
    by = ", ".join(["alertstate", CASE, *(["instance"] if search.fleet else [])])
    query = f"count by ({by}) (ALERTS{{alertname={quote(one.alert.alert)}}})"
    at = matrix.options.interval
    states = [((steps - 1) * at, "pending", False)] if steps else []
    states += [(steps * at, "firing", False), ((steps + _AFTER) * at, "firing", True)]
    return {
        "name": f"{one.rule.id} {one.cell.name}".strip(),
        "interval": duration(at),
        "input_series": inputs,
        "promql_expr_test": [
            _expected(query, moment, state, trials, places, ended=ended) for moment, state, ended in states
        ],
    }


class _Places:
    """Labels of the engines of each case: such that the cell of the alert fits, and models stay apart."""

    def __init__(self, cell: Cell, *, fleet: bool) -> None:
        self.fleet = fleet
        self._given = {one.label: one.value for one in cell.matchers if one.op == "="}
        self._refused = {(one.label, one.value) for one in cell.matchers if one.op == "!="}

    def labels(self, trial: Trial, number: int) -> dict[str, str]:
        """Labels of one engine of a case."""
        plain = {CASE: trial.name}
        if self.fleet:  # each case is a model of its own
            plain |= {"namespace": trial.name, "instance": f"{'abcdefghi'[number]}:8000"}
        fitting = {label: self._fitting(label, value) for label, value in plain.items()}
        return fitting | self._given

    def _fitting(self, label: str, value: str) -> str:
        while (label, value) in self._refused:
            value += "x"
        return value

    def shown(self, trial: Trial, number: int, state: str) -> dict[str, str]:
        """Labels in the answer of the test's query."""
        labels = self.labels(trial, number)
        kept = (CASE, "instance") if self.fleet else (CASE,)
        return {"alertstate": state, **{label: labels[label] for label in kept}}


def _series(trial: Trial, number: int, labels: Mapping[str, str], steps: int, matrix: Matrix) -> list[dict[str, str]]:
    """The recorded series of one engine: the values of the trial, and those at which it ends."""
    whole = steps + 2 + _AFTER
    made = []
    for name, value in trial.engines[number].items():
        text = constant(value, whole)
        if trial.resolved:
            after = trial.resolved[number].get(name)
            text = constant(value, steps + 1) + (f" {constant(after, _AFTER)}" if after is not None else " stale")
        made.append(line(matrix.recorder.series(name), labels, text))
    if len(trial.engines) > 1:
        made.append(line(names.ENGINE, labels, constant(1, whole)))
    return made


def _expected(
    query: str, moment: float, state: str, trials: Sequence[Trial], places: _Places, *, ended: bool
) -> dict[str, object]:
    samples = [
        (places.shown(trial, number, state), 1.0)
        for trial in trials
        for number, holds in enumerate(trial.holds)
        if holds and not (ended and trial.resolved)
    ]
    return expected(query, moment, samples)
