"""Who is told of a notice, and when. Pure; the clock is an argument."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from palanca.outgoing import Addressee

if TYPE_CHECKING:
    from palanca.model import Severity
    from palanca.render.notice import Notice

USUAL: tuple[Severity, ...] = ("critical", "warning")
"""Severities that people are told of, where nothing else is said."""
LOOKS = 16
"""Quiet stretches that may follow each other without a break."""


@dataclass(frozen=True)
class Quiet:
    """Hours in which people are told nothing. ``begin`` to ``end`` on the clock of ``zone``, over midnight if need be.

    ``days`` are those on which a stretch begins, 0 for Monday; empty means every day. ``passes`` are severities that
    are told even so.
    """

    begin: time
    end: time
    zone: tzinfo = UTC
    days: frozenset[int] = frozenset()
    passes: frozenset[Severity] = frozenset({"critical"})

    def until(self, now: float) -> float:
        """When people may be told: ``now``, or the end of the stretch in which it lies. Unix seconds."""
        moment = now
        for _ in range(LOOKS):
            end = self._end(moment)
            if end is None:
                break
            moment = end
        return moment

    def _end(self, now: float) -> float | None:
        today = datetime.fromtimestamp(now, self.zone).date()
        for day in (today - timedelta(days=1), today):
            if self.days and day.weekday() not in self.days:
                continue
            begin = self._moment(day, self.begin)
            end = self._moment(day if self.end > self.begin else day + timedelta(days=1), self.end)
            if begin <= now < end:
                return end
        return None

    def _moment(self, day: date, at: time) -> float:
        return datetime.combine(day, at, self.zone).timestamp()


@dataclass(frozen=True)
class Route:
    """Which notices go to which receivers. What is empty asks for nothing; ``match`` are labels with their values.

    ``digest`` is how often those are told together, in seconds; None: each at once. ``go_on``: the routes below are
    asked too.
    """

    to: tuple[str, ...]
    match: Mapping[str, str] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    severities: frozenset[Severity] = frozenset(USUAL)
    causes: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset()
    quiet: Quiet | None = None
    digest: float | None = None
    go_on: bool = False

    def fits(self, notice: Notice) -> bool:
        """Whether a notice goes this way."""
        asked = ((self.sources, notice.source), (self.severities, notice.severity), (self.causes, notice.cause),
                 (self.rules, notice.rule))  # fmt: skip
        if any(wanted and value not in wanted for wanted, value in asked):
            return False
        return all(notice.labels.get(name, "") == value for name, value in self.match.items())

    def due(self, notice: Notice, now: float) -> float:
        """When it may be told, unix seconds."""
        moment = now if self.digest is None else math.ceil(now / self.digest) * self.digest
        if self.quiet is None or notice.severity in self.quiet.passes:
            return moment
        return self.quiet.until(moment)


@dataclass(frozen=True)
class Routing:
    """All routes in their order, the first that fits decides; without routes ``receivers`` are told everything."""

    receivers: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()

    def addressees(self, notice: Notice, now: float) -> tuple[Addressee, ...]:
        """Who is told, each once, and when."""
        found: dict[str, Addressee] = {}
        for route in self.routes or (Route(self.receivers),):
            if not route.fits(notice):
                continue
            due = route.due(notice, now)
            for name in route.to:
                found.setdefault(name, Addressee(name, due, route.digest is not None))
            if not route.go_on:
                break
        return tuple(found.values())


def chosen(routing: Routing, names: Sequence[str], notice: Notice, now: float) -> tuple[Addressee, ...]:
    """Who is told where the caller has chosen: those receivers, at the times that their routes give."""
    routed = {one.receiver: one for one in routing.addressees(notice, now)}
    return tuple(routed.get(name, Addressee(name, now)) for name in names)
