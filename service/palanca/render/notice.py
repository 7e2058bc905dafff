"""A notice: what people are told of one problem, whoever tells them. Pure; texts are as they were found, not escaped.

One notice stands for equal findings of the engines of one model ("3 of 8 engines"). The same ``key`` tells of the same
problem, from its begin to its end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlencode

from palanca.addresses import ENGINE, FLEET, RULES
from palanca.model import SCOPE_LABELS, SEVERITY_ORDER, Severity, Target, scope_of
from palanca.quantities import finite, time_span
from palanca.render.groups import change, checks, evidence_rows
from palanca.render.words import clip, listing, plural, printable

if TYPE_CHECKING:
    from palanca.model import Catalogue, Recommendation
    from palanca.render.groups import Group

NoticeState = Literal["firing", "worsened", "resolved"]

ENGINES_NAMED = 20
"""Engines that a notice names; the others are counted."""
NAME_WIDTH = 120
VALUES_WIDTH = 300
BLIND_RULE = "source-unreadable"
"""In place of a rule: of the notice that a source cannot be read."""
OTHERS = 4
"""Alternatives and symptoms that a notice lists."""
ACKNOWLEDGE = "/docs#/history/acknowledge_api_v1_history__episode_id__acknowledge_post"
"""Where a browser can acknowledge an episode; a test asks the API."""


@dataclass(frozen=True)
class Links:
    """Where to read on; None where there is no such place."""

    dashboard: str | None = None
    promql: str | None = None
    runbook: str | None = None
    silence: str | None = None
    acknowledge: str | None = None
    diagnose: str | None = None

    def named(self) -> tuple[tuple[str, str], ...]:
        """Those that there are, with the word to show."""
        words = {"dashboard": "Dashboard", "promql": "PromQL", "runbook": "Runbook", "silence": "Silence",
                 "acknowledge": "Acknowledge", "diagnose": "Diagnosis"}  # fmt: skip
        return tuple((words[one.name], value) for one in fields(self) if (value := getattr(self, one.name)))


@dataclass(frozen=True)
class Proposal:
    """The recommended change: ``change`` is the diff, ``--max-num-seqs 256 -> 96``."""

    change: str
    argument: str = ""
    computed_from: str = ""
    why: str = ""
    effect: str = ""
    trade_off: str = ""
    applies_to: str = ""
    risk: str = ""
    verify: tuple[str, ...] = ()


@dataclass(frozen=True)
class Remark:
    """What somebody added: that they look after it, or whether a change helped. ``time`` is in unix seconds."""

    time: float
    text: str
    loud: bool = True
    """Whether people are told, and not only shown."""


@dataclass(frozen=True)
class Notice:
    """One problem. Times are unix seconds; ``ended`` is None while it lasts.

    ``labels`` are those that all its engines share and that routes ask for. ``affected`` of ``total`` engines have it.
    ``explained_by`` names the rules that explain it now, and ``silenced`` says until when Alertmanager mutes all of it:
    then nobody is told, only what was told is kept up to date. ``episode`` is the number by which it is acknowledged.
    ``subjects`` are what it speaks of (``subject``), where the key does not say it.
    """

    key: str
    state: NoticeState
    severity: Severity
    title: str
    what: str = ""
    where: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    affected: int = 0
    total: int = 0
    engines: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    proposal: Proposal | None = None
    alternatives: tuple[str, ...] = ()
    since: float | None = None
    ended: float | None = None
    at: float = 0.0
    rule: str = ""
    cause: str = ""
    confidence: str = ""
    source: str = ""
    symptoms: tuple[str, ...] = ()
    explained_by: tuple[str, ...] = ()
    silenced: float | None = None
    episode: int | None = None
    subjects: tuple[str, ...] = ()
    reason: str = ""
    """Why it ended, where not by its rule."""
    remarks: tuple[Remark, ...] = ()
    links: Links = field(default_factory=Links)

    @property
    def resolved(self) -> bool:
        """Whether it is over."""
        return self.state == "resolved"

    @property
    def quiet(self) -> bool:
        """Whether nobody is to be told of it now."""
        return bool(self.explained_by) or self.silenced is not None

    @property
    def lasted_s(self) -> float | None:
        """Seconds from its begin to its end; None while it lasts."""
        return None if self.ended is None or self.since is None else max(self.ended - self.since, 0.0)

    @property
    def fingerprint(self) -> str:
        """Changes with what is worth telling or showing anew: not with every value that moves a little."""
        proposal = None if self.proposal is None else [self.proposal.change, self.proposal.applies_to]
        parts = [
            self.resolved, self.severity, self.title, self.where, self.affected, self.total, list(self.engines),
            proposal, list(self.alternatives), list(self.symptoms), list(self.explained_by), self.silenced,
            self.reason,
            [[one.time, one.text] for one in self.remarks], self.ended,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def topic(source: str, rule: str, target: Target) -> str:
    """Key of what the engines of one model have in common: the same rule at the same source and scope."""
    return json.dumps(["finding", source, rule, *scope_of(target)])


def subject(rule: str, target: Target) -> str:
    """Key of a rule at the engines of one model, at whichever source."""
    return json.dumps([rule, *scope_of(target)])


def scope_labels(target: Target) -> dict[str, str]:
    """The labels of a target that its whole model shares."""
    return {label: value for label in SCOPE_LABELS if (value := target.get(label))}


def of_group(
    group: Group,
    *,
    key: str,
    names: Mapping[Target, str],
    total: int,
    now: float,
    catalogue: Catalogue | None = None,
    links: Links | None = None,
    **more: object,
) -> Notice:
    """Make the notice of equal findings. ``names`` of all engines, ``total`` how many the model has.

    ``more`` are further fields of the notice, such as ``source`` and ``symptoms``.
    """
    finding = group.first
    targets = group.targets
    recommendations = group.recommendations
    made = Notice(
        key=key,
        state="firing",
        severity=min((one.severity for _, one in group.members), key=SEVERITY_ORDER.index),
        title=finding.title,
        what=finding.summary,
        where=where(targets, total, names),
        labels=common(targets),
        affected=len(targets),
        total=max(total, len(targets)),
        engines=tuple(clip(names[one], NAME_WIDTH) for one in targets[:ENGINES_NAMED]),
        evidence=tuple(
            " ".join(filter(None, [row.title, row.value, row.threshold, row.note]))
            for row in evidence_rows(group, catalogue)
        ),
        proposal=proposed(recommendations[0], catalogue) if recommendations else None,
        alternatives=tuple(change(one) for one in recommendations[1 : 1 + OTHERS]),
        since=finite(group.since),
        at=now,
        rule=finding.rule,
        cause=finding.cause,
        confidence=group.confidence,
        links=links or Links(),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def where(targets: Sequence[Target], total: int, names: Mapping[Target, str]) -> str:
    """``3 of 8 engines``; the name where it is the only one."""
    total = max(total, len(targets))
    if total == 1 and targets:
        return clip(names[targets[0]], NAME_WIDTH)
    return f"all {total} engines" if len(targets) == total else f"{len(targets)} of {plural(total, 'engine')}"


def common(targets: Sequence[Target]) -> dict[str, str]:
    """Labels in which all targets agree."""
    shared = set(targets[0].labels) if targets else set()
    for one in targets[1:]:
        shared &= set(one.labels)
    return dict(sorted(shared))


def proposed(recommendation: Recommendation, catalogue: Catalogue | None = None) -> Proposal:
    """Say a recommendation in words."""
    return Proposal(
        change=change(recommendation),
        argument=recommendation.argument or "",
        computed_from=recommendation.computed_from,
        why=recommendation.why,
        effect=recommendation.effect,
        trade_off=recommendation.trade_off,
        applies_to=recommendation.applies_to,
        risk=recommendation.risk,
        verify=tuple(checks(recommendation, catalogue)),
    )


def carried(old: Notice, new: Notice) -> Notice:
    """Go on with a problem that was known: its begin and its remarks stay, and in the end what was wrong."""
    since = min((one for one in (old.since, new.since) if one is not None), default=None)
    severity = min(old.severity, new.severity, key=SEVERITY_ORDER.index)
    remarks = old.remarks + tuple(one for one in new.remarks if one not in old.remarks)
    if not new.resolved:
        return replace(new, since=since, severity=severity, remarks=remarks)
    return replace(
        old,
        state="resolved",
        severity=severity,
        since=since,
        ended=new.ended,
        at=new.at,
        reason=new.reason,
        remarks=remarks,
    )


def ending(notice: Notice) -> str:
    """Say that it is over: ``Resolved after 23 min``, and why."""
    lasted = notice.lasted_s
    text = "Resolved" if lasted is None else f"Resolved after {time_span(lasted)}"
    return f"{text}: {printable(notice.reason)}." if notice.reason else f"{text}."


def headline(notice: Notice) -> str:
    """One line: what, how bad, where."""
    word = {"firing": notice.severity, "worsened": f"now {notice.severity}", "resolved": "resolved"}[notice.state]
    model = notice.labels.get("model_name", "")
    place = ", ".join(
        printable(one) for one in (model, notice.where) if one and model not in notice.where[: len(model)]
    )
    text = f"{word[:1].upper()}{word[1:]}: {printable(notice.title)}"
    return f"{text} ({place or printable(notice.where)})" if place or notice.where else text


def some(texts: Sequence[str], shown: int = OTHERS) -> str:
    """A few texts in one line."""
    return listing([printable(one) for one in texts], shown)


# --- links -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """Where links lead: the address of palanca for people, a Grafana dashboard, a Prometheus, an Alertmanager.

    ``alertmanager`` only where a silence there mutes what palanca tells.
    """

    external: str | None = None
    dashboard: str | None = None
    prometheus: str | None = None
    alertmanager: str | None = None
    runbooks: str | None = None
    """Address before the id of a rule; by default the rules of palanca itself."""


def links_for(
    places: Places,
    rule: str,
    labels: Mapping[str, str],
    promql: str = "",
    *,
    alert: Mapping[str, str] | None = None,
    acknowledged: bool = False,
) -> Links:
    """Make the links of a notice: ``labels`` select its engines, ``alert`` with them the alert to be silenced.

    ``acknowledged``: it has an episode, of which somebody can say that they look after it.
    """
    base = None if places.external is None else places.external.rstrip("/")
    runbook = f"{base}{RULES}/{quote(rule)}" if base and rule else None
    if places.runbooks and rule:
        runbook = f"{places.runbooks.rstrip('/')}/{quote(rule)}"
    here = {"model": labels.get("model_name"), "instance": labels.get("instance")}
    return Links(
        dashboard=_dashboard(places.dashboard, labels),
        promql=None
        if places.prometheus is None or not promql
        else f"{places.prometheus.rstrip('/')}/graph?{urlencode({'g0.expr': promql, 'g0.tab': '0'})}",
        runbook=runbook,
        silence=_silence(places.alertmanager, labels, alert),
        acknowledge=f"{base}{ACKNOWLEDGE}" if base and acknowledged else None,
        diagnose=None if base is None else _query(base + (ENGINE if here["instance"] else FLEET), here),
    )


def _query(url: str, values: Mapping[str, str | None]) -> str:
    given = {name: value.encode("utf-8", "replace").decode() for name, value in values.items() if value}
    return url + (("&" if "?" in url else "?") + urlencode(given) if given else "")


def _dashboard(url: str | None, labels: Mapping[str, str]) -> str | None:
    if url is None:
        return None
    return _query(url, {f"var-{name}": labels.get(name) for name in ("job", "model_name", "instance")})


def _silence(url: str | None, labels: Mapping[str, str], alert: Mapping[str, str] | None) -> str | None:
    if url is None or not alert:
        return None
    matchers = {**alert, **{name: value for name, value in labels.items() if name in SCOPE_LABELS}}
    text = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in matchers.items())
    encoded = quote("{" + text.encode("utf-8", "replace").decode() + "}", safe="")
    return f"{url.rstrip('/')}/#/silences/new?filter={encoded}"
