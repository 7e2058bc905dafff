"""Settings of targets: what an operator knows of the engines and no metric shows.

    targets:
      - match: {model_name: llama}
        serve_args: "--max-num-seqs 64"
        gpu: h100-sxm
        gpus: 2
        model_config: models/llama/config.json
        slo: {ttft_p99: 0.8}
        client: {concurrency: 64, ttft_p99: 2.1}

Every entry whose labels all fit a target applies to it, in the order of the file; later ones win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from palanca.advice.hardware import Hardware, find_gpu
from palanca.advice.model_config import read_model
from palanca.errors import Fault, RuleFileError, UsageError
from palanca.facts import Facts, given, parse_serve_args
from palanca.loader import Document, build, read
from palanca.model import Catalogue, Fact, Spec, Target


class TargetSettings(Spec):
    """What is known of the targets with these labels."""

    match: Mapping[str, str] = Field(min_length=1)
    serve_args: str | None = None
    gpu: str | None = None
    gpus: int = Field(default=1, ge=1)
    config: Path | None = Field(default=None, alias="model_config")
    weight_bytes: float | None = Field(default=None, gt=0)
    slo: Mapping[str, float] = Field(default_factory=dict)
    client: Mapping[str, float] = Field(default_factory=dict)


class Settings(Spec):
    """A settings file."""

    targets: tuple[TargetSettings, ...] = ()


@dataclass(frozen=True)
class TargetFacts:
    """Facts for the targets whose labels fit."""

    match: Mapping[str, str]
    facts: Facts

    def fits(self, target: Target) -> bool:
        """Whether every label of the entry has this value at the target."""
        labels = target.as_dict()
        return all(labels.get(name, "") == value for name, value in self.match.items())


def facts_for(target: Target, known: Sequence[TargetFacts]) -> Facts:
    """Facts that the settings give for one target."""
    made: Facts = {}
    for entry in known:
        if entry.fits(target):
            made |= entry.facts
    return made


def load_targets(path: Path, catalogue: Catalogue, hardware: Hardware) -> tuple[TargetFacts, ...]:
    """Read a settings file. Raises ``RuleFileError`` with every fault as file:line:column."""
    document = read(path)
    settings = build(Settings, document)
    made, faults = [], []
    for index, entry in enumerate(settings.targets):
        try:
            made.append(TargetFacts(entry.match, _facts(entry, path, catalogue, hardware, document, index)))
        except UsageError as error:
            faults.append(document.fault(("targets", index), str(error)))
        except RuleFileError as error:
            faults += error.faults
    if faults:
        raise RuleFileError(faults)
    return tuple(made)


def _facts(
    entry: TargetSettings, path: Path, catalogue: Catalogue, hardware: Hardware, document: Document, index: int
) -> Facts:
    source = path.name
    facts = given(catalogue, parse_serve_args(entry.serve_args), source) if entry.serve_args else {}
    facts |= _named(entry.slo, "slo", catalogue, source, document, index)
    facts |= _named(entry.client, "client", catalogue, source, document, index)
    weights = entry.weight_bytes
    if entry.config is not None and weights is None:
        weights = read_model(path.parent / entry.config).weight_bytes
    if weights is not None:
        facts["weight_bytes"] = Fact(weights, "given", source)
    if entry.gpu is not None:
        gpu = find_gpu(hardware, entry.gpu)
        facts["gpu"] = Fact(gpu.id, "given", source)
        facts["gpus"] = Fact(float(entry.gpus), "given", source)
        facts["gpu_bandwidth"] = Fact(gpu.spec.bandwidth, "given", f"{source}: {gpu.id}")
    return facts


def _named(
    values: Mapping[str, float], group: str, catalogue: Catalogue, source: str, document: Document, index: int
) -> Facts:
    """Turn ``slo: {ttft_p99: 1}`` into the fact ``slo.ttft_p99``. Raises ``RuleFileError``."""
    known = [name.removeprefix(f"{group}.") for name in catalogue.facts if name.startswith(f"{group}.")]
    faults: list[Fault] = []
    facts: Facts = {}
    for name, value in values.items():
        if name not in known:
            where = ("targets", index, group, name, "key")
            faults.append(document.fault(where, f"unknown name {name!r}", f"one of {', '.join(known)}"))
        elif not 0 < value < float("inf"):
            faults.append(document.fault(("targets", index, group, name), "must be a number above 0"))
        else:
            facts[f"{group}.{name}"] = Fact(value, "given", source)
    if faults:
        raise RuleFileError(faults)
    return facts
