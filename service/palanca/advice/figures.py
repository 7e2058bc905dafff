"""The numbers of a sizing, each with its formula, the numbers in it and how far it can be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.advice import fit
from palanca.advice.arithmetic import COMPUTE_EFFICIENCY, EFFICIENCY, GB, throughput

if TYPE_CHECKING:
    from palanca.advice.fit import EnginePlan, Load, Memory

_MIB = 2.0**20


@dataclass(frozen=True)
class Figure:
    """One number: ``value`` in ``unit``, ``formula`` in words, ``inputs`` put in, ``note`` on source or uncertainty."""

    id: str
    title: str
    value: float
    unit: str
    formula: str
    inputs: str
    note: str = ""


def memory_figures(plan: EnginePlan, memory: Memory, load: Load, sequences: int) -> tuple[Figure, ...]:
    """Return the figures of one GPU's memory and of what fits in it."""
    held = load.held
    per_token = fit.bytes_per_token(plan, held)
    tokens = fit.tokens(plan, memory.pool, held)
    return (
        *_weights(plan, memory),
        _per_token(plan, held),
        Figure(
            "total_bytes", "Memory of one GPU", memory.total, "bytes", "as CUDA reports it",
            f"{plan.gpu.total_gib:g} GiB ({plan.gpu.memory_gb:g} GB printed)", plan.gpu.source,
        ),
        Figure(
            "activation_bytes", "Activations and other", memory.activations, "bytes",
            "max(layers of a full step, sampling) + libraries",
            f"budget {plan.budget}, {plan.slots} sequences, vocabulary {plan.shape.vocab}",
            "an estimate from start-up logs; vLLM measures it",
        ),
        Figure(
            "graph_bytes", "CUDA graphs", memory.graphs or memory.graphs_outside, "bytes",
            "taken from the KV cache" if memory.graphs else "on top of the utilization before 0.20.0",
            "0.23-0.73 GiB in start-up logs", "an estimate; mixtures of experts take up to 5 GiB",
        ),
        Figure(
            "pool_bytes", "KV cache of one GPU", memory.pool, "bytes",
            "utilization x total - weights - activations - graphs",
            f"{plan.utilization:g} x {memory.total / GB:.2f} - {memory.weights / GB:.2f} - "
            f"{memory.activations / GB:.2f} - {memory.graphs / GB:.2f} GB",
            f"+- {fit.POOL_ERROR / GB:g} GB",
        ),
        Figure(
            "kv_tokens", "Tokens that fit", tokens, "tokens", "KV cache / bytes per token, in blocks of 16",
            f"{max(memory.pool, 0) / GB:.2f} GB / {per_token:,.0f} bytes" + _at(plan, held),
            f"+- {fit.POOL_ERROR / per_token:,.0f} tokens",
        ),
        Figure(
            "sequences", "Sequences that fit", sequences, "requests",
            "0.9 x tokens / (prompt + generation / 2), down to a multiple of 8 (below 8: whole)",
            f"0.9 x {tokens:,} / {held:,.0f}", "one tenth is kept for longer requests",
        ),
    )  # fmt: skip


def _weights(plan: EnginePlan, memory: Memory) -> tuple[Figure, ...]:
    shape = plan.shape
    stored = str(shape.quantization) if shape.quantization else f"{shape.dtype}, {shape.dtype_bytes:g} bytes each"
    draft = f" + draft {plan.draft.weight_bytes / GB:.2f} GB" if plan.draft else ""
    return (
        Figure(
            "weight_bytes", "Weights", shape.weight_bytes, "bytes", shape.weights_from,
            f"{shape.parameters.total / GB:.2f} x 10^9 parameters, {stored}",
        ),
        Figure(
            "weight_bytes_per_gpu", "Weights on one GPU", memory.weights, "bytes", "weights / GPUs",
            f"{shape.weight_bytes / GB:.2f} GB / {plan.gpus}{draft}",
            "norms and the like are copied to every GPU: some % more" if plan.gpus > 1 else "",
        ),
    )  # fmt: skip


def _per_token(plan: EnginePlan, held: float) -> Figure:
    shape, size = plan.shape, plan.kv_element_bytes
    parts = []
    for group in shape.kv:
        if group.latent is not None:
            parts.append(f"{group.latent} x {group.layers} layers x {size:g} bytes")
        else:
            window = f" (at most {group.window:,} tokens)" if group.window else ""
            parts.append(f"2 x {group.kv_heads} x {group.head_dim} x {group.layers} layers x {size:g} bytes{window}")
    if shape.state_bytes:
        layers = f"{shape.state_layers} layers" if shape.state_layers else "every layer"
        parts.append(f"{shape.state_bytes / _MIB:.1f} MiB of state a sequence in {layers}")
    formula = (
        "(KV rank + rotary size) x layers x bytes, on every GPU" if shape.latent
        else "2 x KV heads x head size x layers x bytes"
    )  # fmt: skip
    total = sum(group.bytes_per_token(size) for group in shape.kv)
    per_gpu = fit.bytes_per_token(plan, held)
    note = f"{per_gpu:,.0f} on each GPU{_at(plan, held)}" if per_gpu != total else ""
    return Figure("kv_bytes_per_token", "KV cache per token", total, "bytes", formula, " + ".join(parts), note)


def _at(plan: EnginePlan, held: float) -> str:
    """Say for what length a figure holds that depends on it."""
    return f" at {held:,.0f} tokens a sequence" if plan.shape.windowed or plan.shape.hybrid else ""


def decode_figures(plan: EnginePlan, load: Load, running: int) -> tuple[Figure, ...]:
    """Return the figures of decode alone and with ``running`` sequences, and of one prefill alone."""
    one, ceiling = fit.step(plan, 1, 0, EFFICIENCY), fit.step(plan, 1, 0, 1.0)
    many = fit.step(plan, running, load.held, EFFICIENCY)
    many_ceiling = fit.step(plan, running, load.held, 1.0)
    bandwidth = f"{plan.gpus} x {plan.gpu.bandwidth_gb_s:,.0f} GB/s"
    read = f"weights and {running} x {load.held:,.0f} tokens of KV"
    formula = "(weights read + sum of contexts x KV bytes) / (efficiency x bandwidth)"
    nominal = f"at most {1 / many_ceiling:,.1f} tokens/s at the nominal bandwidth"
    return (
        Figure(
            "decode_alone_ceiling", "Decode, one user, nominal bandwidth", 1 / ceiling, "tokens/s", formula,
            f"efficiency 1, no context, {bandwidth}", "no setting passes this without speculation",
        ),
        Figure(
            "decode_alone", "Decode, one user", 1 / one, "tokens/s", formula,
            f"efficiency {EFFICIENCY:g}, no context, {bandwidth}", "0.67 was measured on an H200",
        ),
        Figure("running", "Users running at once", running, "requests", "the smallest of users, slots, what fits", ""),
        Figure("step_s", "Time of a step then", many, "s", formula, f"{read}, efficiency {EFFICIENCY:g}, {bandwidth}"),
        Figure("decode_per_user", "Decode, each user", 1 / many, "tokens/s", "1 / step", read, nominal),
        Figure(
            "decode_total", "Decode, all users", throughput(running, many), "tokens/s", "running / step", read,
            "compute, not bandwidth, limits very large batches" if running > 256 else "",  # noqa: PLR2004
        ),
        Figure(
            "prefill_s", "Prefill of one prompt, alone", fit.prefill_seconds(plan, load.prompt), "s",
            "(2 x parameters x N + 2 N^2 d x layers) / (efficiency x FLOP/s)",
            f"N = {load.prompt:,.0f}, efficiency {COMPUTE_EFFICIENCY:g}, {plan.gpus} x {plan.gpu.tflops:g} TFLOP/s",
            "waiting comes on top; 40-60 % of the FLOP/s are usual",
        ),
    )  # fmt: skip
