"""Annotations mark what happened, when it happened, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

import pytest
from tests.dashboards.boards import board, filled
from tests.dashboards.worlds import MOMENTS, Server, instance_of, serving, write_palanca
from tests.engines import shipped
from tests.recorded import AT, store

from palanca.dashboards.options import Options
from palanca.dashboards.queries import Queries

ALL = {"job": "$__all", "model_name": "$__all", "instance": "$__all"}
H200 = instance_of("h200-A2_kv_fp8")
CHANGED = AT["h200-A_kv_saturated"], AT["h200-A2_kv_fp8"]
"""The second run of the server began in between."""


def expr(name: str, **chosen: str | list[str]) -> str:
    (found,) = [one for one in board("engine")["annotations"]["list"] if one["name"] == name]
    return filled(found["expr"], {**ALL, **chosen})


def test_changed_settings(recordings: Server) -> None:
    """Once, at the server whose KV cache has another type from then on; a new number of blocks is no setting."""
    ((labels, values),) = recordings.range(expr("Settings"), MOMENTS[0] - 600, MOMENTS[-1] + 600, 15)
    assert (H200, "fp8") == (labels["instance"], labels["cache_dtype"])
    assert 1 < len(values) <= 9
    begun = [at for at in range(int(CHANGED[0]), int(CHANGED[1]), 15) if recordings.instant(expr("Settings"), at)]
    assert CHANGED[0] < begun[0]


def test_restarts(recordings: Server) -> None:
    """The moment at which each process began, in milliseconds, as Grafana takes it for a time."""
    (found,) = [one for one in board("engine")["annotations"]["list"] if one["name"] == "Restarts"]
    assert found["useValueForTime"] is True
    starts = recordings.range(expr("Restarts", instance=[H200]), CHANGED[0], CHANGED[1], 5)
    moments = sorted({value / 1000 for _, values in starts for value in values})
    every = [block.values for one in ("h200-A_kv_saturated", "h200-A2_kv_fp8")
             for block in store(one).blocks("process_start_time_seconds")]  # fmt: skip
    assert sorted({float(value) for one in every for value in one.ravel()}) == pytest.approx(moments)
    assert 2 == len(moments)


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An engine that begins anew inside a server that goes on, one whose server begins anew too, and one that does not.

    Another job has a process of its own, which is no engine.
    """

    def write(out: TextIO) -> None:
        for labels, reset, start in (("a", True, False), ("b", True, True), ("[::1]:8", False, False)):
            for name, value in (("vllm:prompt_tokens_total", 100), ("vllm:num_requests_running", 1)):
                for step in range(41):
                    since = step - 20 if reset and step >= 20 else step
                    shown = value * since if name.endswith("total") else value
                    out.write(f'{name}{{job="vllm",instance="{labels}",model_name="m"}} {shown} {1000 + step * 15}\n')
            for step in range(41):
                began = 1300 if start and step >= 20 else 500
                out.write(f'process_start_time_seconds{{job="vllm",instance="{labels}"}} {began} {1000 + step * 15}\n')
        for step in range(41):
            out.write(f'process_start_time_seconds{{job="node",instance="a"}} 700 {1000 + step * 15}\n')

    with serving(tmp_path_factory.mktemp("restarted"), [write]) as server:
        yield server


def test_engines_that_restart(restarted: Server) -> None:
    """Only the one whose process shows nothing of it."""
    found = restarted.range(expr("Engine restarts"), 1000, 1600, 15)
    assert ["a"] == [labels["instance"] for labels, _ in found]


def test_processes_of_others_are_no_restarts(restarted: Server) -> None:
    """Prometheus has scraped a lot more than engines."""
    found = restarted.range(expr("Restarts"), 1000, 1600, 15)
    assert {("vllm", "a"), ("vllm", "b"), ("vllm", "[::1]:8")} == {(one["job"], one["instance"]) for one, _ in found}


@pytest.mark.parametrize("instance", ["[::1]:8", "a"])
def test_names_are_quoted(restarted: Server, instance: str) -> None:
    """An address that would be a regular expression is chosen as it is written, alone and among others."""
    running = Queries(shipped(), Options()).signal("running")
    ((labels, _),) = restarted.instant(filled(running, {**ALL, "instance": [instance]}), 1500)
    assert instance == labels["instance"]
    both: Mapping[str, list[str]] = {"instance": [instance, "b"]}
    assert 2 == len(restarted.instant(filled(running, {**ALL, **both}), 1500))


@pytest.mark.parametrize("honoured", [False, True])
def test_findings_have_the_labels_of_engines(tmp_path: Path, honoured: bool) -> None:
    """Whether the Prometheus that scrapes palanca keeps its own labels or takes those of the page."""
    with serving(tmp_path, [lambda out: write_palanca(out, 5000.0, honoured=honoured)]) as server:
        found = server.instant(expr("Findings"), 5000)
        (labels,) = [labels for labels, _ in found if labels["rule"] == "kv-cache-saturated"]
        assert ("vllm", "10.0.0.5:8000") == (labels["job"], labels["instance"])
        assert not any(label.startswith("exported_") for label in labels)
        assert [] == server.instant(expr("Findings", instance=["palanca:9797"]), 5000)
        assert found == server.instant(expr("Findings", instance=["10.0.0.5:8000"], job=["vllm"]), 5000)
