"""Whole-matrix checks: what no single file can know. All faults are collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca import expressions
from palanca.errors import Fault, RuleFileError
from palanca.expressions import FLAG, ExpressionError, nearest
from palanca.loader import Document, Keys, Loaded, load
from palanca.model import Catalogue, FactSpec, Family, Lever, Signal
from palanca.rule_checks import Units, check_expression, check_rule, names_in, unit_of_lever
from palanca.units import RATIO, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

RUNBOOK_HEADINGS = ("## Meaning", "## Impact", "## Diagnosis", "## Mitigation")


def load_catalogue(folders: Sequence[Path]) -> Catalogue:
    """Load and check rules folders. Raises ``RuleFileError`` with every fault."""
    loaded, faults = load(folders)
    catalogue, more = check(loaded)
    if faults or more:
        raise RuleFileError([*faults, *more])
    return catalogue


def check(loaded: Loaded) -> tuple[Catalogue, list[Fault]]:
    """Build the catalogue and list every fault between the files."""
    metrics = loaded.metrics[1]
    signal_places = {name: (doc, spec) for doc, one in loaded.signals for name, spec in one.signals.items()}
    fact_places = {name: (doc, spec) for doc, one in loaded.facts for name, spec in one.facts.items()}
    lever_places = {name: (doc, spec) for doc, one in loaded.levers for name, spec in one.levers.items()}
    signals, faults = expand_signals({name: spec for name, (_, spec) in signal_places.items()}), []
    facts = {name: spec for name, (_, spec) in fact_places.items()}
    levers = {name: spec for name, (_, spec) in lever_places.items()}
    units, unit_faults = _units(signal_places, fact_places)
    faults += unit_faults

    def only(known: Mapping[str, object]) -> Units:
        return {name: unit for name, unit in units.items() if name in known}

    for name, (document, signal) in signal_places.items():
        faults += _check_signal(document, name, signal, metrics.families, only(signals))
    faults += _check_cycles(signal_places)
    for name, (document, fact) in fact_places.items():
        faults += _check_fact(document, name, fact, only(facts))
    for name, (document, lever) in lever_places.items():
        faults += _check_lever(document, name, lever, facts)
    symptoms = {rule.id for _, rule in loaded.rules if rule.symptom}
    every = {rule.id for _, rule in loaded.rules}
    for document, rule in loaded.rules:
        faults += check_rule(document, rule, units, levers, symptoms, every)
    rules = tuple(sorted((rule for _, rule in loaded.rules), key=lambda rule: rule.id))
    return Catalogue(metrics, signals, facts, levers, rules), faults


def expand_signals(signals: Mapping[str, Signal]) -> dict[str, Signal]:
    """Replace each signal that has ``expand`` by one signal for each label value."""
    made: dict[str, Signal] = {}
    for name, signal in signals.items():
        if signal.expand is None:
            made[name] = signal
            continue
        for value in signal.expand.values:
            change = {"where": {**signal.where, signal.expand.label: value}, "expand": None}
            made[f"{name}_{value}"] = signal.model_copy(
                update={**change, "title": signal.title.replace("{value}", value)}
            )
    return made


def _units(
    signals: Mapping[str, tuple[Document, Signal]], facts: Mapping[str, tuple[Document, FactSpec]]
) -> tuple[Units, list[Fault]]:
    units: Units = {}
    faults = []
    for name, (document, signal) in signals.items():
        try:
            unit = Unit.parse(signal.unit)
        except ValueError as error:
            faults.append(document.fault(("signals", name, "unit"), str(error)))
            unit = RATIO
        units.update(dict.fromkeys(expand_signals({name: signal}), unit))
    for name, (document, fact) in facts.items():
        if name in units:
            faults.append(document.fault(("facts", name, "key"), f"{name!r} is already a signal"))
        try:
            if fact.type != "text":
                units[name] = FLAG if fact.type == "flag" else Unit.parse(fact.unit)
        except ValueError as error:
            faults.append(document.fault(("facts", name, "unit"), str(error)))
    return units, faults


def _check_signal(
    document: Document, name: str, signal: Signal, families: Mapping[str, Family], units: Units
) -> Iterator[Fault]:
    at: Keys = ("signals", name)
    if signal.expr is not None:
        unit, faults = check_expression(document, (*at, "expr"), signal.expr, units, condition=False)
        yield from faults
        if unit is not None and not names_in(signal.expr):
            yield document.fault((*at, "expr"), "the expression reads no signal")
        if unit is not None and unit != units[next(iter(expand_signals({name: signal})))]:
            yield document.fault((*at, "unit"), f"the expression has the unit {unit}, not {signal.unit}")
        return
    kind = "of" if signal.quantile is not None else signal.kind
    for key, family_name, where in (
        (kind, signal.family, signal.where), ("per", signal.per, signal.per_where), ("or_gauge", signal.or_gauge, {}),
    ):  # fmt: skip
        if family_name is None:
            continue
        family = families.get(family_name)
        if family is None:
            yield document.fault(
                (*at, key), f"there is no family {family_name!r} in metrics.yaml", nearest(family_name, families)
            )
            continue
        for label in (*where, *([signal.expand.label] if signal.expand and key == kind else [])):
            if label not in family.labels:
                yield document.fault((*at, "where"), f"{family_name} has no label {label!r} of its own")
        wanted = _TYPES.get(kind if key != "or_gauge" else "avg", ())
        if wanted and family.type not in wanted and not (key == "per" and family.type == "histogram"):
            yield document.fault((*at, key), f"{family_name} is a {family.type}; {kind} needs a {' or '.join(wanted)}")
    if signal.fallback is not None and signal.fallback not in units:
        yield document.fault(
            (*at, "fallback"), f"there is no signal {signal.fallback!r}", nearest(signal.fallback, units)
        )


_TYPES: dict[str, tuple[str, ...]] = {
    "avg": ("gauge",), "max": ("gauge",), "min": ("gauge",), "now": ("gauge", "info"), "changes": ("gauge",),
    "since": ("gauge",), "present": ("gauge",), "samples": ("gauge",), "rate": ("counter", "histogram"),
    "increase": ("counter", "histogram"), "resets": ("counter", "histogram"), "mean": ("histogram",),
    "of": ("histogram",),
}  # fmt: skip


def _check_cycles(signals: Mapping[str, tuple[Document, Signal]]) -> Iterator[Fault]:
    def uses(name: str) -> Iterable[str]:
        signal = signals[name][1]
        if signal.fallback:
            yield signal.fallback
        if signal.expr:
            try:
                yield from expressions.names(expressions.parse(signal.expr))
            except ExpressionError:
                return

    def reaches(start: str, name: str, seen: set[str]) -> bool:
        for used in uses(name):
            if used == start:
                return True
            if used in signals and used not in seen:
                seen.add(used)
                if reaches(start, used, seen):
                    return True
        return False

    for name, (document, _) in signals.items():
        if reaches(name, name, set()):
            yield document.fault(("signals", name, "key"), f"{name!r} is defined by itself")


def _check_fact(document: Document, name: str, fact: FactSpec, units: Units) -> Iterator[Fault]:
    if fact.derive is not None:
        unit, faults = check_expression(document, ("facts", name, "derive"), fact.derive, units, condition=False)
        yield from faults
        if unit is not None and unit != units.get(name):
            yield document.fault(("facts", name, "derive"), f"the expression has the unit {unit}, not {fact.unit}")


def _check_lever(document: Document, name: str, lever: Lever, facts: Mapping[str, FactSpec]) -> Iterator[Fault]:
    at: Keys = ("levers", name)
    if lever.fact is not None and lever.fact not in facts:
        yield document.fault((*at, "fact"), f"there is no fact {lever.fact!r}", nearest(lever.fact, facts))
    if bool(lever.forms) == bool(lever.action):
        yield document.fault(at, "a lever has either forms (a flag) or an action (outside vLLM)")
    if unit_of_lever(lever) is None:
        yield document.fault((*at, "unit"), f"{lever.unit!r} is no unit")


def check_runbooks(catalogue: Catalogue, folder: Path) -> list[Fault]:
    """Every rule needs ``<folder>/<id>.md`` with the four headings in order."""
    faults = []
    for rule in catalogue.rules:
        path = folder / f"{rule.id}.md"
        if not path.is_file():
            faults.append(Fault(path, 0, 0, "the runbook is missing", f"headings: {', '.join(RUNBOOK_HEADINGS)}"))
            continue
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
        if tuple(found) != RUNBOOK_HEADINGS:
            faults.append(Fault(path, 1, 1, f"the headings must be {', '.join(RUNBOOK_HEADINGS)}"))
    return faults


def load_documents(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the file of every rule by its id. Raises ``RuleFileError``."""
    loaded, faults = load(folders)
    if faults:
        raise RuleFileError(faults)
    return {rule.id: document.path for document, rule in loaded.rules}
