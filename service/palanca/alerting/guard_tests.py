"""Tests of the guards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palanca.alerting import guards, itself, names
from palanca.alerting.notation import PLAIN, constant, expected, fitting, line, rising
from palanca.moments import duration
from palanca.signals.identity import COPY_LABELS
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from palanca.alerting.matrix import Matrix

_STEP_S = 60.0
_CHANGE, _AWAY, _BACK, _TURN, _END = 5, 30, 42, 60, 160
"""Minutes: an early change; from when till when some target is not there; a change after an hour; the end."""
_MOMENTS = (8, 20, 78, 96, 140)
"""Minutes at which the guards of servers are asked for."""
_SHORT, _LONG = 18, 35
"""Minutes in which guards of palanca fire: most of them, and all."""

_ALWAYS, _NEVER = constant(1, _END), constant(0, _END)
_DIES = f"{constant(1, _CHANGE)} {constant(0, _END - _CHANGE - 1)}"
_DIES_UNSEEN = (
    f"{constant(1, _CHANGE)} {constant(0, _AWAY - _CHANGE - 2)} _x{_BACK - _AWAY + 1} {constant(0, _END - _BACK - 1)}"
)
_ENDS = f"{constant(1, _CHANGE)} stale"
_REUSED = f"{_ENDS} _x3 {constant(1, _END)}"
_ENDS_LATE = f"{constant(1, _TURN)} stale"
_DIES_LATE = f"{constant(1, _TURN)} {constant(0, _END)}"
_RENAMED = f"_x{_CHANGE + 1} {constant(1, _TURN - _CHANGE - 1)} stale"
_LATER, _LATER_DOWN = (f"_x{_TURN - _CHANGE} {constant(value, _END)}" for value in (1, 0))


@dataclass(frozen=True)
class _Server:
    """A server: its ``up`` and its vLLM series (None without), and the minutes within which alerts on it fire."""

    labels: Mapping[str, str]
    up: str | None
    series: str | None = None
    alerts: Mapping[str, range] = field(default_factory=dict)


def _from(minute: int) -> range:
    return range(minute, _END)


def tests(matrix: Matrix) -> list[dict[str, object]]:
    """Firing, quiet and missing for each guard; those of vLLM only where some labels fit the selector."""
    made = [_nothing(matrix), *_palanca(matrix)]
    labels = fitting(matrix.options.selector, PLAIN)
    pinned = {one.label for one in matrix.options.selector}
    if labels is not None and "instance" not in pinned:
        told = guards.tells_jobs(matrix.options.selector)
        made += [
            _servers(matrix, "servers that are down or without series", _one_job(labels, pinned, told=told)),
            _servers(matrix, "a job whose servers are replaced by some without series", _replaced(labels, told=told)),
            _servers(matrix, "a rollout whose new servers do not come up", _rollout(labels)),
            _servers(matrix, "a job that is down as a whole", _down(labels)),
            _servers(matrix, "a job of which some servers are not vLLM's", _mixed(labels, told=told)),
        ]
    return made


def _nothing(matrix: Matrix) -> dict[str, object]:
    absent = names.alert_name(names.SERIES_ABSENT, matrix.options.alert_prefix)
    missed: list[dict[str, str]] = [{}] if matrix.options.palanca_scraped else []
    return _test("no series at all", [], [(absent, [{}]), (names.WATCHDOG, [{}]), (names.PALANCA_DOWN, missed)])


# --- servers of vLLM -------------------------------------------------------------------------------------------------


def _server(
    labels: Mapping[str, str], host: str, up: str | None, series: str | None = None, /, **alerts: range
) -> _Server:
    return _Server({**labels, "instance": f"{host}:8000"}, up, series, {
        name.replace("_", "-"): minutes for name, minutes in alerts.items()
    })  # fmt: skip


def _one_job(labels: Mapping[str, str], pinned: set[str], *, told: bool) -> Iterator[_Server]:
    """Servers of one model, most with series; one of another model, and one of another cluster."""
    soon = _from(20)
    yield _server(labels, "well", _ALWAYS, _ALWAYS)
    yield _server(labels, "dead", _DIES, _ENDS, target_down=soon)
    never_up = {"target_never_up": _from(_BACK + 31)} if told else {}
    yield _server(labels, "dead-unseen", _DIES_UNSEEN, _ENDS, target_down=range(20, _AWAY), **never_up)
    yield _server(labels, "vanished", _ENDS, _ENDS)
    yield _server(labels, "muted", _ALWAYS, _ENDS, up_without_series=soon)
    yield _server(labels, "mute", _ALWAYS, None, **({"up_without_series": soon} if told else {}))
    yield _server(labels, "never-up", _NEVER, None, **({"target_never_up": _from(31)} if told else {}))
    if pinned.isdisjoint(COPY_LABELS):
        for copy, up in (("x", _ALWAYS), ("y", _DIES)):
            copied = {**labels, "prometheus_replica": copy}
            yield _server(copied, "seen-by-one", up, _ALWAYS if up == _ALWAYS else _ENDS)
    if "model_name" not in pinned:
        other = {**labels, "model_name": "other"}
        yield _server(other, "alone", _DIES, _ENDS, target_down=soon, model_down=soon)
        yield _server({**labels, "model_name": "federated"}, "elsewhere", None, _ALWAYS)
        router = {"target_never_up": _from(_TURN + 31)} if told else {}
        yield _server({**labels, "model_name": ""}, "router", _DIES_LATE, _ENDS_LATE, **router)
        late, third = _from(_TURN + 6), {**labels, "model_name": "third"}
        yield _server(labels, "renamed", _DIES_LATE, _ENDS)
        yield _server(third, "renamed", _DIES_LATE, _RENAMED, target_down=late, model_down=late)
    if "cluster" not in pinned:
        yield _server({**labels, "cluster": "far"}, "well", _ALWAYS, _ENDS, up_without_series=soon)


def _replaced(labels: Mapping[str, str], *, told: bool) -> Iterator[_Server]:
    """Where the selector does not tell, a job is vLLM's as long as it was for the most of the last day."""
    till = _END if told else 2 * _TURN - 1
    yield _server(labels, "old", _ENDS_LATE, _ENDS_LATE)
    yield _server(labels, "mute", _LATER, None, up_without_series=range(_TURN + 10, till))
    yield _server(labels, "starting", _LATER_DOWN, None, target_never_up=range(_TURN + 30, till))


def _rollout(labels: Mapping[str, str]) -> Iterator[_Server]:
    yield _server(labels, "old", _ENDS_LATE, _ENDS_LATE)
    yield _server(
        labels, "starting", _LATER_DOWN, None, job_down=_from(_TURN + 31), target_never_up=_from(_TURN + 30)
    )  # fmt: skip


def _down(labels: Mapping[str, str]) -> Iterator[_Server]:
    late = _from(_TURN + 6)
    yield _server(labels, "only", _DIES_LATE, _ENDS_LATE, model_down=late, target_down=late)


def _mixed(labels: Mapping[str, str], *, told: bool) -> Iterator[_Server]:
    """Only servers that have shown series are guarded, for as long as the target is the same."""
    other = {"up_without_series": _from(20)} if told else {}
    yield _server(labels, "vllm", _ENDS_LATE, _ENDS_LATE)
    yield _server(labels, "muted", _ALWAYS, _ENDS, up_without_series=_from(20))
    yield _server(labels, "router", _ALWAYS, None, **other)
    yield _server(labels, "reused", _REUSED, _ENDS, **other)


_JOB, _ON_SERVER = ("cluster", "job"), ("cluster", "job", "instance")
_SHOWN = {
    names.MODEL_DOWN: (*_JOB, "model_name"), names.JOB_DOWN: _JOB, names.TARGET_DOWN: _ON_SERVER,
    names.TARGET_NEVER_UP: _ON_SERVER, names.SERIES_MISSING: _ON_SERVER,
}  # fmt: skip
"""Guards of servers, and the labels that tell their alerts apart."""


def _servers(matrix: Matrix, name: str, servers: Iterable[_Server]) -> dict[str, object]:
    servers = list(servers)
    running = matrix.recorder.running_names()[0]
    inputs = {}
    for one in servers:
        place = {label: value for label, value in one.labels.items() if label != "model_name"}
        for metric, labels, values in (("up", place, one.up), (running, one.labels, one.series)):
            if values is not None:
                made = line(metric, labels, values)
                inputs[made["series"]] = made
    checks = []
    for guard, shown in _SHOWN.items():
        alert = names.alert_name(guard, matrix.options.alert_prefix)
        query = f"count by ({', '.join(shown)}) (ALERTS{{alertname={quote(alert)}, alertstate={quote('firing')}}})"
        for minute in _MOMENTS:
            places = [
                {label: one.labels.get(label, "") for label in shown}
                for one in servers
                if minute in one.alerts.get(guard, ())
            ]
            checks.append(expected(query, minute * _STEP_S, [(place, 1.0) for place in places]))
    return {
        "name": name,
        "interval": duration(_STEP_S),
        "input_series": list(inputs.values()),
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
