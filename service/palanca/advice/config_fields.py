"""Fields of a model's ``config.json``: where architectures disagree on a name, and numbers that cannot be meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from palanca.errors import UsageError

_NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "dim", "model_dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "multi_query_group_num", "n_kv_heads"),
    "head_dim": ("kv_channels", "attention_head_dim"),
    "intermediate_size": ("n_inner", "ffn_hidden_size", "ffn_dim"),
    "vocab_size": ("padded_vocab_size",),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "max_sequence_length"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": ("num_experts_per_token", "moe_k", "top_k_experts", "moe_topk"),
    "moe_intermediate_size": ("expert_ffn_hidden_size",),
    "torch_dtype": ("dtype",),
}
_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma3_text": {
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
        "sliding_window": 4096, "sliding_window_pattern": 6, "max_position_embeddings": 131072,
    },
    "gemma2": {"head_dim": 256, "sliding_window": 4096},
    "gemma": {"head_dim": 256},
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "qwen3": {"head_dim": 128},
    "qwen3_moe": {"head_dim": 128},
    "qwen3_next": {"head_dim": 256, "full_attention_interval": 4},
    "mistral": {"num_key_value_heads": 8},
    "mixtral": {"num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2},
    "llama4_text": {"attention_chunk_size": 8192},
}  # fmt: skip
"""What Hugging Face's configuration classes assume where a ``config.json`` of that type is silent."""
LARGEST = 1e9
"""No field of a model's shape is larger."""
_SHOWN = 10**60


@dataclass(frozen=True)
class Fields:
    """One ``config.json`` as read, or the part of it that describes the language model."""

    data: Mapping[str, Any]
    place: str = "config.json"
    outer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model_type(self) -> str:
        """``qwen2``, ``gemma3_text``, ...; empty when not given."""
        return str(self.data.get("model_type") or "")

    def raw(self, name: str) -> Any:  # noqa: ANN401  JSON is anything
        """Return a field under any of its names, also from the outer configuration; None when absent or null."""
        for source in (self.data, self.outer):
            for key in (name, *_NAMES.get(name, ())):
                if source.get(key) is not None:
                    return source[key]
        return _DEFAULTS.get(self.model_type, {}).get(name)

    def count(self, name: str) -> int | None:
        """Return a whole number above 0, or None when the field is absent. Raises ``UsageError`` for another value."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124  NaN
            raise self.fault(name, value, "is not a whole number")
        if not 0 < value <= LARGEST or value != int(value):
            raise self.fault(name, value, "is not a number that a model can have")
        return int(value)

    def size(self, name: str) -> int:
        """Return a whole number, 0 when the field is absent or 0."""
        return 0 if self.raw(name) == 0 else self.count(name) or 0

    def needed(self, name: str) -> int:
        """Return a whole number above 0. Raises ``UsageError`` when the field is absent."""
        value = self.count(name)
        if value is None:
            known = ", ".join(sorted(str(key) for key in self.data)[:8]) or "none"
            raise UsageError(
                f"{self.place}: field {name!r} is missing (its fields: {known}); "
                "give the config.json of a Hugging Face model with a language model in it"
            )
        return value

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return a list of words, or None when the field is absent or something else."""
        value = self.raw(name)
        return tuple(str(item) for item in value) if isinstance(value, list) else None

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return an object, empty when the field is absent or something else."""
        value = self.raw(name)
        return value if isinstance(value, dict) else {}

    def fault(self, name: str, value: object, message: str) -> UsageError:
        """Make the error for a value that cannot be meant."""
        shown = "of so many digits" if isinstance(value, int) and abs(value) > _SHOWN else repr(str(value)[:60])
        return UsageError(f"{self.place}: {name} {shown} {message}")
