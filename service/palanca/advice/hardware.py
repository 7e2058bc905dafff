"""GPUs and reference configurations of ``rules/hardware.yaml``, and how a GPU is found by what people call it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from palanca.advice.arithmetic import GB, GIB
from palanca.errors import UsageError
from palanca.loader import build, read
from palanca.model import RuleId, Spec

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "hardware.yaml"


class Gpu(Spec):
    """One kind of GPU.

    ``memory_gb`` is what the vendor prints; ``total_gib`` what CUDA reports as total, of which vLLM takes its share.
    ``tflops`` is dense BF16 (FP16 where the card has no BF16) with accumulation in FP32.
    """

    name: str
    aliases: tuple[str, ...] = ()
    memory_gb: float = Field(gt=0)
    total_gib: float = Field(gt=0)
    bandwidth_gb_s: float = Field(gt=0)
    tflops: float = Field(gt=0)
    compute_capability: str = Field(pattern=r"^\d+\.\d$")
    source: str

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability as numbers: ``(8, 9)``."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major), int(minor)

    @property
    def total_bytes(self) -> float:
        """Total memory as CUDA reports it."""
        return self.total_gib * GIB

    @property
    def bandwidth(self) -> float:
        """Nominal memory bandwidth in bytes per second."""
        return self.bandwidth_gb_s * GB

    @property
    def flops(self) -> float:
        """Nominal dense FLOP/s."""
        return self.tflops * 1e12


class Draft(Spec):
    """The draft model of a reference configuration."""

    model: str
    tokens: int = Field(ge=1)
    config: Mapping[str, Any]


class Claim(Spec):
    """What a reference configuration is said to reach: ``low`` to ``high`` of one quantity."""

    quantity: Literal["tokens_per_second_per_user", "users", "ttft_s"]
    low: float | None = None
    high: float
    prompt_below: int | None = None
    note: str = ""


class ReferenceLoad(Spec):
    """The requests that a reference configuration is sized for, in tokens."""

    prompt: int = Field(ge=1)
    generation: int = Field(ge=0)
    source: str


class Reference(Spec):
    """A published configuration, with what its author expects of it."""

    title: str
    source: str
    gpu: RuleId
    gpus: int = Field(default=1, ge=1)
    model: str
    config: Mapping[str, Any]
    settings: Mapping[str, float | bool | str]
    draft: Draft | None = None
    load: ReferenceLoad
    claims: tuple[Claim, ...]


class Hardware(Spec):
    """``rules/hardware.yaml``."""

    gpus: Mapping[RuleId, Gpu] = Field(default_factory=dict)
    references: Mapping[RuleId, Reference] = Field(default_factory=dict)


@dataclass(frozen=True)
class NamedGpu:
    """A GPU with its id in ``hardware.yaml``."""

    id: str
    spec: Gpu


def load_hardware(folders: Sequence[Path]) -> Hardware:
    """Read ``hardware.yaml`` of rules folders; later folders add to or replace what earlier ones say.

    Raises ``RuleFileError``.
    """
    parts = [build(Hardware, read(folder / FILE)) for folder in folders if (folder / FILE).exists()]
    gpus: dict[str, Gpu] = {}
    references: dict[str, Reference] = {}
    for part in parts:
        gpus |= part.gpus
        references |= part.references
    return Hardware(gpus=gpus, references=references)


def find_gpu(hardware: Hardware, text: str) -> NamedGpu:
    """Find a GPU by id, name or alias, whatever the case, spaces and hyphens. Raises ``UsageError`` with near ones."""
    wanted = _plain(text)
    table = {word: gpu_id for gpu_id, gpu in hardware.gpus.items() for word in _words(gpu_id, gpu)}
    if wanted in table:
        gpu_id = table[wanted]
        return NamedGpu(gpu_id, hardware.gpus[gpu_id])
    shown = text if len(text) <= 60 else text[:60] + "..."  # noqa: PLR2004
    raise UsageError(f"there is no GPU {shown!r}; {_hint(wanted, table, hardware.gpus)}")


def _hint(wanted: str, table: Mapping[str, str], gpus: Iterable[str]) -> str:
    """Name the GPUs that are meant most probably, or all."""
    near = [table[word] for word in get_close_matches(wanted, table, n=5, cutoff=0.65)] if wanted else []
    near += [gpu_id for word, gpu_id in table.items() if wanted and (wanted in word or word in wanted)]
    names = list(dict.fromkeys(near))
    if names:
        return f"did you mean {' or '.join(names)}? (rules/hardware.yaml lists them; --rules DIR adds others)"
    return f"known are {', '.join(sorted(gpus))} (--rules DIR with a hardware.yaml adds others)"


def _words(gpu_id: str, gpu: Gpu) -> Iterable[str]:
    return (_plain(word) for word in (gpu_id, gpu.name, *gpu.aliases))


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]|nvidia|geforce|tesla", "", text.lower())
