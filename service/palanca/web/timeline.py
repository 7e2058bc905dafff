"""What happened: episodes, restarts and changed configuration, engine by engine. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palanca.model import Target
from palanca.moments import parse_moment
from palanca.quantities import clock, is_number, moment, number, time_span
from palanca.render.groups import change
from palanca.render.notice import NAME_WIDTH
from palanca.render.words import clip, setting, signal_title, target_name
from palanca.web.links import engine_link, link, of_target, rule_link
from palanca.web.plots import Mark

if TYPE_CHECKING:
    from palanca.history.documents import ChangeDocument, EpisodeDocument, EventDocument
    from palanca.model import Catalogue

SPANS = {"24h": 86400.0, "7d": 7 * 86400.0}
MARKED = ("restarted", "configuration-changed", "target-added", "target-removed")
"""Kinds of events that are marked at an engine."""
SOURCES = ("source-unreachable", "source-recovered", "recording-resumed")
"""Kinds of events that are of no engine."""
_WORDS = {
    "restarted": "restarted", "configuration-changed": "configuration changed", "target-added": "appeared",
    "target-removed": "gone", "source-unreachable": "source unreachable", "source-recovered": "source is back",
    "recording-resumed": "recording again",
}  # fmt: skip
LANE_WIDTH, LANE_HEIGHT, ROW_HEIGHT = 1000, 12, 14
_SIGNALS_SHOWN = 6


@dataclass(frozen=True)
class Verified:
    """What became of a change: the verdict, why, and signals before and after."""

    verdict: str
    why: str
    when: str
    rows: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True)
class EpisodeRow:
    """The time that one rule fired at one engine."""

    id: int
    severity: str
    title: str
    href: str
    began: str
    ended: str
    lasted: str
    change: str
    looked_after: str
    verified: tuple[Verified, ...]
    then: str
    """The engine's page as it was when it began."""


@dataclass(frozen=True)
class EventRow:
    """Something that happened at a moment."""

    when: str
    what: str
    detail: str


@dataclass(frozen=True)
class Bar:
    """The time of an episode in a lane: ``row`` counts from the top."""

    x: float
    width: float
    severity: str
    row: int
    text: str


@dataclass(frozen=True)
class Lane:
    """One engine: bars and marks to draw, and all that they are in words."""

    name: str
    href: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    height: int
    description: str
    episodes: tuple[EpisodeRow, ...]
    events: tuple[EventRow, ...]


@dataclass(frozen=True)
class TimelineView:
    """All lanes, the worst first, and what happened to the sources."""

    lanes: tuple[Lane, ...]
    scale: tuple[Mark, ...]
    sources: tuple[EventRow, ...]
    episodes: int
    width: int = LANE_WIDTH
    row_height: int = ROW_HEIGHT


@dataclass(frozen=True)
class Watched:
    """Whether a stretch of time was watched: that nothing is known of a part does not mean that nothing happened.

    ``gap`` says which part was not, ``any`` whether some of it was.
    """

    gap: str
    any: bool


def watched(begin: float | None, span: tuple[float, float]) -> Watched:
    """Compare the first moment of which something is kept, None for none, with a stretch of time, unix seconds."""
    if begin is None:
        return Watched("Nothing has been recorded yet.", any=False)
    return Watched(f"Not watched before {moment(begin)}." if begin > span[0] else "", any=begin < span[1])


def timeline_view(
    episodes: Sequence[EpisodeDocument],
    events: Sequence[EventDocument],
    span: tuple[float, float],
    catalogue: Catalogue,
) -> TimelineView:
    """Arrange what happened between two moments, unix seconds."""
    engines: dict[Target, tuple[list[EpisodeDocument], list[EventDocument]]] = {}
    for one in episodes:
        engines.setdefault(Target.of(one.target), ([], []))[0].append(one)
    for event in events:
        if event.target is not None and event.kind in MARKED:
            engines.setdefault(Target.of(event.target), ([], []))[1].append(event)
    lanes = [_lane(target, mine, those, span, catalogue) for target, (mine, those) in engines.items()]
    begin, end = span
    moments = [begin + (end - begin) * part / 4 for part in range(5)]
    return TimelineView(
        lanes=tuple(sorted(lanes, key=lambda one: (-len(one.episodes), one.name))),
        scale=tuple(Mark(_x(time, span), _short(time, end - begin)) for time in moments),
        sources=tuple(_event(one, end) for one in events if one.kind in SOURCES),
        episodes=len(episodes),
    )


def _lane(
    target: Target,
    episodes: Sequence[EpisodeDocument],
    events: Sequence[EventDocument],
    span: tuple[float, float],
    catalogue: Catalogue,
) -> Lane:
    name = clip(target_name(target), NAME_WIDTH)
    rows: list[float] = []
    bars = [_bar(one, span, rows) for one in sorted(episodes, key=lambda one: one.began)]
    marks = tuple(
        Mark(_x(_time(one.time), span), f"{_WORDS[one.kind]} {clock(_time(one.time), span[1])}") for one in events
    )
    said = [bar.text for bar in bars] + [mark.text for mark in marks]
    return Lane(
        name=name,
        href=engine_link(target, None),
        bars=tuple(bars),
        marks=marks,
        height=max(len(rows), 1) * ROW_HEIGHT,
        description="; ".join(said) + ".",
        episodes=tuple(episode_row(one, span[1], catalogue) for one in episodes),
        events=tuple(_event(one, span[1]) for one in events),
    )


def _bar(one: EpisodeDocument, span: tuple[float, float], rows: list[float]) -> Bar:
    """Lay an episode into the first row that is free; ``rows`` has the end of each."""
    began = _time(one.began)
    ended = span[1] if one.ended is None else _time(one.ended)
    row = next((index for index, end in enumerate(rows) if end <= began), len(rows))
    rows[row : row + 1] = [ended]
    left, right = _x(began, span), _x(ended, span)
    lasted = "still open" if one.ended is None else f"for {time_span(ended - began)}"
    text = f"{one.severity}: {one.latest.title}, from {clock(began, span[1])}, {lasted}"
    return Bar(left, max(right - left, 3.0), one.severity, row, text)


def _x(time: float, span: tuple[float, float]) -> float:
    share = (time - span[0]) / (span[1] - span[0])
    return round(min(max(share, 0.0), 1.0) * LANE_WIDTH, 1)


def _short(time: float, length: float) -> str:
    text = clock(time, float("inf"))  # with its date
    return text[5:10] if length > 2 * SPANS["24h"] else text[11:16]


def _time(text: str) -> float:
    return parse_moment(text, now=0.0)


def episode_row(one: EpisodeDocument, now: float, catalogue: Catalogue) -> EpisodeRow:
    """Say an episode in words."""
    began = _time(one.began)
    recommended = one.latest.recommendations or one.first.recommendations
    looked = one.acknowledged
    return EpisodeRow(
        id=one.id,
        severity=one.severity,
        title=one.latest.title,
        href=rule_link(one.rule),
        began=clock(began, now),
        ended="open" if one.ended is None else clock(_time(one.ended), now),
        lasted=time_span(now - began) if one.lasted_s is None else time_span(one.lasted_s),
        change=change(recommended[0]) if recommended else "",
        looked_after="" if looked is None else f"{looked.who}: {looked.note or 'acknowledged'}",
        verified=tuple(_verified(verification.document, verification.time, now, catalogue)
                       for verification in one.verifications),
        then=link("engine", [*of_target(Target.of(one.target)), ("time", one.began)]),
    )  # fmt: skip


def _verified(document: dict[str, Any], time: str, now: float, catalogue: Catalogue) -> Verified:
    """Read ``palanca.verification/v1``; what a document of another release lacks is left out."""
    engine: dict[str, Any] = next(iter(document.get("engines") or ()), {})
    named = {one.get("signal") for one in engine.get("expected") or ()}
    both = [one for one in engine.get("signals") or () if all(is_number(one.get(side)) for side in ("before", "after"))]
    ranked = sorted(both, key=lambda one: one["signal"] not in named)
    rows = [
        (
            signal_title(str(one["signal"]), catalogue),
            number(one["before"], str(one.get("unit", ""))),
            number(one["after"], str(one.get("unit", ""))),
            str(one.get("verdict") or ""),
        )
        for one in ranked[:_SIGNALS_SHOWN]
    ]
    return Verified(
        str(document.get("verdict", "unknown")), str(document.get("why", "")), clock(_time(time), now), tuple(rows)
    )


def _event(one: EventDocument, now: float) -> EventRow:
    changes = [_changed(change) for change in one.changes]
    return EventRow(
        clock(_time(one.time), now), _WORDS[one.kind], ", ".join(changes) or one.reason or "",
    )  # fmt: skip


def _changed(one: ChangeDocument) -> str:
    before, after = ("not set" if value is None else setting(value) for value in (one.before, one.after))
    return f"{one.name} {before} -> {after}"
