"""Facts that follow from other facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palanca import expressions
from palanca.facts.told import Facts
from palanca.model import Fact, Truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palanca.model import Catalogue

NARROW_KV = ("fp8", "int8", "int4", "nvfp4", "turboquant")
"""Beginnings of --kv-cache-dtype values below 16 bits (vLLM's released code, --kv-cache-dtype)."""


def complete(catalogue: Catalogue, facts: Facts) -> Facts:
    """Derive what follows from other facts."""
    made = dict(facts)
    dtype = made.get("kv_cache_dtype")
    if dtype is not None:
        made["fp8_kv"] = Fact(str(dtype.value).startswith(NARROW_KV), dtype.provenance, dtype.source)
    override, in_bytes = made.get("num_gpu_blocks_override"), made.get("kv_cache_memory_bytes")
    for name, by_hand in (("kv_override", override), ("kv_blocks_set_by_hand", override or in_bytes)):
        if by_hand is not None:
            made[name] = Fact(value=True, provenance=by_hand.provenance, source=by_hand.source)
        elif any(
            made[one].provenance == "reported" for one in ("num_gpu_blocks", "gpu_memory_utilization") if one in made
        ):
            made[name] = Fact(value=False, provenance="reported", source="no size of the KV cache is set by hand")
    for name, spec in catalogue.facts.items():
        if spec.derive is None or name in made:
            continue
        node = expressions.parse(spec.derive)
        parts = [made.get(part) for part in expressions.names(node)]
        if all(part is not None for part in parts):
            value = float(expressions.number(node, _Scalars(made)))
            made[name] = Fact(value, parts[0].provenance, spec.derive)  # type: ignore[union-attr]
    return made


class _Scalars:
    """Lets a formula over facts read them."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self._facts = facts

    def number(self, name: str) -> NDArray[np.float64]:
        fact = self._facts.get(name)
        usable = fact is not None and isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
        return np.asarray(float(fact.value) if fact is not None and usable else np.nan)

    def fleet(self, function: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        raise KeyError(f"{function} of {values.shape} values")

    def flag(self, name: str) -> NDArray[np.uint8]:
        fact = self._facts.get(name)
        return np.asarray(np.uint8(Truth.UNKNOWN if fact is None else bool(fact.value)))

    def not_applicable(self, name: str) -> NDArray[np.bool_]:
        del name
        return np.zeros((), dtype=bool)
