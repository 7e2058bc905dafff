"""Lines of the outbox in the database, within a transaction that others began.

What is so is written in the transaction that records it; what was told, after it was told. Between both stands the
``attempt``: a message under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, func, or_, select, update

from palanca.history import codec
from palanca.history.journal import CHUNK
from palanca.history.leases import upsert
from palanca.history.tables import messages, outbox
from palanca.outgoing import Addressee, Line, Place, Posting, Settlement, Told
from palanca.render.notice import Notice, Remark, carried

NOTICE: Final = TypeAdapter(Notice)
TOLD: Final = TypeAdapter(Told)
MOST_DUE = 200
LONGEST_ERROR = 500
GONE = "it is not seen any more"


def post(
    connection: Connection, postings: Sequence[Posting], now: float, source: str | None = None, *, whole: bool = False
) -> int:
    """Bring lines up to date; how many have changed.

    ``whole``: the postings are all that there is to tell of the ``source``, and what else was told of it is over.
    """
    known = _newest(connection, [one.notice.key for one in postings], source if whole else None)
    changed = 0
    for one in postings:
        mine = known.pop(codec.digest(one.notice.key), {})
        addressees = {to.receiver: to for to in one.to}
        for receiver in {*mine, *addressees}:
            changed += _put(connection, mine.get(receiver), one.notice, receiver, addressees.get(receiver), now, source)
    for mine in known.values():
        for receiver, row in mine.items():
            if row.source == source and not row.resolved:
                over = replace(_notice(row), state="resolved", ended=now, at=now, reason=GONE)
                changed += _put(connection, row, over, receiver, None, now, source)
    return changed


def _newest(connection: Connection, keys: Iterable[str], source: str | None) -> dict[str, dict[str, Any]]:
    """The newest line of each problem by digest and receiver, and all of a source that are not over."""
    latest = (
        select(outbox.c.receiver, outbox.c.digest, func.max(outbox.c.number).label("number"))
        .group_by(outbox.c.receiver, outbox.c.digest)
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    digests = sorted({codec.digest(key) for key in keys})
    conditions: list[ColumnElement[bool]] = [
        outbox.c.digest.in_(digests[first : first + CHUNK]) for first in range(0, len(digests), CHUNK)
    ]
    if source is not None:
        conditions.append(and_(outbox.c.source == source, ~outbox.c.resolved))
    for condition in conditions:
        newest = latest.where(condition).subquery()
        query = select(outbox).join(
            newest,
            and_(
                outbox.c.receiver == newest.c.receiver,
                outbox.c.digest == newest.c.digest,
                outbox.c.number == newest.c.number,
            ),
        )
        for row in connection.execute(query.order_by(outbox.c.id).with_for_update(of=outbox)):
            found.setdefault(row.digest, {})[row.receiver] = row
    return found


def _put(
    connection: Connection,
    row: Any,  # noqa: ANN401  a row of SQLAlchemy
    notice: Notice,
    receiver: str,
    to: Addressee | None,
    now: float,
    source: str | None,
) -> bool:
    """Bring one line up to date. A problem that comes back after its end was told is a new line."""
    over = row is None or (row.resolved and (row.told is None or _told(row).resolved))
    if over:
        if notice.resolved or notice.quiet or to is None:
            return False
        new = {
            "receiver": receiver, "digest": codec.digest(notice.key), "number": 1 if row is None else row.number + 1,
            "source": source, "version": 1, "notice": codec.written(NOTICE, notice), "resolved": False, "pending": True,
            "batch": to.digest, "due": to.due, "tries": 0, "created": now, "changed": now,
        }  # fmt: skip
        # Another replica may have put in the same just now.
        connection.execute(upsert(connection)(outbox).values(**new).on_conflict_do_nothing())
        return True
    before = _notice(row)
    after = carried(before, notice)
    if after.fingerprint == before.fingerprint:
        return False
    values: dict[str, Any] = {"notice": codec.written(NOTICE, after), "resolved": after.resolved}
    values |= {"version": row.version + 1, "pending": True, "changed": now, "tries": 0}
    due, batch = (now, row.batch) if to is None else (to.due, to.digest)
    values["due"] = min(due, row.due) if row.pending and not row.tries else due
    values["batch"] = batch and (row.batch or not row.pending)
    connection.execute(update(outbox).where(outbox.c.id == row.id).values(**values))
    return True


def remark(connection: Connection, key: str, added: Remark, now: float) -> int:
    """Add a remark to the newest lines of a problem; how many there are."""
    mine = _newest(connection, [key], None).get(codec.digest(key), {})
    for row in mine.values():
        _remarked(connection, row, added, now)
    return len(mine)


def remark_on(connection: Connection, subject: str, since: float, added: Remark, now: float) -> int:
    """Add a remark to lines of others, such as groups of Alertmanager, that speak of a subject; how many there are.

    They must not have been over before ``since``.
    """
    others = and_(outbox.c.source.is_(None), or_(~outbox.c.resolved, outbox.c.changed >= since))
    rows = connection.execute(select(outbox).where(others).order_by(outbox.c.number).with_for_update(of=outbox))
    newest = {(row.receiver, row.digest): row for row in rows}
    mine = [row for row in newest.values() if subject in _notice(row).subjects]
    for row in mine:
        _remarked(connection, row, added, now)
    return len(mine)


def _remarked(connection: Connection, row: Any, added: Remark, now: float) -> None:  # noqa: ANN401  a row of SQLAlchemy
    before = _notice(row)
    if added in before.remarks:
        return
    after = replace(before, remarks=(*before.remarks, added))
    values = {"notice": codec.written(NOTICE, after), "version": row.version + 1, "pending": True, "changed": now}
    values |= {"due": min(now, row.due) if row.pending else now}
    connection.execute(update(outbox).where(outbox.c.id == row.id).values(**values))


def due(connection: Connection, receiver: str, now: float) -> tuple[Line, ...]:
    """Lines with something to be told to a receiver, the oldest first."""
    query = select(outbox).where(outbox.c.pending, outbox.c.due <= now, outbox.c.receiver == receiver)
    return tuple(_line(row) for row in connection.execute(query.order_by(outbox.c.due, outbox.c.id).limit(MOST_DUE)))


def next_due(connection: Connection, now: float) -> float | None:
    """When the next line is due, later than ``now``."""
    found: float | None = connection.scalar(select(func.min(outbox.c.due)).where(outbox.c.pending, outbox.c.due > now))
    return found


def begin(connection: Connection, ids: Sequence[int], key: str, now: float) -> None:
    """Note that a message is being sent."""
    statement = update(outbox).where(outbox.c.id.in_(ids)).values(attempt=key, attempted=now)
    connection.execute(statement)


def settle(connection: Connection, done: Settlement, now: float) -> None:
    """Note that a message has arrived: what its lines have told, and where."""
    where = {} if done.place is None else {"channel": done.place.channel, "ts": done.place.ts}
    new = {"key": codec.digest(done.key), "receiver": done.receiver, "kind": done.kind, "time": now, **where}
    connection.execute(upsert(connection)(messages).values(**new).on_conflict_do_nothing())
    placed = where if done.kind == "post" else {}
    for id_, (version, told) in done.lines.items():
        values: dict[str, Any] = {"attempt": None, "attempted": None, "tries": 0, "error": None, **placed}
        if told is not None:
            values["told"] = codec.written(TOLD, told)
        if id_ in done.finished:
            values["pending"] = case((outbox.c.version == version, False), else_=True)
        connection.execute(update(outbox).where(outbox.c.id == id_).values(**values))


def idle(connection: Connection, versions: Mapping[int, int]) -> None:
    """Note lines at which nothing is to be told of these versions."""
    statement = update(outbox).where(outbox.c.id == bindparam("id_"), outbox.c.version == bindparam("version_"))
    rows = [{"id_": id_, "version_": version} for id_, version in versions.items()]
    connection.execute(statement.values(pending=False, attempt=None, attempted=None), rows)


def failed(connection: Connection, ids: Sequence[int], reason: str, again: float | None, *, unsure: bool) -> None:
    """Note that a message did not arrive, and when to try again; None: not before the line changes.

    ``unsure``: it may have arrived, and the attempt stays.
    """
    values: dict[str, Any] = {"tries": outbox.c.tries + 1, "error": codec.word(reason)[:LONGEST_ERROR]}
    values |= {} if unsure else {"attempt": None, "attempted": None}
    values |= {"pending": False} if again is None else {"due": again}
    connection.execute(update(outbox).where(outbox.c.id.in_(ids)).values(**values))


def lost(connection: Connection, line: int) -> None:
    """Note that the message of a line is not there any more."""
    values = {"channel": None, "ts": None, "attempt": None, "attempted": None}
    connection.execute(update(outbox).where(outbox.c.id == line).values(**values))


def abandon(connection: Connection, known: Sequence[str]) -> int:
    """Give up what is for receivers that are not known any more."""
    others = and_(outbox.c.pending, outbox.c.receiver.not_in(known))
    return connection.execute(update(outbox).where(others).values(pending=False, error="no such receiver")).rowcount


def expire(connection: Connection, before: float) -> int:
    """Give up what is over since before a moment and still could not be told."""
    old = and_(outbox.c.pending, outbox.c.resolved, outbox.c.changed < before)
    return connection.execute(update(outbox).where(old).values(pending=False, error="too old to be told")).rowcount


def _line(row: Any) -> Line:  # noqa: ANN401  a row of SQLAlchemy
    return Line(
        id=row.id,
        receiver=row.receiver,
        number=row.number,
        version=row.version,
        notice=_notice(row),
        told=None if row.told is None else _told(row),
        place=None if row.ts is None else Place(row.channel, row.ts),
        due=row.due,
        digest=row.batch,
        tries=row.tries,
        created=row.created,
        attempt=row.attempt,
        attempted=row.attempted,
    )


def _notice(row: Any) -> Notice:  # noqa: ANN401  a row of SQLAlchemy
    return codec.read(NOTICE, row.notice, f"message {row.id}")


def _told(row: Any) -> Told:  # noqa: ANN401  a row of SQLAlchemy
    return codec.read(TOLD, row.told, f"message {row.id}")
