"""What real changes did: the pairs of recordings made on a GPU, and recordings against themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.engines import STEPS, finding, reports, rule, shipped, target
from tests.engines import readings as made_readings
from tests.recorded import AT, BUDGET, FP8, changed, read_recording, store

from palanca.batches import Difference
from palanca.changes import Change, find_change, plan, plan_of_two, warm_up
from palanca.comparison import Compared, comparable, judge_difference
from palanca.diagnosis import diagnose
from palanca.expectations import Verdict
from palanca.facts import add_facts
from palanca.model import Readings, SourceInfo
from palanca.signals.leaves import Grid
from palanca.signals.readings import read
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore, Series
from palanca.verify import EngineChange, Verification, recommending_rule, verify


def halves(name: str, rule_id: str | None, period: float, scrape: float) -> Verification:
    """Compare a recording with itself: the period before the last one with the last one."""
    return changed(name, name, rule_id, period, period, scrape)


def only(result: Verification) -> EngineChange:
    (engine,) = result.engines
    return engine


def signal(result: Verification, name: str) -> Compared:
    return next(one for one in only(result).signals if one.signal == name)


def moved(result: Verification, name: str) -> tuple[float, float]:
    made = signal(result, name).difference
    assert made is not None
    return made.before, made.after


def test_fp8_helped() -> None:
    """A full KV cache is cured by FP8: no preemptions, no queue, a quarter more tokens, at the same clients."""
    result = changed(*FP8)
    assert ("helped", "in_system") == (result.verdict, only(result).load.axis)
    assert [("preemptions_per_minute", "met"), ("waiting", "met")] == [
        (one.signal, one.came) for one in only(result).outcomes
    ]
    assert (96.25, 0.0) == pytest.approx(moved(result, "preemptions_per_minute"))
    assert (32.4, 0.0) == pytest.approx(moved(result, "waiting"), abs=0.1)
    assert 0.25 == pytest.approx(signal(result, "generation_tokens_per_second").relative, abs=0.01)
    assert ("cache_dtype", "auto", "fp8") in only(result).changed


def test_a_larger_budget_helped_at_a_price() -> None:
    """The queue goes, at the same arrivals, and the price is the inter-token latency."""
    result = changed(*BUDGET)
    assert ("helped", "arrivals") == (result.verdict, only(result).load.axis)
    assert [("waiting", "met"), ("itl_p99", "broken")] == [(one.signal, one.came) for one in only(result).outcomes]
    assert (4.25, 0.21) == pytest.approx(moved(result, "ttft_p50"), abs=0.1)
    assert (0.042, 0.216) == pytest.approx(moved(result, "itl_p99"), abs=0.001)
    assert {"itl_p99", "itl_mean", "tpot_mean"} <= set(only(result).prices)
    assert "ttft_tail" not in only(result).prices


def joined() -> SampleStore:
    """Both FP8 recordings as one source in which the same server was restarted."""
    parts: dict[tuple[str, tuple[tuple[str, str], ...]], list[Series]] = {}
    for recording in FP8[:2]:
        for name in store(recording).names:
            for block in store(recording).blocks(name):
                for labels, values in zip(block.labels, block.values, strict=True):
                    parts.setdefault((name, tuple(sorted(labels.items()))), []).append(
                        Series(name, labels, block.times, values)
                    )
    return SampleStore(
        Series(ones[0].name, ones[0].labels, np.concatenate([one.times for one in ones]),
               np.concatenate([one.values for one in ones]))
        for ones in parts.values()
    )  # fmt: skip


def test_a_restart_within_one_source() -> None:
    """The change is found by itself, and what lies around it says the same as two recordings."""
    both = joined()
    first, last = both.span()

    def reading(grid: Grid, window: float | None = None) -> Readings:
        reader = SampleReader(both, shipped().metrics, grid)
        return add_facts(read(shipped(), reader, grid, SourceInfo("a", "b"), window=window), shipped())

    change = find_change(reading(Grid(last, int((last - first) / 2), 2.0)))
    assert change is not None
    assert 1795984923.1 < change.first == change.last < 1795984991.2
    laid = plan(Change(AT[FP8[0]], change.last, change.how), first, AT[FP8[1]], 2.0, period=60.0, left_out=35.0)
    result = verify(
        shipped(), reading(laid.before, laid.window), reading(laid.after, laid.window),
        rule=shipped().rule(FP8[2]), left_out=35.0,
    )  # fmt: skip
    assert "helped" == result.verdict
    assert ("cache_dtype", "auto", "fp8") in only(result).changed


def test_without_a_rule_users_decide() -> None:
    """Latencies and throughput decide where no rule says what to expect."""
    result = changed(BUDGET[0], BUDGET[1], None)
    assert "helped" == result.verdict
    assert "better: TTFT p50, TTFT p99, request latency; worse: ITL p99" == result.why


def test_the_way_back_made_it_worse() -> None:
    """The same pairs in reverse are a change for the worse."""
    assert "made it worse" == changed(FP8[1], FP8[0], None).verdict
    assert "made it worse" == changed(BUDGET[1], BUDGET[0], None).verdict


@pytest.mark.parametrize(
    ("name", "rule_id", "period", "scrape"),
    [
        ("h200-A_kv_saturated", "kv-cache-saturated", 32.0, 2.0),
        ("h200-A2_kv_fp8", None, 32.0, 2.0),
        ("kv-saturated", "kv-cache-saturated", 130.0, 5.0),
        ("token-budget-bound", "token-budget", 130.0, 5.0),
        ("healthy", None, 130.0, 5.0),
    ],
)
def test_nothing_was_changed(name: str, rule_id: str | None, period: float, scrape: float) -> None:
    """A recording split in two shows no effect, and no price."""
    result = halves(name, rule_id, period, scrape)
    assert ("did nothing", ()) == (result.verdict, only(result).prices)


def test_a_queue_that_grew_anyway_proves_nothing() -> None:
    """What was already on its way before the change is not its effect."""
    result = halves("h200-C_budget512_open", "token-budget", 30.0, 2.0)
    assert "cannot tell" == result.verdict
    assert "it was already going that way before the change" == signal(result, "waiting").note


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("healthy", "kv-saturated", "the prompts after are 0.52 times as long as those before (558 to 292 tokens)"),
        ("h200-A_kv_saturated", "h200-C2_budget8192_open", "the prompts after are 1.6 times as long as those before"),
    ],
)
def test_different_loads(before: str, after: str, why: str) -> None:
    """Loads that differ prove nothing, for no signal."""
    result = changed(before, after, "kv-cache-saturated", 60.0, 0.0, 5.0)
    assert ("cannot tell", ()) == (result.verdict, only(result).prices)
    assert result.why.startswith(why[:40])
    assert {"cannot tell"} == {one.verdict for one in only(result).signals}


def test_three_times_the_load() -> None:
    """The reason says how many times the load is."""
    light = {
        "running": 4.0,
        "running_now": 4.0,
        "waiting": 0.0,
        "waiting_now": 0.0,
        "requests_per_second": 2.0,
        "ttft_p50": 0.1,
    }
    heavy = light | {"running": 13.0, "running_now": 13.0, "requests_per_second": 6.0, "ttft_p50": 0.5}
    result = verify(shipped(), made_readings(light), made_readings(heavy))
    assert ("cannot tell", "the load after is 3 times that before (requests arriving: 2 to 6 requests/s)") == (
        result.verdict,
        result.why,
    )


LOAD = {"running": 4.0, "running_now": 4.0, "waiting": 0.0, "waiting_now": 0.0, "requests_per_second": 2.0}


def noisy(mean: float, seed: int = 0) -> list[float]:
    return list(mean * (1 + 0.05 * np.random.default_rng(seed).standard_normal(STEPS)))


def test_the_warm_up_is_left_out() -> None:
    """Steps of a process that is younger than the warm-up do not count."""
    cold = LOAD | {"ttft_p50": [9.0] * 14 + noisy(0.1)[14:], "uptime": [15.0 * step for step in range(STEPS)]}
    result = verify(shipped(), made_readings(LOAD | {"ttft_p50": noisy(0.1, 1)}), made_readings(cold), left_out=200.0)
    assert ("did nothing", STEPS - 15) == (result.verdict, int(only(result).load.after.sum()))
    all_cold = verify(shipped(), made_readings(LOAD), made_readings(cold), left_out=warm_up(300.0) * 2)
    assert "every step after lies within 1200 s of the process start" == all_cold.why


def test_the_warm_up_is_left_out_before_too() -> None:
    """A cold start before the change is no gain of the change; where there is nothing else, it is said."""
    begun = [15.0 * step for step in range(STEPS)]
    cold = LOAD | {"ttft_p50": [9.0] * 14 + noisy(0.1)[14:], "uptime": begun}
    after = made_readings(LOAD | {"ttft_p50": noisy(0.1, 1), "uptime": 9000.0})
    result = verify(shipped(), made_readings(cold), after, left_out=200.0)
    assert ("did nothing", STEPS - 15) == (result.verdict, int(only(result).load.before.sum()))
    assert "hardly older" not in result.why

    slow = LOAD | {"ttft_p50": noisy(9.0), "uptime": begun}
    young = verify(shipped(), made_readings(slow), after, left_out=warm_up(300.0) * 2)
    assert "helped" == young.verdict
    assert young.why.endswith(
        "the process before was hardly older than 1200 s, which makes a change look better than it is"
    )


def test_new_engines_in_the_place_of_old_ones() -> None:
    """Without an engine on both sides the engines of a scope are compared by their means."""
    old = [target("0", instance=f"old-{index}") for index in range(2)]
    new = [target("0", instance=f"new-{index}") for index in range(3)]
    slow = [LOAD | {"ttft_p50": noisy(1.0, index)} for index in range(2)]
    fast = [LOAD | {"ttft_p50": noisy(0.5, index)} for index in range(3)]
    result = verify(shipped(), made_readings(*slow, targets=old), made_readings(*fast, targets=new))
    assert ("helped", (2, 3)) == (result.verdict, only(result).engines)
    assert {"job": "vllm", "model_name": "m"} == only(result).target.as_dict()


def test_engines_that_do_not_meet() -> None:
    """Nothing is compared where models differ."""
    result = verify(
        shipped(), made_readings(LOAD), made_readings(LOAD, targets=[target(model_name="other")])
    )  # fmt: skip
    assert ("cannot tell", "no engine is on both sides", ()) == (result.verdict, result.why, result.engines)


def difference(
    before: float, after: float, spread: float = 0.0, p: float = 0.001, batches: int = 6, trend: float = 0.0
) -> Difference:
    change = after - before
    return Difference(before, after, change - spread, change + spread, p, (batches, batches), trend)


@pytest.mark.parametrize(
    ("made", "better", "verdict"),
    [
        (difference(1.0, 0.5), "lower", "helped"),
        (difference(1.0, 1.5), "lower", "made it worse"),
        (difference(1.0, 1.5), "higher", "helped"),
        (difference(1.0, 0.5), "higher", "made it worse"),
        (difference(1.0, 0.99), "lower", "did nothing"),
        (difference(1.0, 0.96), "lower", "did nothing"),
        (difference(1.0, 0.95, p=0.5, spread=0.1), "lower", "did nothing"),
        (difference(1.0, 0.8, p=0.5, spread=0.4), "lower", "cannot tell"),
        (difference(1.0, 0.5, batches=4), "lower", "cannot tell"),
        (difference(0.0, 0.0, p=1.0), "lower", "did nothing"),
        (difference(0.0, 0.0005), "lower", "did nothing"),
        (difference(1.0, 1.5, trend=0.3), "lower", "cannot tell"),
        (difference(1.0, 1.5, trend=-0.3), "lower", "made it worse"),
    ],
)
def test_one_signal(made: Difference, better: str, verdict: Verdict) -> None:
    """A change counts when it is significant, large enough, and not on its way before; a small one did nothing."""
    assert verdict == judge_difference(made, "s", better)[0]  # type: ignore[arg-type]


def test_a_change_within_the_difference_in_load() -> None:
    """A tenth more load may bring a tenth more of everything."""
    assert "did nothing" == judge_difference(difference(1.0, 1.08), "s", "lower", 0.1)[0]
    apart = judge_difference(difference(1.0, 0.7), "s", "lower", 0.33)
    assert ("cannot tell", "it differs by less than the loads do") == apart
    assert "helped" == judge_difference(difference(1.0, 0.6), "s", "lower", 0.33)[0]


def test_numbers_below_the_first_bucket() -> None:
    """Interpolation in one bucket is no measurement, however equal it looks."""
    result = changed(*FP8)
    assert "below the first bucket of the histogram on both sides" == signal(result, "prefill_time_p99").note
    assert "within one bucket of the histogram on both sides" == signal(result, "tpot_p50").note


@pytest.mark.parametrize(
    ("name", "counts"),
    [("ttft_p50", True), ("waiting", True), ("queue_share", True), ("generation_tokens_per_second", True),
     ("restarts", False), ("uptime", False), ("up", False), ("waiting_now", False), ("itl_growth", False),
     ("running", False), ("vllm_series", False)],
)  # fmt: skip
def test_signals_that_are_compared(name: str, counts: bool) -> None:
    """What users and operators feel, not the process, which was restarted on purpose."""
    assert counts == comparable(shipped(), name)


def test_the_rule_behind_the_recommendation() -> None:
    """The first root finding with a recommendation is the one that was followed."""
    end = store("h200-A_kv_saturated").span()[1]
    laid = plan_of_two((end - 60, end), (end - 60, end), 2.0)
    made = read_recording("h200-A_kv_saturated", laid.before, 60.0)
    assert "kv-cache-saturated" == recommending_rule(diagnose(shipped(), made))
    assert "a-rule" == finding(reports(made_readings({"kv_cache_usage": 0.9}), rule())[0]).rule
    assert recommending_rule(diagnose(shipped(), made_readings({}, {}))) is None


def test_without_an_uptime_all_is_warm() -> None:
    """A source that does not say when a process began has no warm-up to leave out."""
    made = made_readings(LOAD)
    bare = replace(made, signals={name: one for name, one in made.signals.items() if name != "uptime"})
    assert STEPS == int(only(verify(shipped(), bare, bare)).load.after.sum())
