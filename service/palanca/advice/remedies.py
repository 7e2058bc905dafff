"""What would fit where a wish does not: each way tried by the same arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from palanca.advice import arithmetic, fit
from palanca.advice.arithmetic import GB
from palanca.advice.model_weights import Quantization, weight_bytes
from palanca.advice.serve_line import fp8_kv

if TYPE_CHECKING:
    from palanca.advice.fit import EnginePlan, Load
    from palanca.advice.hardware import Gpu

_FOUR_BITS = Quantization("awq", 4, 128)


def remedies(plan: EnginePlan, load: Load, users: int, others: Mapping[str, Gpu]) -> tuple[str, ...]:
    """Say what would make the wish fit, or come nearest: what removes the limit first, then what lowers the wish."""
    found = [*_alone(plan, load, users, others), *_less(plan, load, users)]
    return tuple(found) or ("nothing tried here makes it fit; a smaller model is needed",)


def _alone(plan: EnginePlan, load: Load, users: int, others: Mapping[str, Gpu]) -> Iterator[str]:
    """Changes that make all of it fit by themselves."""
    fp8 = _with_fp8(plan)
    if fp8 is not None and _fits(fp8, load, users):
        yield f"--kv-cache-dtype fp8: {_fitting(fp8, load)}"
    small = _with_four_bits(plan)
    if small is not None and _fits(small, load, users):
        yield f"4-bit weights (AWQ or GPTQ), about {small.shape.weight_bytes / GB:.1f} GB: {_fitting(small, load)}"
    if fp8 is not None and small is not None and not _fits(fp8, load, users) and not _fits(small, load, users):
        both = replace(small, kv_type="fp8")
        if _fits(both, load, users):
            yield f"4-bit weights and --kv-cache-dtype fp8: {_fitting(both, load)}"
    more = next((count for count in fit.parallel_counts(plan.shape) if count > plan.gpus and _fits(
        replace(plan, gpus=count), load, users)), None)  # fmt: skip
    if more is not None:
        yield f"--tensor-parallel-size {more}: {_fitting(replace(plan, gpus=more), load)}"
    for gpu_id, gpu in sorted(others.items(), key=lambda item: (item[1].memory_gb, item[1].bandwidth_gb_s)):
        larger = replace(plan, gpu=gpu)
        if gpu.total_gib > plan.gpu.total_gib and gpu.capability >= (8, 0) and _fits(larger, load, users):
            yield f"{plan.gpus} x {gpu_id}: {_fitting(larger, load)}"
            break
    now = fit.sequences(plan, load)
    if 0 < now < users:
        yield f"{arithmetic.replicas(users, now)} replicas of this engine, each with {now:,} users"


def _less(plan: EnginePlan, load: Load, users: int) -> Iterator[str]:
    """Smaller wishes that fit."""
    memory = fit.memory(plan)
    if memory.pool <= 0:
        return
    longest = _longest(plan, users)
    if 0 < longest < load.held:
        yield f"{users:,} users with {longest:,} tokens each"
    now = fit.sequences(plan, load)
    if 0 < now < users:
        yield f"{now:,} users at once (--max-num-seqs {now}); the others wait in the queue"


def _longest(plan: EnginePlan, users: int) -> int:
    """Return the longest context that ``users`` users can hold, by bisection: the bytes grow with the length."""
    pool = fit.memory(plan).pool * arithmetic.HEADROOM
    low, high = 0, 2**24
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if users * fit.sequence_bytes(plan, middle) <= pool else (low, middle - 1)
    return low


def _with_fp8(plan: EnginePlan) -> EnginePlan | None:
    if plan.kv_type == "fp8" or plan.shape.latent or plan.gpu.capability < (8, 9):
        return None
    return replace(plan, kv_type="fp8") if fp8_kv(plan.gpu.capability, plan.release).legal else None


def _with_four_bits(plan: EnginePlan) -> EnginePlan | None:
    shape = plan.shape
    size = weight_bytes(shape.parameters, _FOUR_BITS, shape.dtype_bytes)
    if size > 0.75 * shape.weight_bytes:  # already small
        return None
    return replace(plan, shape=replace(shape, weight_bytes=size, quantization=_FOUR_BITS))


def _fits(plan: EnginePlan, load: Load, users: int) -> bool:
    return fit.sequences(plan, load) >= users


def _fitting(plan: EnginePlan, load: Load) -> str:
    return f"{fit.sequences(plan, load):,} such users fit"
