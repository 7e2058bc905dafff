"""Forgets what is older than the retention, a little in each transaction, so that recording never waits long."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import ColumnElement, Connection, Table, delete, select

from palanca.history.tables import episodes, events, messages, outbox, targets

BATCH = 500


def forget_events(connection: Connection, before: float) -> int:
    """Delete events from before a moment; how many went, at most ``BATCH``."""
    return _delete(connection, events, events.c.time < before)


def forget_episodes(connection: Connection, before: float) -> int:
    """Delete episodes resolved before a moment; how many went, at most ``BATCH``. What is open is kept, however old."""
    return _delete(connection, episodes, episodes.c.ended < before)


def forget_targets(connection: Connection, before: float) -> int:
    """Delete targets gone before a moment of which nothing else tells; how many went, at most ``BATCH``."""
    used = select(episodes.c.id).where(episodes.c.target_id == targets.c.id).exists()
    told = select(events.c.id).where(events.c.target_id == targets.c.id).exists()
    return _delete(connection, targets, ~targets.c.present & (targets.c.since < before) & ~used & ~told)


def forget_lines(connection: Connection, before: float) -> int:
    """Delete what was told, and was over, before a moment; how many went, at most ``BATCH``."""
    return _delete(connection, outbox, outbox.c.resolved & ~outbox.c.pending & (outbox.c.changed < before))


def forget_messages(connection: Connection, before: float) -> int:
    """Delete messages from before a moment; how many went, at most ``BATCH``."""
    return _delete(connection, messages, messages.c.time < before)


STEPS: tuple[Callable[[Connection, float], int], ...] = (
    forget_events,
    forget_episodes,
    forget_targets,
    forget_lines,
    forget_messages,
)
"""In this order, each batch in a transaction of its own: two replicas that forget cannot wait for each other."""


def _delete(connection: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    ids = select(table.c.id).where(condition).order_by(table.c.id).limit(BATCH).with_for_update(skip_locked=True)
    return connection.execute(delete(table).where(table.c.id.in_(ids.scalar_subquery()))).rowcount
