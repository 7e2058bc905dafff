"""Alembic runs this file to migrate over the connection that ``palanca.history.migrate`` hands it."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, text

from palanca.history.tables import VERSION_TABLE, metadata

_LOCK = 7_226_538_412
"""Any number, the same in all replicas."""


def _run(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # replicas that start together migrate one after the other
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL lock_timeout = '60s'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


_run(context.config.attributes["connection"])
