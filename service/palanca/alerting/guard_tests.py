"""Tests of the guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting import names
from palanca.alerting.notation import PLAIN, constant, expected, fitting, line
from palanca.moments import duration
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palanca.alerting.matrix import Matrix

_STEPS = 60
_EARLY_S, _LATE_S = 60.0, 840.0
"""Seconds: within every ``for`` and late enough that all groups have been evaluated; later than every ``for``."""


def tests(matrix: Matrix) -> list[dict[str, object]]:
    """Firing, quiet and missing for each guard; those of vLLM only where some labels fit the selector."""
    options = matrix.options
    missing, absent = (
        names.alert_name(one, options.alert_prefix) for one in (names.SERIES_MISSING, names.SERIES_ABSENT)
    )
    made = [
        _test("no series at all", [], [(absent, "", [""]), (names.WATCHDOG, "", [""]), (names.PALANCA_DOWN, "", [""])]),
        *_palanca(options.palanca_job),
    ]
    labels = fitting(options.selector, PLAIN)
    if labels is None or "instance" in {one.label for one in options.selector}:
        return made
    here, there = ({**labels, "instance": one} for one in ("a:8000", "b:8000"))
    up = [line("up", _server(one), constant(1, _STEPS)) for one in (here, there)]
    running = line(matrix.recorder.running_names()[0], there, constant(1, _STEPS))
    down = line("up", {**_server(here), "instance": "c:8000"}, constant(0, _STEPS))
    made.append(_test("a server without vLLM series", [*up, running, down], [
        (missing, "instance", ["a:8000"]), (absent, "", []),
    ]))  # fmt: skip
    return made


def _server(labels: Mapping[str, str]) -> dict[str, str]:
    return {label: value for label, value in labels.items() if label != "model_name"}


def _palanca(job: str) -> list[dict[str, object]]:
    def up(value: float) -> dict[str, str]:
        return line("up", {"job": job, "instance": "p:9797"}, constant(value, _STEPS))

    def source(name: str, state: str, value: float) -> dict[str, str]:
        labels = {"job": job, "instance": "p:9797", "source": name, "state": state}
        return line("palanca_source_state", labels, constant(value, _STEPS))

    def age(value: float) -> dict[str, str]:
        return line("palanca_diagnosis_age_seconds", {"job": job, "instance": "p:9797"}, constant(value, _STEPS))

    fresh = [source("good", "ok", 1), source("good", "stale", 0), source("good", "unreachable", 0)]
    lost = [source("old", "stale", 1), source("gone", "unreachable", 1)]
    return [
        _test("palanca is well", [up(1), *fresh, age(20)], [
            (names.PALANCA_DOWN, "", []), (names.PALANCA_STALE, "source", []),
        ]),
        _test("palanca is down", [up(0)], [(names.PALANCA_DOWN, "instance", ["p:9797"])]),
        _test("sources of palanca are lost", [up(1), *fresh, *lost], [
            (names.PALANCA_STALE, "source", ["gone", "old"]),
        ]),
        _test("palanca stands still", [up(1), *fresh, age(400)], [(names.PALANCA_STALE, "source", [""])]),
    ]  # fmt: skip


def _test(
    name: str, inputs: Sequence[dict[str, str]], checks: Sequence[tuple[str, str, Sequence[str]]]
) -> dict[str, object]:
    """``checks`` are alerts, a label, and the values of it at which they must fire."""
    expressions = []
    for alert, label, values in checks:
        by = ", ".join(["alertstate", *([label] if label else [])])
        query = f"count by ({by}) (ALERTS{{alertname={quote(alert)}}})"
        for moment in (_EARLY_S, _LATE_S):
            state = "firing" if moment == _LATE_S or alert == names.WATCHDOG else "pending"
            samples = [({"alertstate": state, **({label: value} if label else {})}, 1.0) for value in values]
            expressions.append(expected(query, moment, samples))
    return {
        "name": name,
        "interval": duration(15),
        "input_series": list(inputs),
        "promql_expr_test": expressions,
    }
