"""What ``palanca doctor`` reports: how the metrics arrive, and what cannot be judged for that. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca import expressions
from palanca.inspections import arrival, buckets, names
from palanca.inspections.evidence import LEVELS, Check, Evidence, Inspection, Level, ServerSeen
from palanca.model import State
from palanca.signals.identity import unprefixed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.model import Catalogue, Diagnosis, Family, SourceInfo, Target, TargetReport, VllmVersion


INSPECTIONS: tuple[Inspection, ...] = (
    arrival.reachability,
    arrival.targets,
    arrival.interval,
    arrival.cardinality,
    arrival.recorded,
    names.prefixes,
    names.unknown_names,
    names.old_names,
    names.dead_queries,
    buckets.labels,
    buckets.thresholds,
)
"""Everything that is looked at; a new inspection is a function and a line here."""


@dataclass(frozen=True)
class Gap:
    """Rules that cannot be judged for the same reasons, each a sentence."""

    rules: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class TargetSeen:
    """One engine: its release, seconds between samples, number of signals with a value, rules without a verdict."""

    target: Target
    version: VllmVersion | None
    interval_s: float | None
    signals: int
    gaps: tuple[Gap, ...]
    not_applicable: tuple[str, ...]


@dataclass(frozen=True)
class DoctorReport:
    """Everything that doctor says. ``time`` in unix seconds; ``names`` are vLLM's metric names, and how many series."""

    time: float
    source: SourceInfo
    servers: tuple[ServerSeen, ...]
    checks: tuple[Check, ...]
    names: Mapping[str, int]
    targets: tuple[TargetSeen, ...]

    @property
    def level(self) -> Level:
        """The worst of all checks."""
        return min((check.level for check in self.checks), key=LEVELS.index, default="ok")


def examine(
    catalogue: Catalogue, evidence: Evidence, source: SourceInfo, diagnosis: Diagnosis | None = None
) -> DoctorReport:
    """Make the report of what was gathered; without a diagnosis nothing is said of the rules."""
    checks = [check for inspect in INSPECTIONS for check in inspect(evidence, catalogue)]
    counts: dict[str, int] = {}
    for one in evidence.series:
        if unprefixed(one.name, catalogue.metrics):
            counts[one.name] = counts.get(one.name, 0) + one.count
    reports = diagnosis.targets if diagnosis is not None else ()
    seen = tuple(_target(catalogue, evidence, report) for report in reports)
    checks += _judged(seen)
    ordered = sorted(checks, key=lambda check: LEVELS.index(check.level))
    return DoctorReport(
        evidence.end, source, tuple(evidence.servers), tuple(ordered), dict(sorted(counts.items())), seen
    )


def _judged(seen: tuple[TargetSeen, ...]) -> list[Check]:
    """Say how many rules lack something, once for all engines."""
    blind = {rule for one in seen for gap in one.gaps for rule in gap.rules}
    if not seen:
        return []
    if not blind:
        return [Check("rules", "ok", "every rule that applies can be judged")]
    title = f"{len(blind)} rules cannot be judged on some engine"
    return [Check("rules", "note", title, hint="the reasons stand below, by engine")]


def _target(catalogue: Catalogue, evidence: Evidence, report: TargetReport) -> TargetSeen:
    found = evidence.discovery
    gaps: dict[tuple[str, ...], list[str]] = {}
    for one in report.unknown:
        lacking = [leaf for name, state in one.missing for leaf in roots(catalogue, report, name, state)]
        reasons = tuple(reason(catalogue, name, state, report.version) for name, state in lacking)
        gaps.setdefault(tuple(dict.fromkeys(reasons)), []).append(one.rule)
    return TargetSeen(
        target=report.target,
        version=report.version,
        interval_s=None if found is None else arrival.interval_of(found, report.target),
        signals=sum(value.state not in {State.ABSENT, State.NOT_APPLICABLE} for value in report.signals.values()),
        gaps=tuple(Gap(tuple(sorted(rules)), why) for why, rules in gaps.items()),
        not_applicable=report.not_applicable,
    )


def roots(catalogue: Catalogue, report: TargetReport, name: str, state: State) -> list[tuple[str, State]]:
    """Find what lacks behind a signal that is computed from others; itself where they have values."""
    signal = catalogue.signals.get(name)
    parts = expressions.names(expressions.parse(signal.expr)) if signal is not None and signal.expr else ()
    states = {part: report.signals[part].state for part in parts if part in report.signals}
    found = [root for part, of in states.items() if of >= State.ABSENT for root in roots(catalogue, report, part, of)]
    return found or [(name, state)]


def reason(catalogue: Catalogue, name: str, state: State, version: VllmVersion | None) -> str:
    """Say why a signal or fact has no value, and what would give it one."""
    fact = catalogue.facts.get(name)
    if fact is not None:
        given = (
            f"give it with --serve-args {fact.flag}" if fact.flag else "no flag gives it, only the engine reports it"
        )
        return f"{name} is not known: {given}"
    signal = catalogue.signals.get(name)
    if state is State.IDLE:
        return f"{name} has nothing to measure: no traffic of its kind in the window"
    if state is State.STALE:
        return f"{name} has had no sample for five minutes"
    if signal is None:
        return f"{name} is not known"
    if signal.expr is not None:
        return f"{name} is computed from what is lacking ({signal.expr})"
    if signal.offset:
        return f"{name} needs a past of {signal.offset / 60:.0f} min, which this source does not have"
    family = catalogue.metrics.families.get(signal.family or "")
    return f"{name} needs {_series(family, signal.family)}" + ("" if version is None else _of(version))


def _series(family: Family | None, name: str | None) -> str:
    if family is None:
        return f"the family {name}"
    needed = f", which only exists with {family.only_if}" if family.only_if else ""
    return family.names[0].name + needed + (", which appears when it is first counted" if family.sparse else "")


def _of(version: VllmVersion) -> str:
    return f"; vLLM {version.text} does not show it here"
