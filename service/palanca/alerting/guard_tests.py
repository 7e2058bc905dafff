"""Tests of the guards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.alerting import itself, names
from palanca.alerting.notation import PLAIN, constant, expected, fitting, line, rising
from palanca.moments import duration
from palanca.signals.identity import COPY_LABELS
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from palanca.alerting.matrix import Matrix

_STEP_S = 60.0
_CHANGE, _AWAY, _BACK, _END = 5, 30, 42, 75
"""Minutes: the last one before all changes; from when till when some target is not there; later than an hour after."""
_EARLY, _SOON, _LATE = 8, 20, 72
"""Minutes: within every ``for`` after the change; after some; after all, and when an hour of series is over."""
_SHORT, _LONG = 18, 35
"""Minutes in which guards of palanca fire: most of them, and all."""

_ALWAYS, _NEVER = constant(1, _END), constant(0, _END)
_DIES = f"{constant(1, _CHANGE)} {constant(0, _END - _CHANGE - 1)}"
_DIES_UNSEEN = (
    f"{constant(1, _CHANGE)} {constant(0, _AWAY - _CHANGE - 2)} _x{_BACK - _AWAY + 1} {constant(0, _END - _BACK - 1)}"
)
_ENDS = f"{constant(1, _CHANGE)} stale"
_BEGINS = f"_x{_CHANGE} {constant(1, _END - _CHANGE)}"


@dataclass(frozen=True)
class _Server:
    """A server: its ``up``, its vLLM series (None without any), and the alerts on it when all is over."""

    labels: Mapping[str, str]
    up: str
    series: str | None = None
    alerts: frozenset[str] = frozenset()


def tests(matrix: Matrix) -> list[dict[str, object]]:
    """Firing, quiet and missing for each guard; those of vLLM only where some labels fit the selector."""
    made = [_nothing(matrix), *_palanca(matrix)]
    labels = fitting(matrix.options.selector, PLAIN)
    pinned = {one.label for one in matrix.options.selector}
    if labels is not None and "instance" not in pinned:
        made.append(_servers(matrix, [*_one_job(labels, pinned), *_other_jobs(matrix, labels, pinned)]))
    return made


def _nothing(matrix: Matrix) -> dict[str, object]:
    absent = names.alert_name(names.SERIES_ABSENT, matrix.options.alert_prefix)
    missed: list[dict[str, str]] = [{}] if matrix.options.palanca_scraped else []
    return _test("no series at all", [], [(absent, [{}]), (names.WATCHDOG, [{}]), (names.PALANCA_DOWN, missed)])


# --- servers of vLLM -------------------------------------------------------------------------------------------------


def _one_job(labels: Mapping[str, str], pinned: set[str]) -> Iterator[_Server]:
    """Servers of one model, most with series; one of another model, and one of another cluster."""

    def server(host: str, up: str, series: str | None, *alerts: str, **more: str) -> _Server:
        return _Server({**labels, "instance": f"{host}:8000", **more}, up, series, frozenset(alerts))

    yield server("well", _ALWAYS, _ALWAYS)
    yield server("dead", _DIES, _ENDS, names.TARGET_DOWN)
    yield server("dead-unseen", _DIES_UNSEEN, _ENDS, names.TARGET_DOWN)
    yield server("vanished", _ENDS, _ENDS)
    yield server("muted", _ALWAYS, _ENDS, names.SERIES_MISSING)
    yield server("mute", _ALWAYS, None, names.SERIES_MISSING)
    yield server("never-up", _NEVER, None, names.TARGET_NEVER_UP)
    if pinned.isdisjoint(COPY_LABELS):
        for copy, up in (("x", _ALWAYS), ("y", _DIES)):
            yield server("seen-by-one", up, _ALWAYS if up == _ALWAYS else _ENDS, prometheus_replica=copy)
    if "model_name" not in pinned:
        yield server("alone", _DIES, _ENDS, names.TARGET_DOWN, names.MODEL_DOWN, model_name="other")
    if "cluster" not in pinned:
        yield server("well", _ALWAYS, _ENDS, names.SERIES_MISSING, cluster="far")


def _other_jobs(matrix: Matrix, labels: Mapping[str, str], pinned: set[str]) -> Iterator[_Server]:
    """A job whose servers are all replaced by some without series, and one of which few servers are vLLM's."""
    told = fitting(matrix.options.selector, {**labels, "job": "replaced"}) or labels
    if "job" in pinned or told["job"] != "replaced":
        return
    yield _Server({**labels, "job": "replaced", "instance": "old:8000"}, constant(1, 2 * _CHANGE) + " stale", _ENDS)
    yield _Server(
        {**labels, "job": "replaced", "instance": "new:8000"}, _BEGINS, None, frozenset({names.SERIES_MISSING})
    )
    mixed = {**labels, "job": "mixed"}
    yield _Server({**mixed, "instance": "vllm:8000"}, _ALWAYS, _ENDS, frozenset({names.SERIES_MISSING}))
    for number in range(3):
        yield _Server({**mixed, "instance": f"database-{number}:5432"}, _ALWAYS)
    yield _Server({**mixed, "instance": "database-3:5432"}, _NEVER)


_WAITS = {
    names.MODEL_DOWN: _SOON, names.TARGET_DOWN: _SOON, names.TARGET_NEVER_UP: _LATE, names.SERIES_MISSING: _SOON,
}  # fmt: skip
"""When each guard of servers fires for sure."""


def _servers(matrix: Matrix, servers: Sequence[_Server]) -> dict[str, object]:
    running = matrix.recorder.running_names()[0]
    inputs = []
    for one in servers:
        inputs.append(line("up", {name: value for name, value in one.labels.items() if name != "model_name"}, one.up))
        if one.series is not None:
            inputs.append(line(running, one.labels, one.series))
    by = ("cluster", "job", "model_name")
    checks = []
    for guard, soon in _WAITS.items():
        shown = by if guard == names.MODEL_DOWN else (*by[:2], "instance")
        alert = names.alert_name(guard, matrix.options.alert_prefix)
        places = [{name: one.labels.get(name, "") for name in shown} for one in servers if guard in one.alerts]
        query = f"count by ({', '.join(shown)}) (ALERTS{{alertname={quote(alert)}, alertstate={quote('firing')}}})"
        samples = [(place, 1.0) for place in places]
        checks += [expected(query, minute * _STEP_S, samples) for minute in (soon, _LATE)]
    down = names.alert_name(names.TARGET_DOWN, matrix.options.alert_prefix)
    pending = f"count(ALERTS{{alertname={quote(down)}, alertstate={quote('pending')}}})"
    dying = sum(names.TARGET_DOWN in one.alerts for one in servers)
    checks.append(expected(pending, _EARLY * _STEP_S, [({}, float(dying))]))
    return {
        "name": "servers that are down or without series",
        "interval": duration(_STEP_S),
        "input_series": inputs,
        "promql_expr_test": checks,
    }


# --- palanca itself --------------------------------------------------------------------------------------------------


def _palanca(matrix: Matrix) -> list[dict[str, object]]:
    options = matrix.options
    here = {"job": options.palanca_job, "instance": "p:9797"}

    def one(name: str, values: str, **labels: str) -> dict[str, str]:
        return line(name, {**here, **labels}, values)

    def source(name: str, state: str, value: float) -> dict[str, str]:
        return one("palanca_source_state", constant(value, _END), source=name, state=state)

    place = {"instance": "p:9797"}
    quiet = [
        one("up", _ALWAYS), source("good", "ok", 1), source("good", "stale", 0), source("good", "unreachable", 0),
        one("palanca_diagnosis_age_seconds", constant(20, _END)),
        one("palanca_polls_skipped_total", constant(7, _END), source="good"),
        one("palanca_targets", _NEVER, status="unknown"), one("palanca_targets", _ALWAYS, status="critical"),
        one("palanca_history_up", _ALWAYS), one("palanca_config_last_reload_successful", _ALWAYS),
        one("palanca_http_request_duration_seconds_count", rising(9, _END), method="GET", route="/", status="200"),
    ]  # fmt: skip
    bad = [
        one("up", _NEVER), source("old", "stale", 1), source("gone", "unreachable", 1),
        one("palanca_polls_skipped_total", rising(1, _END), source="old"),
        one("palanca_targets", _ALWAYS, status="unknown"), one("palanca_history_up", _NEVER),
        one("palanca_config_last_reload_successful", _NEVER),
        one("palanca_http_request_duration_seconds_count", rising(1, _END), method="GET", route="/", status="500"),
    ]  # fmt: skip
    every = [alert.alert for alert in itself.group(matrix).alerts]
    stale = [{**place, "source": "gone"}, {**place, "source": "old"}]
    return [
        _test("palanca is well", quiet, [(name, []) for name in every], _LONG),
        _test("all is wrong with palanca", bad, [
            *((name, [place]) for name in every if name not in {names.PALANCA_STALE, "PalancaPollsSkipped"}),
            (names.PALANCA_STALE, stale), ("PalancaPollsSkipped", [stale[1]]),
        ], _LONG),
        _test("palanca stands still", [*quiet[:4], one("palanca_diagnosis_age_seconds", constant(400, _END))], [
            (names.PALANCA_STALE, [place]),
        ]),
        _test("palanca vanished", [one("up", _ENDS)], [(names.PALANCA_DOWN, [{}])]),
    ]  # fmt: skip


def _test(
    name: str,
    inputs: Sequence[dict[str, str]],
    firing: Sequence[tuple[str, Sequence[Mapping[str, str]]]],
    minutes: float = _SHORT,
) -> dict[str, object]:
    """``firing`` are alerts and the places at which they must fire at the end."""
    checks = []
    for alert, places in firing:
        query = f'count by (instance, source) (ALERTS{{alertname={quote(alert)}, alertstate="firing"}})'
        checks.append(expected(query, minutes * _STEP_S, [(place, 1.0) for place in places]))
    return {
        "name": name,
        "interval": duration(_STEP_S),
        "input_series": list(inputs),
        "promql_expr_test": checks,
    }
