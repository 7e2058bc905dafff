"""What the settings say of each target: facts that no metric shows, and thresholds in place of those of the rules.

Every entry whose labels all fit a target applies to it, in the order of the file; later ones win.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palanca.advice.hardware import Hardware, find_gpu, load_hardware
from palanca.advice.model_config import read_model
from palanca.check import load_catalogue
from palanca.errors import Fault, RuleFileError, UsageError
from palanca.expressions import nearest
from palanca.facts import Facts, given, parse_serve_args
from palanca.model import Catalogue, Fact, Target
from palanca.resources import shipped
from palanca.settings.load import Effective, load
from palanca.settings.routes import no_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from palanca.loader import Keys
    from palanca.settings.spec import TargetSettings

Thresholds = Mapping[str, Mapping[str, float]]
"""Rule, threshold, value."""


def fits(match: Mapping[str, str], target: Target) -> bool:
    """Whether every label of an entry has this value at the target."""
    labels = target.as_dict()
    return all(labels.get(name, "") == value for name, value in match.items())


@dataclass(frozen=True)
class TargetFacts:
    """Facts for the targets whose labels fit; ``serve_args`` as they were written."""

    match: Mapping[str, str]
    facts: Facts
    serve_args: str | None = None

    def fits(self, target: Target) -> bool:
        """Whether every label of the entry has this value at the target."""
        return fits(self.match, target)


@dataclass(frozen=True)
class TargetThresholds:
    """Thresholds for the targets whose labels fit."""

    match: Mapping[str, str]
    rules: Thresholds


def facts_for(target: Target, known: Sequence[TargetFacts]) -> Facts:
    """Facts that the settings give for one target."""
    made: Facts = {}
    for entry in known:
        if entry.fits(target):
            made |= entry.facts
    return made


def thresholds_for(target: Target, known: Sequence[TargetThresholds]) -> dict[str, dict[str, float]]:
    """Thresholds that the settings give for one target: rule, threshold, value."""
    made: dict[str, dict[str, float]] = {}
    for entry in known:
        if fits(entry.match, target):
            for rule, values in entry.rules.items():
                made.setdefault(rule, {}).update(values)
    return made


@dataclass(frozen=True)
class Knowledge:
    """What the settings say of targets, checked against the rules. A ``Question`` takes both properties."""

    targets: tuple[TargetFacts, ...] = ()
    overrides: tuple[TargetThresholds, ...] = ()

    @property
    def facts(self) -> Callable[[Target], Mapping[str, Fact]] | None:
        """Facts of a target; None where the settings say nothing."""
        return (lambda target: facts_for(target, self.targets)) if self.targets else None

    @property
    def thresholds(self) -> Callable[[Target], Thresholds] | None:
        """Thresholds of a target; None where the settings say nothing."""
        return (lambda target: thresholds_for(target, self.overrides)) if self.overrides else None

    def serve_args(self, target: Target) -> str | None:
        """The arguments that a target was started with, as they were written; None where nobody gave them."""
        given_ = [entry.serve_args for entry in self.targets if entry.serve_args and entry.fits(target)]
        return given_[-1] if given_ else None


def matrix(overlay: Path | None) -> tuple[Catalogue, Hardware]:
    """Load the shipped rules and those of an overlay. Raises ``RuleFileError``."""
    folders = [shipped("rules"), *([overlay] if overlay else [])]
    return load_catalogue(folders), load_hardware(folders)


def load_targets(path: Path, catalogue: Catalogue, hardware: Hardware) -> tuple[TargetFacts, ...]:
    """Read the facts of a settings file. Raises ``RuleFileError`` with every fault as file:line:column."""
    return knowledge(load(path, {}), catalogue, hardware).targets


def knowledge(made: Effective, catalogue: Catalogue, hardware: Hardware) -> Knowledge:
    """Check what the settings say of targets against the rules. Raises ``RuleFileError`` with every fault."""
    targets, faults = [], list(_unknown_thresholds(made, catalogue))
    for index, entry in enumerate(made.settings.targets):
        facts, more = _facts(entry, ("targets", index), made, catalogue, hardware)
        targets.append(TargetFacts(entry.match, facts, entry.serve_args))
        faults += more
    if faults:
        raise RuleFileError(faults)
    return Knowledge(tuple(targets), tuple(TargetThresholds(one.match, one.rules) for one in made.settings.thresholds))


# --- facts -----------------------------------------------------------------------------------------


def _facts(
    entry: TargetSettings, at: Keys, made: Effective, catalogue: Catalogue, hardware: Hardware
) -> tuple[Facts, list[Fault]]:
    source = Path(made.origin(*at).name).name
    facts: Facts = {}
    faults: list[Fault] = []

    def attempt(keys: Keys, part: Callable[[], Facts]) -> None:
        try:
            facts.update(part())
        except UsageError as error:
            faults.append(made.fault((*at, *keys), str(error)))
        except RuleFileError as error:
            faults.extend(error.faults)

    def hardware_facts() -> Facts:
        gpu = find_gpu(hardware, entry.gpu or "")
        return {
            "gpu": Fact(gpu.id, "given", source),
            "gpus": Fact(float(entry.gpus), "given", source),
            "gpu_bandwidth": Fact(gpu.spec.bandwidth, "given", f"{source}: {gpu.id}"),
        }

    def weights() -> Facts:
        read = entry.weight_bytes
        if read is None and entry.config is not None:
            read = read_model(entry.config).weight_bytes
        return {} if read is None else {"weight_bytes": Fact(read, "given", source)}

    if entry.serve_args:
        attempt(("serve_args",), lambda: given(catalogue, parse_serve_args(entry.serve_args or ""), source))
    attempt(("model_config",), weights)
    if entry.gpu is not None:
        attempt(("gpu",), hardware_facts)
    for group, values in (("slo", entry.slo), ("client", entry.client)):
        faults += _faults_of(values, group, at, made, catalogue)
        facts |= {f"{group}.{name}": Fact(value, "given", source) for name, value in values.items()}
    return facts, faults


def _faults_of(
    values: Mapping[str, float], group: str, at: Keys, made: Effective, catalogue: Catalogue
) -> Iterator[Fault]:
    """Check ``slo: {ttft_p99: 1}``, which becomes the fact ``slo.ttft_p99``."""
    known = [name.removeprefix(f"{group}.") for name in catalogue.facts if name.startswith(f"{group}.")]
    for name, value in values.items():
        if name not in known:
            yield made.fault((*at, group, name, "key"), f"unknown name {name!r}", f"one of {', '.join(known)}")
        elif value <= 0:
            yield made.fault((*at, group, name), "must be a number above 0")


# --- thresholds ------------------------------------------------------------------------------------


def _unknown_thresholds(made: Effective, catalogue: Catalogue) -> Iterable[Fault]:
    rules: dict[str, Any] = {rule.id: rule for rule in catalogue.rules}
    for index, entry in enumerate(made.settings.thresholds):
        for rule, values in entry.rules.items():
            at = ("thresholds", index, "rules", rule)
            if rule not in rules:
                yield no_rule(made, (*at, "key"), rule, rules)
                continue
            known = rules[rule].thresholds
            for name in values:
                if name not in known:
                    hint = nearest(name, known) or (f"one of {', '.join(known)}" if known else "it has none")
                    yield made.fault((*at, name, "key"), f"rule {rule} has no threshold {name!r}", hint)
