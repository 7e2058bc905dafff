"""The ``vllm serve`` command line for one release: only flags that it accepts and that do something there.

Releases and spellings are from vLLM's released code (0.4.0 to 0.33.0); newer releases are taken to be like 0.33.0.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from palanca.releases import Release, ReleaseRange

if TYPE_CHECKING:
    from palanca.advice.hardware import Gpu

Engine = Literal["V0", "V1"]
OLDEST = Release("0.4.0")
NEWEST = Release("0.33.0")

_ADA, _HOPPER, _BLACKWELL, _BF16 = (8, 9), (9, 0), (10, 0), (8, 0)
_SWAP_SPACE = ReleaseRange.parse("0.4.0-0.17.1")
_KV_SCALES = ReleaseRange.parse("0.7.0-0.27.1")
_CHUNKED_FORCED = ReleaseRange.parse("0.8.0-0.11.0")
_HYBRID_UNCACHED = tuple(ReleaseRange.parse(text) for text in ("0.11.1-0.11.2", "0.26.0-0.27.1"))
_NO_DRAFT_MODEL = ReleaseRange.parse("0.10.0-0.14.1")
_LARGE_GIB, _HUGE_GIB = 70, 160
_CHUNKED, _PREFIX = "--enable-chunked-prefill", "--enable-prefix-caching"


def between(release: Release, text: str) -> bool:
    """Whether a release lies in a range such as ``0.8.0-0.8.3`` or ``0.28.0+``."""
    return release in ReleaseRange.parse(text)


@dataclass(frozen=True)
class Fp8Support:
    """What ``--kv-cache-dtype fp8`` does on a GPU in a release; ``legal`` is false where the server will not start."""

    legal: bool
    engine: Engine
    environment: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def default_engine(release: Release) -> Engine:
    """V1 is the default from 0.8.0 on."""
    return "V1" if release >= Release("0.8.0") else "V0"


def fp8_kv(capability: tuple[int, int], release: Release) -> Fp8Support:
    """What an FP8 KV cache means on a GPU in a release (vLLM's code; on Ada see vLLM's released code)."""
    if capability < _ADA:
        note = (
            "an FP8 KV cache below compute capability 8.9 depends on the attention backend; try it before relying on it"
        )
        return Fp8Support(legal=True, engine=default_engine(release), note=note)
    if between(release, "0.8.0-0.8.1"):
        return Fp8Support(legal=True, engine="V0", note="an FP8 KV cache makes this release fall back to the V0 engine")
    if capability >= _BLACKWELL:
        fallback = between(release, "0.8.2-0.9.2")
    else:
        fallback = capability < _HOPPER and between(release, "0.8.2-0.10.1.1")
    if fallback:
        note = (
            "an FP8 KV cache makes this release fall back to the V0 engine on this GPU (only FlashAttention 3 has it)"
        )
        return Fp8Support(legal=True, engine="V0", note=note)
    if _ADA <= capability < _HOPPER and between(release, "0.10.2"):
        note = "without VLLM_ATTENTION_BACKEND=FLASHINFER an FP8 KV cache makes 0.10.2 fall back to V0 on this GPU"
        return Fp8Support(legal=True, engine="V1", environment={"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, note=note)
    if _ADA <= capability < _HOPPER and between(release, "0.11.0"):
        note = "0.11.0 refuses to start with an FP8 KV cache on this GPU; 0.11.1 chooses a backend that has it"
        return Fp8Support(legal=False, engine="V1", note=note)
    note = ""
    if _ADA <= capability < _HOPPER and release >= Release("0.11.1"):
        note = (
            "an FP8 KV cache changes the attention backend on this GPU to FlashInfer or Triton: prefill may be slower"
        )
    return Fp8Support(legal=True, engine=default_engine(release), note=note)


def default_utilization(release: Release) -> float:
    """``--gpu-memory-utilization`` when not given: 0.9, and 0.92 from 0.20.0 on."""
    return 0.92 if release >= Release("0.20.0") else 0.9


def default_budget(gpu: Gpu, release: Release, engine: Engine) -> int:
    """``--max-num-batched-tokens`` of ``vllm serve`` when not given, with chunked prefill."""
    if engine == "V0":
        return 512 if between(release, "0.4.2-0.6.4.post1") else 2048
    if gpu.total_gib >= _HUGE_GIB and release >= Release("0.28.0"):
        return 16384
    return 8192 if _is_large(gpu, release) else 2048


def default_slots(gpu: Gpu, release: Release, engine: Engine) -> int:
    """``--max-num-seqs`` of ``vllm serve`` when not given."""
    if engine == "V0":
        return 256
    return 1024 if between(release, "0.8.0-0.8.3") or _is_large(gpu, release) else 256


def _is_large(gpu: Gpu, release: Release) -> bool:
    """Whether a release gives the GPU its larger defaults: H100 / H200 first, then 70 GiB or more, A100 excluded."""
    if release <= Release("0.8.4"):
        return gpu.capability == _HOPPER
    a100 = gpu.capability == (8, 0) and release >= Release("0.9.0")
    return gpu.total_gib >= _LARGE_GIB and not a100


def graphs_in_pool(release: Release) -> bool:
    """Whether the memory of CUDA graphs comes out of the KV cache; before 0.20.0 it comes on top of the utilization."""
    return release >= Release("0.20.0")


@dataclass(frozen=True)
class DraftModel:
    """A draft model to speculate with; ``same_vocab``: its vocabulary is as large as the verifier's."""

    model: str
    tokens: int
    same_vocab: bool


@dataclass(frozen=True)
class Settings:
    """What an engine is started with. None leaves a flag out; ``hybrid``: some layers keep a state instead of KV."""

    model: str
    gpus: int = 1
    utilization: float | None = None
    max_model_len: int | None = None
    slots: int | None = None
    budget: int | None = None
    kv_cache_dtype: str = "auto"
    swap_space: int | None = None
    dtype: str | None = None
    hybrid: bool = False
    draft: DraftModel | None = None


@dataclass(frozen=True)
class ServeLine:
    """A command line: the words behind ``vllm serve``, the environment that it needs, what was left out and why."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    notes: tuple[str, ...]
    engine: Engine
    kv_cache_dtype: str
    speculates: bool

    def __str__(self) -> str:
        """One line for a shell."""
        before = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*before, "vllm serve", shlex.join(self.arguments)])


def serve_line(settings: Settings, gpu: Gpu, release: Release) -> ServeLine:
    """Write the command line of an engine for one release and GPU."""
    engine, environment, kv_dtype = default_engine(release), {}, settings.kv_cache_dtype
    notes: list[str] = []
    if kv_dtype != "auto":
        support = fp8_kv(gpu.capability, release)
        notes += [support.note] if support.note else []
        if support.legal:
            engine, environment = support.engine, dict(support.environment)
        else:
            kv_dtype = "auto"
    draft = _draft(settings.draft, release, notes)
    if draft and between(release, "0.8.0-0.9.2"):
        engine = "V0"
        notes.append("a draft model makes this release fall back to the V0 engine")
    prefill = _prefill(settings, release, engine, notes, speculates=bool(draft))
    words = [settings.model]
    words += ["--tensor-parallel-size", str(settings.gpus)] if settings.gpus > 1 else []
    words += [*_dtype(settings, gpu, notes), *_limits(settings, chunked=engine == "V1" or _CHUNKED in prefill)]
    words += [*prefill, *_kv_cache(kv_dtype, release)]
    if settings.swap_space is not None:
        words += _swap(settings.swap_space, release, engine, notes)
    return ServeLine((*words, *draft), environment, tuple(notes), engine, kv_dtype, bool(draft))


def _limits(settings: Settings, *, chunked: bool) -> list[str]:
    """Memory, lengths and slots; without chunked prefill the budget has to hold the longest prompt."""
    budget = settings.budget
    if budget is not None and not chunked:
        budget = max(budget, settings.max_model_len or budget)
    words = []
    for flag, value in (
        ("--gpu-memory-utilization", settings.utilization),
        ("--max-model-len", settings.max_model_len),
        ("--max-num-seqs", settings.slots),
        ("--max-num-batched-tokens", budget),
    ):
        words += [flag, f"{value:g}" if isinstance(value, float) else str(value)] if value is not None else []
    return words


def _dtype(settings: Settings, gpu: Gpu, notes: list[str]) -> list[str]:
    if settings.dtype == "bfloat16" and gpu.capability < _BF16:
        notes.append("this GPU has no BF16: FP16 instead")
        return ["--dtype", "half"]
    return ["--dtype", settings.dtype] if settings.dtype else []


def _prefill(settings: Settings, release: Release, engine: Engine, notes: list[str], *, speculates: bool) -> list[str]:
    """Chunked prefill and prefix caching, where they are not on by themselves."""
    if engine == "V1":
        forced = release in _CHUNKED_FORCED
        notes.append(f"chunked prefill is {'always on' if forced else 'on by default'} in this release: no flag")
        if settings.hybrid and any(release in part for part in _HYBRID_UNCACHED):
            notes.append("prefix caching is off by default for hybrid models in this release")
            return [_PREFIX]
        return []
    words = [_CHUNKED, _PREFIX]
    if speculates and release < Release("0.6.5"):
        notes.append("speculation and chunked prefill exclude each other in this release")
        words.remove(_CHUNKED)
    elif release < Release("0.6.0"):
        notes.append("chunked prefill and prefix caching exclude each other in this release")
        words.remove(_PREFIX)
    return words


def _kv_cache(kv_dtype: str, release: Release) -> list[str]:
    if kv_dtype == "auto":
        return []
    word = "fp8_e5m2" if kv_dtype == "fp8" and release < Release("0.4.1") else kv_dtype
    return ["--kv-cache-dtype", word, *(["--calculate-kv-scales"] if release in _KV_SCALES else [])]


def _swap(size: int, release: Release, engine: Engine, notes: list[str]) -> list[str]:
    if release not in _SWAP_SPACE:
        notes.append("--swap-space is gone since 0.18.0 (V1 never swaps): left out")
        return []
    if engine == "V1":
        notes.append("--swap-space does nothing in the V1 engine")
    return ["--swap-space", str(size)]


def _draft(draft: DraftModel | None, release: Release, notes: list[str]) -> list[str]:
    """Speculation with a draft model, as the release spells it; nothing where it cannot start."""
    if draft is None:
        return []
    if release < Release("0.4.1"):
        notes.append("this release has no speculative decoding: left out")
        return []
    if release in _NO_DRAFT_MODEL:
        notes.append("draft models are not implemented in 0.10.0-0.14.1: left out (EAGLE heads and n-gram are)")
        return []
    if not draft.same_vocab and release < Release("0.25.0"):
        notes.append(
            "the draft model's vocabulary differs in size from the verifier's, which this release refuses: left out "
            "(vLLM #5203, #13849; from 0.25.0 use_heterogeneous_vocab)"
        )
        return []
    if release < Release("0.8.2"):
        words = ["--speculative-model", draft.model, "--num-speculative-tokens", str(draft.tokens)]
        words += ["--speculative-draft-tensor-parallel-size", "1"] if release >= Release("0.5.1") else []
        return words + (["--use-v2-block-manager"] if release < Release("0.6.3") else [])
    config: dict[str, object] = {"model": draft.model, "num_speculative_tokens": draft.tokens}
    if release >= Release("0.15.0"):
        config = {"method": "draft_model", **config}
    if not draft.same_vocab:
        notes.append(
            "the draft model's vocabulary differs in size from the verifier's: use_heterogeneous_vocab maps it"
        )
        config["use_heterogeneous_vocab"] = True
    return ["--speculative-config", json.dumps(config)]
