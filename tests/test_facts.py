"""Facts: command lines, labels, what is inferred from load, and which of them wins."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.engines import Value, readings, shipped, target

from palanca.errors import UsageError
from palanca.facts import (
    add_facts,
    complete,
    defaults,
    given,
    infer,
    infer_slots,
    infer_token_budget,
    known_flags,
    parse_serve_args,
    parse_value,
    reported,
)
from palanca.model import Fact, FactSpec, Readings, State, VllmVersion

JSON = '{"method": "ngram", "num_speculative_tokens": 5}'


def values(facts: Mapping[str, Fact]) -> dict[str, object]:
    return {name: fact.value for name, fact in facts.items()}


# --- command lines -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", {}),
        ("vllm serve meta-llama/Llama-3.1-8B", {}),
        ("--max-num-seqs 64", {"--max-num-seqs": "64"}),
        ("--max-num-seqs=64", {"--max-num-seqs": "64"}),
        ("vllm serve m --max-num-seqs 64 --block-size=32", {"--max-num-seqs": "64", "--block-size": "32"}),
        ("--max_num_seqs 64", {"--max-num-seqs": "64"}),
        ("--served-model-name my_model", {"--served-model-name": "my_model"}),
        ("--enforce-eager", {"--enforce-eager": "true"}),
        ("--enforce-eager --max-num-seqs 64", {"--enforce-eager": "true", "--max-num-seqs": "64"}),
        ("--no-enable-chunked-prefill", {"--enable-chunked-prefill": "false"}),
        ("--no_enable_chunked_prefill", {"--enable-chunked-prefill": "false"}),
        ("--no-enable-prefix-caching --max-num-seqs 8", {"--enable-prefix-caching": "false", "--max-num-seqs": "8"}),
        ("-tp 2", {"--tensor-parallel-size": "2"}),
        ("-tp=2 -dp 4 -pp 1", {"--tensor-parallel-size": "2", "--data-parallel-size": "4",
                               "--pipeline-parallel-size": "1"}),
        ("--max-num-seqs 64 --max-num-seqs 32", {"--max-num-seqs": "32"}),
        ("--device-memory-utilization 0.8", {"--gpu-memory-utilization": "0.8"}),
        ("--spec-tokens 3", {"--num-speculative-tokens": "3"}),
        ("--max-model-len -1", {"--max-model-len": "-1"}),
        (f"--speculative-config '{JSON}'", {"--speculative-config": JSON}),
        (f"--speculative-config='{JSON}'", {"--speculative-config": JSON}),
        (f"-sc '{JSON}'", {"--speculative-config": JSON}),
        ('--served-model-name "a model"', {"--served-model-name": "a model"}),
        ("--max-num-seqs= --block-size 16", {"--max-num-seqs": "", "--block-size": "16"}),
        ("vllm serve m --enforce-eager \\\n  --max-num-seqs 64 \\\r\n--block-size 16",
         {"--enforce-eager": "true", "--max-num-seqs": "64", "--block-size": "16"}),
    ],
)  # fmt: skip
def test_command_lines(text: str, flags: dict[str, str]) -> None:
    """Flags in every spelling that a shell and argparse take, also over several lines."""
    assert flags == parse_serve_args(text)


@pytest.mark.parametrize("text", ["--max-num-seqs '64", '--speculative-config "{', "--served-model-name x\\"])
def test_unbalanced_quotes(text: str) -> None:
    """What a shell would not take is refused."""
    with pytest.raises(UsageError, match="--serve-args cannot be read as a command line: No "):
        parse_serve_args(text)


# --- given facts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("--max-num-seqs 64", "max_num_seqs", 64.0),
        ("--max-num-batched-tokens 8k", "max_num_batched_tokens", 8000.0),
        ("--max-num-batched-tokens 8K", "max_num_batched_tokens", 8192.0),
        ("--max-model-len 1M", "max_model_len", 1048576.0),
        ("--max-model-len 25.6k", "max_model_len", 25600.0),
        ("--gpu-memory-utilization 0.85", "gpu_memory_utilization", 0.85),
        ("--gpu-memory-utilization .9", "gpu_memory_utilization", 0.9),
        ("--gpu-memory-utilization 9e-1", "gpu_memory_utilization", 0.9),
        ("--kv-cache-dtype fp8_e4m3", "kv_cache_dtype", "fp8_e4m3"),
        ("--kv-cache-dtype auto", "kv_cache_dtype", "auto"),
        ("--enable-prefix-caching", "prefix_caching", True),
        ("--no-enable-prefix-caching", "prefix_caching", False),
        ("--enable-chunked-prefill False", "chunked_prefill", False),
        ("--enforce-eager meta-llama/Llama-3.1-8B", "enforce_eager", True),
        ("--num-gpu-blocks-override 256", "num_gpu_blocks_override", 256.0),
        ("-tp 8", "tensor_parallel_size", 8.0),
        ("--max-num-seqs 8", "speculation", False),
        (f"--speculative-config '{JSON}'", "speculation", True),
        (f"--speculative-config '{JSON}'", "num_speculative_tokens", 5.0),
        ("--speculative-config null", "speculation", False),
        ("--speculative-config 'not json'", "speculation", True),
        ("--speculative-config.method ngram", "speculation", True),
        ("--speculative-config.num_speculative_tokens 4", "num_speculative_tokens", 4.0),
        ("--spec-method mtp --spec-tokens 2", "speculation", True),
        ("--speculative-model x --num-speculative-tokens 5", "speculation", True),
        ("--speculative-model x --num-speculative-tokens 5", "num_speculative_tokens", 5.0),
    ],
)
def test_given_facts(text: str, name: str, value: object) -> None:
    """Each flag becomes its fact, given by --serve-args."""
    fact = given(shipped(), parse_serve_args(text))[name]
    assert value == fact.value
    assert "given" == fact.provenance
    assert fact.source.startswith("--serve-args ")


@pytest.mark.parametrize("text", ["--max-model-len auto", "--num-gpu-blocks-override None", "--max-num-seqs null"])
def test_what_is_left_to_vllm(text: str) -> None:
    """A number that vLLM chooses itself is no fact, and no error."""
    assert ["speculation"] == list(given(shipped(), parse_serve_args(text)))


@pytest.mark.parametrize(
    "config", ["[]", "5", '{"num_speculative_tokens": "5"}', '{"num_speculative_tokens": true}', "{}", '{"method": '],
)  # fmt: skip
def test_speculation_without_a_number(config: str) -> None:
    """A configuration that does not tell the number of draft tokens leaves it open."""
    facts = given(shipped(), {"--speculative-config": config})
    assert {"speculation": True} == values(facts)


@pytest.mark.parametrize(("text", "kind"), [
    ("--max-num-seqs many", "number"), ("--max-num-seqs 1e999", "number"), ("--max-num-seqs", "number"),
    ("--max-num-seqs=", "number"), ("--gpu-memory-utilization 90%", "number"), ("--block-size nan", "number"),
    ("--kv-cache-dtype ''", "text"),
])  # fmt: skip
def test_values_that_cannot_be_meant(text: str, kind: str) -> None:
    """A value that is no number, or not a finite one, is refused and shown."""
    with pytest.raises(UsageError, match=f"^--serve-args: --[a-z-]+ '.*' is not a {kind}$"):
        given(shipped(), parse_serve_args(text))


@pytest.mark.parametrize(
    "text",
    ["--max-num-seqs -5", "--max-num-seqs 0", "--gpu-memory-utilization 5", "--block-size 0", "--watermark -0.1"],
)
def test_values_that_vllm_does_not_start_with(text: str) -> None:
    """They would make every formula wrong."""
    with pytest.raises(UsageError, match="is out of range"):
        given(shipped(), parse_serve_args(text))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("--watermark 0", "watermark", 0),
        ("--long-prefill-token-threshold 0", "long_prefill_token_threshold", 0),
        ("--tensor-parallel-size 8", "tensor_parallel_size", 8),
        ("--num-speculative-tokens 5", "num_speculative_tokens", 5),
        ("--max-model-len -1", "max_model_len", None),
    ],
)
def test_values_at_the_edge(text: str, name: str, value: float | None) -> None:
    """0 where it means off, more than 1 where it counts, -1 where vLLM chooses."""
    assert value == values(given(shipped(), parse_serve_args(text))).get(name)


def test_nothing_given() -> None:
    """Without a command line nothing is known of speculation; nor with a configuration file that may say more."""
    assert {} == given(shipped(), {})
    assert {} == given(shipped(), parse_serve_args("vllm serve m --config vllm.yaml"))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("number", " 16 ", 16.0),
        ("number", "2g", 2e9),
        ("number", "k", None),
        ("number", "None", None),
        ("number", "1,000", None),
        ("flag", "True", True),
        ("flag", "0", False),
        ("flag", "None", None),
        ("text", " ", None),
        ("text", " auto ", "auto"),
    ],
)
def test_values(kind: str, text: str, value: object) -> None:
    """Labels and flags are read as the type of their fact; whatever is not of it is no value."""
    assert value == parse_value(FactSpec.model_validate({"title": "t", "type": kind}), text)


def test_known_flags() -> None:
    """The flags that become facts are listed once each, in order."""
    flags = list(known_flags(shipped()))
    assert "--max-num-seqs" in flags
    assert sorted(set(flags)) == flags


# --- reported facts ------------------------------------------------------------------------------

INFO = {
    "block_size": "16",
    "num_gpu_blocks": "8000",
    "num_gpu_blocks_override": "None",
    "cache_dtype": "fp8",
    "enable_prefix_caching": "False",
    "gpu_memory_utilization": "0.9",
}


def test_reported_facts() -> None:
    """Labels of cache_config_info; "None" is no value."""
    facts = reported(shipped(), INFO, 1)
    expected = {
        "gpu_memory_utilization": 0.9,
        "block_size": 16.0,
        "num_gpu_blocks": 8000.0,
        "kv_cache_dtype": "fp8",
        "prefix_caching": False,
    }
    assert expected == values(facts)
    assert {"reported"} == {fact.provenance for fact in facts.values()}


@pytest.mark.parametrize(("engines", "blocks"), [(0, 8000.0), (1, 8000.0), (2, 4000.0), (8, 1000.0)])
def test_blocks_are_shared_by_data_parallel_engines(engines: int, blocks: float) -> None:
    """num_gpu_blocks is the sum over the engines of a server; other labels are not divided."""
    facts = reported(shipped(), INFO, engines)
    assert blocks == facts["num_gpu_blocks"].value
    assert 16.0 == facts["block_size"].value


def test_engines_of_one_server_are_counted() -> None:
    """Engines with equal labels but for ``engine`` share the blocks; another server has its own."""
    targets = [target("0"), target("1"), target("0", instance="b:8000")]
    made = add_facts(readings({}, {}, {}, targets=targets, info=[INFO] * 3), shipped())
    assert [4000.0, 4000.0, 8000.0] == [facts["num_gpu_blocks"].value for facts in made.facts]
    assert [64000.0, 64000.0, 128000.0] == [facts["kv_tokens"].value for facts in made.facts]


def test_hostile_labels() -> None:
    """Labels with numbers beyond all bounds are no facts."""
    labels = {"num_gpu_blocks": "1e999", "block_size": "nan", "gpu_memory_utilization": "-inf", "cache_dtype": ""}
    assert {} == values(reported(shipped(), labels, 1))


# --- which fact wins -----------------------------------------------------------------------------


PINNED: dict[str, Value] = {
    "running_now": [4.0] * 20, "waiting_now": [9.0] * 20, "running_max": 4.0, "kv_cache_usage_max": 0.1,
    "waiting_capacity": 9.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "info", "name", "value", "provenance"),
    [
        ({}, {}, "max_num_seqs", 4.0, "inferred"),
        ({"--max-num-seqs": "8"}, {}, "max_num_seqs", 8.0, "given"),
        ({}, INFO, "gpu_memory_utilization", 0.9, "reported"),
        ({"--gpu-memory-utilization": "0.8"}, INFO, "gpu_memory_utilization", 0.8, "given"),
        ({}, INFO, "kv_tokens", 64000.0, "reported"),
        ({}, INFO, "fp8_kv", True, "reported"),
        ({"--kv-cache-dtype": "auto"}, INFO, "fp8_kv", False, "given"),
        ({}, INFO, "kv_blocks_set_by_hand", False, "reported"),
        ({"--num-gpu-blocks-override": "99"}, {}, "kv_blocks_set_by_hand", True, "given"),
        ({}, {}, "slo.ttft_p99", 1.0, "default"),
        ({}, {}, "speculation", False, "inferred"),
        ({"--max-num-seqs": "8"}, {}, "speculation", False, "given"),
    ],
)
def test_precedence(flags: dict[str, str], info: dict[str, str], name: str, value: object, provenance: str) -> None:
    """Given wins over reported, reported over inferred, inferred over the default."""
    read = readings(PINNED, {}, info=[info, {}])
    fact = add_facts(read, shipped(), flags=flags).facts[0][name]
    assert (value, provenance) == (fact.value, fact.provenance)


def test_objectives_are_given() -> None:
    """An objective of the operator replaces the default one."""
    (facts,) = add_facts(readings({}), shipped(), objectives={"slo.ttft_p99": 0.3}).facts
    assert Fact(0.3, "given", "--slo") == facts["slo.ttft_p99"]
    assert "default" == facts["slo.itl_p99"].provenance


def test_what_is_not_known_is_no_fact() -> None:
    """Without labels, load and command line there are only the defaults."""
    assert defaults(shipped()) == complete(shipped(), defaults(shipped()))


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("fp8", True), ("fp8_e5m2", True), ("nvfp4", True), ("auto", False), ("bfloat16", False)]
)
def test_narrow_kv(dtype: str, narrow: bool) -> None:
    """A KV cache below 16 bits is known from its data type."""
    facts = complete(shipped(), {"kv_cache_dtype": Fact(dtype, "given", "t")})
    assert narrow == facts["fp8_kv"].value


@pytest.mark.parametrize(
    ("first", "last", "engines", "name", "value"),
    [
        ("0.9.0", "0.19.1", ("v1",), "gpu_memory_utilization", 0.9),
        ("0.20.0", "0.33.0", ("v1",), "gpu_memory_utilization", 0.92),
        ("0.19.0", "0.20.0", ("v1",), "gpu_memory_utilization", None),
        ("0.9.0", "0.9.0", ("v1",), "chunked_prefill", True),
        ("0.9.0", "0.9.0", ("v0",), "chunked_prefill", None),
        ("0.9.0", "0.9.0", ("v0", "v1"), "chunked_prefill", None),
        ("0.23.0", "0.23.0", ("v1",), "watermark", None),
        ("0.24.0", "0.24.0", ("v1",), "watermark", 0.0),
    ],
)
def test_defaults_of_releases(first: str, last: str, engines: tuple[str, ...], name: str, value: object) -> None:
    """A default of vLLM is a fact where every release and engine that can be running has it."""
    facts = defaults(shipped(), VllmVersion(first, last, engines, "inferred"))
    assert value == (facts[name].value if name in facts else None)


def test_speculation_of_releases_without_its_series() -> None:
    """Where the release has no such series nothing is inferred from their absence."""
    old = VllmVersion("0.6.0", "0.6.0", ("v0",), "inferred")
    facts = infer(readings({"drafts_per_second": State.NOT_APPLICABLE}, versions=[old]), 0, shipped())
    assert "speculation" not in facts


# --- inferred facts ------------------------------------------------------------------------------


def slots(
    running: list[float], waiting: list[float], most: float = 8.0, kv: float = 0.5, capacity: float = 5.0
) -> float | None:
    signals: dict[str, Value] = {
        "running_now": running, "waiting_now": waiting, "running_max": most, "kv_cache_usage_max": kv,
        "waiting_capacity": capacity,
    }  # fmt: skip
    return infer_slots(readings(signals), 0)


@pytest.mark.parametrize(
    ("expected", "running", "waiting"),
    [
        (8.0, [8.0] * 9, [5.0] * 9),
        (8.0, [8.0] * 8 + [7.7], [5.0] * 9),
        (8.0, [1.0] * 5 + [8.0] * 4, [0.0] * 5 + [5.0] * 4),
        (8.0, [1.0] * 30 + [8.0] * 9, [5.0] * 39),
        (None, [8.0] * 7 + [7.0] * 2, [5.0] * 9),
        (None, [8.0] * 9, [0.0] * 9),
        (None, [1.0] * 6 + [8.0] * 3, [0.0] * 6 + [5.0] * 3),
        (None, [float("nan")] * 6 + [8.0] * 3, [5.0] * 9),
        (None, [8.0] * 9, [float("nan")] * 9),
    ],
)
def test_inferred_slots(expected: float | None, running: list[float], waiting: list[float]) -> None:
    """Slots are the most that run, if nine of ten samples with waiting requests are at it; only the window counts."""
    assert expected == slots(running, waiting)


@pytest.mark.parametrize(
    ("most", "kv"),
    [(8.0, 0.9), (8.0, 1.0), (8.0, float("nan")), (0.0, 0.5), (float("nan"), 0.5), (-4.0, 0.5), (float("inf"), 0.5)],
)
def test_slots_are_not_inferred(most: float, kv: float) -> None:
    """A full KV cache pins running as well, and without numbers nothing can be said."""
    assert None is slots([8.0] * 9, [5.0] * 9, most, kv)


@pytest.mark.parametrize(("capacity", "expected"), [(1.0, 8.0), (0.9, None), (float("nan"), None)])
def test_deferred_requests_do_not_show_slots(capacity: float, expected: float | None) -> None:
    """Requests that wait for something else than capacity say nothing about slots."""
    assert expected == slots([8.0] * 9, [5.0] * 9, capacity=capacity)


def token_budget(mean: float, waiting: float, kv: float = 0.5, per_running: float = 100.0) -> float | None:
    signals: dict[str, Value] = {
        "iteration_tokens_mean": mean, "waiting_min": waiting, "kv_cache_usage_max": kv,
        "step_tokens_per_running": per_running,
    }  # fmt: skip
    return infer_token_budget(readings(signals), 0)


@pytest.mark.parametrize(
    ("mean", "waiting", "budget"),
    [
        (511.8, 1.0, 512.0),
        (512.0, 1.0, 512.0),
        (525.0, 1.0, 512.0),
        (500.0, 1.0, 512.0),
        (8200.0, 1.0, 8192.0),
        (64.0, 1.0, 64.0),
        (490.0, 1.0, None),
        (530.0, 1.0, None),
        (700.0, 1.0, None),
        (32.0, 1.0, None),
        (512.0, 0.0, None),
        (512.0, float("nan"), None),
        (float("nan"), 1.0, None),
        (float("inf"), 1.0, None),
        (-512.0, 1.0, None),
    ],
)
def test_inferred_token_budget(mean: float, waiting: float, budget: float | None) -> None:
    """The budget is a power of two within 3 % of the mean tokens of a step, while requests always wait."""
    assert budget == token_budget(mean, waiting)


@pytest.mark.parametrize(
    ("kv", "per_running", "budget"),
    [(0.89, 8.1, 512.0), (0.9, 100.0, None), (0.5, 8.0, None), (float("nan"), 100.0, None), (0.5, float("nan"), None)],
)
def test_no_budget_without_prefill(kv: float, per_running: float, budget: float | None) -> None:
    """A batch that the KV cache limits, or that mostly decodes, may pass a power of two by chance."""
    assert budget == token_budget(512.0, 1.0, kv, per_running)


@pytest.mark.parametrize(
    ("drafts", "length", "expected"),
    [
        (5.0, 5.0, {"speculation": True, "num_speculative_tokens": 5.0}),
        (5.0, 4.98, {"speculation": True, "num_speculative_tokens": 5.0}),
        (5.0, 3.4, {"speculation": True}),
        (5.0, 0.0, {"speculation": True}),
        (0.0, State.IDLE, {"speculation": True}),
        (State.IDLE, State.IDLE, {"speculation": True}),
        (State.ABSENT, State.ABSENT, {"speculation": False}),
        (State.NOT_APPLICABLE, State.NOT_APPLICABLE, {"speculation": False}),
        (State.STALE, State.STALE, {}),
    ],
)
def test_inferred_speculation(drafts: Value, length: Value, expected: dict[str, object]) -> None:
    """Series of speculation exist only where it is configured; stale ones prove nothing."""
    facts = infer(readings({"drafts_per_second": drafts, "draft_length": length}), 0, shipped())
    assert expected == values(facts)


def test_inference_without_signals() -> None:
    """Readings that lack the signals altogether infer nothing."""
    full = readings({})
    bare = Readings(full.targets, full.times, {}, full.covered, full.facts, full.versions, full.source, full.info)
    assert {} == infer(bare, 0, shipped())
