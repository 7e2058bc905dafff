"""Findings as alerts that palanca pushes itself: those of rules that no expression over series can say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from palanca.addresses import ENGINE, FLEET, RULES
from palanca.alerting import names
from palanca.moments import rfc3339
from palanca.notify.labels import PUSHED_PREFIX, alert_labels
from palanca.quantities import finite
from palanca.render.words import encodable

if TYPE_CHECKING:
    from palanca.model import Catalogue, Diagnosis, Finding, Rule, Target

LONGEST_TEXT = 2000


@dataclass(frozen=True)
class PushedAlert:
    """One alert that fires since ``starts`` (unix seconds)."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts: float
    url: str | None = None

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Its labels, sorted: alerts with equal ones are one alert."""
        return tuple(sorted(self.labels.items()))

    def message(self, ends: float) -> dict[str, object]:
        """The alert as API v2 has it; ``ends`` is when it ends unless it is sent again, or has ended."""
        url = {"generatorURL": self.url} if self.url else {}
        return {
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "startsAt": rfc3339(min(self.starts, ends)),
            "endsAt": rfc3339(ends),
            **url,
        }


def pushed(
    diagnosis: Diagnosis, catalogue: Catalogue, rules: Collection[str], external_url: str | None
) -> list[PushedAlert]:
    """Return an alert for each firing finding of the rules with these ids."""
    known = {rule.id: rule for rule in catalogue.rules if rule.id in rules}
    return [
        _alert(known[finding.rule], finding, report.target, diagnosis.time, external_url)
        for report in diagnosis.targets
        for finding in report.findings
        if finding.state == "firing" and finding.rule in known
    ]


def _alert(rule: Rule, finding: Finding, target: Target, now: float, external_url: str | None) -> PushedAlert:
    links = _links(rule, target, external_url)
    texts = {names.SUMMARY: finding.title, names.DESCRIPTION: finding.summary}
    since = finite(finding.since)
    starts = now if since is None else min(since + finding.for_s, now)
    return PushedAlert(
        alert_labels(rule, finding, target, PUSHED_PREFIX),
        {name: encodable(text)[:LONGEST_TEXT] for name, text in texts.items() if text} | links,
        starts,
        links.get(names.DIAGNOSE_URL),
    )


def _links(rule: Rule, target: Target, external_url: str | None) -> dict[str, str]:
    if external_url is None:
        return {}
    base = external_url.rstrip("/")
    here = {"model": target.get("model_name"), "instance": target.get("instance")}
    query = urlencode({name: encodable(value)[:LONGEST_TEXT] for name, value in here.items() if value})
    return {
        names.RUNBOOK_URL: f"{base}{RULES}/{rule.id}",
        names.DIAGNOSE_URL: base + (f"{ENGINE}?{query}" if query else FLEET),
    }
