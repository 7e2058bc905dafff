"""A group of alerts as Alertmanager sends it, and what the newest diagnosis says of it. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from palanca.alerting import names
from palanca.model import Finding, Recommendation, SourceInfo, Status, Target, scope_of
from palanca.notify.labels import Engines

if TYPE_CHECKING:
    from palanca.model import Catalogue, Diagnosis, TargetReport

State = Literal["firing", "resolved"]

MOST_ENGINES = 50
"""Engines that are told of one alert that has no ``instance``; the others are counted."""


@dataclass(frozen=True)
class Alert:
    """One alert. Times are unix seconds; ``ends`` is None while it fires. ``fingerprint`` is made of its labels."""

    status: State
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts: float
    ends: float | None
    fingerprint: str
    generator_url: str = ""


@dataclass(frozen=True)
class AlertGroup:
    """One notification of Alertmanager. ``key`` names the group, ``left_out`` counts alerts that are not in it."""

    key: str
    status: State
    receiver: str
    group_labels: Mapping[str, str]
    common_labels: Mapping[str, str]
    common_annotations: Mapping[str, str]
    external_url: str
    alerts: tuple[Alert, ...]
    left_out: int = 0

    @property
    def identity(self) -> str:
        """Equal for every try of the same notification (and for a mere reminder), another one for any news.

        Fingerprints alone are not enough: an alert that fires, ends and fires again has the same one.
        """
        alerts = sorted((one.fingerprint, one.status, one.starts) for one in self.alerts)
        return hashlib.sha256(json.dumps([self.key, self.status, alerts]).encode()).hexdigest()


@dataclass(frozen=True)
class Accused:
    """An engine that an alert speaks of, as it is now.

    ``finding`` is what the rule of the alert finds there, None where it finds nothing (any more). ``root`` is what
    there is to be done about: that finding, what explains it, or, where the alert is of no rule of palanca, the
    engine's first one.
    """

    target: Target
    status: Status
    finding: Finding | None
    root: Finding | None

    @property
    def recommendations(self) -> tuple[Recommendation, ...]:
        """What to change, the best first."""
        return () if self.root is None else self.root.recommendations


@dataclass(frozen=True)
class Explained:
    """An alert and the engines that it speaks of. ``rule`` is the id of its rule, None for alerts of others.

    ``engines`` says how many there are, of which ``accused`` are the first. None at all: the alert is of something that
    palanca does not watch, or of an engine that is gone.
    """

    alert: Alert
    rule: str | None
    accused: tuple[Accused, ...]
    engines: int

    @property
    def known(self) -> bool:
        """Whether palanca knows any engine of it."""
        return bool(self.accused)


@dataclass(frozen=True)
class EnrichedGroup:
    """A group with the diagnosis of ``time`` (unix seconds). Nothing of the group is left out, whatever is known of it.

    ``fleets`` says how many engines each model has whose engines are accused, by ``scope_of``. ``source`` says how well
    the diagnosis is known: where it is stale or unreachable, it is old.
    """

    group: AlertGroup
    alerts: tuple[Explained, ...]
    time: float
    source: SourceInfo
    fleets: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    @property
    def unknown(self) -> int:
        """How many alerts speak of no engine that palanca knows."""
        return sum(not one.known for one in self.alerts)

    @property
    def remark(self) -> str:
        """What must be said beside the diagnosis; empty where it speaks for itself."""
        said = []
        if self.unknown:
            count = f"{self.unknown} of {len(self.alerts)} alerts are" if len(self.alerts) > 1 else "The alert is"
            said.append(f"{count} of nothing that palanca watches now, so that it has no diagnosis for that.")
        if self.group.left_out:
            said.append(f"Alertmanager left out {self.group.left_out} more alerts of this group.")
        if self.source.state in {"stale", "unreachable"}:
            age = "" if self.source.age_s is None else f" ({self.source.age_s:.0f} s)"
            said.append(f"The diagnosis is old{age}: {self.source.error or self.source.state}.")
        return " ".join(said)


class Sink(Protocol):
    """Takes groups on their way to people."""

    def accept(self, group: EnrichedGroup) -> None:
        """Keep a group until it is told, so that no crash loses it. One whose identity is known changes nothing.

        Raises ``PalancaError`` where it cannot be kept; Alertmanager then sends it again.
        """


def enriched(group: AlertGroup, diagnosis: Diagnosis, catalogue: Catalogue) -> EnrichedGroup:
    """Put a group and the newest diagnosis together."""
    reports = {report.target: report for report in diagnosis.targets}
    engines = Engines(reports)
    by_name = {names.alert_name(rule.id): rule.id for rule in catalogue.rules}
    known = {rule.id for rule in catalogue.rules}
    seen: dict[tuple[Target, str | None], Accused] = {}
    alerts = []
    for alert in group.alerts:
        rule: str | None = alert.labels.get(names.RULE) or by_name.get(alert.labels.get("alertname", ""))
        rule = rule if rule in known else None
        found = engines.of(alert.labels)
        for target in found:
            if (target, rule) not in seen:
                seen[target, rule] = _accused(reports[target], rule)
        accused = [seen[target, rule] for target in found]
        accused.sort(key=lambda one: one.finding is None)  # where an alert is of a model, those that have it come first
        alerts.append(Explained(alert, rule, tuple(accused[:MOST_ENGINES]), len(found)))
    sizes = Counter(map(scope_of, reports))
    fleets = {scope: sizes[scope] for scope in sorted({scope_of(target) for target, _ in seen})}
    return EnrichedGroup(group, tuple(alerts), diagnosis.time, diagnosis.source, fleets)


def _accused(report: TargetReport, rule: str | None) -> Accused:
    findings = {finding.rule: finding for finding in report.findings}
    if rule is None:
        return Accused(report.target, report.status, None, report.findings[0] if report.findings else None)
    finding = findings.get(rule)
    root = finding
    if finding is not None and finding.role == "symptom":
        root = next((findings[one] for one in finding.explained_by if one in findings), finding)
    return Accused(report.target, report.status, finding, root)
