"""The sample reader: how series become one value per target, and which targets there are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tests.sample_stores import ENGINE, SERVER, catalogue, histogram, series, steady

from palanca.model import Target
from palanca.signals.leaves import MISSING, Discovery, Grid, Leaf
from palanca.signals.samples import SampleReader, larger, le_of, plus, prefer
from palanca.signals.store import SampleStore, Series

METRICS = catalogue().metrics
END = 600.0
RUNNING = "vllm:num_requests_running"
Where = tuple[tuple[str, str], ...]


def reader(found: Sequence[Series], matchers: Mapping[str, str] | None = None, *, end: float = END) -> SampleReader:
    return SampleReader(SampleStore(found), METRICS, Grid(end, 1, 30), matchers=matchers)


def values(
    leaf: Leaf, *found: Series, end: float = END, matchers: Mapping[str, str] | None = None
) -> dict[Target, float]:
    """Value of each target that has one at the end."""
    got = reader(found, matchers, end=end).leaf(leaf)
    return {target: float(one[-1]) for target, one in got.items() if one[-1] != MISSING}


def only(leaf: Leaf, *found: Series, end: float = END) -> float:
    """The value of the one target that there is."""
    (value,) = values(leaf, *found, end=end).values()
    return value


def discovered(*found: Series, end: float = END, matchers: Mapping[str, str] | None = None) -> Discovery:
    return reader(found, matchers, end=end).discover()


AVG = Leaf("avg", "num_requests_running", 300)
NOW = Leaf("now", "num_requests_running", 300)
RATE = Leaf("rate", "preemptions", 300)
PREEMPTIONS = "vllm:num_preemptions_total"
SUCCESS = "vllm:request_success_total"


def reason(name: str) -> Leaf:
    return Leaf("rate", "request_success", 300, where=(("finished_reason", name),))


# --- aggregation -----------------------------------------------------------------------------------


def test_counters_add_up_over_processes() -> None:
    """Several API servers (pid) count parts of one whole."""
    found = [steady(PREEMPTIONS, rate, END, pid=pid) for pid, rate in (("7", 2), ("8", 3))]

    assert pytest.approx(5) == only(RATE, *found)


def test_gauges_take_the_largest_process() -> None:
    """Each API server shows what it last saw of the same engine."""
    assert 9.0 == only(AVG, series(RUNNING, [4] * 41, pid="7"), series(RUNNING, [9] * 41, pid="8"))


def test_own_labels_add_up() -> None:
    """Without a selection the label values of the family are one sum."""
    found = [
        steady(SUCCESS, rate, END, finished_reason=name) for name, rate in (("stop", 2), ("length", 1), ("abort", 0.5))
    ]

    assert pytest.approx(3.5) == only(Leaf("rate", "request_success", 300), *found)
    assert 5.0 == only(
        Leaf("now", "num_requests_waiting_by_reason", 300),
        *(
            series("vllm:num_requests_waiting_by_reason", [value] * 41, reason=name)
            for name, value in (("capacity", 3), ("deferred", 2))
        ),
    )


def test_label_values_that_come_later_add_up() -> None:
    """A label value whose series begins later, or was scraped at other times, counts all the same."""
    found = [
        steady(SUCCESS, 2, END, finished_reason="stop"),
        steady(SUCCESS, 1, 300, start=300, finished_reason="length"),
        series(SUCCESS, [0.5 * 15 * index for index in range(40)], start=7, finished_reason="abort"),
    ]

    assert pytest.approx(3.5, rel=0.01) == only(Leaf("rate", "request_success", 300), *found)


@pytest.mark.parametrize("label", ["prometheus_replica", "replica"])
def test_copies_are_not_added(label: str) -> None:
    """Of redundant Prometheus servers the larger value counts, for counters and gauges."""
    counters = [steady(PREEMPTIONS, rate, END, {**ENGINE, label: copy}) for copy, rate in (("a", 2), ("b", 3))]
    gauges = [series(RUNNING, [value] * 41, {**ENGINE, label: copy}) for copy, value in (("a", 8), ("b", 5))]

    assert pytest.approx(3) == only(RATE, *counters)
    assert 8.0 == only(AVG, *gauges)


def test_processes_add_up_inside_each_copy() -> None:
    """Two copies of two processes are twice the same sum."""
    found = [
        steady(PREEMPTIONS, rate, END, pid=pid, replica=copy) for copy in "ab" for pid, rate in (("7", 2), ("8", 3))
    ]

    assert pytest.approx(5) == only(RATE, *found)


def test_a_copy_with_a_gap_does_not_hide_the_other() -> None:
    """Where one copy has no sample, the other counts."""
    found = [series(RUNNING, [4] * 4, replica="a"), series(RUNNING, [3] * 41, replica="b")]

    assert 3.0 == only(NOW, *found)


def test_engines_are_kept_apart() -> None:
    """Each engine, and each Ray replica, is a target of its own."""
    found = [
        series(RUNNING, [1] * 41, engine="0"),
        series(RUNNING, [2] * 41, engine="1"),
        series("ray_vllm_num_requests_running", [3] * 41, engine="", ReplicaId="r1"),
        series("ray_vllm_num_requests_running", [4] * 41, engine="", ReplicaId="r2"),
    ]

    assert [1.0, 2.0, 3.0, 4.0] == sorted(values(NOW, *found).values())


def test_the_new_name_is_preferred() -> None:
    """A server that shows both names of a family is counted once, by the new one; an old server by the old one."""
    leaf = Leaf("now", "kv_cache_usage", 300)
    new, old = (
        series(f"vllm:{name}", [value] * 41)
        for name, value in (("kv_cache_usage_perc", 0.5), ("gpu_cache_usage_perc", 0.7))
    )

    assert 0.5 == only(leaf, old, new)
    assert 0.7 == only(leaf, old)
    assert 0.7 == only(leaf, old, series("vllm:kv_cache_usage_perc", [0.5] * 4))


def test_a_rolling_upgrade_mixes_names() -> None:
    """Each target is read by the name that it has."""
    found = [
        series("vllm:kv_cache_usage_perc", [0.5] * 41, instance="new:1"),
        series("vllm:gpu_cache_usage_perc", [0.7] * 41, instance="old:1"),
    ]

    got = values(Leaf("now", "kv_cache_usage", 300), *found)
    assert {"new:1": 0.5, "old:1": 0.7} == {target.get("instance"): value for target, value in got.items()}


def test_two_prefixes_of_one_target_are_not_added() -> None:
    """The same series under two live prefixes is one measurement."""
    assert pytest.approx(2) == only(RATE, steady(PREEMPTIONS, 2, END), steady("vllm_num_preemptions_total", 2, END))


@pytest.mark.parametrize("prefix", ["vllm:", "ray_vllm_", "kserve_vllm:", "vllm_"])
def test_every_prefix_is_read(prefix: str) -> None:
    """All live prefixes mean the same."""
    found = series(f"{prefix}num_requests_running", [1] * 41)

    assert 1.0 == only(NOW, found)
    assert frozenset({prefix}) == discovered(found).prefixes


# --- label values ------------------------------------------------------------------------------------


def test_absent_label_values_of_sparse_families_are_zero() -> None:
    """A reason that was never counted is 0 where others are, not unknown."""
    found = steady(SUCCESS, 2, END, finished_reason="stop")

    assert pytest.approx(2) == only(reason("stop"), found)
    assert 0.0 == only(reason("error"), found)
    assert {} == values(reason("error"), series(RUNNING, [1] * 41))
    assert {} == values(reason("error"), found, end=END + 900)


def test_absent_label_values_of_other_families_are_missing() -> None:
    """Where a series of each value exists from the start, its absence says nothing."""
    found = series("vllm:num_requests_waiting_by_reason", [1] * 41, reason="capacity")

    assert {} == values(Leaf("now", "num_requests_waiting_by_reason", 300, where=(("reason", "deferred"),)), found)


@pytest.mark.parametrize("value", ["a|b.*", '"quoted"', "back\\slash", "line\nbreak", "é中", "{x}", "$1", " "])
def test_matchers_are_equalities(value: str) -> None:
    """A matcher takes its value literally, whatever is in it."""
    found = [
        series(RUNNING, [1] * 41, model_name=value),
        series(RUNNING, [2] * 41, model_name="b"),
        series(RUNNING, [3] * 41, model_name=""),
    ]

    assert [1.0] == list(values(NOW, *found, matchers={"model_name": value}).values())
    assert [3.0] == list(values(NOW, *found, matchers={"model_name": ""}).values())
    assert {} == values(NOW, *found, matchers={"model_name": value + "x"})
    assert {} == values(NOW, *found, matchers={"no_such_label": value})


def test_v0_counters_of_the_same_name_are_left_out() -> None:
    """Accepted tokens without an engine label are V0's wrong counter."""
    leaf = Leaf("rate", "spec_accepted_tokens", 300)
    name = "vllm:spec_decode_num_accepted_tokens_total"

    assert {} == values(leaf, steady(name, 2, END, engine=""))
    assert pytest.approx(2) == only(leaf, steady(name, 2, END))


# --- histograms --------------------------------------------------------------------------------------

TTFT = "vllm:time_to_first_token_seconds"
P50 = Leaf("quantile", "time_to_first_token", 300, quantile=0.5)


def test_quantile_and_parts() -> None:
    """Buckets give the quantile, sum and count the mean."""
    found = histogram(TTFT, {0.5: 0, 1.0: 4, math.inf: 4}, 3, END)

    assert pytest.approx(0.75) == only(P50, *found)
    assert pytest.approx(3) == only(Leaf("rate", "time_to_first_token", 300, "sum"), *found)
    assert pytest.approx(4) == only(Leaf("rate", "time_to_first_token", 300, "count"), *found)


def test_spellings_of_a_bound_are_one_bucket() -> None:
    """``le="10"`` and ``le="10.0"`` of two processes are the same bucket, as are +Inf and inf."""
    bounds = [("7", "10", 2), ("8", "10.0", 2), ("7", "20", 4), ("8", "2e1", 4), ("7", "+Inf", 4), ("8", "inf", 4)]
    found = [steady(f"{TTFT}_bucket", rate, END, le=le, pid=pid) for pid, le, rate in bounds]

    assert pytest.approx(10) == only(P50, *found)


def test_processes_share_a_histogram() -> None:
    """The quantile is that of all observations, not of one process."""
    found = [
        *histogram(TTFT, {1.0: 3, 2.0: 3, math.inf: 3}, 1, END, pid="7"),
        *histogram(TTFT, {1.0: 0, 2.0: 1, math.inf: 1}, 1, END, pid="8"),
    ]

    assert pytest.approx(2 / 3) == only(P50, *found)


def test_an_idle_histogram_is_nan() -> None:
    """No observation in the window is NaN, not a missing sample."""
    assert math.isnan(only(P50, *histogram(TTFT, {1.0: 0, math.inf: 0}, 0, END)))


def test_a_histogram_without_infinity_is_nan() -> None:
    """Without the last bucket there is no quantile; a bound that is no number is left out."""
    assert math.isnan(only(P50, *histogram(TTFT, {1.0: 1, 2.0: 2}, 0, END)))
    assert pytest.approx(0.5) == only(
        P50, *histogram(TTFT, {1.0: 2, math.inf: 2}, 0, END), steady(f"{TTFT}_bucket", 9, END, le="wide")
    )
    assert {} == values(P50, steady(f"{TTFT}_bucket", 9, END, le="wide"))


@pytest.mark.parametrize(
    ("text", "bound"),
    [("10", 10), ("1e3", 1000), ("+Inf", math.inf), ("x", math.nan), ("", math.nan), (None, math.nan)],
)
def test_le_of(text: str | None, bound: float) -> None:
    """The bound is read as a number; anything else is NaN."""
    np.testing.assert_equal(le_of({} if text is None else {"le": text}), bound)


# --- discovery ---------------------------------------------------------------------------------------

UP = "up"


def targets(found: Discovery) -> list[dict[str, str]]:
    return [target.as_dict() for target in found.targets]


def test_targets_are_engines_with_their_servers() -> None:
    """Server-wide names belong to every engine of the server and make no target of their own."""
    found = discovered(
        series(RUNNING, [1] * 41, engine="0"),
        series(RUNNING, [1] * 41, engine="1"),
        series(UP, [1] * 41, SERVER),
        series("process_start_time_seconds", [5] * 41, SERVER),
    )

    assert [{**ENGINE, "engine": number} for number in "01"] == targets(found)
    for target in found.targets:
        assert {"num_requests_running", "up", "process_start_time_seconds"} == found.names[target]


def test_up_without_series_becomes_a_target_when_asked_for() -> None:
    """A server that is scraped but shows no vLLM series is a target where it was asked for, and only there."""
    found = (
        series(RUNNING, [1] * 41),
        series(UP, [1] * 41, SERVER),
        series(UP, [1] * 41, SERVER, instance="b:8000"),
        series("process_start_time_seconds", [5] * 41, SERVER, instance="c:8000"),
    )

    assert [ENGINE, {**SERVER, "instance": "b:8000"}] == targets(discovered(*found, matchers={"job": SERVER["job"]}))
    assert [ENGINE] == targets(discovered(*found))


def test_up_is_no_target_where_matchers_ask_for_more() -> None:
    """A server without the model that was asked for is not reported as one without metrics."""
    found = (
        series(RUNNING, [1] * 41),
        series(UP, [1] * 41, SERVER),
        series(RUNNING, [1] * 41, instance="b:8000", model_name="other"),
        series(UP, [1] * 41, SERVER, instance="b:8000"),
    )

    assert [ENGINE] == targets(discovered(*found, matchers={"model_name": "m"}))
    assert [{**ENGINE, "instance": "b:8000", "model_name": "other"}] == targets(
        discovered(*found, matchers={"instance": "b:8000"})
    )
    assert [{**SERVER, "instance": "c:1"}] == targets(
        discovered(*found, series(UP, [0] * 41, SERVER, instance="c:1"), matchers={"instance": "c:1"})
    )


def test_only_the_last_hour_counts() -> None:
    """Series that ended more than an hour ago, or that begin later, make no target."""
    old, new = series(RUNNING, [1] * 4, instance="old:1"), series(RUNNING, [1] * 4, instance="new:1", start=9000)
    at_the_edge = series(RUNNING, [1], instance="edge:1", start=1400)

    assert ["edge:1"] == [one["instance"] for one in targets(discovered(old, new, at_the_edge, end=5000))]
    assert [] == targets(discovered(old, end=5000))


def test_two_clusters_with_equal_job_and_instance() -> None:
    """The ``up`` of another cluster does not count for a target."""
    found = discovered(
        series(RUNNING, [1] * 41, cluster="east"),
        series(RUNNING, [1] * 41, cluster="west"),
        series(UP, [1] * 41, SERVER, cluster="east"),
    )

    assert {"east": True, "west": False} == {
        target.get("cluster"): "up" in found.names[target] for target in found.targets
    }


def test_bounds_are_first_and_last_finite() -> None:
    """The bounds of a histogram are known per target and family."""
    found = discovered(*histogram(TTFT, {0.5: 1, 0.001: 1, 10.0: 2, math.inf: 2}, 1, END))

    assert {Target.of(ENGINE): {"time_to_first_token": (0.001, 10.0)}} == found.bounds


def test_heartbeat_is_all_samples_up_to_the_end() -> None:
    """The times of the core gauge tell the age of a target and whether it is fresh."""
    found = discovered(series(RUNNING, [1] * 50), series(RUNNING, [1] * 3, start=1, pid="8"))

    beats = found.heartbeat[Target.of(ENGINE)]
    assert [0, 1, 15, 16, 30, 31, 45] == list(beats[:7])
    assert END == beats[-1]


def test_configuration_is_the_newest() -> None:
    """After a restart with other flags the labels of the new series count."""
    name = "vllm:cache_config_info"
    found = discovered(
        series(RUNNING, [1] * 41),
        series(name, [1] * 10, SERVER, block_size="16"),
        series(name, [1] * 10, SERVER, start=300, block_size="32"),
    )

    assert "32" == found.info[Target.of(ENGINE)]["block_size"]


def test_nothing_at_all() -> None:
    """An empty store has no targets and no values."""
    found = discovered()

    assert ((), {}, {}) == (found.targets, found.heartbeat, found.info)
    assert {} == values(AVG)
    assert {} == values(P50)


def test_label_values_tell_what_could_have_matched() -> None:
    """All labels of all targets, whatever the matchers."""
    found = [series(RUNNING, [1] * 41, engine="0"), series(RUNNING, [1] * 41, engine="1", model_name="n")]

    assert {"engine": ["0", "1"], "instance": ["a:8000"], "job": ["vllm"], "model_name": ["m", "n"]} == reader(
        found, {"model_name": "x"}
    ).label_values()


def test_buckets_that_are_gone_are_left_out() -> None:
    """After a change of the bounds the quantile is that of the buckets with samples in the window."""
    old = [steady(f"{TTFT}_bucket", rate, 60, le=le) for le, rate in (("0.1", 9), ("0.7", 9))]
    new = [steady(f"{TTFT}_bucket", rate, END, le=le) for le, rate in (("0.5", 0), ("1.0", 4), ("+Inf", 4))]

    assert pytest.approx(0.75) == only(P50, *old, *new)
    assert {} == values(P50, *old)


# --- the parts -----------------------------------------------------------------------------------------


def test_joining_series() -> None:
    """A missing side is left out; NaN stays in sums and where it is preferred, and loses to a number."""
    a = np.asarray([1.0, MISSING, 3.0, MISSING, math.nan])
    b = np.asarray([10.0, 20.0, MISSING, MISSING, 5.0])
    one = Target.of({"a": "b"})

    np.testing.assert_equal(plus(a, b), [11, 20, 3, MISSING, math.nan])
    np.testing.assert_equal(larger(a, b), [10, 20, 3, MISSING, 5])
    np.testing.assert_equal(prefer([{one: a}, {one: b}])[one], [1, 20, 3, MISSING, math.nan])
    np.testing.assert_equal(a, [1, MISSING, 3, MISSING, math.nan])


def test_the_store_groups_by_times() -> None:
    """Series of one scrape target are one block; the span is that of all."""
    store = SampleStore(
        [series("x", [1, 2]), series("x", [3, 4], engine="1"), series("x", [5], start=100), series("y", [1])]
    )

    assert {"x", "y"} == store.names
    assert [2, 1] == [len(block.labels) for block in store.blocks("x")]
    assert not store.blocks("z")
    assert (0.0, 100.0) == store.span()
    with pytest.raises(ValueError, match="empty"):
        SampleStore([]).span()


def test_the_grid_ends_at_its_end() -> None:
    """Steps are evenly spaced, in whole milliseconds, the last one at the end."""
    np.testing.assert_array_equal(Grid(100.0004, 3, 30).times, [40.0, 70.0, 100.0])


def test_an_offset_reads_what_was_before() -> None:
    """The window is shifted back as a whole."""
    rising = series(RUNNING, [float(index) for index in range(41)])
    end, back = 600.0, 150.0
    shifted = Leaf("avg", "num_requests_running", 60, offset=back)

    assert only(Leaf("avg", "num_requests_running", 60), rising, end=end - back) == only(shifted, rising, end=end)
    assert only(NOW, rising, end=end - back) == only(Leaf("now", "num_requests_running", 60, offset=back), rising)


def test_samples_are_counted() -> None:
    """A closed window of two minutes holds nine samples at 15 s."""
    assert 9.0 == only(Leaf("count", "num_requests_running", 120), series(RUNNING, [1.0] * 41))
