"""What people add to an episode: that they look after it, and whether a change helped. Saying it twice adds nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert, select, update

from palanca.errors import UsageError
from palanca.history import codec, journal, lines
from palanca.history.entries import Detail, EventKind
from palanca.history.journal import Entry
from palanca.history.tables import LARGEST_ID, episodes, sources, targets, verifications
from palanca.render.notice import Remark, subject, topic
from palanca.render.words import encodable


def acknowledge(connection: Connection, episode_id: int, who: str, note: str, now: float) -> bool:
    """Note who looks after an episode; another name or note takes the place of the last. False: no such episode."""
    row = _locked(connection, episode_id)
    if row is None:
        return False
    who, note = codec.word(who), codec.word(note)
    if (row.acknowledged_by, row.note) != (who, note):
        new = {"acknowledged": now, "acknowledged_by": who, "note": note}
        connection.execute(update(episodes).where(episodes.c.id == episode_id).values(**new))
        _tell(connection, row, "acknowledged", now, Detail(who=who, note=note), codec.digest(f"{who}\n{note}"))
        text = f"{who} looks after it" + (f": {note}" if note else "")
        _remark(connection, row, Remark(now, text, loud=False), now)
    return True


def attach(connection: Connection, episode_id: int, document: Mapping[str, Any], now: float) -> bool:
    """Add the result of a verification, once. False: no such episode. Raises ``UsageError`` if it is no JSON."""
    try:
        text = encodable(json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the verification of episode {episode_id} is no JSON object: {error}") from None
    row = _locked(connection, episode_id)
    if row is None:
        return False
    digest = codec.digest(text)
    same = (verifications.c.episode_id == episode_id) & (verifications.c.digest == digest)
    if connection.execute(select(verifications.c.id).where(same)).first() is None:
        new = {"episode_id": episode_id, "digest": digest, "time": now, "document": text}
        connection.execute(insert(verifications).values(**new))
        verdict = document.get("verdict")
        detail = Detail(reason=codec.word(verdict) if isinstance(verdict, str) else None)
        _tell(connection, row, "verified", now, detail, digest)
        _remark(connection, row, Remark(now, _verdict(document)), now)
    return True


def _remark(connection: Connection, row: Any, added: Remark, now: float) -> None:  # noqa: ANN401  a row of SQLAlchemy
    """Add to what people were told of an episode, by palanca itself or by Alertmanager."""
    target = codec.target_of(row.labels)
    lines.remark(connection, topic(row.source, row.rule, target), added, now)
    lines.remark_on(connection, subject(row.rule, target), row.began, added, now)


def _verdict(document: Mapping[str, Any]) -> str:
    verdict, why = (document.get(name) for name in ("verdict", "why"))
    said = f"A change was verified: {verdict}" if isinstance(verdict, str) else "A change was verified"
    return codec.word(f"{said}. {why}" if isinstance(why, str) and why else f"{said}.")


def _locked(connection: Connection, episode_id: int) -> Any:  # noqa: ANN401  a row of SQLAlchemy
    """The row of an episode; of two writers the second one waits."""
    if not 0 < episode_id <= LARGEST_ID:
        return None
    query = select(episodes, targets.c.labels, targets.c.source_id, sources.c.name.label("source"))
    query = query.join(targets, targets.c.id == episodes.c.target_id).join(sources, sources.c.id == targets.c.source_id)
    return connection.execute(
        query.where(episodes.c.id == episode_id).with_for_update(key_share=True, of=episodes)
    ).first()


def _tell(connection: Connection, row: Any, kind: EventKind, now: float, detail: Detail, distinct: str) -> None:  # noqa: ANN401
    target = codec.target_of(row.labels)
    entry = Entry(
        kind, now, row.target_id, target, row.id, rule=row.rule, severity=row.worst, detail=detail, distinct=distinct
    )
    journal.write(connection, row.source_id, row.source, [entry])
