"""Which layers of a model keep what: a full KV cache, one of a sliding window, a constant state, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Literal

from palanca.advice.arithmetic import held_tokens, kv_bytes_per_token, kv_heads_per_gpu, latent_bytes_per_token

if TYPE_CHECKING:
    from palanca.advice.config_fields import Fields

Kind = Literal["full", "window", "state", "none"]

_WORDS: dict[str, Kind] = {
    "full_attention": "full", "attention": "full", "sliding_attention": "window", "chunked_attention": "window",
    "local_attention": "window", "linear_attention": "state", "mamba": "state", "mamba2": "state", "ssm": "state",
    "conv": "state", "recurrent": "state", "lightning": "state", "hybrid": "full", "mlp": "none", "moe": "none",
    "M": "state", "*": "full", "-": "none", "E": "none", "1": "full", "0": "state",
}  # fmt: skip
"""Words of ``layer_types``, ``layers_block_type``, ``hybrid_override_pattern`` and ``attn_type_list``."""
_BOTH = frozenset({"falcon_h1"})
"""Architectures with a state beside the attention in every layer."""
_STATE_BYTES = 4
"""Bytes of an element of the recurrent state: FP32, the most that vLLM keeps (``--mamba-ssm-cache-dtype``)."""
_CONV_BYTES = 2
MOST_LAYERS = 10_000


@dataclass(frozen=True)
class KvGroup:
    """Layers that keep the same: ``window`` tokens at most (None: all); ``latent`` elements a token under MLA."""

    layers: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    latent: int | None = None

    def bytes_per_token(self, element_bytes: float, gpus: int = 1) -> float:
        """Bytes that one token holds on one GPU. Latents are copied to every GPU, KV heads are divided among them."""
        if self.latent is not None:
            return latent_bytes_per_token(self.latent, 0, self.layers, element_bytes)
        return kv_bytes_per_token(kv_heads_per_gpu(self.kv_heads, gpus), self.head_dim, self.layers, element_bytes)

    def sequence_bytes(self, context: float, element_bytes: float, gpus: int = 1) -> float:
        """Bytes that a sequence of ``context`` tokens holds on one GPU."""
        return self.bytes_per_token(element_bytes, gpus) * held_tokens(context, self.window)


def layer_kinds(fields: Fields) -> tuple[Kind, ...]:
    """Tell what each layer keeps, the first layer first."""
    layers = fields.needed("num_hidden_layers")
    if layers > MOST_LAYERS:
        raise fields.fault("num_hidden_layers", layers, f"is more than {MOST_LAYERS}")
    return _listed(fields, layers) or _window_kinds(fields, layers)


def _listed(fields: Fields, layers: int) -> tuple[Kind, ...]:
    """Read the kinds where the configuration lists them or gives their period; empty where it does not."""
    words = _words(fields)
    if words:
        return tuple(_kind(word) for word in islice(cycle(words), layers))
    indices = fields.raw("attn_layer_indices")
    if isinstance(indices, list):
        return tuple(_either(full=index in indices) for index in range(layers))
    period, offset = fields.count("attn_layer_period"), fields.size("attn_layer_offset")
    if period:
        return tuple(_either(full=index % period == offset) for index in range(layers))
    interval = fields.count("full_attention_interval")
    if interval:
        return tuple(_either(full=(index + 1) % interval == 0) for index in range(layers))
    return ()


def _kind(word: str) -> Kind:
    return _WORDS.get(word, "full")


def _either(*, full: bool) -> Kind:
    return "full" if full else "state"


def _windowed(*, window: bool) -> Kind:
    return "window" if window else "full"


def _all_full(layers: int) -> tuple[Kind, ...]:
    return tuple(_either(full=True) for _ in range(layers))


def _words(fields: Fields) -> tuple[str, ...] | None:
    for name in ("layer_types", "layers_block_type", "attn_type_list"):
        words = fields.names(name)
        if words:
            return words
    pattern = fields.raw("hybrid_override_pattern")
    return tuple(pattern) if isinstance(pattern, str) and pattern else None


def _window_kinds(fields: Fields, layers: int) -> tuple[Kind, ...]:
    """Spread sliding windows over the layers as the architecture does where its configuration has no list."""
    if window_size(fields) is None:
        return _all_full(layers)
    if fields.model_type == "gemma2":
        return tuple(_windowed(window=index % 2 == 0) for index in range(layers))
    pattern = fields.count("sliding_window_pattern")
    if pattern:
        return tuple(_windowed(window=(index + 1) % pattern > 0) for index in range(layers))
    if fields.model_type.startswith("llama4"):
        return tuple(_windowed(window=(index + 1) % 4 > 0) for index in range(layers))
    first = fields.size("max_window_layers") if fields.raw("use_sliding_window") is not None else 0
    return tuple(_windowed(window=index >= first) for index in range(layers))


def window_size(fields: Fields) -> int | None:
    """Return the tokens of a sliding or chunked window; None when there is none or it is switched off."""
    if fields.raw("use_sliding_window") is False:
        return None
    return fields.count("sliding_window") or fields.count("attention_chunk_size")


def kv_groups(fields: Fields, kinds: tuple[Kind, ...], heads: int) -> tuple[KvGroup, ...]:
    """Group the layers that keep KV; layers that share the KV of an earlier one keep none."""
    shared = min(fields.size("num_kv_shared_layers"), len(kinds))
    counts = Counter(kinds[: len(kinds) - shared])
    kv_heads, head_dim = heads_of(fields, heads)
    latent = fields.count("kv_lora_rank")
    if latent is not None:
        width = latent + fields.size("qk_rope_head_dim")
        return (KvGroup(counts["full"] + counts["window"], 1, width, None, width),)
    full = KvGroup(
        counts["full"],
        fields.count("num_global_key_value_heads") or kv_heads,
        fields.count("global_head_dim") or head_dim,
    )
    window = KvGroup(counts["window"], kv_heads, head_dim, window_size(fields))
    return tuple(group for group in (full, window) if group.layers)


def heads_of(fields: Fields, heads: int) -> tuple[int, int]:
    """Return KV heads and the size of a head. Raises ``UsageError`` where the numbers do not fit each other."""
    if fields.raw("multi_query") is True and not fields.raw("new_decoder_architecture"):
        kv_heads = 1
    else:
        kv_heads = fields.count("num_key_value_heads") or heads
    if heads % kv_heads:
        raise fields.fault("num_key_value_heads", kv_heads, f"does not divide num_attention_heads, {heads}")
    head_dim = fields.count("head_dim")
    if head_dim is None:
        hidden = fields.needed("hidden_size")
        if hidden % heads:
            raise fields.fault("num_attention_heads", heads, f"does not divide hidden_size, {hidden}")
        head_dim = hidden // heads
    return kv_heads, head_dim


def stateful_layers(fields: Fields, kinds: Sequence[Kind]) -> int:
    """Count the layers with a recurrent state."""
    return len(kinds) if fields.model_type in _BOTH else kinds.count("state")


def state_bytes(fields: Fields, kinds: tuple[Kind, ...]) -> float:
    """Bytes of recurrent state that one sequence holds in all layers together, whatever its length."""
    layers = stateful_layers(fields, kinds)
    if not layers:
        return 0.0
    if fields.raw("linear_num_value_heads") is not None:  # gated delta net (Qwen3-Next)
        key = fields.needed("linear_num_key_heads") * fields.needed("linear_key_head_dim")
        heads, value_dim = fields.needed("linear_num_value_heads"), fields.needed("linear_value_head_dim")
        conv = (fields.needed("linear_conv_kernel_dim") - 1) * (2 * key + heads * value_dim)
        state = heads * value_dim * fields.needed("linear_key_head_dim")
    else:
        inner, wide = mamba_inner(fields), mamba_state(fields)
        groups = fields.count("mamba_n_groups") or fields.count("n_groups") or 0
        kernel = fields.count("mamba_d_conv") or fields.count("conv_kernel") or 4
        conv, state = (kernel - 1) * (inner + 2 * groups * wide), inner * wide
    return float(layers * (conv * _CONV_BYTES + state * _STATE_BYTES))


def mamba_inner(fields: Fields) -> int:
    """Return the inner width of a Mamba layer."""
    heads = fields.count("mamba_n_heads") or fields.count("mamba_num_heads")
    each = fields.count("mamba_d_head") or fields.count("mamba_head_dim")
    if heads and each:
        return heads * each
    hidden = fields.needed("hidden_size")
    return fields.count("mamba_d_ssm") or hidden * (fields.count("mamba_expand") or fields.count("expand") or 2)


def mamba_state(fields: Fields) -> int:
    """Return the elements of state for each inner channel of a Mamba layer."""
    return fields.count("mamba_d_state") or fields.count("ssm_state_size") or fields.count("state_size") or 16
