"""A group of Alertmanager as one notice: what palanca knows of its engines, or else what the alerts say. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from palanca.model import SEVERITY_ORDER, Severity, TargetReport, scope_of
from palanca.render.groups import Group
from palanca.render.notice import Notice, Places, links_for, of_group, scope_labels, subject
from palanca.render.words import plural, target_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.model import Catalogue, Target
    from palanca.notify.alert_groups import Accused, AlertGroup, EnrichedGroup
    from palanca.notify.courier import Courier

SEVERITY_OF_OTHERS: Severity = "warning"
"""Of alerts whose label says none of ours."""


def notice_of(group: EnrichedGroup, places: Places, catalogue: Catalogue | None = None) -> Notice:
    """Make the notice of a group. Equal ``groupKey`` is the same problem, from its begin to its end."""
    sent = group.group
    accused = {one.target: one for alert in group.alerts for one in alert.accused}
    roots = [one for one in accused.values() if one.root is not None]
    made = _of_findings(group, roots, places, catalogue) if roots else _of_labels(group, accused, places)
    made = replace(
        made,
        severity=_severity(sent) or made.severity,
        what=" ".join(part for part in (made.what, group.remark) if part),
        since=min((one.starts for one in sent.alerts), default=made.since),
        source=group.source.name,
        subjects=_subjects(group),
    )
    if sent.status == "firing":
        return made
    ended = max((one.ends for one in sent.alerts if one.ends is not None), default=group.time)
    return replace(made, state="resolved", ended=ended)


def _key(sent: AlertGroup) -> str:
    return json.dumps(["alertmanager", sent.receiver, sent.key])


def _alert(labels: Mapping[str, str]) -> dict[str, str]:
    """What is silenced: alerts of that name."""
    return {name: value for name, value in labels.items() if name == "alertname"}


def _subjects(group: EnrichedGroup) -> tuple[str, ...]:
    """The findings that it speaks of: whoever looks after one of them, or tries a change, does it for this group."""
    spoken = [
        subject(rule, one.target)
        for alert in group.alerts
        for one in alert.accused
        for rule in (alert.rule, one.finding and one.finding.rule, one.root and one.root.rule)
        if rule
    ]
    return tuple(dict.fromkeys(spoken))


def _severity(sent: AlertGroup) -> Severity | None:
    """The worst that the labels of the alerts say; those that fire before those that are over."""
    firing = [one for one in sent.alerts if one.status == "firing"] or sent.alerts
    said = {one.labels.get("severity", "") for one in firing}
    return next((severity for severity in SEVERITY_ORDER if severity in said), None)


def _of_findings(group: EnrichedGroup, roots: list[Accused], places: Places, catalogue: Catalogue | None) -> Notice:
    """Speak of the finding that most engines share the first of."""
    first = roots[0].root
    rule = first.rule if first is not None else ""
    members = tuple(
        (TargetReport(one.target, one.status, None, {}, {}, (one.root,), (), (), {}), one.root)
        for one in roots
        if one.root is not None and one.root.rule == rule
    )
    targets = [report.target for report, _ in members]
    promql = next((one.promql for one in members[0][1].evidence if one.promql), "")
    labels = scope_labels(targets[0])
    shown = {**labels, **({} if len(targets) > 1 else targets[0].as_dict())}
    # An alert of something else, such as an objective, keeps its own words; what palanca finds is why.
    words: dict[str, str] = {}
    if all(one.rule != rule for one in group.alerts) and first is not None:
        title, said = _words(group.group)
        words = {"title": title, "what": " ".join(filter(None, [said, f"{first.title}: {first.summary}"]))}
    others = dict.fromkeys(
        one.root.title for one in roots if one.root is not None and one.root.rule != rule
    ) | dict.fromkeys(one.finding.title for one in roots if one.finding is not None and one.finding.role == "symptom")
    return of_group(
        Group(members),
        key=_key(group.group),
        names=target_names(targets),
        total=group.fleets.get(scope_of(targets[0]), len(targets)),
        now=group.time,
        catalogue=catalogue,
        links=links_for(places, rule, labels, promql, alert=_alert(group.group.common_labels)),
        # Those of the alerts come last, for routes; a message has room for some.
        labels={**shown, **group.group.common_labels, **shown},
        symptoms=tuple(others),
        **words,
    )


def _of_labels(group: EnrichedGroup, accused: Mapping[Target, Accused], places: Places) -> Notice:
    """Speak of the alerts themselves: palanca finds nothing there, or does not watch it."""
    sent = group.group
    title, said = _words(sent)
    labels = {**sent.group_labels, **sent.common_labels}
    rule = next((one.rule for one in group.alerts if one.rule), "") or ""
    count = len(sent.alerts) + sent.left_out
    return Notice(
        key=_key(sent),
        state="firing",
        severity=SEVERITY_OF_OTHERS,
        title=title,
        what=said,
        where=plural(count, "alert"),
        labels=labels,
        affected=len(accused),
        total=len(accused),
        at=group.time,
        rule=rule,
        cause=labels.get("cause", ""),
        links=links_for(places, rule, labels, alert=_alert(labels)),
    )


def _words(sent: AlertGroup) -> tuple[str, str]:
    """Title and description that the alerts have themselves."""
    first = sent.alerts[0] if sent.alerts else None
    annotations = {**(first.annotations if first else {}), **sent.common_annotations}
    labels = {**(first.labels if first else {}), **sent.group_labels, **sent.common_labels}
    return annotations.get("summary") or labels.get("alertname") or "alert", annotations.get("description", "")


class GroupSink:
    """Keeps groups in the outbox, to be told as routes say; satisfies ``palanca.notify.alert_groups.Sink``."""

    def __init__(
        self,
        courier: Courier,
        places: Callable[[], Places],
        catalogue: Callable[[], Catalogue],
        now: Callable[[], float],
    ) -> None:
        self._courier, self._places, self._catalogue, self._now = courier, places, catalogue, now

    def accept(self, group: EnrichedGroup) -> None:
        """Keep a group until it is told. Raises ``HistoryError`` where it cannot be kept."""
        self._courier.post(notice_of(group, self._places(), self._catalogue()), self._now())
