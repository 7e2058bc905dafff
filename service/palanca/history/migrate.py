"""Brings the tables to the newest revision, and refuses databases of a newer palanca."""

from __future__ import annotations

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from palanca.errors import HistoryError
from palanca.history.tables import VERSION_TABLE

SCRIPTS = Path(__file__).parent / "migrations"
_ONE_AT_A_TIME = threading.Lock()  # Alembic keeps the migration that runs in a global


def upgrade(connection: Connection, place: str, revision: str = "head") -> None:
    """Migrate within the transaction of a connection. Raises ``HistoryError`` for a newer database."""
    known = ScriptDirectory(str(SCRIPTS))
    here = current(connection)
    if here == known.get_current_head() and revision == "head":
        return
    if here is not None and here not in {one.revision for one in known.walk_revisions()}:
        message = (
            f"the history in {place} was written by a newer palanca (its revision is {here}, this palanca knows "
            f"{known.get_current_head()}); upgrade palanca, or name another database with --database"
        )
        raise HistoryError(message)
    with _ONE_AT_A_TIME:
        command.upgrade(_config(connection), revision)


def downgrade(connection: Connection, revision: str) -> None:
    """Go back to a revision (``base``: no tables) within the transaction of a connection."""
    with _ONE_AT_A_TIME:
        command.downgrade(_config(connection), revision)


def current(connection: Connection) -> str | None:
    """Revision of the database; None where it has no tables yet."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
