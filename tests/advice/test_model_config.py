"""What a ``config.json`` says about memory, for the architectures that differ, and what cannot be meant."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model_files import HARDWARE, gpu, model

from palanca.advice.model_config import read_model, shape_of
from palanca.advice.size import Wish, size
from palanca.errors import UsageError

PLAIN = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}


def changed(**fields: object) -> dict[str, Any]:
    return {**PLAIN, **fields}


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        (7_615_616_512, "qwen2.5-7b"),
        (14_770_033_664, "qwen2.5-14b"),
        (8_030_261_248, "llama-3.1-8b"),
        (46_702_792_704, "mixtral-8x7b"),
        (9_241_705_984, "gemma-2-9b"),
        (15_706_484_224, "deepseek-v2-lite"),
        (671_026_419_200, "deepseek-v3"),
        (79_674_391_296, "qwen3-next-80b-a3b"),
    ],
)
def test_parameters_are_those_of_the_checkpoint(parameters: int, name: str) -> None:
    """Counting from the shape gives the published number of parameters to the last one."""
    assert parameters == model(name).parameters.total


@pytest.mark.parametrize(
    ("per_token", "name"),
    [
        (57_344, "qwen2.5-7b"),
        (196_608, "qwen2.5-14b"),
        (131_072, "llama-3.1-8b"),
        (131_072, "mixtral-8x7b"),
        (31_104, "deepseek-v2-lite"),
        (70_272, "deepseek-v3"),
        (24_576, "qwen3-next-80b-a3b"),
        (12_288, "bamba-9b"),
    ],
)
def test_kv_of_a_token(per_token: int, name: str) -> None:
    """GQA, latent attention, and hybrids, of which only the attention layers count."""
    assert per_token == sum(group.bytes_per_token(2) for group in model(name).kv)


@pytest.mark.parametrize(
    ("full", "windows", "window", "name"),
    [
        (21, 21, 4096, "gemma-2-9b"),
        (8, 40, 1024, "gemma-3-12b"),
        (12, 12, 128, "gpt-oss-20b"),
    ],
)
def test_sliding_windows(full: int, windows: int, window: int, name: str) -> None:
    """Half of Gemma 2's layers, five of six of Gemma 3's and every other one of gpt-oss keep a window."""
    groups = model(name).kv
    assert [(full, None), (windows, window)] == [(group.layers, group.window) for group in groups]
    assert model(name).windowed
    short, long = (sum(group.sequence_bytes(length, 2) for group in groups) for length in (window, 2 * window))
    assert long < 2 * short


@pytest.mark.parametrize(
    ("windows", "fields"),
    [
        (4, {"model_type": "mistral", "sliding_window": 64}),
        (3, {"model_type": "llama4_text"}),
        (1, {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 3}),
        (3, {"model_type": "cohere2"}),
        (0, {"model_type": "mistral", "sliding_window": None}),
        (2, {"layer_types": ["full_attention", "chunked_attention"], "attention_chunk_size": 64}),
    ],
)
def test_windows_without_a_list(windows: int, fields: dict[str, object]) -> None:
    """All layers of Mistral, three of four of Llama 4 and Command R7B, those above max_window_layers of Qwen2."""
    shape = shape_of(changed(num_hidden_layers=4, **fields))
    assert windows == sum(group.layers for group in shape.kv if group.window is not None)


def test_multi_query() -> None:
    """Falcon's multi_query means one KV head."""
    assert 1 == shape_of(changed(model_type="falcon", multi_query=True, num_key_value_heads=None)).kv_heads


def test_switched_off_windows_do_not_count() -> None:
    """Qwen2.5 has a sliding_window and does not use it."""
    assert not model("qwen2.5-7b").windowed


def test_hybrids_keep_a_state() -> None:
    """36 of 48 layers of Qwen3-Next keep a state that does not grow, and 12 a KV cache."""
    shape = model("qwen3-next-80b-a3b")
    assert (36, 12) == (shape.state_layers, shape.attention_layers)
    conv, state = 3 * (2 * 2048 + 4096) * 2, 32 * 128 * 128 * 4
    assert 36 * (conv + state) == shape.state_bytes
    assert shape.hybrid


def test_layers_of_bamba() -> None:
    """3 of 32 layers attend; the others are Mamba 2."""
    shape = model("bamba-9b")
    assert (3, 29) == (shape.attention_layers, shape.state_layers)
    assert 9.78e9 == pytest.approx(shape.parameters.total, rel=1e-3)


@pytest.mark.parametrize(
    ("attending", "fields"),
    [
        (1, {"attn_layer_period": 8, "attn_layer_offset": 4, "num_hidden_layers": 8, "model_type": "jamba"}),
        (2, {"hybrid_override_pattern": "M-M*-M*-", "num_hidden_layers": 8, "model_type": "nemotron_h"}),
        (1, {"layers_block_type": ["mamba", "attention"], "model_type": "granitemoehybrid"}),
        (1, {"attn_type_list": [0, 1], "model_type": "minimax_m1"}),
        (2, {"model_type": "falcon_h1", "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8}),
    ],
)
def test_other_ways_to_list_hybrid_layers(attending: int, fields: dict[str, object]) -> None:
    """Periods, patterns and lists all say which layers attend."""
    shape = shape_of(changed(**fields))
    assert attending == shape.attention_layers
    assert shape.hybrid


def test_shared_kv() -> None:
    """Layers that share the KV of an earlier layer keep none."""
    shape = shape_of(changed(num_hidden_layers=30, num_kv_shared_layers=10, model_type="gemma3n_text"))
    assert 20 == shape.attention_layers


def test_active_parameters() -> None:
    """A token of Mixtral uses 12.9 of 46.7 x 10^9 parameters, of DeepSeek-V3 about 37 of 671."""
    mixtral, deepseek = model("mixtral-8x7b"), model("deepseek-v3")
    assert 12.88e9 == pytest.approx(mixtral.parameters.active(mixtral.experts), rel=1e-3)
    assert 37.5e9 == pytest.approx(deepseek.parameters.active(deepseek.experts), rel=5e-3)


@pytest.mark.parametrize(
    ("gigabytes", "name"),
    [
        (15.23, "qwen2.5-7b"),  # the article says 14
        (29.54, "qwen2.5-14b"),
        (5.57, "qwen2.5-7b-awq"),  # the article says 4: embeddings stay in 16 bits
        (13.75, "gpt-oss-20b"),
        (672.99, "deepseek-v3"),
    ],
)
def test_bytes_of_the_weights(gigabytes: float, name: str) -> None:
    """Quantisation shrinks the linear layers, or the experts, and leaves embeddings and norms."""
    assert gigabytes == pytest.approx(model(name).weight_bytes / 1e9, abs=0.01)


@pytest.mark.parametrize(
    ("bits", "group", "config"),
    [
        (4, 128, {"quant_method": "gptq", "bits": 4, "group_size": 128}),
        (4, 0, {"quant_method": "gptq", "bits": 4, "group_size": -1}),
        (8, 0, {"quant_method": "fp8"}),
        (4, 0, {"quant_method": "bitsandbytes", "load_in_4bit": True}),
        (8, 0, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
        (
            4,
            128,
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": {"num_bits": 4, "group_size": 128}}},
            },
        ),
        (4, 16, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
        (8, 0, {"quant_method": "modelopt", "quant_algo": "FP8"}),
        (4, 32, {"quant_method": "mxfp4"}),
        (8, 0, {"quant_method": "something", "bits": "many", "config_groups": 3}),
    ],
)  # fmt: skip
def test_quantisations(bits: float, group: int, config: dict[str, object]) -> None:
    """Each method says its bits in its own way; an unknown one is taken for 8 bits, with a note."""
    shape = shape_of(changed(quantization_config=config))
    assert shape.quantization is not None
    assert (bits, max(group, 0)) == (shape.quantization.bits, max(shape.quantization.group, 0))
    assert (config["quant_method"] == "something") == any("is not known here" in note for note in shape.notes)


@pytest.mark.parametrize(
    ("longest", "fields"),
    [
        (131_072, {"max_position_embeddings": 131_072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}),
        (
            163_840,
            {
                "max_position_embeddings": 163_840,
                "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
            },
        ),
        (16_384, {"max_position_embeddings": 8192, "rope_scaling": {"type": "linear", "factor": 2.0}}),
        (8192, {"max_position_embeddings": 8192, "rope_scaling": {"type": "linear", "factor": "two"}}),
        (8192, {"max_position_embeddings": 8192, "rope_scaling": None}),
        (None, {}),
    ],
)
def test_longest_context(longest: int | None, fields: dict[str, object]) -> None:
    """YaRN and linear scaling stretch the context, Llama 3's scaling is in the number already."""
    assert longest == shape_of(changed(**fields)).max_model_len


def test_gemma_3_fills_in_what_its_config_leaves_out() -> None:
    """Gemma 3's config.json has no head size, vocabulary or pattern, and scaling that does not stretch."""
    shape = model("gemma-3-12b")
    assert (256, 262_208, 131_072) == (shape.head_dim, shape.vocab, shape.max_model_len)
    assert any("other modalities" in note for note in shape.notes)


@pytest.mark.parametrize(
    ("dtype", "note", "given"),
    [
        ("bfloat16", False, "bfloat16"),
        ("float16", False, "torch.float16"),
        ("float16", True, "float32"),
        ("bfloat16", True, None),
        ("bfloat16", True, "int3"),
    ],
)
def test_types(dtype: str, given: str | None, note: bool) -> None:
    """vLLM loads FP32 checkpoints with 16 bits; what is not given is assumed, and said so."""
    shape = shape_of(changed(torch_dtype=given))
    assert (dtype, 2) == (shape.dtype, shape.dtype_bytes)
    assert note == bool(shape.notes)


def test_unknown_architectures_are_counted_like_llama() -> None:
    """An unknown model_type is sized, with a note that says how and what gives the right size."""
    shape = shape_of(changed(model_type="brand_new"))
    assert any("'brand_new' is not known here: counted like Llama; --weight-bytes" in note for note in shape.notes)
    assert shape.weight_bytes == shape_of(PLAIN).weight_bytes


def test_old_names_of_fields() -> None:
    """GPT-2 calls its fields n_embd, n_layer and n_head, and counts to the published 124 million."""
    config = {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "vocab_size": 50257,
        "n_positions": 1024,
    }
    shape = shape_of(config)
    assert (768, 12, 12, 1024) == (shape.hidden, shape.layers, shape.heads, shape.max_model_len)
    assert 124e6 == pytest.approx(shape.parameters.total, rel=0.01)


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("field 'hidden_size' is missing", {"hidden_size": None}),
        ("field 'num_hidden_layers' is missing", {"num_hidden_layers": None}),
        ("field 'num_attention_heads' is missing", {"num_attention_heads": None}),
        ("field 'vocab_size' is missing", {"vocab_size": None}),
        ("hidden_size '-64' is not a number that a model can have", {"hidden_size": -64}),
        ("hidden_size '1e+30' is not a number that a model can have", {"hidden_size": 1e30}),
        ("hidden_size 'nan' is not a whole number", {"hidden_size": float("nan")}),
        ("hidden_size 'big' is not a whole number", {"hidden_size": "big"}),
        ("hidden_size 'True' is not a whole number", {"hidden_size": True}),
        ("hidden_size '64.5' is not a number", {"hidden_size": 64.5}),
        ("num_hidden_layers '1000000' is more than 10000", {"num_hidden_layers": 1_000_000}),
        ("num_key_value_heads '3' does not divide num_attention_heads, 4", {"num_key_value_heads": 3}),
        ("num_attention_heads '5' does not divide hidden_size", {"num_attention_heads": 5, "num_key_value_heads": 5}),
        ("num_experts_per_tok '9' is more than the 8 experts", {"num_experts": 8, "num_experts_per_tok": 9}),
        ("is an encoder-decoder", {"is_encoder_decoder": True}),
        ("no layer of llama keeps a KV cache", {"layer_types": ["mamba"]}),
    ],
)  # fmt: skip
def test_configurations_that_cannot_be_meant(message: str, fields: dict[str, object]) -> None:
    """A field that is missing or nonsense is named in one message."""
    with pytest.raises(UsageError) as caught:
        shape_of(changed(**fields), "some/config.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("some/config.json: ")


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), st.text(max_size=5), st.just([]),
    st.lists(st.one_of(st.integers(0, 3), st.text(max_size=5), st.none()), max_size=3),
    st.dictionaries(st.sampled_from(["bits", "quant_method", "group_size", "factor"]), st.integers(), max_size=3),
)  # fmt: skip
NAMES = (
    "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "vocab_size", "torch_dtype", "sliding_window", "layer_types", "hybrid_override_pattern",
    "full_attention_interval", "attn_layer_period", "attn_layer_offset", "kv_lora_rank", "num_experts",
    "mlp_only_layers", "num_experts_per_tok", "first_k_dense_replace", "moe_layer_freq", "quantization_config",
    "rope_scaling", "architectures", "text_config", "tie_word_embeddings", "max_position_embeddings",
    "num_kv_shared_layers", "linear_num_value_heads", "mamba_n_heads", "attn_layer_indices", "decoder_sparse_step",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_any_value_is_sized_or_refused(fields: dict[str, Any]) -> None:
    """Whatever stands in a field, there is a shape with finite numbers, or one message."""
    with contextlib.suppress(UsageError):
        shape = shape_of(changed(**fields))
        assert math.isfinite(shape.weight_bytes)
        assert shape.weight_bytes > 0
        sizing = size(Wish(shape, gpu("l4"), users=3, context=2), HARDWARE.gpus)
        assert all(math.isfinite(figure.value) for figure in sizing.figures)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "\x00", "[" * 100_000])
def test_files_that_are_no_config(text: str, tmp_path: Path) -> None:
    """What is not a JSON object gets one message with the file in it."""
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"config\.json: (is not JSON|holds no JSON object)"):
        read_model(path)


def test_missing_file(tmp_path: Path) -> None:
    """A path that is not there says so, also a folder without a config.json."""
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_model(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"config\.json: cannot be read"):
        read_model(tmp_path)


def test_huge_file(tmp_path: Path) -> None:
    """A file of weights given by mistake is not read."""
    path = tmp_path / "model.bin"
    with path.open("wb") as file:
        file.truncate(60_000_000)
    with pytest.raises(UsageError, match="larger than"):
        read_model(path)


def folder(path: Path) -> Path:
    (path / "config.json").write_text(json.dumps(PLAIN), encoding="utf-8")
    return path


def test_weights_from_the_index(tmp_path: Path) -> None:
    """The index of a folder knows the size of the weights better than the shape."""
    index = {"metadata": {"total_size": 123456}, "weight_map": {}}
    (folder(tmp_path) / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    shape = read_model(tmp_path)
    assert (123456, "total_size of model.safetensors.index.json") == (shape.weight_bytes, shape.weights_from)


def test_weights_from_the_files(tmp_path: Path) -> None:
    """Without an index the safetensors files are weighed."""
    (folder(tmp_path) / "model.safetensors").write_bytes(b"x" * 1000)
    assert 1000 == read_model(tmp_path).weight_bytes


@pytest.mark.parametrize(
    "index", [{}, {"metadata": None}, {"metadata": {"total_size": -1}}, {"metadata": {"total_size": True}}]
)
def test_index_without_a_size(index: dict[str, object], tmp_path: Path) -> None:
    """An index that does not know falls back to the shape."""
    (folder(tmp_path) / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert "counted from the shape" == read_model(tmp_path).weights_from


def test_given_weights(tmp_path: Path) -> None:
    """--weight-bytes wins, and nonsense is refused."""
    assert 5e9 == read_model(folder(tmp_path), 5e9).weight_bytes
    for wrong in (-1, 0, float("nan"), float("inf"), 1e18):
        with pytest.raises(UsageError, match="--weight-bytes"):
            read_model(tmp_path, wrong)
