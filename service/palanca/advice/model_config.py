"""A model's ``config.json`` as the shape that memory and bandwidth depend on.

``read_model`` reads a file or a folder, ``shape_of`` is pure. What is approximated stands in ``notes``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palanca.advice.config_fields import Fields
from palanca.advice.model_layers import KvGroup, kv_groups, layer_kinds, state_bytes, stateful_layers
from palanca.advice.model_weights import (
    Experts,
    Parameters,
    Quantization,
    count_parameters,
    experts_of,
    weight_bytes,
)
from palanca.errors import UsageError
from palanca.quantities import is_number

_LARGEST = 50_000_000  # bytes; an index of a very large model is some MB
_LARGEST_GROUP = 65536
_INDEX = "model.safetensors.index.json"
_INNER = ("text_config", "llm_config", "language_config", "thinker_config", "language_model_config")
_KNOWN = (
    "llama", "qwen", "mistral", "mixtral", "gemma", "deepseek", "phi", "cohere", "olmo", "granite", "gpt_oss", "glm",
    "internlm", "exaone", "falcon", "starcoder", "nemotron", "jamba", "bamba", "kimi", "minimax", "smollm", "baichuan",
    "gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "mpt", "stablelm", "ernie", "dots", "seed_oss", "yi",
)  # fmt: skip
"""Beginnings of ``model_type`` whose layers are counted as they are; others are counted like Llama."""
_DTYPE_BYTES = {"bfloat16": 2.0, "float16": 2.0, "half": 2.0, "float32": 4.0, "float": 4.0}
_BITS: Mapping[str, float] = {"fp8": 8, "fbgemm_fp8": 8, "awq": 4, "gptq": 4, "mxfp4": 4, "compressed-tensors": 8,
                              "nvfp4": 4}  # fmt: skip


@dataclass(frozen=True)
class ModelShape:
    """What of a model matters for memory and bandwidth.

    ``weight_bytes`` is for all GPUs together; ``weights_from`` says where it comes from. ``state_bytes`` is what one
    sequence holds whatever its length. ``notes`` lists approximations.
    """

    name: str
    model_type: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    intermediate: int
    kv: tuple[KvGroup, ...]
    state_layers: int
    state_bytes: float
    experts: Experts | None
    parameters: Parameters
    weight_bytes: float
    weights_from: str
    quantization: Quantization | None
    dtype: str
    dtype_bytes: float
    max_model_len: int | None
    notes: tuple[str, ...] = ()

    @property
    def attention_layers(self) -> int:
        """Layers that keep KV."""
        return sum(group.layers for group in self.kv)

    @property
    def latent(self) -> bool:
        """Multi-head latent attention."""
        return any(group.latent is not None for group in self.kv)

    @property
    def windowed(self) -> bool:
        """Some layer keeps a window only."""
        return any(group.window is not None for group in self.kv)

    @property
    def hybrid(self) -> bool:
        """Some layer keeps a state instead of KV."""
        return self.state_bytes > 0


def read_model(path: Path, weight_bytes: float | None = None) -> ModelShape:
    """Read ``config.json`` from a file or a folder; the weights' size from the safetensors beside it, if there are.

    Raises ``UsageError`` for what is missing, no JSON, or no language model.
    """
    file = path / "config.json" if path.is_dir() else path
    shape = shape_of(_json(file), str(file))
    if path.is_dir() and weight_bytes is None:
        return _with_stored_weights(shape, path)
    return shape if weight_bytes is None else with_weights(shape, weight_bytes, "--weight-bytes")


def with_weights(shape: ModelShape, size: float, source: str) -> ModelShape:
    """Replace the computed size of the weights by a known one."""
    if not 0 < size < 1e15:  # noqa: PLR2004  a petabyte
        raise UsageError(f"{source}: {size:g} bytes of weights cannot be; give bytes, such as 15231233024")
    return replace(shape, weight_bytes=float(size), weights_from=source)


def _with_stored_weights(shape: ModelShape, folder: Path) -> ModelShape:
    if (folder / _INDEX).is_file():
        metadata = _json(folder / _INDEX).get("metadata")
        total = metadata.get("total_size") if isinstance(metadata, dict) else None
        if is_number(total) and total > 0:
            return with_weights(shape, total, f"total_size of {_INDEX}")
    files = [file for file in folder.glob("model*.safetensors") if file.is_file()]
    total_size = sum(file.stat().st_size for file in files)
    return with_weights(shape, total_size, "size of the safetensors files") if total_size > 0 else shape


def _json(file: Path) -> Mapping[str, Any]:
    try:
        if file.stat().st_size > _LARGEST:
            raise UsageError(f"{file}: larger than {_LARGEST} bytes; this is no config.json")
        text = file.read_bytes()
    except OSError as error:
        hint = "give the model's config.json or the folder with it"
        raise UsageError(f"{file}: cannot be read: {error.strerror or error}; {hint}") from None
    return parsed(text, str(file))


def parsed(text: str | bytes, place: str) -> Mapping[str, Any]:
    """Parse a ``config.json``; ``place`` names it in errors. Raises ``UsageError`` for what is no JSON object."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: is not JSON: {str(error)[:200]}; give the model's config.json") from None
    if not isinstance(data, dict):
        raise UsageError(f"{place}: holds no JSON object; give the model's config.json")
    return data


def shape_of(config: Mapping[str, Any], place: str = "config.json") -> ModelShape:
    """Return the shape that a ``config.json`` describes. Raises ``UsageError``."""
    fields, notes = _language_model(config, place)
    heads = fields.needed("num_attention_heads")
    kinds = layer_kinds(fields)
    groups = kv_groups(fields, kinds, heads)
    if not groups:
        raise UsageError(f"{place}: no layer of {fields.model_type or 'this model'} keeps a KV cache; nothing to size")
    experts = experts_of(fields, len(kinds))
    parameters = count_parameters(fields, kinds, experts)
    dtype, dtype_bytes = _dtype(fields, notes)
    quantization = _quantization(fields, notes)
    names = fields.outer.get("architectures") or fields.data.get("architectures") or [fields.model_type or "model"]
    return ModelShape(
        name=str(names[0] if isinstance(names, list) and names else names),
        model_type=fields.model_type,
        hidden=fields.needed("hidden_size"),
        layers=len(kinds),
        heads=heads,
        kv_heads=groups[0].kv_heads,
        head_dim=groups[0].head_dim,
        vocab=fields.needed("vocab_size"),
        intermediate=fields.count("intermediate_size") or 4 * fields.needed("hidden_size"),
        kv=groups,
        state_layers=stateful_layers(fields, kinds),
        state_bytes=state_bytes(fields, kinds),
        experts=experts,
        parameters=parameters,
        weight_bytes=weight_bytes(parameters, quantization, dtype_bytes),
        weights_from="counted from the shape",
        quantization=quantization,
        dtype=dtype,
        dtype_bytes=dtype_bytes,
        max_model_len=_longest(fields),
        notes=tuple(notes),
    )


def _language_model(config: Mapping[str, Any], place: str) -> tuple[Fields, list[str]]:
    """Find the language model in a configuration, and say what is left out of it."""
    inner, outer, notes = config, config, []
    while (name := next((key for key in _INNER if isinstance(inner.get(key), dict)), None)) is not None:
        inner = inner[name]
    if inner is not config:
        notes.append("only the language model is counted: the weights of the other modalities come on top")
    shared = ("torch_dtype", "dtype", "quantization_config", "architectures", "tie_word_embeddings")
    fields = Fields(inner, place, {key: outer[key] for key in shared if inner is not config and key in outer})
    if config.get("is_encoder_decoder") is True:
        raise UsageError(f"{place}: {fields.model_type or 'this'} is an encoder-decoder; only decoders are sized")
    if not fields.model_type.startswith(_KNOWN):
        known = f"model_type {fields.model_type!r}" if fields.model_type else "a configuration without model_type"
        notes.append(f"{known} is not known here: counted like Llama; --weight-bytes gives the right size")
    return fields, notes


def _dtype(fields: Fields, notes: list[str]) -> tuple[str, float]:
    """Return the type that vLLM loads the model in, and its bytes."""
    text = str(fields.raw("torch_dtype") or "").removeprefix("torch.")
    if text in {"float32", "float"}:
        notes.append("the checkpoint is FP32; --dtype auto loads it with 16 bits")
        return "float16", 2.0
    if text not in _DTYPE_BYTES:
        notes.append(f"{f'type {text!r} is not known' if text else 'no type is given'}: 16 bits assumed")
        return "bfloat16", 2.0
    return text, _DTYPE_BYTES[text]


def _quantization(fields: Fields, notes: list[str]) -> Quantization | None:
    """Return how the checkpoint is quantised; None when it is not."""
    config = fields.mapping("quantization_config")
    if not config:
        return None
    method = str(config.get("quant_method") or config.get("quant_algo") or "unknown").lower()
    weights = _weights_of_first_group(config)
    bits = config.get("bits") or config.get("w_bit") or weights.get("num_bits")
    if method == "bitsandbytes":
        bits = 4 if config.get("load_in_4bit") else 8
    if method == "modelopt" or "quant_algo" in config:
        bits = 4 if "FP4" in str(config.get("quant_algo")).upper() else 8
    if not isinstance(bits, int | float) or isinstance(bits, bool) or not 0 < bits <= 16:  # noqa: PLR2004
        bits = _BITS.get(method)
    if bits is None:
        notes.append(f"quantisation {method!r} is not known here: 8 bits assumed; --weight-bytes gives the right size")
        return Quantization(method, 8)
    group = config.get("group_size") or config.get("q_group_size") or weights.get("group_size")
    if method == "mxfp4":
        return Quantization(method, bits, 32, scale_bytes=1.0, experts_only=True)
    if bits == 4 and "fp4" in f"{method} {config.get('quant_algo')} {config.get('format')}".lower():  # noqa: PLR2004
        return Quantization("nvfp4", bits, 16, scale_bytes=1.0)
    return Quantization(method, float(bits), group if isinstance(group, int) and 0 < group <= _LARGEST_GROUP else 0)


def _weights_of_first_group(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``weights`` of the first group of a compressed-tensors configuration."""
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            return weights
    return {}


def _longest(fields: Fields) -> int | None:
    """Return the longest context as vLLM derives it: YaRN and linear scaling stretch it, Llama 3's does not."""
    longest = fields.count("max_position_embeddings")
    scaling = fields.mapping("rope_scaling") or fields.mapping("rope_parameters")
    kind = scaling.get("rope_type") or scaling.get("type")
    factor = scaling.get("factor")
    if longest is None or not isinstance(factor, int | float) or isinstance(factor, bool) or not 1 <= factor <= 1024:  # noqa: PLR2004
        return longest
    if kind == "yarn":
        original = scaling.get("original_max_position_embeddings")
        return int((original if isinstance(original, int) and original > 0 else longest) * factor)
    if kind in {"linear", "dynamic"} and not fields.model_type.startswith("gemma"):
        return int(longest * factor)
    return longest
