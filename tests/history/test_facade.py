"""The history never stops the service: it is off, says why, tries again, and tells of the gap."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.history.looks import START, Opener, at, engine, firing, look
from tests.postgresql import postgresql

from palanca.errors import HistoryError, UsageError
from palanca.history.entries import Recorded
from palanca.history.facade import History, HistoryState
from palanca.history.leases import Lease
from palanca.history.reader import EpisodeQuery, EventQuery
from palanca.history.store import HistoryStore


class Clock:
    """Time as a test says it."""

    def __init__(self) -> None:
        self.now = 0.0

    def wall(self) -> float:
        return START + self.now

    def ticks(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(tmp_path: Path, clock: Clock) -> Iterator[History]:
    one = History(HistoryStore(tmp_path / "state" / "palanca.db"), clock.wall, clock.ticks)
    yield one
    one.close()


def outcome(history: History, clock: Clock, *fires: bool) -> str:
    """Record one look at the time of the clock."""
    seen = engine(*(firing() for _ in fires))
    return history.record(clock.wall(), "main", look(clock.now / 30, seen), {}).outcome


def test_all_is_well(history: History, clock: Clock) -> None:
    """On from the first record on; documents say so."""
    assert HistoryState(enabled=True) == history.state
    assert ["recorded", "late"] == [outcome(history, clock, True) for _ in range(2)]
    assert HistoryState(enabled=True, since=START) == history.state
    page = history.episodes()
    assert ("palanca.history/v1", True, None, "2027-01-15T08:00:00Z") == (page.schema_, *dict(page.history).values())
    assert page.episodes[0] == history.episode(page.episodes[0].id).episode
    assert history.episode(77).episode is None
    assert ["began", "target-added"] == [one.kind for one in history.events().events]
    assert page.model_dump(by_alias=True)["schema"] == "palanca.history/v1"


def test_off_and_on_again(history: History, clock: Clock, tmp_path: Path) -> None:
    """It is tried again after 1 s, 2 s, 4 s; when it works again the gap is an event, and episodes go on."""
    assert "recorded" == outcome(history, clock, True)
    folder, away = tmp_path / "state", tmp_path / "away"
    folder.rename(away)
    folder.touch()
    clock.now = 30.0
    assert "off" == outcome(history, clock, True)
    state = history.state
    assert (False, START + 30) == (state.enabled, state.since)
    assert "moved or deleted" in str(state.reason)
    clock.now = 31.0
    assert "off" == outcome(history, clock, True)
    assert f"{folder} is not a directory" in str(history.state.reason)
    page = history.episodes()
    assert (False, history.state.reason, ()) == (page.history.enabled, page.history.reason, page.episodes)
    assert "2027-01-15T08:00:30Z" == page.history.since
    folder.unlink()
    away.rename(folder)
    clock.now = 120.0
    assert "recorded" == outcome(history, clock, True)
    assert HistoryState(enabled=True, since=START + 120) == history.state
    resumed, *others = history.events().events
    assert ("recording-resumed", "2027-01-15T08:00:30Z") == (resumed.kind, resumed.since)
    assert ["began", "target-added"] == [one.kind for one in others]
    assert ["firing"] == [one.state for one in history.episodes().episodes]


def test_waits_grow_to_a_minute(tmp_path: Path, clock: Clock) -> None:
    """A database that is gone for long is not asked at every poll of every source."""
    (tmp_path / "file").touch()
    history = History(HistoryStore(tmp_path / "file" / "palanca.db"), clock.wall, clock.ticks)
    assert not history.open().enabled
    asked = []
    for second in range(400):
        clock.now = float(second)
        if history._writes.due(clock.now):
            asked.append(second)
        outcome(history, clock)
    assert [1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363] == asked
    history.close()


def test_reading_goes_on_while_writing_fails(history: History, clock: Clock, tmp_path: Path) -> None:
    """And a note that was not kept is told to who wrote it."""
    outcome(history, clock, True)
    history._store._database.open().dispose()
    other = sqlite3.connect(tmp_path / "state" / "palanca.db", isolation_level=None)
    other.execute("CREATE TRIGGER no BEFORE UPDATE ON palanca_sources BEGIN SELECT RAISE(ABORT, 'not now'); END")
    other.execute("CREATE TRIGGER no2 BEFORE UPDATE ON palanca_episodes BEGIN SELECT RAISE(ABORT, 'not now'); END")
    clock.now = 30.0
    assert "off" == outcome(history, clock, True)
    page = history.episodes()
    assert (1, False) == (len(page.episodes), page.history.enabled)
    assert "not now" in str(page.history.reason)
    with pytest.raises(HistoryError, match="not now"):
        history.acknowledge(1, "ana", "", clock.wall())
    other.execute("DROP TRIGGER no")
    other.execute("DROP TRIGGER no2")
    other.close()
    assert history.acknowledge(1, "ana", "", clock.wall()) is not None
    assert history.attach_verification(1, {}, clock.wall()) is not None


def test_a_clock_that_was_ahead(history: History, clock: Clock) -> None:
    """Records that are not taken for hours are no history: it says so, since when, and recovers by itself."""
    clock.now = 7200.0
    assert "recorded" == outcome(history, clock, True)
    clock.now = 0.0
    assert "late" == outcome(history, clock, True)
    clock.now = 30.0
    assert "late" == outcome(history, clock, True)
    state = history.state
    assert (False, START) == (state.enabled, state.since)
    assert "1 h 59 min ahead of this clock" in str(state.reason)
    clock.now = 7230.0
    assert "recorded" == outcome(history, clock, True)
    assert history.state.enabled


def test_wrong_questions_are_no_trouble_of_the_database(history: History) -> None:
    """They are the asker's to mend."""
    with pytest.raises(UsageError):
        history.episodes(EpisodeQuery(limit=0))
    with pytest.raises(UsageError):
        history.events(EventQuery(cursor="x"))
    assert history.state.enabled


def test_housekeeping(history: History, clock: Clock, tmp_path: Path) -> None:
    """Forgetting and retiring never raise either."""
    outcome(history, clock, True)
    assert history.retire(("main",), at(1))
    assert history.retire((), at(1))
    assert 0 < history.forget(at(2))
    (tmp_path / "state").rename(tmp_path / "away")
    (tmp_path / "state").touch()
    assert 0 == history.forget(at(2))
    assert not history.retire((), at(3))
    assert not history.state.enabled


def test_closing_gives_the_lease_back(address: str, clock: Clock, opened: Opener) -> None:
    """The next replica need not wait."""
    first = History(opened(address, Lease("recorder", "a", 60.0)), clock.wall, clock.ticks)
    second = History(opened(address, Lease("recorder", "b", 60.0)), clock.wall, clock.ticks)
    assert "recorded" == outcome(first, clock, True)
    clock.now = 1.0
    assert "not-holder" == outcome(second, clock, True)
    assert second.state.enabled
    first.close()
    clock.now = 2.0
    assert "recorded" == outcome(second, clock, True)


def test_a_server_that_is_away(clock: Clock) -> None:
    """PostgreSQL ends and comes back: off, on, nothing doubled."""
    with postgresql() as server:
        history = History(HistoryStore(server.database()), clock.wall, clock.ticks)
        assert "recorded" == outcome(history, clock, True)
        server.stop()
        clock.now = 30.0
        assert "off" == outcome(history, clock, True)
        assert "Connection refused" in str(history.state.reason)
        assert not history.episodes().history.enabled
        server.start()
        clock.now = 60.0
        assert "recorded" == outcome(history, clock, True)
        assert 1 == len(history.episodes().episodes)
        history.close()


class Hanging(HistoryStore):
    """A database that does not answer until it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.answers = threading.Event()
        self.asked = threading.Event()

    def record(self, *given: Any, **more: Any) -> Recorded:  # noqa: ANN401  passed on as it is
        self.asked.set()
        assert self.answers.wait(20)
        return super().record(*given, **more)


def test_a_database_that_hangs(tmp_path: Path, clock: Clock) -> None:
    """It is off while it hangs, what comes meanwhile does not wait, and it is on again when it answers."""
    store = Hanging(tmp_path / "palanca.db")
    history = History(store, clock.wall, clock.ticks)
    history.open()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(outcome, history, clock, True)
        assert store.asked.wait(20)
        assert history.state.enabled
        clock.now = 12.0
        state = history.state
        assert (False, f"{store.place} does not answer: waiting for 12 s") == (state.enabled, state.reason)
        assert not history.episodes().history.enabled
        assert "off" == outcome(history, clock, True)
        store.answers.set()
        assert "recorded" == first.result(20)
    assert history.state.enabled
    clock.now = 30.0
    assert "recorded" == outcome(history, clock, True)
    history.close()
