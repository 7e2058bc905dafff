"""What can go wrong with a database: one clear error, never a password, and nothing half written."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event
from tests.history.looks import Opener, at, engine, firing, look, told
from tests.permissions import nobody
from tests.postgresql import PASSWORD, QUOTED, Server
from tests.render.builders import target
from tests.servers import free_port

from palanca.errors import HistoryError
from palanca.history.store import HistoryStore


def failure(store: HistoryStore, step: int = 1) -> str:
    """The message of a record that fails."""
    with pytest.raises(HistoryError) as caught:
        store.record(at(step), "main", look(step, engine(firing())), {})
    message = str(caught.value)
    assert "\n" not in message
    assert "sqlalche" not in message
    assert PASSWORD not in message
    assert QUOTED not in message
    return message


def test_for_the_owner_alone(tmp_path: Path, opened: Opener) -> None:
    """Folder and files are made so, whatever the umask."""
    path = tmp_path / "new" / "palanca.db"
    before = os.umask(0)
    try:
        told(opened(path), [look(0, engine(firing()))])
    finally:
        os.umask(before)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    assert {"palanca.db": 0o600, "palanca.db-wal": 0o600, "palanca.db-shm": 0o600} == modes


def test_commits_are_safe(tmp_path: Path, opened: Opener) -> None:
    """Write-ahead log, flushed at each commit."""
    with opened(tmp_path / "palanca.db")._database.reading() as connection:
        values = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "auto_vacuum")
        }
    expected = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000, "auto_vacuum": 2}
    assert expected == values


def test_no_right_to_the_folder(tmp_path: Path, opened: Opener) -> None:
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o500)
    with nobody(tmp_path):
        assert f"open the history in {folder / 'palanca.db'}: Permission denied (give palanca the right" in failure(
            opened(folder / "palanca.db")
        )


def test_a_file_that_may_not_be_written(tmp_path: Path, opened: Opener) -> None:
    path = tmp_path / "palanca.db"
    first = opened(path)
    told(first, [look(0, engine(firing()))])
    first.close()
    path.chmod(0o444)
    with nobody(tmp_path):
        assert "Permission denied" in failure(opened(path))


def test_a_folder_and_a_file_in_the_way(tmp_path: Path, opened: Opener) -> None:
    (tmp_path / "file").touch()
    assert "Is a directory (name another file with --database)" in failure(opened(tmp_path))
    assert "file is not a directory (name another file" in failure(opened(tmp_path / "file" / "palanca.db"))


def test_no_database(tmp_path: Path, opened: Opener) -> None:
    """A file of another kind is left as it is."""
    path = tmp_path / "palanca.db"
    path.write_text("groceries: milk, eggs\n" * 100)
    before = path.read_bytes()
    assert "file is not a database (name another file with --database" in failure(opened(path))
    assert before == path.read_bytes()


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_a_damaged_file(tmp_path: Path, opened: Opener, place: float) -> None:
    """What is read of it may be told as damaged; nothing else happens."""
    path = tmp_path / "palanca.db"
    first = opened(path)
    for step in range(20):
        told(first, [look(step, *(engine(firing(), where=target(index)) for index in range(20)))])
    first.close()
    data = bytearray(path.read_bytes())
    middle = int(len(data) * place) // 4096 * 4096
    data[middle:] = os.urandom(len(data) - middle)
    path.write_bytes(data)
    damaged = opened(path)
    messages = set()
    for step in range(30, 33):
        for act in (lambda now: damaged.record(now, "main", look(30), {}), lambda _: damaged.episodes()):
            try:
                act(at(step))
            except HistoryError as error:
                messages.add(str(error))
    assert messages
    assert all(re.search(r"malformed .*restore a backup|cannot read", message) for message in messages)


@contextmanager
def full_disk(store: HistoryStore, folder: Path) -> Iterator[None]:
    """A disk of 1 MiB where the tests may mount one; else a database that may not grow."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "palanca-test", str(folder)]
    if (
        os.geteuid() == 0
        and shutil.which("mount")
        and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    ):
        try:
            yield
        finally:
            store.close()
            subprocess.run(["umount", str(folder)], check=True)
        return

    def limit(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count=200")

    engine_of_it = store._database.open()
    store._database.open().dispose()
    event.listen(engine_of_it, "connect", limit)
    yield


def test_a_full_disk(tmp_path: Path, opened: Opener) -> None:
    """What fits no more is not written at all, and what was is still read; with room again it goes on."""
    folder = tmp_path / "small"
    folder.mkdir()
    store = opened(folder / "palanca.db")
    with full_disk(store, folder):
        step, message = 0, ""
        while not message and step < 400:
            fleet = [engine(firing(f"r-{step}-{number}")) for number in range(8)]
            try:
                store.record(at(step), "main", look(step, *fleet), {})
            except HistoryError as error:
                message = str(error)
            step += 1
        assert "database or disk is full (make room on the disk)" in message
        episodes = store.episodes().items
        assert at(step - 2) == store.recorded("main")
        assert {f"r-{step - 2}-{number}" for number in range(8)} == {
            one.rule for one in episodes if one.state == "firing"
        }


def test_files_may_not_grow(tmp_path: Path, opened: Opener) -> None:
    """A quota of the process."""
    store = opened(tmp_path / "palanca.db")
    told(store, [look(0, engine(firing()))])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        assert "write the history" in failure(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "recorded" == store.record(at(2), "main", look(2), {}).outcome


def test_locked_by_another(tmp_path: Path, opened: Opener) -> None:
    """A writer waits for another for 5 s; here less."""
    store = opened(tmp_path / "palanca.db", wait_s=0.05)
    store.open()
    other = sqlite3.connect(tmp_path / "palanca.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "database is locked (another program holds the file; it is tried again)" in failure(store)
    other.execute("ROLLBACK")
    other.close()
    assert "recorded" == store.record(at(2), "main", look(2), {}).outcome


def test_a_file_that_went_away(tmp_path: Path, opened: Opener) -> None:
    """Records do not vanish into a file without a name: it is told, and a new one is begun."""
    store = opened(tmp_path / "palanca.db")
    told(store, [look(0, engine(firing()))])
    (tmp_path / "palanca.db").rename(tmp_path / "old.db")
    assert "was moved or deleted while in use" in failure(store)
    assert ["began"] == told(store, [look(2, engine(firing()))])
    assert (tmp_path / "palanca.db").exists()


def test_room_is_given_back(tmp_path: Path, opened: Opener) -> None:
    """What was forgotten leaves the file smaller."""
    path = tmp_path / "palanca.db"
    store = opened(path)
    for step in range(60):
        told(store, [look(step, *(engine(firing(f"r-{step}"), where=target(index)) for index in range(20)))])
    store.close()
    before = path.stat().st_size
    store.forget(at(1000))
    store.close()
    assert path.stat().st_size < before / 5


# --- PostgreSQL ------------------------------------------------------------------------------------


def test_wrong_password(server: Server, opened: Opener) -> None:
    url = server.database().replace(QUOTED, "wr0ng")
    message = failure(opened(url))
    assert 'password authentication failed for user "palanca" (check the user and the password)' in message
    assert "wr0ng" not in message
    given_apart = HistoryStore(url, password=PASSWORD)
    given_apart.open()
    given_apart.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda url: url.replace("127.0.0.1", "no-such-host.invalid"), "mend the name of the host"),
        (lambda url: url.rpartition("/")[0] + "/nothing", 'database "nothing" does not exist (create it'),
        (lambda url: url.partition("@")[0] + f"@127.0.0.1:{free_port()}/palanca", "Connection refused"),
        (lambda url: f"postgresql:///palanca?host=/no/such/folder&password={QUOTED}", "No such file or directory"),
    ],
)
def test_no_server(server: Server, opened: Opener, change: Callable[[str], str], said: str) -> None:
    """Which server it is stands in the message."""
    message = failure(opened(change(server.database())))
    assert said in message
    assert "open the history in postgresql://" in message


def test_rights_that_are_missing(server: Server, opened: Opener) -> None:
    """A user who may read and not write."""
    url = server.database()
    told(opened(url), [look(0, engine(firing()))])
    name = url.rpartition("/")[2]
    server.run(f"CREATE ROLE {name}_reader LOGIN PASSWORD 'reader'", name)
    server.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}_reader", name)
    reader = opened(url.replace(f"palanca:{QUOTED}", f"{name}_reader:reader"))
    assert 1 == len(reader.episodes().items)
    assert "permission denied for table palanca_sources (grant it to palanca's user)" in failure(reader)


def test_a_read_only_server(server: Server, opened: Opener) -> None:
    """A standby, or one that was set so."""
    url = server.database()
    store = opened(url)
    store.open()
    name = url.rpartition("/")[2]
    server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    store.close()
    assert "read-only transaction (the server is a standby" in failure(store)


def test_a_server_that_goes_and_comes(opened: Opener) -> None:
    """What was committed is there after a crash of the server; connections of before are replaced by themselves."""
    from tests.postgresql import postgresql  # noqa: PLC0415

    with postgresql() as own:
        store = opened(own.database())
        told(store, [look(0, engine(firing()))])
        own.stop()
        assert "Connection refused" in failure(store)
        own.start()
        assert ["resolved"] == told(store, [look(2, engine())])
        store.close()
