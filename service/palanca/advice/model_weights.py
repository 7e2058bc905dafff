"""Parameters of a model counted from its shape, and the bytes that they take as quantised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.advice.arithmetic import experts_read
from palanca.advice.model_layers import heads_of, mamba_inner, mamba_state, stateful_layers

if TYPE_CHECKING:
    from palanca.advice.config_fields import Fields
    from palanca.advice.model_layers import Kind

_TWO_MATRICES = frozenset({
    "gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "falcon", "mpt", "phi", "starcoder2", "nemotron",
    "nemotron_h", "codegen", "persimmon",
})  # fmt: skip
"""Architectures whose feed-forward part has no gate: two matrices instead of three."""
_TIED = frozenset({"gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "cohere", "cohere2", "gpt2"})
"""Architectures that share the embedding with the output where their configuration does not say."""
_FOUR_NORMS = frozenset({"gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "glm4", "olmo2"})
_HEAD_NORMS = frozenset({"gemma3_text", "gemma4_text", "qwen3", "qwen3_moe", "qwen3_next"})
_QKV_BIAS = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"})


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: ``layers`` layers, each with ``total`` routed experts of which a token uses ``active``."""

    layers: int
    total: int
    active: int
    width: int


@dataclass(frozen=True)
class Parameters:
    """Parameters by what happens to them: ``linear`` and ``experts`` can be quantised, the others seldom are."""

    embedding: float
    head: float
    linear: float
    experts: float
    other: float

    @property
    def total(self) -> float:
        """All parameters of the language model."""
        return self.embedding + self.head + self.linear + self.experts + self.other

    def active(self, experts: Experts | None) -> float:
        """Parameters that one token uses."""
        return self.read(experts, 1)

    def read(self, experts: Experts | None, batch: float) -> float:
        """Parameters that a step of ``batch`` tokens reads, if routing is even."""
        if experts is None:
            return self.total
        return self.total - self.experts * (1 - experts_read(experts.total, experts.active, batch) / experts.total)


def experts_of(fields: Fields, layers: int) -> Experts | None:
    """Return the mixture of experts; None for a dense model."""
    total = fields.size("num_experts")
    if not total:
        return None
    width = fields.count("moe_intermediate_size") or fields.needed("intermediate_size")
    active = fields.count("num_experts_per_tok") or 1
    if active > total:
        raise fields.fault("num_experts_per_tok", active, f"is more than the {total} experts there are")
    return Experts(sum(_is_sparse(fields, index) for index in range(layers)), total, active, width)


def _is_sparse(fields: Fields, index: int) -> bool:
    """Whether a layer has experts."""
    if index < fields.size("first_k_dense_replace") or str(index) in (fields.names("mlp_only_layers") or ()):
        return False
    for period, offset in (("expert_layer_period", "expert_layer_offset"), ("moe_layer_freq", "")):
        if isinstance(fields.raw(period), int):
            return index % (fields.count(period) or 1) == (fields.size(offset) if offset else 0)
    step = fields.count("decoder_sparse_step") or fields.count("interleave_moe_layer_step") or 1
    pattern = fields.raw("hybrid_override_pattern")
    if isinstance(pattern, str) and "E" in pattern:
        return pattern[index % len(pattern)] == "E"
    return (index + 1) % step == 0


def count_parameters(fields: Fields, kinds: Sequence[Kind], experts: Experts | None) -> Parameters:
    """Count the parameters of a model from its shape."""
    hidden, vocab, layers = fields.needed("hidden_size"), fields.needed("vocab_size"), len(kinds)
    attention, attention_other = _attention(fields)
    attending, stateful = sum(kind in {"full", "window"} for kind in kinds), stateful_layers(fields, kinds)
    state, state_other = _state(fields) if stateful else (0, 0)
    sparse = experts.layers if experts else 0
    dense, shared, router = _feed_forward(fields, experts)
    tied = fields.raw("tie_word_embeddings")
    tied = fields.model_type in _TIED if tied is None else tied is True
    alone = _alone(fields)
    pattern = str(fields.raw("hybrid_override_pattern"))  # there a layer is attention, state or feed-forward, not two
    dense_layers = pattern.count("-") if alone else layers - sparse
    norms = hidden * ((4 if fields.model_type in _FOUR_NORMS else 1 if alone else 2) * layers + 1)
    matrices = 2 if fields.model_type in _TWO_MATRICES else 3
    return Parameters(
        embedding=vocab * hidden,
        head=0 if tied else vocab * hidden,
        linear=attention * attending + state * stateful + dense * dense_layers + shared * sparse,
        experts=matrices * hidden * experts.width * experts.total * sparse if experts else 0,
        other=norms + attention_other * attending + state_other * stateful + router * sparse,
    )


def _alone(fields: Fields) -> bool:
    return isinstance(fields.raw("hybrid_override_pattern"), str)


def _attention(fields: Fields) -> tuple[int, int]:
    """Count the matrices of one attention layer, and its biases and norms."""
    hidden, heads = fields.needed("hidden_size"), fields.needed("num_attention_heads")
    rank = fields.count("kv_lora_rank")
    if rank is not None:
        return _latent_attention(fields, hidden, heads, rank)
    kv_heads, head_dim = heads_of(fields, heads)
    gate = 2 if fields.model_type.startswith(("qwen3_next", "qwen3_5")) else 1
    query, key = heads * head_dim, kv_heads * head_dim
    other = 2 * head_dim if fields.model_type in _HEAD_NORMS else 0
    if fields.raw("attention_bias") is True or fields.model_type in _QKV_BIAS:
        other += query + 2 * key
    return hidden * (gate * query + 2 * key) + query * hidden, other


def _latent_attention(fields: Fields, hidden: int, heads: int, rank: int) -> tuple[int, int]:
    """Count multi-head latent attention (DeepSeek-V2)."""
    rope = fields.needed("qk_rope_head_dim")
    key, value = fields.needed("qk_nope_head_dim") + rope, fields.needed("v_head_dim")
    query_rank = fields.count("q_lora_rank")
    query = hidden * query_rank + query_rank * heads * key if query_rank else hidden * heads * key
    low = hidden * (rank + rope) + rank * heads * (key - rope + value)
    return query + low + heads * value * hidden, rank + (query_rank or 0)


def _state(fields: Fields) -> tuple[int, int]:
    """Count the matrices of one linear-attention or Mamba layer, and its small parts."""
    hidden = fields.needed("hidden_size")
    if fields.raw("linear_num_value_heads") is not None:
        key = fields.needed("linear_num_key_heads") * fields.needed("linear_key_head_dim")
        heads, value_dim = fields.needed("linear_num_value_heads"), fields.needed("linear_value_head_dim")
        value, kernel = heads * value_dim, fields.needed("linear_conv_kernel_dim")
        return hidden * (2 * key + 2 * value + 2 * heads) + value * hidden, (
            (2 * key + value) * kernel + 2 * heads + value_dim
        )
    inner, wide = mamba_inner(fields), mamba_state(fields)
    groups = fields.count("mamba_n_groups") or fields.count("n_groups") or 0
    heads = fields.count("mamba_n_heads") or fields.count("mamba_num_heads") or 0
    kernel = fields.count("mamba_d_conv") or fields.count("conv_kernel") or 4
    if heads:  # Mamba 2
        mixed = inner + 2 * groups * wide
        return hidden * (inner + mixed + heads) + inner * hidden, mixed * (kernel + 1) + 3 * heads + inner
    rank = fields.count("mamba_dt_rank") or -(-hidden // 16)
    return hidden * 2 * inner + inner * (rank + 2 * wide) + rank * inner + inner * hidden, inner * (kernel + wide + 3)


def _feed_forward(fields: Fields, experts: Experts | None) -> tuple[int, int, int]:
    """Count one dense feed-forward part, the shared experts of a sparse layer, and the router of one."""
    hidden = fields.needed("hidden_size")
    matrices = 2 if fields.model_type in _TWO_MATRICES else 3
    width = fields.count("intermediate_size_mlp") or fields.count("intermediate_size")
    dense = matrices * hidden * (width or 4 * hidden)
    if experts is None:
        return dense, 0, 0
    shared = fields.count("shared_expert_intermediate_size") or fields.size("n_shared_experts") * experts.width
    gate = hidden if fields.raw("shared_expert_intermediate_size") is not None else 0
    bias = experts.total if fields.raw("topk_method") == "noaux_tc" else 0
    return dense, matrices * hidden * shared, hidden * experts.total + gate + bias


@dataclass(frozen=True)
class Quantization:
    """How weights are stored: ``bits`` a parameter with a scale (and zero point) for each group of ``group``."""

    method: str
    bits: float
    group: int = 0
    scale_bytes: float = 2.0
    experts_only: bool = False

    @property
    def bytes_per_parameter(self) -> float:
        """Bytes of one quantised parameter with its share of the scales."""
        if self.group <= 0:
            return self.bits / 8
        zero = self.bits / 8 if self.scale_bytes > 1 else 0
        return self.bits / 8 + (self.scale_bytes + zero) / self.group

    def __str__(self) -> str:
        """``awq, 4 bits, groups of 128``."""
        groups = f", groups of {self.group}" if self.group > 0 else ""
        return f"{self.method}, {self.bits:g} bits{groups}{', experts only' if self.experts_only else ''}"


def weight_bytes(parameters: Parameters, quantization: Quantization | None, element_bytes: float) -> float:
    """Bytes of all weights: embeddings, output, norms and routers keep the model's type."""
    if quantization is None:
        return parameters.total * element_bytes
    small = quantization.bytes_per_parameter
    linear = element_bytes if quantization.experts_only else small
    plain = parameters.embedding + parameters.head + parameters.other
    return plain * element_bytes + parameters.linear * linear + parameters.experts * small
