"""What the tests of facts share."""

from __future__ import annotations

from collections.abc import Mapping

from palanca.model import Fact

INFO = {
    "block_size": "16",
    "num_gpu_blocks": "8000",
    "num_gpu_blocks_override": "None",
    "cache_dtype": "fp8",
    "enable_prefix_caching": "False",
    "gpu_memory_utilization": "0.9",
}


def values(facts: Mapping[str, Fact]) -> dict[str, object]:
    return {name: fact.value for name, fact in facts.items()}
