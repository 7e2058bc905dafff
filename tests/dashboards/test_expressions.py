"""Every expression runs on a real Prometheus that holds the recordings; what would be empty is listed with a reason."""

from __future__ import annotations

import math
import re

import pytest
import yaml
from tests.dashboards.boards import PROMETHEUS_BOARDS, Asked, board, defaults, filled, queries
from tests.dashboards.worlds import MOMENTS, PALANCA_AT, Server, instance_of
from tests.engines import ROOT, shipped
from tests.recorded import AT, raw

from palanca.dashboards.options import Options
from palanca.dashboards.queries import Queries
from palanca.model import State
from palanca.signals.leaves import Grid

SHORT = "the drafts of the recording have five tokens"
NOT_GIVEN = "nobody has given its size"
PERMITTED = {
    "engine: Acceptance by position: acceptance_pos_5": SHORT,
    "engine: Acceptance by position: acceptance_pos_6": SHORT,
    "engine: Acceptance by position: acceptance_pos_7": SHORT,
    "engine: Prefix cache hit rate: external_hit_rate": "no recorded server has an external prefix cache",
    "engine: Share in use: slots": NOT_GIVEN,
    "engine: Share in use: budget": NOT_GIVEN,
    "engine: annotation: Engine restarts": "no recorded engine restarts inside its server; test_events has one",
}
"""Queries that show nothing of any recording, and why."""
EVERY = [one for name in PROMETHEUS_BOARDS for one in queries(name)]
ONE = instance_of("spec-decode-bad")
EMPTY_FIELD = ""


def written(one: Asked, **more: str | list[str]) -> str:
    """A query as Grafana sends it; all instances where the dashboard would take the first."""
    return filled(one.expr, {"instance": "$__all", **defaults(one.board), **more})


def shown(server: Server, one: Asked, **more: str | list[str]) -> bool:
    """Whether a query gives a number at any moment of the recordings."""
    expr = written(one, **more)
    if one.panel == "annotation":
        return any(values for _, values in server.range(expr, MOMENTS[0] - 600, MOMENTS[-1] + 60, 15))
    return any(math.isfinite(value) for at in (PALANCA_AT, *MOMENTS) for _, value in server.instant(expr, at))


def named(where: str) -> Asked:
    (found,) = [one for one in EVERY if one.where == where]
    return found


def test_what_would_be_empty(recordings: Server) -> None:
    """Nothing but what is permitted, and all of that."""
    assert sorted(PERMITTED) == sorted({one.where for one in EVERY if not shown(recordings, one)})


def test_values_are_those_of_the_process(recordings: Server) -> None:
    """What a panel shows of a signal is what palanca judges, at the moment that each recording is about.

    The recordings of the GPU are shorter than the windows: there Prometheus divides by the whole window.
    """
    writer, differ, compared = Queries(shipped(), Options()), [], 0
    for name, at in AT.items():
        if name.startswith("h200"):
            continue
        found = raw(name, Grid(at, 1, 15.0))
        for signal in filter(writer.available, shipped().signals):
            readings = found.signals[signal]
            if State(int(readings.states[0, -1])) not in {State.OK, State.LOWER_BOUND, State.INTERPOLATED}:
                continue
            expr = filled(
                writer.signal(signal), {"job": "$__all", "model_name": "$__all", "instance": [instance_of(name)]}
            )
            (got,) = [value for _, value in recordings.instant(expr, at)] or [math.nan]
            compared += 1
            if not math.isclose(got, float(readings.values[0, -1]), rel_tol=1e-6, abs_tol=1e-9):
                differ.append((name, signal, got, float(readings.values[0, -1])))
    assert [] == differ
    assert compared > 200


@pytest.mark.parametrize("given", [EMPTY_FIELD, "0"])
def test_sizes_that_nobody_gives(recordings: Server, given: str) -> None:
    """No bar, and no error either, also where the field was emptied."""
    for where in ("engine: Share in use: slots", "engine: Share in use: budget"):
        expr = written(named(where), max_num_seqs=given, max_num_batched_tokens=given)
        assert [] == recordings.instant(expr, AT["kv-saturated"])


def test_sizes_that_somebody_gives(recordings: Server) -> None:
    """The share of them that is in use."""
    one = named("engine: Share in use: slots")
    ((_, share),) = recordings.instant(
        written(one, instance=[instance_of("kv-saturated")], max_num_seqs="64"), AT["kv-saturated"]
    )
    (running,) = raw("kv-saturated", Grid(AT["kv-saturated"], 1, 15.0)).signals["running"].values[:, -1]
    assert share == pytest.approx(running / 64)


def test_each_query_keeps_to_the_chosen_engines(recordings: Server) -> None:
    """No series of another instance, job or model; nothing where none fits."""
    counted = {"targets", "age", "unknown"}
    own = {one.where for one in EVERY if one.board == "itself" or one.ref in counted}
    for one in EVERY:
        if one.where in own:
            continue
        for at in (AT["healthy"], AT["kv-saturated"], MOMENTS[-3]):
            for labels, _ in recordings.instant(written(one, instance=[ONE]), at):
                assert labels.get("instance", ONE) == ONE, one.where
            for label in ("job", "model_name", "instance"):
                if label == "model_name" and one.panel in {"annotation", "Settings"}:
                    continue  # servers have no model; the instances of a model are chosen with it
                assert [] == recordings.instant(written(one, **{label: ["none.such"]}), at), (label, one.where)


def test_variables_have_values(recordings: Server) -> None:
    """Each gives something, for what was chosen before it; and only that."""
    begin, end = MOMENTS[0] - 600, MOMENTS[-1]
    for name in PROMETHEUS_BOARDS:
        chosen = {"instance": "$__all", **defaults(name)}
        for one in board(name)["templating"]["list"]:
            if one["type"] != "query":
                continue
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", one["query"], flags=re.DOTALL)
            assert found is not None
            assert recordings.values(found[2], filled(found[1], chosen), begin, end), (name, one["name"])
    query = Queries(shipped(), Options()).variable("instance", ["job", "model_name"])
    inside = query.removeprefix("label_values(").removesuffix(", instance)")
    assert ONE in recordings.values("instance", filled(inside, {"job": ["vllm"], "model_name": "$__all"}), begin, end)
    assert [] == recordings.values("instance", filled(inside, {"job": ["vl.m"], "model_name": "$__all"}), begin, end)


@pytest.mark.parametrize("name", PROMETHEUS_BOARDS)
def test_with_recorded_series(recordings: Server, name: str) -> None:
    """What is read from recorded series is what the exported rules record; the rest is as it was."""
    exported = yaml.safe_load((ROOT / "alerts" / "prometheus.yaml").read_text(encoding="utf-8"))
    recorded = {rule["record"] for group in exported["groups"] for rule in group["rules"] if "record" in rule}
    used: set[str] = set()
    for one in queries(name, Options(recorded=True)):
        used |= set(re.findall(r"palanca:[a-z0-9_]+:[a-z0-9_]+", one.expr))
        recordings.instant(written(one), PALANCA_AT)
    assert used <= recorded
    assert bool(used) == (name != "itself")


@pytest.mark.parametrize(
    "options",
    [Options(prefixes=("ray_vllm_",)), Options(prefixes=("vllm:", "vllm_"))],
    ids=["one prefix", "two"],
)
def test_with_fewer_prefixes(recordings: Server, options: Options) -> None:
    """Prometheus takes them all; another front has nothing of the recordings."""
    for name in PROMETHEUS_BOARDS:
        for one in queries(name, options):
            found = recordings.instant(written(one), AT["healthy"])
            if one.ref in shipped().signals:
                assert bool(found) <= ("vllm:" in options.prefixes), one.where
