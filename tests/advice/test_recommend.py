"""From a rule that holds to its recommendations."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.engines import NEWEST, Value, advice, catalogue, readings, rule

from palanca.advice.recommend import recommend, word
from palanca.engine import ReadingsEnvironment, thresholds_of
from palanca.model import Direction, Fact, Recommendation, Rule, VllmVersion

SIGNALS: dict[str, Value] = {"kv_cache_usage": 0.9, "running_max": 96.0, "waiting": 12.4}


def made(
    one: Rule,
    signals: Mapping[str, Value] = SIGNALS,
    facts: Mapping[str, object] | None = None,
    version: VllmVersion | None = NEWEST,
) -> tuple[Recommendation, ...]:
    read = readings(signals, facts=facts or {}, versions=[version])
    environment = ReadingsEnvironment(read, thresholds_of(one))
    return recommend(one, 0, environment, catalogue(one), read.facts[0], version)


def only(
    change: Mapping[str, object],
    signals: Mapping[str, Value] = SIGNALS,
    facts: Mapping[str, object] | None = None,
    version: VllmVersion | None = NEWEST,
) -> Recommendation | None:
    """What comes of one piece of advice."""
    found = made(rule(levers=[advice(**change)]), signals, facts, version)
    return found[0] if found else None


# --- direction -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "current", "expected"),
    [
        ("raise", 64.0, "raise"),
        ("raise", 128.0, None),
        ("raise", 96.0, None),
        ("raise", None, "raise"),
        ("lower", 128.0, "lower"),
        ("lower", 64.0, None),
        ("lower", 96.0, None),
        ("lower", None, "lower"),
        ("set", 64.0, "raise"),
        ("set", 128.0, "lower"),
        ("set", 96.0, None),
        ("set", None, "set"),
        ("change", 64.0, "raise"),
        ("change", None, "change"),
    ],
)
def test_direction(wanted: Direction, current: float | None, expected: Direction | None) -> None:
    """Numbers give raise or lower; a value that is set already, or lies the wrong way, is not recommended."""
    one = only({"direction": wanted}, facts={} if current is None else {"max_num_seqs": current})
    assert expected == (one.direction if one else None)


@pytest.mark.parametrize(
    ("lever", "direction", "fact", "value", "expected"),
    [
        ("enable_chunked_prefill", "enable", "chunked_prefill", None, True),
        ("enable_chunked_prefill", "enable", "chunked_prefill", False, True),
        ("enable_chunked_prefill", "enable", "chunked_prefill", True, None),
        ("speculative_config", "disable", "speculation", True, False),
        ("speculative_config", "disable", "speculation", False, None),
        ("num_gpu_blocks_override", "disable", "num_gpu_blocks_override", 256.0, False),
    ],
)
def test_switches(lever: str, direction: Direction, fact: str, value: object, expected: bool | None) -> None:
    """A switch is not recommended where it already stands so."""
    change = {"lever": lever, "direction": direction, "value": None, "no_value": "a switch"}
    one = only(change, facts={} if value is None else {fact: value})
    assert expected == (one.proposed if one else None)


@pytest.mark.parametrize(("current", "expected"), [(None, "set"), ("auto", "set"), ("fp8", None)])
def test_words(current: str | None, expected: str | None) -> None:
    """A word is set unless it is set already."""
    change = {"lever": "kv_cache_dtype", "direction": "set", "value": "fp8"}
    one = only(change, facts={} if current is None else {"kv_cache_dtype": current})
    assert expected == (one.direction if one else None)


# --- values --------------------------------------------------------------------------------------


def test_a_whole_recommendation() -> None:
    """Current value with provenance, proposed value with how it was computed, argument and reasons."""
    verify = [{"signal": "waiting", "expect": "falls", "within": "10m"}]
    one = rule(levers=[advice(value="running_max + waiting")], verify=verify)
    (found,) = made(one, facts={"max_num_seqs": Fact(96.0, "inferred", "t")})
    assert Recommendation(
        lever="max_num_seqs", direction="raise", flag="--max-num-seqs", current=96.0, provenance="inferred",
        proposed=108.0, argument="--max-num-seqs 108",
        computed_from="running_max + waiting with running_max = 96, waiting = 12.4", why="a test",
        effect="more run at once", trade_off="none", verify=one.verify, risk="low", applies_to="this engine", order=1,
    ) == found  # fmt: skip


@pytest.mark.parametrize(
    ("lever", "fact", "current", "direction", "value", "proposed"),
    [
        ("max_num_seqs", "max_num_seqs", 8.0, "lower", "waiting - running_max", 1.0),
        ("gpu_memory_utilization", "gpu_memory_utilization", 0.9, "raise", "gpu_memory_utilization * 2", 0.95),
        ("gpu_memory_utilization", "gpu_memory_utilization", 0.97, "raise", "gpu_memory_utilization * 2", None),
        ("gpu_memory_utilization", "gpu_memory_utilization", 0.95, "raise", "gpu_memory_utilization * 2", None),
        ("gpu_memory_utilization", "gpu_memory_utilization", 0.8, "lower", "gpu_memory_utilization / 3", 0.266667),
        ("watermark", "watermark", 0.01, "raise", "kv_cache_usage", 0.05),
        ("max_num_batched_tokens", "max_num_batched_tokens", 512.0, "lower", "max_num_batched_tokens / 3", 170.0),
        ("max_num_batched_tokens", "max_num_batched_tokens", 100.0, "lower", "max_num_batched_tokens / 3", 64.0),
        ("max_num_batched_tokens", "max_num_batched_tokens", 64.0, "lower", "max_num_batched_tokens / 3", None),
    ],
)
def test_clipping(
    lever: str, fact: str, current: float, direction: Direction, value: str, proposed: float | None
) -> None:
    """A value stays within the bounds of its lever, and whole units are whole."""
    one = only({"lever": lever, "direction": direction, "value": value}, facts={fact: current})
    assert proposed == (one.proposed if one else None)


@pytest.mark.parametrize(
    ("value", "signals", "reason"),
    [
        ("running_max", {}, "cannot be computed: running_max unknown"),
        ("running_max + waiting", {"waiting": 2.0}, "cannot be computed: running_max unknown"),
        ("max_num_seqs + waiting", {}, "cannot be computed: max_num_seqs, waiting unknown"),
        ("running_max / waiting", {"running_max": 4.0, "waiting": 0.0}, "running_max / waiting unknown"),
        ("running_max", {"running_max": float("inf")}, "cannot be computed: running_max unknown"),
    ],
)
def test_unknown_inputs(value: str, signals: dict[str, Value], reason: str) -> None:
    """What cannot be computed has no value and no argument, and says which input lacks."""
    one = only({"value": value, "direction": "raise"}, signals)
    assert one is not None
    assert (None, None, "raise") == (one.proposed, one.argument, one.direction)
    assert one.computed_from.endswith(reason)


def test_unknown_inputs_with_a_hint() -> None:
    """The reason of the rule follows what lacks."""
    one = only({"no_value": "give --serve-args"}, {})
    assert one is not None
    assert "cannot be computed: running_max unknown; give --serve-args" == one.computed_from


def test_no_value() -> None:
    """Where no value can be computed by nature the reason stands in its place."""
    one = only({"lever": "replicas", "value": None, "no_value": "depends on the load"})
    assert one is not None
    assert (None, None, None, "depends on the load") == (one.proposed, one.flag, one.argument, one.computed_from)


@pytest.mark.parametrize(
    ("text", "value"),
    [("96", 96.0), ("0.92", 0.92), ("0.266667", 0.266667), ("131072", 131072.0), ("fp8", "fp8"), ("true", True),
     ("false", False), ("8", 8)],
)  # fmt: skip
def test_words_on_a_command_line(text: str, value: float | bool | str) -> None:
    """Values as they are typed, without exponents or a trailing .0."""
    assert text == word(value)


# --- conditions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "facts", "there"),
    [
        ({"only_if": "prefix_caching"}, {"prefix_caching": True}, True),
        ({"only_if": "prefix_caching"}, {"prefix_caching": False}, False),
        ({"only_if": "prefix_caching"}, {}, False),
        ({"only_if": "not prefix_caching"}, {}, False),
        ({"unless": "prefix_caching"}, {"prefix_caching": True}, False),
        ({"unless": "prefix_caching"}, {"prefix_caching": False}, True),
        ({"unless": "prefix_caching"}, {}, True),
        ({"only_if": "kv_cache_usage > half", "unless": "prefix_caching"}, {}, True),
        ({"only_if": "kv_cache_usage < half"}, {}, False),
    ],
)
def test_conditions(change: dict[str, object], facts: dict[str, object], there: bool) -> None:
    """``only_if`` must hold; ``unless`` must not; what is unknown does neither."""
    assert there == (only(change, facts=facts) is not None)


# --- releases ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last", "there"),
    [("0.24.0", "0.33.0", True), ("0.23.0", "0.33.0", False), ("0.8.0", "0.8.0", False)],
)
def test_releases_without_the_lever(first: str, last: str, there: bool) -> None:
    """A flag that some possible release lacks is not recommended."""
    change = {"lever": "watermark", "value": "kv_cache_usage"}
    assert there == (only(change, version=VllmVersion(first, last, ("v1",), "inferred")) is not None)


def test_a_range_with_a_change() -> None:
    """A range of releases that spans a change shows both spellings."""
    change = {"lever": "num_speculative_tokens", "direction": "set", "value": "kv_cache_usage"}
    one = only(change, version=VllmVersion("0.8.1", "0.8.5", ("v1",), "inferred"))
    assert one is not None
    assert "--speculative-config" == one.flag
    assert "--speculative-config '{\"num_speculative_tokens\": 1, ...}'" == one.argument
    expected = "; in older releases of the range 0.8.1-0.8.5: --num-speculative-tokens 1"
    assert one.computed_from.endswith(expected)


def test_unknown_version() -> None:
    """Without a version only what every release has is recommended."""
    assert None is only({"lever": "watermark", "value": "kv_cache_usage"}, version=None)
    assert None is not only({}, version=None)


# --- order ---------------------------------------------------------------------------------------


def test_order() -> None:
    """What removes the bottleneck comes first, then by risk, then as listed; what names no flag stands last."""
    levers = [
        advice(lever="replicas", order=1, risk="low", direction="none", value=None, no_value="x"),
        advice(lever="max_num_seqs", order=2),
        advice(lever="gpu_memory_utilization", order=1, risk="medium", value="kv_cache_usage"),
        advice(lever="identical_prefix", order=1, risk="low", direction="change", value=None, no_value="x"),
        advice(lever="frontend_cpu", order=1, risk="low", direction="change", value=None, no_value="x"),
        advice(lever="max_num_batched_tokens", order=1, risk="high", value="max_num_batched_tokens"),
    ]
    expected = [
        "identical_prefix", "frontend_cpu", "gpu_memory_utilization", "max_num_batched_tokens", "max_num_seqs",
        "replicas",
    ]  # fmt: skip
    assert expected == [one.lever for one in made(rule(levers=levers))]


# --- effects with numbers ------------------------------------------------------------------------


def test_effects_carry_numbers() -> None:
    """Expressions in braces become numbers with units, the proposed value among them."""
    one = only({
        "value": "running_max + running_max", "effect": "faster",
        "effect_computed": "{proposed} instead of {running_max}, {proposed / running_max} times",
    })  # fmt: skip
    assert one is not None
    assert "faster; 192 requests instead of 96 requests, 2 times" == one.effect


def test_effects_without_their_numbers_stay_plain() -> None:
    """Where a number is not known nothing is said instead of a gap."""
    one = only({"effect": "faster", "effect_computed": "{kv_tokens} fit"})
    assert one is not None
    assert "faster" == one.effect
