"""The engine: truth over targets and time, and how long it has held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.engines import END, INTERVAL, STEPS, advice, catalogue, readings, rule, target

from palanca import expressions
from palanca.diagnosis import diagnose
from palanca.engine import ReadingsEnvironment, evaluate, held, missing_names, thresholds_of
from palanca.model import State, Target, Truth

F, T, U, N = Truth.FALSE, Truth.TRUE, Truth.UNKNOWN, Truth.NOT_APPLICABLE
LONG = 3600.0


def times(steps: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.arange(1 - steps, 1, dtype=np.float64) * INTERVAL + END


def judged(truth: Sequence[Truth], for_s: float, covered: float = LONG) -> tuple[str, float, bool, bool] | None:
    """State, seconds since, since_at_least and full_history of a row."""
    found = held(np.array(truth, dtype=np.uint8), times(len(truth)), for_s, covered)
    return None if found is None else (found.state, END - found.since, found.since_at_least, found.full_history)


@pytest.mark.parametrize("last", [F, U, N])
def test_only_what_holds_now_is_held(last: Truth) -> None:
    """False, unknown and not applicable at the last step end a condition, however long it held."""
    assert judged([T] * 40 + [last], 0.0) is None


@pytest.mark.parametrize(
    ("true_steps", "for_s", "state"),
    [
        (1, 0.0, "firing"),
        (1, 15.0, "pending"),
        (2, 15.0, "firing"),
        (2, 16.0, "pending"),
        (3, 16.0, "firing"),
        (12, 180.0, "pending"),
        (13, 180.0, "firing"),
    ],
)
def test_firing_needs_all_steps_of_the_duration(true_steps: int, for_s: float, state: str) -> None:
    """Firing takes ``for / interval + 1`` consecutive true steps, as in Prometheus."""
    assert (state, (true_steps - 1) * INTERVAL, False, True) == judged([F] * 20 + [T] * true_steps, for_s)


@pytest.mark.parametrize("reset", [F, U, N])
@pytest.mark.parametrize("since", [1, 5, 12])
def test_every_other_truth_resets(reset: Truth, since: int) -> None:
    """One step that is false, unknown or not applicable begins the duration anew."""
    expected = ("pending", (since - 1) * INTERVAL, reset != F, True)
    assert expected == judged([T] * 20 + [reset] + [T] * since, 180.0)


def test_since_at_least() -> None:
    """What holds over the whole grid, or since a step that is not known, may have begun before."""
    assert ("firing", 585.0, True, True) == judged([U] + [T] * 40, 180.0)
    assert ("firing", 600.0, True, True) == judged([T] * 41, 180.0)
    assert ("firing", 585.0, False, True) == judged([F] + [T] * 40, 180.0)


@pytest.mark.parametrize(("covered", "full"), [(60.0, False), (179.9, False), (180.0, True), (LONG, True)])
def test_short_history_is_told(covered: float, full: bool) -> None:
    """A source that covers less than the duration cannot show that a condition did not hold that long."""
    assert ("pending", 45.0, True, full) == judged([U] * 37 + [T] * 4, 180.0, covered)


@pytest.mark.parametrize(
    ("a", "b", "both", "either"),
    [
        (T, T, T, T),
        (T, F, F, T),
        (F, F, F, F),
        (T, U, U, T),
        (F, U, F, U),
        (U, U, U, U),
        (T, N, N, T),
        (F, N, F, F),
        (U, N, N, U),
        (N, N, N, N),
    ],
)
def test_kleene_over_readings(a: Truth, b: Truth, both: Truth, either: Truth) -> None:
    """``and`` and ``or`` over signals that are known, absent and not applicable, in either order."""
    shown = {T: 0.9, F: 0.1, U: State.ABSENT, N: State.NOT_APPLICABLE}
    read = readings({"kv_cache_usage": shown[a], "prefix_hit_rate": shown[b]})

    def truth(when: str) -> set[int]:
        (verdict,) = evaluate([rule(when=when)], read)
        return set(verdict.when.ravel().tolist())

    for one, other in (("kv_cache_usage", "prefix_hit_rate"), ("prefix_hit_rate", "kv_cache_usage")):
        assert {both} == truth(f"{one} > half and {other} > half")
        assert {either} == truth(f"{one} > half or {other} > half")


@pytest.mark.parametrize(
    ("state", "truth"),
    [
        (State.ABSENT, Truth.UNKNOWN),
        (State.IDLE, Truth.UNKNOWN),
        (State.STALE, Truth.UNKNOWN),
        (State.NOT_APPLICABLE, Truth.NOT_APPLICABLE),
    ],
)
def test_states_without_a_number(state: State, truth: Truth) -> None:
    """A signal that has no number makes a comparison unknown, one that cannot exist not applicable; so does ``not``."""
    for when in ("kv_cache_usage > half", "kv_cache_usage <= half", "not kv_cache_usage > half"):
        (verdict,) = evaluate([rule(when=when)], readings({"kv_cache_usage": state}))
        assert {truth} == set(verdict.when.ravel().tolist())


@pytest.mark.parametrize(("facts", "truth"), [({}, U), ({"chunked_prefill": True}, T), ({"chunked_prefill": False}, F)])
def test_flags(facts: dict[str, object], truth: Truth) -> None:
    """A flag that is not known is unknown, not false."""
    (verdict,) = evaluate([rule(when="chunked_prefill", thresholds={})], readings({}, facts=facts))
    assert (1, STEPS) == verdict.when.shape
    assert {truth} == set(verdict.when.ravel().tolist())


def test_each_target_and_step_by_itself() -> None:
    """Truth is judged for every target at every step; facts hold for all steps of their target."""
    read = readings(
        {"kv_cache_usage": [0.9, 0.1, 0.9]},
        {"kv_cache_usage": 0.9},
        facts=[{"max_num_seqs": 4.0}, {}],
    )
    (verdict,) = evaluate([rule(when="kv_cache_usage > half and max_num_seqs > few", thresholds={
        "half": {"value": 0.5, "unit": "ratio", "source": "a test"},
        "few": {"value": 2, "unit": "requests", "source": "a test"},
    })], read)  # fmt: skip

    assert [U] * (STEPS - 3) + [T, F, T] == verdict.when[0].tolist()
    assert [U] * STEPS == verdict.when[1].tolist()


def test_no_targets() -> None:
    """Rules over nothing give nothing."""
    (verdict,) = evaluate([rule()], readings())
    assert (0, STEPS) == verdict.when.shape


def test_supports_and_contradictions_in_order() -> None:
    """Each supporting and contradicting condition keeps its place."""
    one = rule(supports=["kv_cache_usage > half", "running > half"], contradicts=["kv_cache_usage <= half"])
    (verdict,) = evaluate([one], readings({"kv_cache_usage": 0.9}))
    assert [T, U] == [truth[0, -1] for truth in verdict.supports]
    assert [F] == [truth[0, -1] for truth in verdict.contradicts]


def test_thresholds_can_be_overridden() -> None:
    """An override replaces the value of a threshold at its target, and leaves the other thresholds."""
    one = rule(
        thresholds={name: {"value": 1, "unit": "ratio", "source": "a test"} for name in ("a", "b")},
        when="kv_cache_usage > a and kv_cache_usage > b",
    )
    assert {"a": 1.0, "b": 1.0} == thresholds_of(one)
    made = thresholds_of(one, [{"a-rule": {"b": 2.0}}, {"other": {"a": 3.0}}])
    assert 1.0 == made["a"]
    assert [[2.0], [1.0]] == np.asarray(made["b"]).tolist()


def test_thresholds_of_single_targets() -> None:
    """The same reading holds at one target and not at the other; evidence and summary tell the value of the target."""
    one = rule(summary="KV usage is {kv_cache_usage}, above {half}.")
    read = readings({"kv_cache_usage": 0.6}, {"kv_cache_usage": 0.6}, {"kv_cache_usage": 0.95})

    def thresholds(target: Target) -> dict[str, dict[str, float]]:
        return {} if target.get("engine") == "0" else {"a-rule": {"half": 0.9}, "gone": {"x": 1.0}}

    (verdict,) = evaluate([one], read, thresholds=thresholds)
    assert [T, F, T] == list(verdict.when[:, -1])
    found = [report.findings for report in diagnose(catalogue(one), read, thresholds).targets]
    assert [1, 0, 1] == [len(findings) for findings in found]
    assert [0.5, 0.9] == [findings[0].evidence[0].threshold for findings in (found[0], found[2])]
    assert "KV usage is 0.95, above 0.9." == found[2][0].summary


def test_recommendations_compute_with_the_threshold_of_the_target() -> None:
    """A value made of a threshold follows the override."""
    one = rule(
        thresholds={
            "half": {"value": 0.5, "unit": "ratio", "source": "a test"},
            "share": {"value": 0.5, "unit": "ratio", "source": "a test"},
        },
        levers=[advice(value="running_max * share")],
    )
    read = readings(*[{"kv_cache_usage": 0.95, "running_max": 800}] * 2, targets=[target("0"), target("1", job="b")])
    made = diagnose(catalogue(one), read, lambda at: {"a-rule": {"share": 0.75}} if at.get("engine") == "1" else {})
    assert [400.0, 600.0] == [report.findings[0].recommendations[0].proposed for report in made.targets]


@pytest.mark.parametrize(
    ("when", "lacking"),
    [
        ("kv_cache_usage > half", []),
        ("running > kv_cache_usage", ["running"]),
        ("prefix_caching and running > max_num_seqs and chunked_prefill", ["running", "chunked_prefill"]),
        ("max_num_batched_tokens > half or not speculation", ["max_num_batched_tokens", "speculation"]),
    ],
)
def test_missing_names(when: str, lacking: list[str]) -> None:
    """Signals, numbers and flags that are not known are named, in the order of the condition."""
    read = readings({"kv_cache_usage": 0.9}, facts={"prefix_caching": False, "max_num_seqs": 4.0})
    environment = ReadingsEnvironment(read, {"half": 0.5})
    assert lacking == [name for name, where in missing_names(expressions.parse(when), environment).items() if where[0]]


def test_missing_names_of_each_engine() -> None:
    """Each name with the engines that lack it."""
    read = readings({"running": 1.0}, {"kv_cache_usage": 0.9}, facts=[{}, {"max_num_seqs": 4.0}])
    found = missing_names(expressions.parse("kv_cache_usage > half and running > max_num_seqs"),
                          ReadingsEnvironment(read, {"half": 0.5}))  # fmt: skip
    assert {
        "kv_cache_usage": [True, False],
        "running": [False, True],
        "max_num_seqs": [True, False],
        "half": [False] * 2,
    } == {name: where.tolist() for name, where in found.items()}


# --- fleets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "first", "alone"),
    [("fleet_min", 2.0, 9.0), ("fleet_max", 6.0, 9.0), ("fleet_mean", 4.0, 9.0), ("fleet_median", 4.0, 9.0),
     ("fleet_count", 2.0, 1.0)],
)  # fmt: skip
def test_fleet_functions_stay_within_a_model(function: str, first: float, alone: float) -> None:
    """Engines of one command line are compared with each other, and with no other model."""
    targets = [target("a"), target("b"), target("c"), target("d", model_name="other")]
    found = readings({"running": 2.0}, {"running": 6.0}, {"running": State.ABSENT}, {"running": 9.0}, targets=targets)
    environment = ReadingsEnvironment(found, {})
    got = environment.fleet(function, environment.number("running"))[:, -1]
    assert [first, first, first, alone] == got.tolist()


def test_a_fleet_without_numbers_is_unknown() -> None:
    """Where no engine has a number there is nothing to compare, and no engine is counted."""
    found = readings({"running": State.ABSENT}, {"running": State.IDLE})
    environment = ReadingsEnvironment(found, {})
    assert np.isnan(environment.fleet("fleet_max", environment.number("running"))).all()
    assert 0.0 == float(environment.fleet("fleet_count", environment.number("running"))[0, -1])


def test_optional_facts_make_a_rule_not_applicable() -> None:
    """What nobody gave and nothing shows is no gap, where the fact is optional."""
    one = rule(when="client.ttft_p99 > half")
    found = readings({"running": 1.0})
    assert Truth.UNKNOWN == evaluate([one], found)[0].when[0, -1]
    optional = frozenset({"client.ttft_p99"})
    assert Truth.NOT_APPLICABLE == evaluate([one], found, optional)[0].when[0, -1]
