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
    from collections.abc import Iterator, Mapping

    from palanca.alerting.matrix import Exported, Matrix
    from palanca.alerting.trials import Trial

RULES = "prometheus.yaml"
TESTED, CASE = "tested", "case"
"""Labels of the series: for which alert they are, and which case it is."""
_AFTER = 4
"""Steps after the alert has fired at which it must have ended."""


def tests(matrix: Matrix) -> str:
    """Write the tests; they belong beside ``prometheus.yaml``."""
    content = {
        "rule_files": [RULES],
        "evaluation_interval": duration(matrix.options.interval),
        "tests": [
            *recording_tests.tests(matrix),
            *_matrix_tests(matrix),
            *objective_tests.tests(matrix),
            *(guard_tests.tests(matrix) if matrix.options.guards else ()),
        ],
    }
    return text.document(content)


def _matrix_tests(matrix: Matrix) -> Iterator[dict[str, object]]:
    """One test for all alerts that wait equally long: promtool evaluates the whole file at each step of each test."""
    by_wait: dict[float, list[_Tested]] = {}
    for one in matrix.exported:
        by_wait.setdefault(one.alert.for_, []).append(_Tested(one, matrix))
    for wait, tested in sorted(by_wait.items()):
        inputs = [line for one in tested for line in one.inputs()]
        if inputs:
            yield {
                "name": f"alerts that wait {duration(wait)}" if wait else "alerts that do not wait",
                "interval": duration(matrix.options.interval),
                "input_series": inputs,
                "promql_expr_test": [check for one in tested for check in one.checks()],
            }


class _Tested:
    """Series and checks of one alert. Each case is an engine, or a model of several where engines are compared."""

    def __init__(self, one: Exported, matrix: Matrix) -> None:
        search = Search(one, matrix.catalogue, matrix.recorder)
        self._alert, self._matrix, self._fleet = one.alert, matrix, search.fleet
        self._trials = search.trials()
        self._steps = math.ceil(one.alert.for_ / matrix.options.interval)
        self._given = {matcher.label: matcher.value for matcher in one.cell.matchers if matcher.op == "="}
        self._refused = {(matcher.label, matcher.value) for matcher in one.cell.matchers if matcher.op == "!="}
        self._tested = f"{one.rule.id} {one.cell.name}".strip()
        self._model = next((label for label in reversed(names.SCOPE) if label not in self._given), names.SCOPE[0])

    def inputs(self) -> list[dict[str, str]]:
        """Recorded series of all cases."""
        return [
            line
            for trial in self._trials
            for number in range(len(trial.engines))
            for line in _series(trial, number, self._labels(trial, number), self._steps, self._matrix)
        ]

    def checks(self) -> list[dict[str, object]]:
        """Pending until the last step before it fires, firing, and what is left when some case has ended."""
        if not self._trials:
            return []
        by = ", ".join(["alertstate", CASE, *(["instance"] if self._fleet else [])])
        where = f"alertname={quote(self._alert.alert)}, {TESTED}={quote(self._tested)}"
        at, steps = self._matrix.options.interval, self._steps
        states = [((steps - 1) * at, "pending", False)] if steps else []
        states += [(steps * at, "firing", False), ((steps + _AFTER) * at, "firing", True)]
        return [
            expected(f"count by ({by}) (ALERTS{{{where}}})", moment, self._holding(state, ended=ended))
            for moment, state, ended in states
        ]

    def _holding(self, state: str, *, ended: bool) -> list[tuple[dict[str, str], float]]:
        shown = (CASE, "instance") if self._fleet else (CASE,)
        return [
            ({"alertstate": state, **{label: self._labels(trial, number)[label] for label in shown}}, 1.0)
            for trial in self._trials
            for number, holds in enumerate(trial.holds)
            if holds and not (ended and trial.resolved)
        ]

    def _labels(self, trial: Trial, number: int) -> dict[str, str]:
        """Labels of one engine of a case: such that the cell of the alert fits, and models stay apart."""
        plain = {TESTED: self._tested, CASE: trial.name}
        if self._fleet:
            plain |= {self._model: f"{self._tested} {trial.name}", "instance": f"{'abcdefghi'[number]}:8000"}
        return {label: self._fitting(label, value) for label, value in plain.items()} | self._given

    def _fitting(self, label: str, value: str) -> str:
        while (label, value) in self._refused:
            value += "x"
        return value


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
