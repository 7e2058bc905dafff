"""What a model on given GPUs can hold and how fast it can decode, with the formula and assumption of every number.

Pure: a shape, a GPU, a release and a load in, a frozen ``Sizing`` out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from palanca.advice import arithmetic, fit, remedies
from palanca.advice.figures import Figure, decode_figures, memory_figures
from palanca.advice.fit import EnginePlan, KvType, Load
from palanca.advice.hardware import Gpu, NamedGpu
from palanca.advice.model_config import ModelShape
from palanca.advice.serve_line import (
    NEWEST,
    OLDEST,
    DraftModel,
    ServeLine,
    Settings,
    default_budget,
    default_slots,
    default_utilization,
    serve_line,
)
from palanca.errors import UsageError
from palanca.releases import Release

ASSUMED_CONTEXT = 4096
"""Tokens that a user holds when nothing is said."""
SAFE_UTILIZATION = 0.95
MOST_USERS = 1_000_000


@dataclass(frozen=True)
class Wish:
    """What is asked for. None: the release's default, or assumed.

    ``context`` is what each user holds (all of it prompt) unless ``prompt`` and ``generation`` say it better.
    """

    shape: ModelShape
    gpu: NamedGpu
    gpus: int = 1
    release: str = NEWEST.text
    model: str = ""
    users: int | None = None
    context: int | None = None
    prompt: int | None = None
    generation: int | None = None
    utilization: float | None = None
    budget: int | None = None
    slots: int | None = None
    max_model_len: int | None = None
    kv_type: KvType = "auto"
    draft: tuple[str, int, ModelShape] | None = None
    dtype: str | None = None
    swap_space: int | None = None


@dataclass(frozen=True)
class Sizing:
    """The answer. ``fits`` is about what was asked: the model, one request of the context, and the users."""

    wish: Wish
    plan: EnginePlan
    load: Load
    users: int
    slots: int
    figures: tuple[Figure, ...]
    fits: bool
    problems: tuple[str, ...]
    remedies: tuple[str, ...]
    line: ServeLine
    notes: tuple[str, ...]
    by_id: Mapping[str, Figure] = field(default_factory=dict, repr=False, compare=False)

    def value(self, name: str) -> float:
        """Return one figure's value by its id."""
        return self.by_id[name].value


def size(wish: Wish, others: Mapping[str, Gpu] | None = None) -> Sizing:
    """Size one engine. ``others`` are GPUs that may be named where the wish does not fit. Raises ``UsageError``."""
    release, load, notes = _release(wish.release), _load(wish), list(wish.shape.notes)
    fit.check_parallel(wish.shape, wish.gpus)
    plan, line = _plan(wish, release)
    memory, sequences = fit.memory(plan), fit.sequences(plan, load)
    limit = wish.slots or default_slots(wish.gpu.spec, release, line.engine)
    users = wish.users if wish.users is not None else max(min(sequences, limit), 1)
    slots = wish.slots or _slots(users, sequences, limit)
    line = serve_line(_settings(wish, plan, load, slots), wish.gpu.spec, release)
    problems = _problems(plan, memory, load, users, sequences)
    running = max(min(users, sequences or users, slots), 1)
    figures = (*memory_figures(plan, memory, load, sequences), *decode_figures(plan, load, running))
    notes += _notes(wish, plan, load, line)
    return Sizing(
        wish=wish,
        plan=plan,
        load=load,
        users=users,
        slots=slots,
        figures=figures,
        fits=not problems,
        problems=problems,
        remedies=remedies.remedies(plan, load, users, others or {}) if problems else (),
        line=line,
        notes=tuple(dict.fromkeys(notes)),
        by_id={figure.id: figure for figure in figures},
    )


def _release(text: str) -> Release:
    release = Release(text)
    try:
        known = release >= OLDEST
    except ValueError as error:
        raise UsageError(f"--vllm: {error}") from None
    if not known:
        raise UsageError(f"--vllm {text}: releases before {OLDEST} are not known; give {OLDEST} to {NEWEST}")
    return release


def _load(wish: Wish) -> Load:
    """Return the load that is meant, checked against the model's longest context."""
    asked = {"users": wish.users, "context": wish.context, "prompt": wish.prompt, "max-num-seqs": wish.slots}
    asked |= {"max-num-batched-tokens": wish.budget, "max-model-len": wish.max_model_len}
    for name, value in asked.items():
        if value is not None and not 1 <= value <= arithmetic.GB:
            raise UsageError(f"--{name} {value} cannot be; give 1 or more")
    if wish.users is not None and wish.users > MOST_USERS:
        raise UsageError(f"--users {wish.users} is more than {MOST_USERS:,}; size one engine and add replicas")
    if wish.generation is not None and not 0 <= wish.generation <= arithmetic.GB:
        raise UsageError(f"--generation {wish.generation} cannot be; give 0 or more")
    longest = wish.max_model_len or wish.shape.max_model_len
    if wish.prompt is None and wish.generation is None:
        load = Load(wish.context or min(ASSUMED_CONTEXT, longest or ASSUMED_CONTEXT))
    elif wish.prompt is not None:
        load = Load(wish.prompt, wish.generation or 0)
    else:
        total = wish.context or ASSUMED_CONTEXT
        load = Load(max(total - (wish.generation or 0), 1), wish.generation or 0)
    if longest is not None and load.longest > longest:
        raise UsageError(
            f"a context of {load.longest:,} tokens is longer than the model's maximum, {longest:,}; give at most that"
        )
    return load


def _plan(wish: Wish, release: Release) -> tuple[EnginePlan, ServeLine]:
    """Return the engine as it will run: what the release leaves out is not in it."""
    gpu = wish.gpu.spec
    line = serve_line(Settings("model", kv_cache_dtype=wish.kv_type, draft=_draft_model(wish)), gpu, release)
    utilization = wish.utilization if wish.utilization is not None else default_utilization(release)
    if not 0 < utilization <= 1:
        raise UsageError(f"--gpu-memory-utilization {utilization:g} is no share; give more than 0, at most 1")
    limit = default_slots(gpu, release, line.engine)
    wanted = -(-wish.users // arithmetic.GRAPH_STEP) * arithmetic.GRAPH_STEP if wish.users else limit
    plan = EnginePlan(
        shape=wish.shape,
        gpu=gpu,
        gpus=wish.gpus,
        release=release,
        engine=line.engine,
        utilization=utilization,
        budget=wish.budget or default_budget(gpu, release, line.engine),
        slots=wish.slots or min(wanted, limit),
        kv_type="fp8" if line.kv_cache_dtype == "fp8" else "auto",
        draft=wish.draft[2] if wish.draft and line.speculates else None,
    )
    return plan, line


def _draft_model(wish: Wish) -> DraftModel | None:
    if wish.draft is None:
        return None
    name, count, shape = wish.draft
    return DraftModel(name, count, same_vocab=shape.vocab == wish.shape.vocab)


def _slots(users: int, sequences: int, limit: int) -> int:
    """Slots for the users in steps of 8, at most what fits and never 0."""
    wanted = -(-users // arithmetic.GRAPH_STEP) * arithmetic.GRAPH_STEP
    return max(min(wanted, sequences or wanted, max(limit, users)), 1)


def _settings(wish: Wish, plan: EnginePlan, load: Load, slots: int) -> Settings:
    asked = wish.context is not None or wish.prompt is not None
    return Settings(
        model=wish.model or "MODEL",
        gpus=wish.gpus,
        utilization=plan.utilization,
        max_model_len=wish.max_model_len or (load.longest if asked else None),
        slots=slots,
        budget=max(plan.budget, slots),
        kv_cache_dtype=wish.kv_type,
        swap_space=wish.swap_space,
        dtype=wish.dtype or ("bfloat16" if plan.shape.dtype == "bfloat16" and plan.gpu.capability < (8, 0) else None),
        hybrid=plan.shape.hybrid,
        draft=_draft_model(wish),
    )


def _problems(plan: EnginePlan, memory: fit.Memory, load: Load, users: int, sequences: int) -> tuple[str, ...]:
    """Say what does not fit, the first reason only: the others follow from it."""
    gb = arithmetic.GB
    if memory.pool <= 0:
        needed = memory.weights + memory.activations + memory.graphs
        text = (
            f"the model does not fit: weights, activations and graphs need {needed / gb:.1f} GB of each GPU, "
            f"{plan.utilization:g} x {memory.total / gb:.1f} GB = {memory.usable / gb:.1f} GB are there"
        )
        return (text,)
    one = fit.sequence_bytes(plan, load.longest)
    if one > memory.pool:
        text = (
            f"one request of {load.longest:,} tokens does not fit: it holds {one / gb:.2f} GB of each GPU, the KV "
            f"cache has {memory.pool / gb:.2f} GB; vLLM refuses to start"
        )
        return (text,)
    if users > sequences:
        return (f"{users:,} users with {load.held:,.0f} tokens each do not fit: {sequences:,} do, the others queue",)
    return ()


def _notes(wish: Wish, plan: EnginePlan, load: Load, line: ServeLine) -> list[str]:
    notes = []
    if wish.context is None and wish.prompt is None:
        notes.append(f"no context given: {load.longest:,} tokens held by each user assumed")
    elif load.generation == 0:
        notes.append("each user holds the whole context (the worst case); prompt and generation lengths say it better")
    if plan.utilization > SAFE_UTILIZATION:
        notes.append(f"a utilization above {SAFE_UTILIZATION:g} has crashed servers at activation peaks")
    if plan.release > NEWEST:
        notes.append(f"vLLM {plan.release} is newer than {NEWEST}, the newest release known here: flags as of {NEWEST}")
    if plan.shape.latent and plan.release < Release("0.7.1"):
        notes.append("before 0.7.1 latent attention is kept as full heads: far fewer tokens fit than computed here")
    if plan.shape.latent and plan.kv_type == "fp8":
        notes.append("FP8 KV for latent attention depends on the GPU and backend; --kv-cache-dtype fp8 may be refused")
    if plan.shape.windowed and len(plan.shape.kv) > 1 and plan.release < Release("0.9.1"):
        notes.append("this release keeps full KV for sliding-window layers of mixed models")
    if plan.shape.experts is not None:
        notes.append("mixture of experts: activations and graphs are estimated least well here, by some GB")
    return [*notes, *line.notes]
