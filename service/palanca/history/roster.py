"""The targets of a source as the database knows them: who is there, who came, who went, what changed at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from palanca.history import codec
from palanca.history.entries import Detail
from palanca.history.journal import CHUNK, Entry
from palanca.history.observed import Observed, compared, observed
from palanca.history.tables import labels, targets
from palanca.model import Diagnosis, Target, TargetReport


@dataclass(frozen=True)
class Roster:
    """Result of one look. ``ids`` has every target that is there; ``gone`` those that are not there any more."""

    ids: Mapping[Target, int]
    gone: Mapping[Target, int]
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class _Row:
    id: int
    labels: str
    present: bool
    columns: Mapping[str, Any]


def look(connection: Connection, source_id: int, diagnosis: Diagnosis, now: float) -> Roster:
    """Bring the targets up to date. Where a source could be read in part only, nothing that is missing is gone."""
    reports = {codec.labels_text(report.target): report for report in diagnosis.targets}
    rows = _rows(connection, source_id, reports)
    ids = _add(connection, source_id, [text for text in reports if text not in rows], now)
    entries, changed = [], []
    for text, report in reports.items():
        row, target = rows.get(text), codec.target_of(text)
        id_ = row.id if row is not None else ids[text]
        if row is None or not row.present:
            entries.append(Entry("target-added", now, id_, target))
        kept = observed(report, diagnosis.time)
        if row is not None:
            kept, restart, changes = compared(_known(row, kept), kept, now)
            if restart is not None:
                detail = Detail(reason=restart.by, since=restart.started)
                entries.append(Entry("restarted", now, id_, target, detail=detail))
            if changes:
                entries.append(Entry("configuration-changed", now, id_, target, detail=Detail(changes=changes)))
        columns = _columns(kept)
        if row is None or not row.present or columns != row.columns:
            since = now if row is None or not row.present else None
            changed.append({"id_": id_, **columns, "since_": since})
    _update(connection, changed)
    gone: dict[Target, int] = {}
    if diagnosis.source.state == "ok":
        gone = {codec.target_of(text): row.id for text, row in rows.items() if row.present and text not in reports}
        entries += remove(connection, gone, now)
    there = {codec.target_of(text): rows[text].id if text in rows else ids[text] for text in reports}
    return Roster(there, gone, tuple(entries))


def remove(connection: Connection, gone: Mapping[Target, int], now: float) -> list[Entry]:
    """Mark targets as gone."""
    if gone:
        statement = update(targets).where(targets.c.id == bindparam("id_")).values(present=False, since=now)
        connection.execute(statement, [{"id_": id_} for id_ in gone.values()])
    return [Entry("target-removed", now, id_, target) for target, id_ in gone.items()]


def present(connection: Connection, source_id: int) -> dict[Target, int]:
    """The targets that are there by the last look."""
    query = select(targets.c.labels, targets.c.id).where(targets.c.source_id == source_id, targets.c.present)
    return {codec.target_of(text): id_ for text, id_ in connection.execute(query)}


def _rows(connection: Connection, source_id: int, reports: Mapping[str, TargetReport]) -> dict[str, _Row]:
    """The targets that were there at the last look, and those of the reports that had been there before."""
    mine = select(targets).where(targets.c.source_id == source_id)
    found = {row.labels: _row(row) for row in connection.execute(mine.where(targets.c.present))}
    digests = [codec.digest(text) for text in reports if text not in found]
    for first in range(0, len(digests), CHUNK):
        part = mine.where(targets.c.digest.in_(digests[first : first + CHUNK]))
        found |= {row.labels: _row(row) for row in connection.execute(part)}
    return found


def _row(row: Any) -> _Row:  # noqa: ANN401  a row of SQLAlchemy
    names = ("facts", "release", "started", "resets", "reset_noted")
    return _Row(row.id, row.labels, row.present, {name: getattr(row, name) for name in names})


def _known(row: _Row, now: Observed) -> Observed:
    """What was stored of a target. Mostly its facts are those of now, and need not be read."""
    columns = row.columns
    facts = now.facts
    if columns["facts"] != codec.facts_text(facts):
        stored = codec.read(codec.FACTS, columns["facts"], f"facts of {row.labels}")
        facts = stored
    release = None if columns["release"] is None else tuple(json.loads(columns["release"]))
    return Observed(facts, release, columns["started"], columns["resets"], columns["reset_noted"])


def _columns(known: Observed) -> dict[str, Any]:
    return {
        "facts": codec.facts_text(known.facts),
        "release": None if known.release is None else codec.plain(known.release),
        "started": known.started,
        "resets": known.resets,
        "reset_noted": known.reset_noted,
    }


def _add(connection: Connection, source_id: int, texts: list[str], now: float) -> dict[str, int]:
    """Write new targets with their labels; their ids by their labels."""
    if not texts:
        return {}
    plain = {"source_id": source_id, "present": False, "since": now, "facts": "{}"}
    connection.execute(insert(targets), [{**plain, "digest": codec.digest(text), "labels": text} for text in texts])
    ids: dict[str, int] = {}
    for first in range(0, len(texts), CHUNK):
        digests = [codec.digest(text) for text in texts[first : first + CHUNK]]
        query = select(targets.c.labels, targets.c.id)
        query = query.where(targets.c.source_id == source_id, targets.c.digest.in_(digests))
        ids |= {row.labels: row.id for row in connection.execute(query)}
    rows = [
        {"target_id": ids[text], "position": position, "name": codec.word(name), "value": codec.word(value)}
        for text in texts
        for position, (name, value) in enumerate(json.loads(text).items())
    ]
    if rows:
        connection.execute(insert(labels), rows)
    return ids


def _update(connection: Connection, changed: list[dict[str, Any]]) -> None:
    appeared = [row for row in changed if row["since_"] is not None]
    if appeared:
        statement = (
            update(targets).where(targets.c.id == bindparam("id_")).values(present=True, since=bindparam("since_"))
        )
        connection.execute(statement, [{"id_": row["id_"], "since_": row["since_"]} for row in appeared])
    if changed:
        names = [name for name in changed[0] if name not in {"id_", "since_"}]
        values: dict[str, Any] = {name: bindparam(f"{name}_") for name in names}
        statement = update(targets).where(targets.c.id == bindparam("id_")).values(values)
        connection.execute(
            statement, [{"id_": row["id_"], **{f"{one}_": row[one] for one in names}} for row in changed]
        )
