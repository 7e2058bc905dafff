"""Readings: every value of every target with its state, its window and its fallback."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.sample_stores import ENGINE, SERVER, catalogue, histogram, series, steady

from palanca.check import expand_signals
from palanca.model import Expand, Readings, Signal, SourceInfo, State
from palanca.signals.leaves import Grid
from palanca.signals.readings import read
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore, Series

SOURCE = SourceInfo("test", "")
RUNNING = "vllm:num_requests_running"
TTFT = "vllm:time_to_first_token_seconds"
SIGNALS: Mapping[str, Signal] = expand_signals(
    {
        "running": Signal(title="", unit="requests", avg="num_requests_running"),
        "running_now": Signal(title="", unit="requests", now="num_requests_running"),
        "swapped": Signal(title="", unit="requests", avg="num_requests_swapped"),
        "by_reason": Signal(
            title="",
            unit="requests",
            avg="num_requests_waiting_by_reason",
            where={"reason": "capacity"},
            fallback="running",
        ),
        "preemptions": Signal(title="", unit="preemptions/min", rate="preemptions", times=60),
        "preempted": Signal(title="", unit="preemptions", increase="preemptions"),
        "hit_rate": Signal(
            title="",
            unit="ratio",
            rate="prefix_cache_hits",
            per="prefix_cache_queries",
            or_gauge="gpu_prefix_cache_hit_rate",
        ),
        "per_request": Signal(title="", unit="preemptions/request", rate="preemptions", per="request_success"),
        "finished": Signal(
            title="{value}",
            unit="requests/s",
            rate="request_success",
            expand=Expand(label="finished_reason", values=("stop", "error")),
        ),
        "ttft_p50": Signal(title="", unit="s", quantile=0.5, of="time_to_first_token"),
        "ttft_p99": Signal(title="", unit="s", quantile=0.99, of="time_to_first_token"),
        "ttft_mean": Signal(title="", unit="s", mean="time_to_first_token"),
        "tail": Signal(title="", unit="ratio", expr="ttft_p99 / ttft_p50"),
        "share": Signal(title="", unit="ratio", expr="running / (running + running_now)"),
        "mixed": Signal(title="", unit="ratio", expr="max(running, swapped)"),
        "drafts": Signal(title="", unit="drafts/s", rate="spec_drafts"),
        "uptime": Signal(title="", unit="s", since="process_start_time"),
        "there": Signal(title="", unit="ratio", present="num_requests_running"),
        "up": Signal(title="", unit="ratio", window="2m", min="up"),
        "estimated": Signal(title="", unit="flops/s", rate="estimated_flops"),
    }
)


def readings(
    found: Sequence[Series],
    *,
    end: float = 600,
    steps: int = 1,
    window: float | None = None,
    matchers: Mapping[str, str] | None = None,
) -> Readings:
    grid = Grid(end, steps, 30)
    shipped = replace(catalogue(), signals=SIGNALS)
    reader = SampleReader(SampleStore(found), shipped.metrics, grid, matchers=matchers)
    return read(shipped, reader, grid, SOURCE, window=window)


def one(
    found: Sequence[Series], signal: str, *, end: float = 600, window: float | None = None
) -> tuple[float, State, float]:
    """Value (to nine digits), state and window of a signal of the only target at the end."""
    made = readings(found, end=end, window=window)
    assert 1 == len(made.targets)
    got = made.signals[signal]
    return round(float(got.values[0, -1]), 9), State(got.states[0, -1]), float(got.window[0, -1])


def state(found: Sequence[Series], signal: str, *, end: float = 600) -> State:
    value, made, _ = one(found, signal, end=end)
    assert math.isnan(value) == (made >= State.ABSENT)
    return made


ALIVE = series(RUNNING, [4] * 41)
WAITING = "vllm:num_requests_waiting_by_reason"


# --- states ------------------------------------------------------------------------------------------


def test_ok() -> None:
    """A measured value with its whole window."""
    assert (4.0, State.OK, 300.0) == one([ALIVE], "running")


def test_absent() -> None:
    """A family that the release may have and the target never showed is absent."""
    assert State.ABSENT == state([ALIVE], "preemptions")
    assert State.ABSENT == state([ALIVE], "ttft_p50")
    assert State.ABSENT == state([ALIVE], "up")


def test_one_sample_of_a_counter_is_absent() -> None:
    """A rate of a fresh target needs a second sample."""
    assert State.ABSENT == state([ALIVE, series("vllm:num_preemptions_total", [5], start=600)], "preemptions")


def test_not_applicable() -> None:
    """What no release of the range has, or what needs a feature, is not applicable: it never leaves as a word."""
    newest = [series(WAITING, [4] * 41, reason="capacity")]
    for signal, found in (("swapped", [ALIVE, *newest]), ("drafts", [ALIVE]), ("uptime", [ALIVE])):
        assert State.NOT_APPLICABLE == state(found, signal)
    assert "absent" == State.NOT_APPLICABLE.word


def test_idle() -> None:
    """No traffic in the window gives NaN, which is idle and not absent."""
    found = [ALIVE, *histogram(TTFT, {1.0: 0, math.inf: 0}, 0, 600)]
    for signal in ("ttft_p50", "ttft_mean", "tail"):
        assert State.IDLE == state(found, signal)
    assert (0.0, State.OK) == one([ALIVE, series("vllm:num_preemptions_total", [7] * 41)], "preemptions")[:2]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -5.0])
def test_a_gauge_that_cannot_be_says_nothing(value: float) -> None:
    """It is absent and not idle: there is traffic or not, the gauge does not tell."""
    assert State.ABSENT == state([series(RUNNING, [4, *[value] * 40])], "running")


@pytest.mark.parametrize(("value", "expected"), [(0.95, State.OK), (1.001, State.OK), (95.0, State.ABSENT)])
def test_a_share_is_no_percentage(value: float, expected: State) -> None:
    """Where an exporter writes percent, 95 is not taken for 95 times the whole."""
    assert expected == state([ALIVE, series("up", [value] * 41, SERVER)], "up")


def test_rounding_in_the_sum_makes_no_mean() -> None:
    """A rest of 1e-17 in the sum over no observations is idle, not infinite."""
    found = [ALIVE, *histogram(TTFT, {1.0: 0, math.inf: 0}, 1e-17, 600)]
    assert State.IDLE == state(found, "ttft_mean")


def test_preemptions_without_a_finished_request_are_without_bound() -> None:
    """A count over nothing is compared as Prometheus compares it: larger than every threshold."""
    found = [
        ALIVE,
        steady("vllm:num_preemptions_total", 1, 600),
        series("vllm:request_success_total", [7] * 41, finished_reason="stop"),
    ]

    assert State.OK == state(found, "per_request")


@pytest.mark.parametrize(
    ("end", "expected"), [(600, State.OK), (899, State.OK), (901, State.STALE), (4000, State.STALE)]
)
def test_stale(end: float, expected: State) -> None:
    """Beyond five minutes without a sample a target is stale; before, what is left in the window is the value."""
    assert expected == state([ALIVE], "running", end=end)
    assert expected == state([ALIVE], "running_now", end=end)


def test_a_family_that_ended_alone_is_absent() -> None:
    """A fresh target that lost one series lacks that series; it is not stale."""
    assert State.ABSENT == state([ALIVE, steady("vllm:num_preemptions_total", 1, 60)], "preemptions")


def test_stale_targets_lack_by_design_what_they_never_had() -> None:
    """Staleness does not make a signal applicable."""
    assert State.NOT_APPLICABLE == state([ALIVE], "drafts", end=2000)


@pytest.mark.parametrize(
    ("observations", "value", "expected"),
    [
        ({0.3: 4.0, 0.5: 4.0, 10.0: 4.0, math.inf: 4.0}, 0.15, State.INTERPOLATED),
        ({0.3: 2.0, 0.5: 4.0, 10.0: 4.0, math.inf: 4.0}, 0.3, State.INTERPOLATED),
        ({0.3: 1.0, 0.5: 3.0, 10.0: 4.0, math.inf: 4.0}, 0.4, State.OK),
        ({0.3: 0.0, 0.5: 0.0, 10.0: 4.0, math.inf: 4.0}, 5.25, State.OK),
        ({0.3: 0.0, 0.5: 0.0, 10.0: 1.0, math.inf: 4.0}, 10.0, State.LOWER_BOUND),
        ({0.3: 0.0, 0.5: 0.0, 10.0: 0.0, math.inf: 4.0}, 10.0, State.LOWER_BOUND),
    ],
)
def test_quantiles_at_the_bounds(observations: dict[float, float], value: float, expected: State) -> None:
    """Up to the first bound a quantile is interpolated, at the last finite one it is a lower bound."""
    got = one([ALIVE, *histogram(TTFT, observations, 1, 600)], "ttft_p50")

    assert (value, expected) == got[:2]


def test_means_are_measurements() -> None:
    """A mean has no bounds."""
    assert (25.0, State.OK) == one([ALIVE, *histogram(TTFT, {0.3: 0.0, math.inf: 4.0}, 100, 600)], "ttft_mean")[:2]


def test_expressions_take_the_worst_state() -> None:
    """A lower bound stays one, interpolation does not matter, what lacks a part has no number."""
    low = histogram(TTFT, {0.3: 4.0, 0.5: 4.0, math.inf: 4.0}, 1, 600)
    high = histogram(TTFT, {0.3: 3.0, 0.5: 3.0, math.inf: 4.0}, 1, 600)

    assert (1.98, State.OK) == one([ALIVE, *low], "tail")[:2]
    assert State.LOWER_BOUND == state([ALIVE, *high], "tail")
    assert State.ABSENT == state([ALIVE], "tail")
    assert State.NOT_APPLICABLE == state([ALIVE, series(WAITING, [4] * 41, reason="capacity")], "mixed")
    assert State.IDLE == state([series(RUNNING, [0] * 41)], "share")
    assert State.STALE == state([ALIVE], "share", end=1000)


# --- where else a value comes from ---------------------------------------------------------------------


def test_fallback() -> None:
    """Another signal is read where the family does not exist, with its state and window, and not where it is stale."""
    there = series(WAITING, [2] * 41, reason="capacity")

    assert (2.0, State.OK, 300.0) == one([ALIVE, there], "by_reason")
    assert (4.0, State.OK, 300.0) == one([ALIVE], "by_reason")
    assert State.STALE == state([ALIVE, there], "by_reason", end=1000)


def test_fallback_is_per_target() -> None:
    """In a rolling upgrade each target uses what it has."""
    found = [ALIVE, series(WAITING, [2] * 41, reason="capacity"), series(RUNNING, [7] * 41, instance="b:1")]
    made = readings(found)

    assert {"a:8000": 2.0, "b:1": 7.0} == {
        target.get("instance"): made.signals["by_reason"].values[row, 0] for row, target in enumerate(made.targets)
    }


def test_older_gauge() -> None:
    """V0's hit rate is read where the counters do not exist; -1 there means that caching is off."""
    queries, hits = steady("vllm:prefix_cache_queries_total", 4, 600), steady("vllm:prefix_cache_hits_total", 1, 600)
    v0 = {**ENGINE, "engine": ""}
    old = series(RUNNING, [4] * 41, v0)

    assert pytest.approx(0.25) == one([ALIVE, queries, hits], "hit_rate")[0]
    assert (0.7, State.OK) == one([old, series("vllm:gpu_prefix_cache_hit_rate", [0.7] * 41, v0)], "hit_rate")[:2]
    assert State.NOT_APPLICABLE == state([old, series("vllm:gpu_prefix_cache_hit_rate", [-1] * 41, v0)], "hit_rate")
    assert (
        pytest.approx(0.25)
        == one([ALIVE, queries, hits, series("vllm:gpu_prefix_cache_hit_rate", [0.7] * 41)], "hit_rate")[0]
    )


def test_sparse_label_values() -> None:
    """A reason that never occurred is 0."""
    found = [ALIVE, steady("vllm:request_success_total", 2, 600, finished_reason="stop")]

    assert (2.0, State.OK) == one(found, "finished_stop")[:2]
    assert (0.0, State.OK) == one(found, "finished_error")[:2]
    assert State.ABSENT == state([ALIVE], "finished_error")


def test_label_values_that_a_release_does_not_count() -> None:
    """Errors are counted from 0.13.0 on: before it nothing was counted, and 0 would look like a measurement."""
    stopped = steady("vllm:request_success_total", 2, 600, finished_reason="stop")
    failed = steady("vllm:request_success_total", 1, 600, finished_reason="error")
    old = series("vllm:gpu_cache_usage_perc", [0.5] * 41)  # gone with 0.12.0

    assert (2.0, State.OK) == one([ALIVE, old, stopped], "finished_stop")[:2]
    assert State.NOT_APPLICABLE == state([ALIVE, old, stopped], "finished_error")
    assert State.NOT_APPLICABLE == state([ALIVE, old], "finished_error")
    assert State.NOT_APPLICABLE == state([ALIVE, old, stopped], "finished_error", end=1000)
    # A build that counts them is believed, at the steps at which it does.
    assert (1.0, State.OK) == one([ALIVE, old, stopped, failed], "finished_error")[:2]


def test_label_values_of_a_rolling_upgrade() -> None:
    """Each engine by its own release, and one whose release is not known counts whatever there is."""
    other = {**ENGINE, "instance": "b:1"}
    found = [ALIVE, series("vllm:gpu_cache_usage_perc", [0.5] * 41)]
    found += [series(RUNNING, [7] * 41, other), series("vllm:kv_cache_usage_perc", [0.5] * 41, other)]
    for labels in (ENGINE, other):
        found.append(steady("vllm:request_success_total", 2, 600, labels, finished_reason="stop"))
    made = readings(found)
    states = {
        target.get("instance"): made.signals["finished_error"].states[row, 0] for row, target in enumerate(made.targets)
    }
    assert {"a:8000": State.NOT_APPLICABLE, "b:1": State.OK} == states


def test_server_wide_signals() -> None:
    """They are joined on job and instance, for each engine of the server; other clusters do not count."""
    found = [
        series(RUNNING, [1] * 41, engine="0", cluster="east"),
        series(RUNNING, [1] * 41, engine="1", cluster="east"),
        series(RUNNING, [1] * 41, engine="0", cluster="west"),
        series("process_start_time_seconds", [100] * 41, SERVER, cluster="east"),
        series("process_start_time_seconds", [250] * 41, SERVER, cluster="west"),
        series("up", [1] * 40 + [0], SERVER, cluster="east"),
    ]
    made = readings(found)
    rows = {(target.get("cluster"), target.get("engine")): row for row, target in enumerate(made.targets)}

    assert {("east", "0"): 500.0, ("east", "1"): 500.0, ("west", "0"): 350.0} == {
        key: made.signals["uptime"].values[row, 0] for key, row in rows.items()
    }
    assert 0.0 == made.signals["up"].values[rows["east", "0"], 0]
    assert State.ABSENT == made.signals["up"].states[rows["west", "0"], 0]


def test_another_server_at_the_same_address() -> None:
    """It does not stand in for one that is gone: that would be up, and show no metrics."""
    found = [
        series(RUNNING, [1] * 10, namespace="prod"),
        series("up", [1] * 10, SERVER, namespace="prod"),
        series(RUNNING, [1] * 41, model_name="other"),
        series("up", [1] * 41, SERVER),
    ]
    made = readings(found)
    row = [target.get("namespace") for target in made.targets].index("prod")
    assert State.STALE == made.signals["up"].states[row, -1]


def test_up_without_series() -> None:
    """A server without vLLM series is a target: ``up`` is known, everything else is absent, and no series are there."""
    made = readings([series("up", [1] * 41, SERVER)], matchers=SERVER)

    assert [1.0] == [float(made.signals["up"].values[0, -1])]
    assert [0.0] == [float(made.signals["there"].values[0, -1])]
    assert [State.ABSENT] == [State(made.signals["running"].states[0, -1])]
    assert (None,) == made.versions
    assert (1.0, State.OK) == one([ALIVE], "there")[:2]
    assert (0.0, State.OK) == one([ALIVE], "there", end=1000)[:2]


def test_a_new_name_at_the_same_address_replaces_the_engine() -> None:
    """A server started again with another model name shows series: those of the old engine are not missing."""
    before = series(RUNNING, [1] * 20 + [math.nan], model_name="old")
    after = series(RUNNING, [math.nan] * 21 + [1] * 20, model_name="new")
    elsewhere = series(RUNNING, [1] * 20 + [math.nan], model_name="old", instance="b:8000")
    made = readings([before, after, elsewhere, series("up", [1] * 41, SERVER)], end=800)
    rows = {(target.get("model_name"), target.get("instance")): row for row, target in enumerate(made.targets)}
    there = made.signals["there"]
    found = {key: (float(there.values[row, 0]), State(there.states[row, 0])) for key, row in rows.items()}

    assert (1.0, State.OK) == found["new", SERVER["instance"]]
    assert State.STALE == found["old", SERVER["instance"]][1]
    assert (0.0, State.OK) == found["old", "b:8000"]


# --- windows -----------------------------------------------------------------------------------------


def test_young_targets_have_a_shorter_window() -> None:
    """The effective window is the age of the target, and a rate is per second of that age."""
    young = [
        series(RUNNING, [4] * 9, start=480),
        series("vllm:num_preemptions_total", [100 + 15 * index for index in range(9)], start=480),
    ]
    value, made, window = one(young, "preemptions")

    assert (State.OK, 120.0) == (made, window)
    assert 60 == pytest.approx(value, rel=0.07)  # Prometheus extrapolates by half an interval
    assert 120 == pytest.approx(one(young, "preempted")[0], rel=0.07)
    assert (4.0, State.OK, 120.0) == one(young, "running")


def test_a_target_of_this_very_moment() -> None:
    """A first sample has a value and a window of zero."""
    assert (4.0, State.OK, 0.0) == one([series(RUNNING, [4], start=600)], "running")


def test_instant_values_have_no_window() -> None:
    """What is read at one moment says so."""
    assert (4.0, State.OK, 0.0) == one([ALIVE], "running_now")


def test_a_given_window_replaces_the_signals() -> None:
    """``--window`` holds for gauges, rates and counts."""
    found = [series(RUNNING, [9] * 37 + [1] * 4), steady("vllm:num_preemptions_total", 2, 600)]

    assert (1.0, State.OK, 45.0) == one(found, "running", window=45)
    assert (120.0, State.OK, 60.0) == one(found, "preemptions", window=60)
    assert pytest.approx(120) == one(found, "preempted", window=60)[0]
    assert pytest.approx(600) == one(found, "preempted")[0]


def test_expressions_have_the_longest_window() -> None:
    """The window of an expression is that of its slowest part."""
    assert 300.0 == one([ALIVE], "share")[2]


# --- the whole -----------------------------------------------------------------------------------------


def test_shapes() -> None:
    """Everything is ``[targets, steps]``; a history of states is kept."""
    made = readings([ALIVE, series(RUNNING, [4] * 4, instance="b:1", start=555)], steps=5)

    assert {(2, 5)} == {array.shape for one in made.signals.values() for array in (one.values, one.states, one.window)}
    assert set(SIGNALS) == set(made.signals)
    assert [600.0, 45.0] == list(made.covered)
    young = made.signals["running"]
    assert [State.ABSENT] * 3 == [State(code) if code != State.STALE else State.ABSENT for code in young.states[1, :3]]
    assert [0, 0, 0, 15, 45] == list(young.window[1])


def test_no_targets() -> None:
    """An empty source gives empty readings, not an error."""
    made = readings([], steps=3)

    assert ((), (), ()) == (made.targets, made.versions, made.facts)
    assert {(0, 3)} == {one.values.shape for one in made.signals.values()}


def test_versions_and_configuration() -> None:
    """Each target has its range of releases and the labels of its configuration."""
    made = readings([ALIVE, series("vllm:cache_config_info", [1] * 41, SERVER, block_size="16")])

    assert made.versions[0] is not None
    assert "v1" in made.versions[0].engines
    assert "16" == made.info[0]["block_size"]


def test_every_shipped_signal_is_read() -> None:
    """All signals of the shipped catalogue give arrays without an error, and NaN exactly where there is no number."""
    shipped = catalogue()
    grid = Grid(600, 3, 30)
    found = [ALIVE, *histogram(TTFT, {0.3: 1, 0.5: 2, math.inf: 4}, 1, 600), series("up", [1] * 41, SERVER)]
    made = read(shipped, SampleReader(SampleStore(found), shipped.metrics, grid), grid, SOURCE)

    assert set(shipped.signals) == set(made.signals)
    for name, got in made.signals.items():
        assert np.array_equal(np.isnan(got.values), got.states >= State.ABSENT), name
