"""Connections to SQLite or PostgreSQL, set up so that what was committed is safe. All errors are ``HistoryError``."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from palanca.errors import HistoryError
from palanca.history import migrate
from palanca.history.address import Address
from palanca.history.faults import told

_FAILURES = (SQLAlchemyError, sqlite3.Error, psycopg.Error, OSError)
_WRITES = "palanca_writes"
_PAGES_AT_ONCE = 10_000
_PRAGMAS = (
    "PRAGMA auto_vacuum=INCREMENTAL",  # before the first table: forgetting gives room back to the disk
    "PRAGMA journal_mode=WAL",  # readers never wait for the recorder
    "PRAGMA synchronous=FULL",  # with NORMAL a power cut could take the last commits of a WAL
    "PRAGMA foreign_keys=ON",
)
_SESSION = (
    "SET statement_timeout = '15s'",
    "SET idle_in_transaction_session_timeout = '30s'",  # a host that vanished must not hold locks
)


class Database:
    """One database; it is opened, and brought up to date, by the first use. Threads may share it.

    ``wait_s`` is how long to wait for a lock, or for a server to answer.
    """

    def __init__(self, address: Address, wait_s: float) -> None:
        self.address, self._wait_s = address, wait_s
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._file: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since."""
        return self._engine is not None

    def open(self) -> Engine:
        """Create what is missing and migrate to the newest revision. Raises ``HistoryError``."""
        with self._lock:
            if self._engine is not None:
                return self._engine
            path = self.address.path
            engine: Engine | None = None
            try:
                if path is not None:
                    _prepare(path)
                engine = _engine(self.address, self._wait_s)
                with engine.execution_options(**{_WRITES: True}).begin() as connection:
                    migrate.upgrade(connection, self.address.place)
                self._file = _identity(path)
            except _FAILURES as error:
                if engine is not None:
                    engine.dispose()
                raise told(error, self.address, "open") from None
            except HistoryError:
                if engine is not None:
                    engine.dispose()
                raise
            self._engine = engine
            return engine

    def close(self) -> None:
        """Close all connections; the next use opens anew."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
            self._engine = None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that only reads. Raises ``HistoryError``."""
        engine = self.open()
        try:
            with engine.connect() as connection:
                yield connection
        except _FAILURES as error:
            raise told(error, self.address, "read") from None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: all of it is written, or, where anything is raised, nothing. Raises ``HistoryError``."""
        engine = self.open()
        self._same_file()
        try:
            with engine.execution_options(**{_WRITES: True}).begin() as connection:
                yield connection
        except _FAILURES as error:
            raise told(error, self.address, "write") from None

    def shrink(self) -> None:
        """Give room that was freed in a SQLite file back to the disk, some of it at a time. Raises ``HistoryError``."""
        if self.address.path is None:
            return
        engine = self.open()
        try:
            connection = engine.raw_connection()
            try:
                plain = cast("sqlite3.Connection", connection.dbapi_connection)
                plain.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")  # execute() would free one page
            finally:
                connection.close()
        except _FAILURES as error:
            raise told(error, self.address, "write") from None

    def _same_file(self) -> None:
        """An open file that was moved or deleted would go on to take records, unseen by all others."""
        path = self.address.path
        if path is not None and self._file != _identity(path):
            self.close()
            raise HistoryError(f"the history in {path} was moved or deleted while in use; a new file is begun")


def _identity(path: Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def _prepare(path: Path) -> None:
    """Create folder and file for the owner alone. Raises ``OSError``."""
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{path.parent} is not a directory")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _engine(address: Address, wait_s: float) -> Engine:
    if address.path is None:
        return _postgresql(address.url, wait_s)
    engine = create_engine(address.url, connect_args={"timeout": wait_s})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun below; the driver would begin them too late
    for pragma in _PRAGMAS:
        connection.execute(pragma).close()


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes its lock at once: a reader that becomes a writer could fail instead of waiting."""
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql(url: URL, wait_s: float) -> Engine:
    usual: dict[str, Any] = {
        "connect_timeout": max(round(wait_s), 2),
        "application_name": "palanca",
        "tcp_user_timeout": 10_000,
        "prepare_threshold": None,  # a pooler in between may give each transaction another session
    }
    arguments = {name: value for name, value in usual.items() if name not in url.query}
    engine = create_engine(url, connect_args=arguments, pool_pre_ping=True)

    def set_up(connection: psycopg.Connection[Any], _record: object) -> None:
        for statement in (f"SET lock_timeout = '{round(wait_s * 1000)}ms'", *_SESSION):
            connection.execute(statement.encode())
        connection.commit()

    event.listen(engine, "connect", set_up)
    return engine
