"""Pages of episodes and events, the newest first. A cursor names the last one seen, so that pages never overlap."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Select, and_, func, or_, select, tuple_

from palanca.errors import UsageError
from palanca.history import codec
from palanca.history.documents import (
    AcknowledgedDocument,
    ChangeDocument,
    EpisodeDocument,
    EventDocument,
    VerificationDocument,
    WorsenedDocument,
)
from palanca.history.journal import DETAIL
from palanca.history.observed import Value
from palanca.history.recorder import episode_of
from palanca.history.tables import LARGEST_ID, episodes, events, labels, sources, targets, verifications
from palanca.quantities import finite, is_number, rfc3339
from palanca.render.document import evidence_document, finding_document, labels_document

LARGEST_PAGE = 1000
_CURSOR = re.compile(r"(-?[0-9][0-9.e+-]{0,30})_([0-9]{1,18})")

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some of the items, and the cursor of those that follow; None where none do."""

    items: tuple[T, ...] = ()
    next: str | None = None


@dataclass(frozen=True)
class Query:
    """Which ones are asked for; what is empty or None asks for all. Times are unix seconds, both ends included.

    ``match`` are labels that must have these values; an empty value asks for targets without the label, as in
    Prometheus. ``limit`` is 1 to 1000, ``cursor`` that of the page before.
    """

    begin: float | None = None
    end: float | None = None
    sources: Sequence[str] = ()
    rules: Sequence[str] = ()
    severities: Sequence[str] = ()
    match: Mapping[str, str] = field(default_factory=dict)
    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True)
class EpisodeQuery(Query):
    """Episodes that fired at any time from ``begin`` to ``end``; severities are the worst that they reached."""

    causes: Sequence[str] = ()
    open_only: bool = False


@dataclass(frozen=True)
class EventQuery(Query):
    """Events from ``begin`` to ``end``."""

    kinds: Sequence[str] = ()
    episode: int | None = None


_EPISODES = (
    select(episodes, targets.c.labels, sources.c.name.label("source"))
    .join(targets, targets.c.id == episodes.c.target_id)
    .join(sources, sources.c.id == targets.c.source_id)
)
_EVENTS = (
    select(events, targets.c.labels, sources.c.name.label("source"))
    .join(sources, sources.c.id == events.c.source_id)
    .outerjoin(targets, targets.c.id == events.c.target_id)
)


def read_begin(connection: Connection) -> float | None:
    """Return the first moment of which something is kept, unix seconds; None where nothing was recorded."""
    known = (events.c.time, targets.c.since, sources.c.recorded)
    found = [connection.scalar(select(func.min(column))) for column in known]
    return min((float(one) for one in found if one is not None), default=None)


def read_episodes(connection: Connection, query: EpisodeQuery) -> Page[EpisodeDocument]:
    """Read one page. Raises ``UsageError`` for a limit or cursor that cannot be meant."""
    table = episodes.c
    wanted = _filtered(_EPISODES, query, table.rule, table.worst, table.target_id)
    if query.end is not None:
        wanted = wanted.where(table.began <= query.end)
    if query.begin is not None:
        wanted = wanted.where(or_(table.ended.is_(None), table.ended >= query.begin))
    if query.causes:
        wanted = wanted.where(table.cause.in_(_words(query.causes)))
    if query.open_only:
        wanted = wanted.where(table.ended.is_(None))
    rows, following = _page(connection, wanted, query, table.began, table.id)
    return Page(_episode_documents(connection, rows), following)


def read_episode(connection: Connection, episode_id: int) -> EpisodeDocument | None:
    """Read one episode; None where there is none of that number."""
    if not 0 < episode_id <= LARGEST_ID:
        return None
    rows = connection.execute(_EPISODES.where(episodes.c.id == episode_id)).all()
    return next(iter(_episode_documents(connection, rows)), None)


def read_events(connection: Connection, query: EventQuery) -> Page[EventDocument]:
    """Read one page. Raises ``UsageError`` for a limit or cursor that cannot be meant."""
    table = events.c
    wanted = _filtered(_EVENTS, query, table.rule, table.severity, table.target_id)
    if query.begin is not None:
        wanted = wanted.where(table.time >= query.begin)
    if query.end is not None:
        wanted = wanted.where(table.time <= query.end)
    if query.kinds:
        wanted = wanted.where(table.kind.in_(_words(query.kinds)))
    if query.episode is not None:
        wanted = wanted.where(table.episode_id == max(min(query.episode, LARGEST_ID), 0))
    rows, following = _page(connection, wanted, query, table.time, table.id)
    return Page(tuple(_event_document(row) for row in rows), following)


def _filtered(
    wanted: Select[Any], query: Query, rule: Column[Any], severity: Column[Any], target_id: Column[Any]
) -> Select[Any]:
    if query.sources:
        wanted = wanted.where(sources.c.name.in_(_words(query.sources)))
    if query.rules:
        wanted = wanted.where(rule.in_(_words(query.rules)))
    if query.severities:
        wanted = wanted.where(severity.in_(_words(query.severities)))
    for name, value in query.match.items():
        wanted = wanted.where(_has(target_id, codec.word(name), codec.word(value)))
    return wanted


def _words(texts: Sequence[str]) -> list[str]:
    return [codec.word(one) for one in texts]


def _has(target_id: Column[Any], name: str, value: str) -> ColumnElement[bool]:
    named = select(labels.c.target_id).where(labels.c.target_id == target_id, labels.c.name == name)
    if not value:
        return and_(target_id.is_not(None), ~named.exists())
    return named.where(labels.c.value == value).exists()


def _page(
    connection: Connection, wanted: Select[Any], query: Query, time: Column[float], id_: Column[int]
) -> tuple[Sequence[Any], str | None]:
    if not 1 <= query.limit <= LARGEST_PAGE:
        message = f"limit is {query.limit}; give 1 to {LARGEST_PAGE}"
        raise UsageError(message)
    if query.cursor is not None:
        wanted = wanted.where(tuple_(time, id_) < tuple_(*_position(query.cursor)))
    rows = connection.execute(wanted.order_by(time.desc(), id_.desc()).limit(query.limit + 1)).all()
    shown = rows[: query.limit]
    if len(rows) == len(shown):
        return shown, None
    last = shown[-1]
    return shown, f"{getattr(last, time.name)!r}_{last.id}"


def _position(cursor: str) -> tuple[float, int]:
    found = _CURSOR.fullmatch(cursor)
    try:
        time = float(found[1]) if found is not None else math.nan
    except ValueError:
        time = math.nan
    if found is None or not math.isfinite(time):
        raise UsageError("this cursor is none of ours: take it from next of the page before, or leave it out")
    return time, int(found[2])


def _episode_documents(connection: Connection, rows: Sequence[Any]) -> tuple[EpisodeDocument, ...]:
    results = _verifications(connection, [row.id for row in rows])
    return tuple(_episode_document(row, results[row.id]) for row in rows)


def _verifications(connection: Connection, ids: Sequence[int]) -> dict[int, list[VerificationDocument]]:
    found: dict[int, list[VerificationDocument]] = defaultdict(list)
    query = select(verifications).where(verifications.c.episode_id.in_(ids)).order_by(verifications.c.id)
    for row in connection.execute(query) if ids else ():
        document = VerificationDocument(time=rfc3339(row.time), document=json.loads(row.document))
        found[row.episode_id].append(document)
    return found


def _episode_document(row: Any, results: Iterable[VerificationDocument]) -> EpisodeDocument:  # noqa: ANN401  a row
    episode = episode_of(row)
    first = finding_document(episode.first, row.began)
    return EpisodeDocument(
        id=row.id,
        source=row.source,
        target=labels_document(episode.target.as_dict()),
        rule=row.rule,
        cause=row.cause,
        state="firing" if row.ended is None else "resolved",
        severity=episode.worst,
        since=first.since,
        since_at_least=first.since_at_least,
        began=rfc3339(row.began),
        ended=_time(row.ended),
        lasted_s=None if row.ended is None else finite(row.ended - row.began),
        lapsed=_time(row.lapsed) if row.ended is None else None,
        reason=row.reason,
        worsened=tuple(WorsenedDocument(time=rfc3339(time), severity=severity) for time, severity in episode.worsened),
        first=first,
        latest=finding_document(episode.latest, row.began),
        peak=tuple(evidence_document(one) for one in episode.peak),
        acknowledged=None
        if row.acknowledged is None
        else AcknowledgedDocument(time=rfc3339(row.acknowledged), who=row.acknowledged_by, note=row.note),
        verifications=tuple(results),
    )


def _event_document(row: Any) -> EventDocument:  # noqa: ANN401  a row of SQLAlchemy
    detail = codec.read(DETAIL, row.detail, f"event {row.id}")
    return EventDocument(
        id=row.id,
        time=rfc3339(row.time),
        kind=row.kind,
        source=row.source,
        target=None if row.labels is None else labels_document(codec.target_of(row.labels).as_dict()),
        episode=row.episode_id,
        rule=row.rule,
        severity=row.severity,
        reason=detail.reason,
        since=_time(detail.since),
        changes=tuple(
            ChangeDocument(name=one.name, before=_value(one.before), after=_value(one.after)) for one in detail.changes
        ),
        who=detail.who,
        note=detail.note,
    )


def _time(moment: float | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def _value(value: Value) -> Value:
    """Whole numbers as integers, as on a command line; a number that is not finite as null."""
    if not is_number(value):
        return value
    number = finite(value)
    return int(number) if number is not None and number.is_integer() else number
