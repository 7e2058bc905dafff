"""Readings to a diagnosis: what is wrong at each target, why, and what to change. Pure: a function of the data at t."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

import numpy as np

from palanca import expressions
from palanca.advice.recommend import recommend
from palanca.advice.reconcile import reconcile
from palanca.bottleneck import bottleneck
from palanca.engine import Held, Verdict, evaluate, held, missing_names
from palanca.model import (
    CONFIDENCE_ORDER,
    SCOPE_LABELS,
    SEVERITY_ORDER,
    Confidence,
    Diagnosis,
    Evidence,
    Finding,
    Severity,
    State,
    Status,
    TargetReport,
    Truth,
    Unjudged,
)
from palanca.quantities import number
from palanca.signals.promql import PromQL, matchers
from palanca.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palanca.engine import Overrides
    from palanca.expressions import Compare, Node
    from palanca.model import Catalogue, Readings, Rule, SignalValue, Target

_ANY = "\0"
"""Stands for the matchers of a target in PromQL that is the same for all."""
CORE_SIGNALS = ("up", "running", "waiting", "kv_cache_usage", "ttft_p99", "generation_tokens_per_second")


def diagnose(
    catalogue: Catalogue,
    readings: Readings,
    thresholds: Overrides | None = None,
    verdicts: Sequence[Verdict] | None = None,
) -> Diagnosis:
    """Judge every rule at every target at the last step of the readings.

    ``thresholds`` gives for a target what replaces the thresholds of the rules there: rule, threshold, value.
    ``verdicts`` are those of ``evaluate`` over these readings, where they are known.
    """
    if verdicts is None:
        verdicts = evaluate(catalogue.rules, readings, catalogue.optional_facts, thresholds)
    judge = _Judge(catalogue, readings, verdicts)
    findings = [judge.findings(row) for row in range(len(readings.targets))]
    findings = [tuple(sorted(one, key=rank)) for one in reconcile(readings.targets, findings, rank)]
    reports = tuple(judge.report(row, findings[row]) for row in range(len(readings.targets)))
    return Diagnosis(float(readings.times[-1]), readings.source, reports)


def rank(finding: Finding) -> tuple[object, ...]:
    """Sort key: root, fleet, firing, severity, no cause in configuration, what it explains, advice, confidence, id.

    Of findings that are as grave and explain as much, one whose first recommendation can be followed as it stands comes
    first.
    """
    return (
        finding.role != "root",
        finding.scope != "model",
        finding.state != "firing" and finding.full_history,
        SEVERITY_ORDER.index(finding.severity),
        finding.cause in {"configuration", "unexplained"},
        -finding.explains_count,
        all(one.argument is None for one in finding.recommendations[:1]),
        CONFIDENCE_ORDER.index(finding.confidence),
        finding.rule,
    )


def unit_of(compare: Compare, rule: Rule, catalogue: Catalogue) -> str:
    """Unit of both sides of a comparison in a condition of a rule."""
    for side in (compare.left, compare.right):
        if isinstance(side, expressions.Name):
            if side.name in catalogue.signals:
                return catalogue.signals[side.name].unit
            if side.name in rule.thresholds:
                return rule.thresholds[side.name].unit
    return "ratio"


@dataclass(frozen=True)
class _Sorted:
    """The rules at one target by their truth: those that hold, those that cannot be judged, those that do not apply."""

    true: tuple[Verdict, ...]
    unknown: tuple[Verdict, ...]
    not_applicable: tuple[str, ...]

    @classmethod
    def of(cls, verdicts: Sequence[Verdict], truths: Sequence[int]) -> _Sorted:
        """Sort; many targets have the same truths."""
        pairs = list(zip(verdicts, truths, strict=True))
        return cls(
            tuple(verdict for verdict, truth in pairs if truth == Truth.TRUE),
            tuple(verdict for verdict, truth in pairs if truth == Truth.UNKNOWN),
            tuple(verdict.rule.id for verdict, truth in pairs if truth == Truth.NOT_APPLICABLE),
        )


class _Judge:
    """Turns verdicts into findings and reports, one target (row) at a time."""

    def __init__(self, catalogue: Catalogue, readings: Readings, verdicts: Sequence[Verdict]) -> None:
        self._catalogue, self._readings, self._verdicts = catalogue, readings, verdicts
        self._nodes = {verdict.rule.id: expressions.parse(verdict.rule.when) for verdict in verdicts}
        self._promqls: dict[str, str] = {}
        self._lacking: dict[str, list[tuple[str, list[bool]]]] = {}
        self._snapshot = Snapshot(readings, {name: catalogue.signals[name].unit for name in readings.signals})
        shape = (len(verdicts), len(readings.targets))
        truths = np.array([verdict.when[:, -1] for verdict in verdicts], dtype=np.uint8).reshape(shape)
        alike: dict[bytes, _Sorted] = {}
        self._sorted = []
        for column in truths.T:
            pattern = column.tobytes()
            if pattern not in alike:
                alike[pattern] = _Sorted.of(verdicts, column.tolist())
            self._sorted.append(alike[pattern])

    # --- findings --------------------------------------------------------------------------------

    def findings(self, row: int) -> tuple[Finding, ...]:
        """Return what holds at one target, symptoms tied to what explains them."""
        covered = float(self._readings.covered[row])
        holding: list[tuple[Verdict, Held]] = []
        for verdict in self._sorted[row].true:
            state = held(verdict.when[row], self._readings.times, verdict.rule.for_, covered)
            if state is not None:
                holding.append((verdict, state))
        loud = [
            (verdict, state)
            for verdict, state in holding
            if not verdict.rule.symptom and (state.state == "firing" or not state.full_history)
        ]
        loud.sort(key=lambda one: (SEVERITY_ORDER.index(one[0].rule.severity), one[0].rule.id))
        rules = {verdict.rule.id: verdict.rule for verdict, _ in holding}
        return tuple(self._finding(row, verdict, state, loud, rules) for verdict, state in holding)

    def _finding(
        self,
        row: int,
        verdict: Verdict,
        state: Held,
        loud: Sequence[tuple[Verdict, Held]],
        holding: Mapping[str, Rule],
    ) -> Finding:
        rule = verdict.rule
        explaining = [other.rule for other, _ in loud if rule.id in other.rule.explains and other.rule.id != rule.id]
        explained = [holding[other] for other in rule.explains if other in holding]
        severity, cause = self._severity(row, verdict, state), rule.cause or "unexplained"
        if explaining:
            severity, cause = "info", explaining[0].cause or "unexplained"
        elif rule.scope == "model" and severity != "info":
            severity = min([severity, *(one.severity for one in explained)], key=SEVERITY_ORDER.index)
        return Finding(
            rule=rule.id,
            title=rule.title,
            cause=cause,
            severity=severity,
            confidence=_confidence(verdict, state, row),
            role="symptom" if explaining else "root",
            state=state.state,
            since=state.since,
            since_at_least=state.since_at_least,
            summary=self._fill(rule.summary, verdict, row),
            evidence=self._evidence(verdict, row),
            recommendations=()
            if rule.symptom or explaining
            else recommend(
                rule,
                row,
                verdict.environment,
                self._catalogue,
                self._readings.facts[row],
                self._readings.versions[row],
            ),
            explained_by=tuple(one.id for one in explaining),
            full_history=state.full_history,
            held_s=float(self._readings.times[-1]) - state.since,
            for_s=rule.for_,
            explains_count=len(explained),
            scope=rule.scope,
            group=_group(self._readings.targets[row]) if rule.scope == "model" else None,
        )

    def _severity(self, row: int, verdict: Verdict, state: Held) -> Severity:
        rule = verdict.rule
        if state.state == "pending" and (state.full_history or rule.needs_history):
            return "info"
        if rule.symptom and rule.slo is not None:
            objective = self._readings.facts[row].get(rule.slo)
            return "warning" if objective is not None and objective.provenance == "given" else "info"
        return "info" if rule.symptom else rule.severity

    # --- evidence --------------------------------------------------------------------------------

    def _evidence(self, verdict: Verdict, row: int) -> tuple[Evidence, ...]:
        made = [self._proof(one, verdict, row) for one in _proofs(self._nodes[verdict.rule.id], verdict, row)]
        for text, truth in zip(verdict.rule.supports, verdict.supports, strict=True):
            if truth[row, -1] == Truth.TRUE:
                made += [self._proof(one, verdict, row) for one in _proofs(expressions.parse(text), verdict, row)]
        unique = {(one.signal, one.op, one.threshold): one for one in made}
        return tuple(unique.values())

    def _proof(self, compare: Compare, verdict: Verdict, row: int) -> Evidence:
        names = expressions.names(compare.left)
        first = next((name for name in names if name in self._catalogue.signals), None)
        return Evidence(
            signal=expressions.text(compare.left),
            value=verdict.environment.value_at(compare.left, row),
            op=compare.op,
            threshold=verdict.environment.value_at(compare.right, row),
            unit=unit_of(compare, verdict.rule, self._catalogue),
            promql=self._promql(row, first) if first else "",
            note=expressions.text(compare.right),
        )

    def _promql(self, row: int, signal: str) -> str:
        target = self._readings.targets[row]
        server = {name: target.get(name) for name in ("job", "instance") if target.get(name)}
        spec = self._catalogue.signals[signal]
        family = self._catalogue.metrics.families.get(spec.family or "")
        labels = server if family is not None and family.scope == "server" else target.as_dict()
        if not labels:
            return PromQL(self._catalogue, self._readings.names).signal(signal)
        if signal not in self._promqls:
            self._promqls[signal] = PromQL(self._catalogue, self._readings.names, (_ANY,)).signal(signal)
        return self._promqls[signal].replace(_ANY, ", ".join(matchers(labels)))

    def _fill(self, template: str, verdict: Verdict, row: int) -> str:
        """Put values with units into the braces of a summary."""
        parts = []
        for literal, name, _, _ in Formatter().parse(template):
            parts.append(literal)
            if name:
                parts.append(self._quantity(name, verdict, row))
        return "".join(parts)

    def _quantity(self, name: str, verdict: Verdict, row: int) -> str:
        rule, catalogue = verdict.rule, self._catalogue
        fact = self._readings.facts[row].get(name)
        if fact is not None and isinstance(fact.value, str):
            return fact.value
        unit = (
            catalogue.signals[name].unit
            if name in catalogue.signals
            else rule.thresholds[name].unit
            if name in rule.thresholds
            else catalogue.facts[name].unit
        )
        return number(verdict.environment.value_at(expressions.parse(name), row), unit)

    # --- the report of a target ------------------------------------------------------------------

    def _missing(self, verdict: Verdict, row: int) -> list[str]:
        """Names that a rule lacks at one target; found out for all targets at once."""
        rule = verdict.rule.id
        if rule not in self._lacking:
            count = len(self._readings.targets)
            lacking = missing_names(self._nodes[rule], verdict.environment).items()
            self._lacking[rule] = [(name, np.broadcast_to(where, count).tolist()) for name, where in lacking]
        return [name for name, where in self._lacking[rule] if where[row]]

    def report(self, row: int, findings: tuple[Finding, ...]) -> TargetReport:
        """Everything that is said of one target."""
        readings = self._readings
        signals, unknown = self._snapshot.of(row), []
        for verdict in self._sorted[row].unknown:
            names = self._missing(verdict, row)
            states = tuple((name, signals[name].state if name in signals else State.ABSENT) for name in names)
            unknown.append(Unjudged(verdict.rule.id, states))
        return TargetReport(
            target=readings.targets[row],
            status=_status(findings, signals),
            version=readings.versions[row],
            signals=signals,
            facts=readings.facts[row],
            findings=findings,
            unknown=tuple(unknown),
            not_applicable=self._sorted[row].not_applicable,
            bottleneck=bottleneck(signals, {k: f.value for k, f in readings.facts[row].items()}),
        )


def _group(target: Target) -> dict[str, str]:
    """Labels that the engines of a fleet finding share."""
    return {label: target.get(label) for label in SCOPE_LABELS if target.get(label)}


def _proofs(node: Node, verdict: Verdict, row: int) -> list[Compare]:
    """Return the comparisons that make a condition true: all of an ``and``, the true branches of an ``or``."""

    def true(part: Node) -> bool:
        return verdict.environment.truth_at(part, row) is Truth.TRUE

    match node:
        case expressions.Logic(op="or", parts=parts):
            return [proof for part in parts if true(part) for proof in _proofs(part, verdict, row)]
        case expressions.Logic(parts=parts):
            return [proof for part in parts for proof in _proofs(part, verdict, row)]
        case _:
            return [proof for proof in expressions.comparisons(node) if true(proof)]


def _confidence(verdict: Verdict, state: Held, row: int) -> Confidence:
    """High when everything that supports holds; low when something contradicts or the history is too short."""
    if not state.full_history or any(truth[row, -1] == Truth.TRUE for truth in verdict.contradicts):
        return "low"
    supported = [truth[row, -1] == Truth.TRUE for truth in verdict.supports]
    return "high" if supported and all(supported) else "medium"


def _status(findings: Sequence[Finding], signals: Mapping[str, SignalValue]) -> Status:
    loud = [one.severity for one in findings if one.state == "firing" or not one.full_history]
    for severity in ("critical", "warning"):
        if severity in loud:
            return severity
    if any(signals[name].state in {State.ABSENT, State.STALE} for name in CORE_SIGNALS if name in signals):
        return "unknown"
    quiet = [signals[name].value for name in ("running_max", "waiting_max", "requests_per_second") if name in signals]
    asleep = signals["awake"].value == 0 if "awake" in signals else False
    return "idle" if asleep or (quiet and all(value == 0 for value in quiet)) else "ok"
