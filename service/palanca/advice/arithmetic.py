"""Memory and bandwidth arithmetic of serving a language model. Pure formulas; bytes, seconds and tokens throughout.

Sizes are bytes (GB = 10^9), bandwidth is bytes per second, a context is the tokens that one sequence holds in the KV
cache. Sources: the seed articles with their errors mended, vLLM's released code, and one measurement on an H200.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

GB = 1e9
GIB = 2.0**30
EFFICIENCY = 0.65
"""Share of the nominal bandwidth that a decode step reaches (measured: 0.67 on an H200, 15.2 GB at 212 tokens/s)."""
COMPUTE_EFFICIENCY = 0.5
"""Share of the nominal FLOP/s that prefill reaches (seed article: 40-60 %)."""
HEADROOM = 0.9
"""Share of the KV cache that is planned for; the rest absorbs longer requests."""
GRAPH_STEP = 8
"""Slots are kept at multiples of this: CUDA graphs are captured at 8, 16, 24, ... sequences (vLLM #57355)."""
BLOCK = 16
"""Tokens in a KV block by default."""


# --- memory --------------------------------------------------------------------------------------


def kv_bytes_per_token(kv_heads: float, head_dim: float, layers: float, element_bytes: float) -> float:
    """Bytes that one token holds: keys and values of every KV head in every layer (grouped-query attention)."""
    return 2 * kv_heads * head_dim * layers * element_bytes


def latent_bytes_per_token(kv_lora_rank: float, rope_dim: float, layers: float, element_bytes: float) -> float:
    """Bytes that one token holds under multi-head latent attention: one latent and one rotary key, no values."""
    return (kv_lora_rank + rope_dim) * layers * element_bytes


def kv_heads_per_gpu(kv_heads: int, gpus: int) -> int:
    """KV heads on each GPU under tensor parallelism; with fewer heads than GPUs each GPU holds a copy of one."""
    return max(1, math.ceil(kv_heads / gpus))


def held_tokens(context: float, window: float | None) -> float:
    """Tokens that a layer keeps of a context; a sliding-window layer keeps at most its window."""
    return context if window is None else min(context, window)


def kv_pool(
    total_bytes: float, utilization: float, weight_bytes: float, activation_bytes: float = 0.0, graph_bytes: float = 0.0
) -> float:
    """Bytes left for the KV cache of one GPU; negative when the rest does not fit.

    ``utilization`` is a share of TOTAL memory, for everything (vLLM 0.33.0, ``v1/worker/utils.py``), and not of what
    the weights leave, as the seed article has it (0.90 x 10 GB).
    """
    return total_bytes * utilization - weight_bytes - activation_bytes - graph_bytes


def tokens_that_fit(pool_bytes: float, bytes_per_token: float, block: int = 1) -> int:
    """Tokens that a pool holds, in whole blocks of ``block`` tokens; 0 for a pool that is none."""
    if pool_bytes <= 0:
        return 0
    return int(pool_bytes / bytes_per_token) // block * block


def whole_slots(sequences: float) -> int:
    """Round slots down to a multiple of 8; below 8, to a whole number."""
    whole = max(int(sequences), 0)
    return whole if whole < GRAPH_STEP else whole // GRAPH_STEP * GRAPH_STEP


def sequences_that_fit(tokens: float, prompt: float, generation: float) -> int:
    """Sequences that fit: 0.9 x tokens / (prompt + generation / 2), in whole slots.

    A sequence that is being generated holds its prompt and on average half of its answer.
    """
    held = prompt + generation / 2
    return whole_slots(HEADROOM * tokens / held) if held > 0 else 0


# --- decode --------------------------------------------------------------------------------------


def step_time(read_bytes: float, bandwidth: float, efficiency: float = EFFICIENCY) -> float:
    """Seconds that one decode step takes at least: all weights and the KV of all running contexts are read once."""
    return read_bytes / (efficiency * bandwidth)


def decode_step(
    weight_bytes: float,
    contexts: Sequence[float],
    kv_bytes: float,
    bandwidth: float,
    efficiency: float = EFFICIENCY,
) -> float:
    """Seconds of one step: (weights + sum of contexts x KV bytes per token) / (efficiency x bandwidth).

    With batch 1, no context and efficiency 1 this is the seed article's ceiling: 14 GB / 1,008 GB/s = 13.9 ms.
    """
    return step_time(weight_bytes + sum(contexts) * kv_bytes, bandwidth, efficiency)


def throughput(batch: float, step: float) -> float:
    """Tokens per second of ``batch`` sequences together; each of them gets ``1 / step``."""
    return batch / step


def experts_read(experts: int, per_token: int, batch: float) -> float:
    """Distinct experts of a layer that ``batch`` tokens touch, expected, if routing is even: E (1 - (1 - k/E)^B)."""
    untouched: float = (1 - min(per_token / experts, 1.0)) ** batch
    return experts * (1 - untouched)


# --- prefill -------------------------------------------------------------------------------------


def attention_flops(tokens: float, width: float, layers: int = 1) -> float:
    """Work of attention over a prompt: about 4 N^2 d a layer, so 4 times the tokens are 16 times the work.

    Counts the full square; a causal kernel does half of it. ``width`` is heads x head size.
    """
    return 4 * tokens**2 * width * layers


def prefill_flops(tokens: float, parameters: float, width: float, layers: int) -> float:
    """Work of a prefill: 2 FLOP per parameter and token, and the causal half of the attention's square."""
    return 2 * parameters * tokens + attention_flops(tokens, width, layers) / 2


def prefill_tokens_in_step(budget: float, running: float) -> float:
    """Tokens of the step's budget that are left for prefill: each running sequence takes one first."""
    return max(budget - running, 0.0)


def fillable_tokens(slots: float, prompt: float) -> float:
    """Prefill tokens that ``slots`` prompts can bring at most: 4 x 512 = 2,048 never fill a budget of 8,192."""
    return slots * prompt


def prefix_saving(requests: float, sharing: float, computed: float = 1.0) -> float:
    """Share of the prefix's prefill that a prefix cache saves when ``sharing`` of ``requests`` begin alike.

    The first of them (``computed``) has to be computed; blocks that were evicted are computed again.
    """
    return max(sharing - computed, 0.0) / requests


# --- speculation ---------------------------------------------------------------------------------


def position_rates(accepted: Sequence[float], drafts: float) -> tuple[float, ...]:
    """Share of drafts of which position i was accepted, from vLLM's ``_per_pos`` counters; cumulative already."""
    return tuple(count / drafts for count in accepted)


def tokens_per_step(rates: Sequence[float]) -> float:
    """Tokens that a verified step gives: 1 + the sum of the (cumulative) rates of the positions."""
    return 1 + sum(rates)


def tokens_per_step_even(rate: float, draft_tokens: int) -> float:
    """Tokens that a step gives if each position is accepted with the same chance: (1 - a^(k+1)) / (1 - a)."""
    if rate >= 1:
        return draft_tokens + 1.0
    return (1 - rate ** (draft_tokens + 1)) / (1 - rate)


def draft_acceptance(rates: Sequence[float]) -> float:
    """Share of all draft tokens that were accepted; it falls with the number of positions by construction."""
    return sum(rates) / len(rates)


def speculation_gain(step_tokens: float, draft_tokens: int, draft_cost: float) -> float:
    """How much faster decode gets: tokens per step / (1 + k x cost of a draft token in verifier steps)."""
    return step_tokens / (1 + draft_tokens * draft_cost)


# --- how many ------------------------------------------------------------------------------------


def in_flight(rate: float, latency: float) -> float:
    """Requests in the system (Little's law): arrivals per second x seconds that each stays."""
    return rate * latency


def replicas(concurrent: float, slots: float) -> int:
    """Engines needed to hold ``concurrent`` requests when each runs ``slots``."""
    return math.ceil(concurrent / slots)
