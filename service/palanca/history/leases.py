"""A lease: of several replicas, one records and sends. Everything is decided by one statement in the database.

PostgreSQL's clock says what has expired, so that clocks of replicas may differ. Replicas on one SQLite file share a
machine, and its clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, Float, case, cast, delete, extract, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from palanca.history.tables import leases


@dataclass(frozen=True)
class Lease:
    """Which lease, who wants it, and for how many seconds it holds without being renewed."""

    name: str
    holder: str
    ttl_s: float


@dataclass(frozen=True)
class Held:
    """Who has a lease, its number (it grows with each change of the holder), and for how many seconds still."""

    holder: str
    token: int
    left_s: float


def upsert(connection: Connection) -> Any:  # noqa: ANN401  the two dialects' functions share no type
    """``insert`` of the dialect, which knows ON CONFLICT."""
    return postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert


def acquire(connection: Connection, lease: Lease, now: float) -> bool:
    """Take a lease that is free, expired, or one's own; it then holds for ``ttl_s`` from now. False: another has it.

    Until the transaction ends nobody else can take it, so that all of it is written by the holder.
    """
    clock = _clock(connection, now)
    made = upsert(connection)(leases).values(
        name=lease.name, holder=lease.holder, token=1, expires=clock + literal(lease.ttl_s, Double())
    )
    taken = made.excluded.holder
    statement = made.on_conflict_do_update(
        index_elements=[leases.c.name],
        set_={
            "holder": taken,
            "expires": made.excluded.expires,
            "token": case((leases.c.holder == taken, leases.c.token), else_=leases.c.token + 1),
        },
        where=(leases.c.holder == taken) | (leases.c.expires <= clock),
    )
    # Without the option SQLAlchemy forgets how many rows an INSERT wrote.
    return connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount == 1


def renew(connection: Connection, lease: Lease, now: float) -> bool:
    """Prolong one's own lease, if it has not expired. False: it is lost, or was never held."""
    held = holder(connection, lease.name, now)
    return held is not None and held.holder == lease.holder and acquire(connection, lease, now)


def release(connection: Connection, lease: Lease) -> bool:
    """Give one's own lease back, so that another replica need not wait. False: it was not held."""
    mine = (leases.c.name == lease.name) & (leases.c.holder == lease.holder)
    return connection.execute(delete(leases).where(mine)).rowcount == 1


def holder(connection: Connection, name: str, now: float) -> Held | None:
    """Who holds a lease; None where nobody does."""
    left = (leases.c.expires - _clock(connection, now)).label("left")
    row = connection.execute(select(leases.c.holder, leases.c.token, left).where(leases.c.name == name)).first()
    return None if row is None or row.left <= 0 else Held(row.holder, row.token, row.left)


def _clock(connection: Connection, now: float) -> ColumnElement[float]:
    if connection.dialect.name == "postgresql":
        return cast(extract("epoch", func.clock_timestamp()), Double())
    return literal(now, Float())
