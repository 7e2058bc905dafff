"""Migrations make the tables that the code expects, forwards and back, once, and never touch a newer database."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from tests.history.looks import Opener, engine, firing, look, told

from palanca.errors import HistoryError
from palanca.history import migrate
from palanca.history.store import HistoryStore
from palanca.history.tables import VERSION_TABLE, metadata


def differences(connection: Connection) -> list[Any]:
    """What Alembic would change, by its comparison of tables, columns, types, indexes and constraints."""
    options = {"compare_type": True, "version_table": VERSION_TABLE}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def tables(connection: Connection) -> set[str]:
    return {name for name in inspect(connection).get_table_names() if name.startswith("palanca_")}


def test_migrations_and_tables_agree(store: HistoryStore) -> None:
    """Neither has what the other lacks; what only one open episode allows is in the database too."""
    with store._database.reading() as connection:
        assert [] == differences(connection)
        indexes = {one["name"]: one for one in inspect(connection).get_indexes("palanca_episodes")}
        assert (
            "ended is null"
            in " ".join(map(str, indexes["uq_palanca_episodes_open"]["dialect_options"].values())).lower()
        )
        assert {*metadata.tables, VERSION_TABLE} == tables(connection)


def test_down_and_up_again(store: HistoryStore) -> None:
    """Downwards everything goes, upwards it comes back."""
    told(store, [look(0, engine(firing()))])
    with store._database.writing() as connection:
        migrate.downgrade(connection, "base")
        assert {VERSION_TABLE} == tables(connection)
    with store._database.writing() as connection:
        migrate.upgrade(connection, store.place)
        assert [] == differences(connection)
    assert () == store.episodes().items


def test_every_revision_comes_after_one_other() -> None:
    """One line, without branches, named by number."""
    revisions = list(ScriptDirectory(str(migrate.SCRIPTS)).walk_revisions())
    numbers = [f"{number:04}" for number in range(len(revisions), 0, -1)]
    assert numbers == [one.revision for one in revisions]
    files = sorted(path.name for path in (migrate.SCRIPTS / "versions").glob("v*.py"))
    assert [f"v{number}" for number in reversed(numbers)] == [name.partition("_")[0] for name in files]


def test_opening_twice_changes_nothing(address: str, opened: Opener) -> None:
    """The second opening finds everything there."""
    first = opened(address)
    told(first, [look(0, engine(firing()))])
    assert 1 == len(opened(address).episodes().items)


def test_a_newer_database(store: HistoryStore) -> None:
    """It is refused, with what to do, and left as it is."""
    told(store, [look(0, engine(firing()))])
    with store._database.writing() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    store.close()
    with pytest.raises(HistoryError, match=r"newer palanca \(its revision is 9999, this palanca knows 0002\); upgrade"):
        store.open()
    assert not store.is_open


def test_a_file_of_another_program(tmp_path: Path, opened: Opener) -> None:
    """Its tables stay; a table of ours that is there already is told, not overwritten."""
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE palanca_events (x); INSERT INTO palanca_events VALUES (1)")
    connection.close()
    with pytest.raises(HistoryError, match="table palanca_events already exists"):
        opened(path).open()
    connection = sqlite3.connect(path)
    assert [("palanca_events",)] == connection.execute("SELECT name FROM sqlite_master").fetchall()
    connection.close()
