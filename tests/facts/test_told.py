"""Facts by flags, labels and releases."""

from __future__ import annotations

import pytest
from tests.engines import readings, shipped, target
from tests.facts.known import INFO, values

from palanca.errors import UsageError
from palanca.facts import (
    add_facts,
    defaults,
    given,
    known_flags,
    parse_serve_args,
    parse_value,
    reported,
)
from palanca.model import FactSpec, VllmVersion

JSON = '{"method": "ngram", "num_speculative_tokens": 5}'


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
