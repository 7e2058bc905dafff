"""How much of a GPU is left for the KV cache, and how many tokens and sequences that holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from palanca.advice import arithmetic
from palanca.advice.arithmetic import GB
from palanca.advice.serve_line import Engine, graphs_in_pool
from palanca.errors import UsageError
from palanca.releases import Release

if TYPE_CHECKING:
    from palanca.advice.hardware import Gpu
    from palanca.advice.model_config import ModelShape

KvType = Literal["auto", "fp8"]

SAMPLER_BYTES = {"V0": 38.0, "V1": 12.0}
"""Bytes for each logit that sampling takes at its peak. V0: start-up logs of 0.6-0.7 with 256 sequences (1.19-1.26 GiB
at a vocabulary of 128,256; 1.39-1.45 GiB at 151,936). V1: Llama-3.1-8B with 1,024 sequences, 1.44 GiB."""
OTHER_BYTES = 0.2 * GB
"""CUDA libraries and workspaces of one GPU (start-up logs: 0.05-0.26 GiB)."""
PARALLEL_BYTES = 0.5 * GB
"""NCCL and all-reduce buffers on top with several GPUs (an estimate)."""
GRAPH_BYTES = 0.5 * GB
"""CUDA graphs of a dense model (start-up logs: 0.23-0.73 GiB; mixtures of experts up to 5 GiB)."""
POOL_ERROR = 1.0 * GB
"""How far the KV pool may be off per GPU; within 0.8 GB for five start-up logs and recordings of dense models."""
_ALIGNED = frozenset({"awq", "gptq", "compressed-tensors"})
"""Quantisations whose groups must not be cut by tensor parallelism ("not aligned with the quantized weight shape")."""
_HYBRID_MANAGER = Release("0.9.1")
"""From here on vLLM gives windows of a mixed model their own blocks (``--disable-hybrid-kv-cache-manager``)."""


@dataclass(frozen=True)
class Load:
    """What one sequence holds: its prompt, and in the mean half of its answer."""

    prompt: float
    generation: float = 0.0

    @property
    def held(self) -> float:
        """Tokens that a sequence holds in the mean."""
        return self.prompt + self.generation / 2

    @property
    def longest(self) -> int:
        """Tokens that a sequence holds at its end."""
        return int(self.prompt + self.generation)


@dataclass(frozen=True)
class EnginePlan:
    """One engine: a model on so many GPUs of a kind, in one release, with its limits."""

    shape: ModelShape
    gpu: Gpu
    gpus: int
    release: Release
    engine: Engine
    utilization: float
    budget: int
    slots: int
    kv_type: KvType
    draft: ModelShape | None = None

    @property
    def kv_element_bytes(self) -> float:
        """Bytes of one element of the KV cache."""
        return 1.0 if self.kv_type == "fp8" else self.shape.dtype_bytes


@dataclass(frozen=True)
class Memory:
    """One GPU's memory in bytes. ``graphs_outside``: graphs that come on top of the utilization."""

    total: float
    usable: float
    weights: float
    activations: float
    graphs: float
    graphs_outside: float
    pool: float


def check_parallel(shape: ModelShape, gpus: int) -> None:
    """Refuse tensor parallelism that vLLM refuses. Raises ``UsageError`` with the counts that divide."""
    if gpus < 1:
        raise UsageError(f"--gpus {gpus} cannot be; give 1 or more")
    valid = parallel_counts(shape)
    if gpus not in valid:
        counts = ", ".join(map(str, valid))
        raise UsageError(
            f"{gpus} GPUs do not divide the {shape.heads} attention heads and {shape.kv_heads} KV heads of "
            f"{shape.name}; use {counts}, or several engines (--data-parallel-size)"
        )


def parallel_counts(shape: ModelShape) -> tuple[int, ...]:
    """Counts of GPUs over which a model can be split: they divide its heads and widths."""
    return tuple(gpus for gpus in range(1, min(shape.heads, 64) + 1) if _divides(shape, gpus))


def _divides(shape: ModelShape, gpus: int) -> bool:
    if shape.heads % gpus:
        return False
    if not all(group.latent or group.kv_heads % gpus == 0 or gpus % group.kv_heads == 0 for group in shape.kv):
        return False
    width = shape.experts.width if shape.experts else shape.intermediate
    aligned = shape.quantization.group if shape.quantization and shape.quantization.method in _ALIGNED else 0
    return width % gpus == 0 and (aligned <= 0 or gpus == 1 or width // gpus % aligned == 0)


def memory(engine: EnginePlan) -> Memory:
    """Split one GPU's memory."""
    total = engine.gpu.total_bytes
    weights = engine.shape.weight_bytes / engine.gpus + (engine.draft.weight_bytes if engine.draft else 0)
    activations = activation_bytes(engine)
    inside = graphs_in_pool(engine.release)
    pool = arithmetic.kv_pool(total, engine.utilization, weights, activations, GRAPH_BYTES if inside else 0)
    return Memory(
        total=total,
        usable=total * engine.utilization,
        weights=weights,
        activations=activations,
        graphs=GRAPH_BYTES if inside else 0.0,
        graphs_outside=0.0 if inside else GRAPH_BYTES,
        pool=pool,
    )


def activation_bytes(engine: EnginePlan) -> float:
    """Peak bytes besides weights, KV and graphs on one GPU: the larger of a full step's layers and sampling.

    Layers: tokens x (3 x feed-forward width / GPUs + 4 x hidden) x bytes; a mixture of experts holds a token once for
    each expert that it uses. Sampling: slots x vocabulary x bytes a logit. An estimate (vLLM measures at start-up).
    """
    shape, size = engine.shape, engine.shape.dtype_bytes
    wide = 3 * shape.intermediate / engine.gpus
    if shape.experts is not None:
        width = shape.experts.width / engine.gpus
        wide = max(wide, shape.experts.active * (max(2 * width, shape.hidden) + width))
    layers = engine.budget * (wide + 4 * shape.hidden) * size
    sampling = engine.slots * shape.vocab * SAMPLER_BYTES[engine.engine]
    return max(layers, sampling) + OTHER_BYTES + (PARALLEL_BYTES if engine.gpus > 1 else 0)


def sequence_bytes(engine: EnginePlan, context: float) -> float:
    """Bytes that a sequence of ``context`` tokens holds on one GPU: its KV in every layer, and its state."""
    models = [engine.shape, *([engine.draft] if engine.draft else [])]
    held = 0.0
    for shape in models:
        gpus = engine.gpus if shape is engine.shape else 1
        groups = shape.kv
        mixed = len(groups) > 1 and engine.release < _HYBRID_MANAGER
        for group in groups:
            length = group.bytes_per_token(engine.kv_element_bytes, gpus) * context
            held += length if mixed else group.sequence_bytes(context, engine.kv_element_bytes, gpus)
        held += shape.state_bytes / gpus
    return held


def bytes_per_token(engine: EnginePlan, context: float) -> float:
    """Bytes that a token of a sequence of ``context`` tokens costs on one GPU, in the mean."""
    return sequence_bytes(engine, context) / context


def tokens(engine: EnginePlan, pool: float, context: float) -> int:
    """Tokens that fit when sequences hold ``context`` tokens each."""
    return arithmetic.tokens_that_fit(pool, bytes_per_token(engine, context), arithmetic.BLOCK)


def sequences(engine: EnginePlan, load: Load) -> int:
    """Sequences of a load that fit at once, with a tenth to spare, in whole slots; 1 where one just fits."""
    pool = memory(engine).pool
    if sequence_bytes(engine, load.longest) > pool:
        return 0
    fitting = tokens(engine, pool, load.held)
    return max(arithmetic.sequences_that_fit(fitting, load.prompt, load.generation), 1)


def step(engine: EnginePlan, batch: float, held: float, efficiency: float) -> float:
    """Seconds of a decode step of ``batch`` sequences that hold ``held`` tokens each; GPUs read their parts at once."""
    share = engine.shape.parameters.read(engine.shape.experts, batch) / engine.shape.parameters.total
    weights = engine.shape.weight_bytes * share / engine.gpus
    contexts = batch * sequence_bytes(without_draft(engine), held) if held > 0 else 0.0
    return arithmetic.step_time(weights + contexts, engine.gpu.bandwidth, efficiency)


def without_draft(engine: EnginePlan) -> EnginePlan:
    """Return the same engine without a draft model."""
    return engine if engine.draft is None else replace(engine, draft=None)


def prefill_seconds(engine: EnginePlan, prompt: float) -> float:
    """Seconds that the prefill of one prompt takes alone, at half of the nominal FLOP/s."""
    shape = engine.shape
    width = shape.hidden if shape.latent else shape.heads * shape.head_dim
    parameters = shape.parameters.active(shape.experts) - shape.parameters.embedding
    work = arithmetic.prefill_flops(prompt, parameters, width, shape.attention_layers)
    return work / (arithmetic.COMPUTE_EFFICIENCY * engine.gpus * engine.gpu.flops)
