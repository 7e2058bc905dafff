"""Writes events, each under a key that the database lets in once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter
from sqlalchemy import Connection, insert, select

from palanca.episodes import Episode
from palanca.history import codec
from palanca.history.entries import Detail, EventKind, HistoryEvent
from palanca.history.tables import events
from palanca.model import Severity, Target

DETAIL: Final = TypeAdapter(Detail)
CHUNK: Final = 500
"""Values in one ``IN``: databases limit how many there may be."""


@dataclass(frozen=True)
class Entry:
    """An event to be written; ``distinct`` tells apart what may happen more than once at one moment."""

    kind: EventKind
    time: float
    target_id: int | None = None
    target: Target | None = None
    episode_id: int | None = None
    episode: Episode | None = None
    rule: str | None = None
    severity: Severity | None = None
    detail: Detail = field(default_factory=Detail)
    distinct: str = ""

    @property
    def key(self) -> str:
        """What is the same event has the same key."""
        parts = (self.kind, self.target_id or "", self.episode_id or "", self.rule or "", repr(self.time))
        return ":".join(map(str, (*parts, self.distinct)))


def write(connection: Connection, source_id: int, source: str, entries: Sequence[Entry]) -> tuple[HistoryEvent, ...]:
    """Write events in their order, and return them with their ids."""
    if not entries:
        return ()
    rows = [
        {
            "key": f"{source_id}:{one.key}",
            "time": one.time,
            "kind": one.kind,
            "source_id": source_id,
            "target_id": one.target_id,
            "episode_id": one.episode_id,
            "rule": one.rule,
            "severity": one.severity,
            "detail": codec.written(DETAIL, one.detail),
        }
        for one in entries
    ]
    connection.execute(insert(events), rows)
    ids: dict[str, int] = {}
    for first in range(0, len(rows), CHUNK):
        keys = [row["key"] for row in rows[first : first + CHUNK]]
        ids |= {
            key: id_ for id_, key in connection.execute(select(events.c.id, events.c.key).where(events.c.key.in_(keys)))
        }
    return tuple(
        HistoryEvent(
            id=ids[f"{source_id}:{one.key}"],
            kind=one.kind,
            time=one.time,
            source=source,
            target=one.target,
            episode_id=one.episode_id,
            rule=one.rule,
            severity=one.severity,
            detail=one.detail,
            episode=one.episode,
        )
        for one in entries
    )
