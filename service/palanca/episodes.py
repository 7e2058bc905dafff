"""Episodes: a rule at a target from pending to firing to resolved, over many diagnoses. The clock is an argument.

``advance`` is a pure function of the open episodes, the findings of one moment, and that moment. An episode goes

    (nothing) -> pending -> firing -> resolved

Findings that never fire never make an event: notifications need firing (docs/design.md). ``keep_firing_for`` is as in
Prometheus: from the first moment at which a firing rule does not hold it goes on firing for that long, and whatever
holds again before the end (also if only pending) is the same episode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from palanca.model import SEVERITY_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from palanca.model import Catalogue, Diagnosis, Evidence, Finding, Rule, Severity, Target

    Key = tuple[Target, str]
    """A target and the id of a rule."""

Kind = Literal["began", "worsened", "resolved"]


@dataclass(frozen=True)
class Episode:
    """One stretch of time in which a rule held at a target. Times are unix seconds.

    ``since`` is when the condition began to hold, ``began`` when it fired (None while pending), ``ended`` when it was
    resolved (None while open). ``lapsed`` is the first moment without it, while ``keep_firing_for`` runs.
    ``first`` is the finding as it fired, with the recommendation of that time; ``latest`` the newest one. ``peak`` has
    each comparison at its most extreme value while firing. ``worsened`` are the moments at which the severity rose
    above all that the episode had had, with the new severity.
    """

    rule: str
    target: Target
    state: Literal["pending", "firing", "resolved"]
    since: float
    since_at_least: bool
    first: Finding
    latest: Finding
    worst: Severity
    began: float | None = None
    ended: float | None = None
    lapsed: float | None = None
    peak: tuple[Evidence, ...] = ()
    worsened: tuple[tuple[float, Severity], ...] = ()

    def lasted(self, now: float) -> float:
        """Seconds for which it has fired; up to ``now`` while it is open, 0 while pending."""
        return 0.0 if self.began is None else (now if self.ended is None else self.ended) - self.began


@dataclass(frozen=True)
class Event:
    """What is worth telling: an episode began, worsened or was resolved."""

    kind: Kind
    time: float
    episode: Episode


@dataclass(frozen=True)
class Step:
    """Result of one moment: the episodes that are open after it, and its events in the order of their keys."""

    open: Mapping[Key, Episode]
    events: tuple[Event, ...]


def keys_of(diagnosis: Diagnosis) -> dict[Key, Finding]:
    """Return the findings of a diagnosis by target and rule."""
    return {(report.target, one.rule): one for report in diagnosis.targets for one in report.findings}


def keep_firing(catalogue: Catalogue) -> dict[str, float]:
    """Return ``keep_firing_for`` of every rule in seconds."""
    return {rule.id: rule.keep_firing_for for rule in catalogue.rules}


def advance(
    episodes: Mapping[Key, Episode], findings: Mapping[Key, Finding], now: float, keep: Mapping[str, float]
) -> Step:
    """Move all episodes on to ``now``. ``keep`` is ``keep_firing_for`` by rule; none means 0."""
    after: dict[Key, Episode] = {}
    events: list[Event] = []
    for key in sorted({*episodes, *findings}, key=lambda one: (one[1], one[0].labels)):
        old, finding = episodes.get(key), findings.get(key)
        if old is not None and old.state == "firing" and not _goes_on(old, finding, now, keep.get(key[1], 0.0)):
            events.append(Event("resolved", now, replace(old, state="resolved", ended=now)))
            old = None
        new = _moved(key, old, finding, now)
        if new is None:
            continue
        after[key] = new
        if new.began is not None and (old is None or old.began is None):
            events.append(Event("began", now, new))
        elif old is not None and len(new.worsened) > len(old.worsened):
            events.append(Event("worsened", now, new))
    return Step(after, tuple(events))


def _goes_on(episode: Episode, finding: Finding | None, now: float, keep: float) -> bool:
    """Whether a firing episode still fires; a pending finding means that it lapsed since the last look."""
    if finding is not None and finding.state == "firing":
        return True
    lapsed = now if episode.lapsed is None else episode.lapsed
    return now - lapsed < keep


def _moved(key: Key, old: Episode | None, finding: Finding | None, now: float) -> Episode | None:
    """One episode at the next moment; None where nothing holds and nothing is kept."""
    if finding is None:
        kept = old is not None and old.state == "firing"
        return replace(old, lapsed=now if old.lapsed is None else old.lapsed) if kept and old is not None else None
    if old is None or old.state == "pending":
        return _fresh(key, finding, now)
    return _worse(replace(old, latest=finding, lapsed=None, peak=peaks(old.peak, finding.evidence)), now)


def _fresh(key: Key, finding: Finding, now: float) -> Episode:
    target, rule = key
    firing = finding.state == "firing"
    return Episode(
        rule=rule,
        target=target,
        state="firing" if firing else "pending",
        since=finding.since,
        since_at_least=finding.since_at_least,
        first=finding,
        latest=finding,
        worst=finding.severity,
        began=now if firing else None,
        peak=finding.evidence if firing else (),
    )


def _worse(episode: Episode, now: float) -> Episode:
    severity = episode.latest.severity
    if SEVERITY_ORDER.index(severity) >= SEVERITY_ORDER.index(episode.worst):
        return episode
    return replace(episode, worst=severity, worsened=(*episode.worsened, (now, severity)))


def peaks(before: Iterable[Evidence], now: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Each comparison (signal, operator, right side) at its most extreme value: the highest for >, the lowest for <."""
    found = {(one.signal, one.op, one.note): one for one in before}
    for one in now:
        key = (one.signal, one.op, one.note)
        known = found.get(key)
        lower = one.op.startswith("<")
        if known is None or (one.value < known.value if lower else one.value > known.value):
            found[key] = one
    return tuple(found.values())


@dataclass(frozen=True)
class RuleSummary:
    """How a rule behaved over a range, all targets together.

    ``looks`` are targets times moments; ``firing``, ``pending``, ``unknown`` and ``not_applicable`` count among them.
    ``firing_s`` adds up the episodes of all targets, ``longest_s`` is the longest one.
    """

    rule: str
    severity: Severity
    episodes: int
    firing_s: float
    longest_s: float
    looks: int
    firing: int
    pending: int
    unknown: int
    not_applicable: int

    @property
    def unknown_share(self) -> float:
        """Share of the looks at which the rule could not be judged; not applicable is no gap."""
        asked = self.looks - self.not_applicable
        return self.unknown / asked if asked else 0.0


class Tally:
    """Adds up the numbers of one rule while a range is gone through."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.looks = self.firing = self.pending = self.unknown = self.not_applicable = 0
        self._lasted: list[float] = []

    def add(self, episode: Episode, now: float) -> None:
        """Count an episode that is over, or still open at the end (``now``)."""
        self._lasted.append(episode.lasted(now))

    def summary(self) -> RuleSummary:
        """Return what has been counted so far."""
        return RuleSummary(
            rule=self.rule.id,
            severity=self.rule.severity,
            episodes=len(self._lasted),
            firing_s=sum(self._lasted),
            longest_s=max(self._lasted, default=0.0),
            looks=self.looks,
            firing=self.firing,
            pending=self.pending,
            unknown=self.unknown,
            not_applicable=self.not_applicable,
        )
