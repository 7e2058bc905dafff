"""Trouble of the database in a running service: diagnoses go on, it is said, and it mends itself where that can be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.app.test_life import sound
from tests.postgresql import PASSWORD, QUOTED, postgresql
from tests.serving import Running, running, until

POLLS = 'palanca_polls_total{result="ok",source="script"}'
OWN_MOUNTS = ("unshare", "--map-root-user", "--mount")


@contextmanager
def script(address: str | Path, folder: Path, *, before: Sequence[str] = ()) -> Iterator[Running]:
    """The service that polls a script ten times a second, with a history at this address."""
    command = [*before, sys.executable, "-m", "tests.app.scripted", str(address), str(folder / "journal")]
    with running(command, folder) as made:
        yield made


def state(made: Running) -> dict[str, Any]:
    """The state of the history as the API says it."""
    found: dict[str, Any] = made.document("/api/v1/history")["history"]
    return found


def off(made: Running, *words: str) -> str:
    """Wait until the history is off; the reason. Diagnoses go on, and the log has said it."""
    until(lambda: made.metric("palanca_history_up") == 0)
    until(lambda: not state(made)["enabled"])
    reason: str = state(made)["reason"]
    assert [] == [word for word in words if word not in reason], reason
    polls = made.metric(POLLS) or 0
    until(lambda: (made.metric(POLLS) or 0) > polls + 3)
    assert made.document()["targets"]
    made.says("the history cannot be written; diagnoses go on without it")
    return reason


def on(made: Running, seconds: float = 20.0) -> None:
    """Wait until the history is written."""
    until(lambda: made.metric("palanca_history_up") == 1, seconds)
    until(lambda: state(made)["enabled"], seconds)
    until(lambda: made.document("/api/v1/history")["episodes"])


def resumed(made: Running) -> dict[str, Any]:
    """The event that tells of the gap."""
    events = made.document("/api/v1/history/events?limit=1000")["events"]
    found: dict[str, Any] = next(one for one in events if one["kind"] == "recording-resumed")
    return found


def mounts() -> bool:
    """Whether this user may mount something in a world of their own."""
    done = subprocess.run(
        [*OWN_MOUNTS, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False, capture_output=True, timeout=10
    )
    return done.returncode == 0


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """Named in the reason; when it has become one, the history begins."""
    place = tmp_path / "state"
    place.touch()
    with script(place / "palanca.db", tmp_path) as made:
        off(made, str(place))
        assert [] == made.document("/api/v1/history")["episodes"]
        place.unlink()
        on(made)
        assert str(place) in resumed(made)["reason"]
        made.says("the history is written again")
        assert 0 == made.stop()[0]
    assert sound(place / "palanca.db")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """It is left as it is; moved away, a new one is begun."""
    place = tmp_path / "palanca.db"
    place.write_bytes(os.urandom(100_000))
    before = place.read_bytes()
    with script(place, tmp_path) as made:
        off(made, str(place), "is not a database", "move this one away")
        assert before == place.read_bytes()
        place.rename(tmp_path / "away")
        on(made)


def test_a_damaged_file(tmp_path: Path) -> None:
    """One of whose middle is overwritten while nobody uses it."""
    place = tmp_path / "palanca.db"
    with script(place, tmp_path) as made:
        on(made)
        made.stop()
    whole = place.read_bytes()
    place.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    with script(place, tmp_path) as made:
        off(made, "damaged", str(place))
        place.unlink()
        on(made)


def test_a_file_that_is_deleted_while_in_use(tmp_path: Path) -> None:
    """A new one is begun, and says so."""
    place = tmp_path / "palanca.db"
    with script(place, tmp_path) as made:
        on(made)
        for path in sorted(tmp_path.glob("palanca.db*"), reverse=True):  # its log first: a new one is begun at once
            path.unlink()
        assert str(place) in made.says("the history cannot be written")  # deleted, or read only where it was in the act
        made.says("the history is written again")
        on(made)
        assert str(place) in resumed(made)["reason"]
        made.stop()
    assert sound(place)


@pytest.mark.skipif(not mounts(), reason="mounts of one's own are not allowed here")
class TestMounts:
    """File systems of the test's own."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> Path:
        disk = tmp_path / "disk"
        disk.mkdir()
        return disk

    def shell(self, disk: Path, options: str) -> list[str]:
        mount = f"mount -t tmpfs -o size=1m tmpfs {disk} && mount -o remount,{options} {disk}"
        return [*OWN_MOUNTS, "sh", "-c", f'{mount} && exec "$@"', "sh"]

    def inside(self, made: Running, *command: str | Path) -> None:
        """Run a command in the world of the service."""
        enter = ["nsenter", "--target", str(made.process.pid), "--mount", "--user", "--preserve-credentials"]
        subprocess.run([*enter, *map(str, command)], check=True, timeout=10)

    def test_a_read_only_folder(self, tmp_path: Path, disk: Path) -> None:
        """As of a container whose root is read only, and which nobody gave a volume."""
        with script(disk / "palanca.db", tmp_path, before=self.shell(disk, "ro")) as made:
            off(made, str(disk), "Read-only file system")
            self.inside(made, "mount", "-o", "remount,rw", disk)
            on(made)

    def test_a_full_disk(self, tmp_path: Path, disk: Path) -> None:
        """While it runs: recording goes on when there is room, after what was written before."""
        with script(disk / "palanca.db", tmp_path, before=self.shell(disk, "rw")) as made:
            on(made)
            self.inside(made, "sh", "-c", f"cat /dev/zero > {disk}/filler 2>/dev/null || true")
            off(made, "full", "make room")
            self.inside(made, "rm", disk / "filler")
            on(made)
            assert "full" in resumed(made)["reason"]
            kinds = [one["kind"] for one in made.document("/api/v1/history/events?limit=1000")["events"]]
            assert kinds.index("recording-resumed") < kinds.index("target-added")  # the newest first
            made.stop()


def test_a_postgresql_that_stops_and_starts(tmp_path: Path) -> None:
    """A crash of the server is a gap, and no end; nothing shows its password."""
    with postgresql() as server, script(server.database(), tmp_path) as made:
        on(made)
        server.stop()
        reason = off(made, "postgresql://127.0.0.1:")
        until(lambda: "start the server" in (state(made)["reason"] or ""))
        server.start()
        on(made, 30)
        assert reason.partition(" the history in ")[2].partition(": ")[0] in resumed(made)["reason"]
        assert 0 == made.stop()[0]
        for secret in (PASSWORD, QUOTED):
            assert secret not in made.log
