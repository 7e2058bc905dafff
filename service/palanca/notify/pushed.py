"""Findings as alerts that palanca pushes itself: those of rules that no expression over series can say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from palanca.addresses import ENGINE, FLEET, RULES
from palanca.alerting import names
from palanca.episodes import advance, keep_firing, keys_of
from palanca.moments import rfc3339
from palanca.notify.labels import PUSHED_PREFIX, alert_labels
from palanca.quantities import finite
from palanca.render.words import encodable

if TYPE_CHECKING:
    from palanca.episodes import Episode, Key
    from palanca.model import Catalogue, Diagnosis, Rule, Target

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


def moved_on(
    before: Mapping[Key, Episode], diagnosis: Diagnosis, catalogue: Catalogue, rules: Collection[str]
) -> Mapping[Key, Episode]:
    """Move the episodes of the rules with these ids on to a diagnosis: what lapsed fires for ``keep_firing_for``."""
    findings = {key: finding for key, finding in keys_of(diagnosis).items() if finding.rule in rules}
    return advance(before, findings, diagnosis.time, keep_firing(catalogue)).open


def pushed(episodes: Iterable[Episode], catalogue: Catalogue, external_url: str | None) -> list[PushedAlert]:
    """Return an alert for each episode that fires, of rules that there are."""
    known = {rule.id: rule for rule in catalogue.rules}
    return [
        _alert(known[one.rule], one, one.began, external_url)
        for one in episodes
        if one.began is not None and one.rule in known
    ]


def _alert(rule: Rule, episode: Episode, began: float, external_url: str | None) -> PushedAlert:
    finding, target = episode.latest, episode.target
    links = _links(rule, target, external_url)
    texts = {names.SUMMARY: finding.title, names.DESCRIPTION: finding.summary}
    since = finite(episode.since)
    starts = began if since is None else min(since + episode.first.for_s, began)
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
