"""What a look at a source is worth telling. Pure."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from palanca.alerting import names
from palanca.model import SEVERITY_ORDER, TargetReport, scope_of
from palanca.outgoing import Posting
from palanca.render.groups import Group
from palanca.render.notice import BLIND_RULE, Notice, Places, links_for, of_group, scope_labels, topic
from palanca.render.words import target_names

if TYPE_CHECKING:
    from palanca.model import Catalogue, Severity, Target
    from palanca.notify.routing import Routing
    from palanca.outgoing import Look, Standing

BLIND_S = 300.0
"""A source that cannot be read for so long is told: five minutes are what Prometheus takes to call a series stale."""


def notices(look: Look, places: Places, catalogue: Catalogue | None = None) -> tuple[Notice, ...]:
    """Make the notices of a look: one for each rule and model with what holds now, or just ended, at its engines."""
    if look.blind is not None:
        return _blind(look, places)
    topics: dict[str, list[Standing]] = defaultdict(list)
    for one in look.standing:
        topics[topic(look.source, one.episode.rule, one.episode.target)].append(one)
    there = _Engines(look)
    return tuple(_notice(key, members, there, places, catalogue) for key, members in topics.items())


class _Engines:
    """What is known of the engines of a look."""

    def __init__(self, look: Look) -> None:
        self.look = look
        targets = sorted({*look.engines, *(one.episode.target for one in look.standing)}, key=lambda one: one.labels)
        self.names = target_names(targets)
        self.counts = Counter(scope_of(one) for one in targets)
        self.reports = {one.target: one for one in look.diagnosis.targets} if look.diagnosis is not None else {}
        self.symptoms: dict[tuple[Target, str], list[str]] = defaultdict(list)
        for one in look.standing:
            finding = one.episode.latest
            if one.episode.ended is None and finding.role == "symptom":
                for rule in finding.explained_by:
                    self.symptoms[one.episode.target, rule].append(finding.title)

    def report(self, target: Target) -> TargetReport:
        """The report of an engine; a blank one where there is none now."""
        return self.reports.get(target) or TargetReport(target, "unknown", None, {}, {}, (), (), (), {})

    def silenced(self, shown: Sequence[Standing]) -> float | None:
        """Until when the alerts of all of these are silenced; None where one is not."""
        ends = []
        for one in shown:
            found = [
                finding for finding in self.report(one.episode.target).findings if finding.rule == one.episode.rule
            ]
            if one.episode.ended is not None or not found or found[0].silenced is None:
                return None
            ends.append(found[0].silenced.until)
        return min(ends, default=None)


def _notice(
    key: str, members: Sequence[Standing], there: _Engines, places: Places, catalogue: Catalogue | None
) -> Notice:
    look = there.look
    firing = [one for one in members if one.episode.ended is None]
    over = not firing
    roots = [one for one in firing or members if one.episode.latest.role == "root"]
    shown = sorted(roots or firing or members, key=lambda one: one.episode.target.labels)
    first = shown[0].episode
    group = Group(tuple((there.report(one.episode.target), one.episode.latest) for one in shown))
    severity: Severity = min((one.episode.worst for one in shown), key=SEVERITY_ORDER.index)
    promql = next((one.promql for one in first.latest.evidence if one.promql), "")
    scope = scope_labels(first.target)
    symptoms = [title for one in shown for title in there.symptoms[one.episode.target, first.rule]]
    made = of_group(
        group,
        key=key,
        names=there.names,
        total=there.counts[scope_of(first.target)],
        now=look.now,
        catalogue=catalogue,
        links=links_for(
            places, first.rule, scope, promql, alert={names.RULE: first.rule}, acknowledged=shown[0].id > 0
        ),
    )
    made = replace(
        made,
        severity=severity,
        labels={**scope, **made.labels} if len(shown) == 1 else scope,
        source=look.source,
        symptoms=tuple(dict.fromkeys(symptoms)),
        explained_by=() if roots else _explained(shown),
        silenced=there.silenced(shown),
        episode=shown[0].id or None,
    )
    if not over:
        return made
    ended = max(one.episode.ended or look.now for one in members)
    reason = next((one.reason for one in members if one.reason), "")
    return replace(made, state="resolved", ended=ended, reason=reason)


def _explained(shown: Iterable[Standing]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rule for one in shown for rule in one.episode.latest.explained_by)) or ("another rule",)


def _blind(look: Look, places: Places) -> tuple[Notice, ...]:
    since, reason = look.blind or (look.now, "")
    if look.now - since < BLIND_S:
        return ()
    return (
        Notice(
            key=json.dumps(["source", look.source]),
            state="firing",
            severity="warning",
            title="palanca cannot read a source of metrics, and judges nothing there",
            what=reason,
            where=f"source {look.source}",
            since=since,
            at=look.now,
            rule=BLIND_RULE,
            cause="metrics-missing",
            source=look.source,
            links=replace(links_for(places, "", {}), runbook=None),
        ),
    )


def postings(look: Look, routing: Routing, places: Places, catalogue: Catalogue | None = None) -> tuple[Posting, ...]:
    """What people shall be told of a look, and who; satisfies ``palanca.outgoing.Tell`` with the others bound."""
    return tuple(Posting(one, routing.addressees(one, look.now)) for one in notices(look, places, catalogue))
