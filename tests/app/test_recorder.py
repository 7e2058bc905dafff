"""What polls leave behind in a real history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.daemon.fakes import Clock, Recorded, few, watching
from tests.history.looks import START, at, engine, firing, look

from palanca.app.recorder import DAY_S, Keeping, Recorder
from palanca.daemon.fleet import View
from palanca.daemon.watch import Poll, Result
from palanca.history.documents import EpisodeDocument
from palanca.history.facade import History
from palanca.history.leases import Lease
from palanca.history.reader import EpisodeQuery, EventQuery
from palanca.history.store import HistoryStore
from palanca.model import Diagnosis
from palanca.telemetry import Telemetry

WEEK_S = 7 * DAY_S


@dataclass
class Desk:
    """A recorder over a file, with what it is told of the settings."""

    path: Path
    sources: Sequence[str] = ("eu",)
    lease: Lease | None = None
    ticks: Callable[[], float] = float
    telemetry: Telemetry = field(default_factory=lambda: Telemetry(lambda: START))

    def __post_init__(self) -> None:
        self.history = History(HistoryStore(self.path, lease=self.lease), lambda: START, self.ticks)
        self.recorder = Recorder(self.history, self.telemetry, lambda: Keeping(few(), self.sources, WEEK_S))

    def poll(
        self, diagnosis: Diagnosis | None, *, result: Result = "ok", error: str | None = None, began: float = 0.0,
        name: str = "eu", **labels: str,
    ) -> None:  # fmt: skip
        """Tell of a poll."""
        watch = watching(Recorded(Clock()), name=name, interval=30.0, **labels)
        view = View(name, "http://eu", 30.0, diagnosis, error, labels)
        moment = began or (0.0 if diagnosis is None else diagnosis.time + 0.3)
        self.recorder.polled(watch, Poll(moment, 0.1, result, view))

    @property
    def episodes(self) -> tuple[EpisodeDocument, ...]:
        return tuple(self.history.episodes(EpisodeQuery(limit=1000)).episodes)

    @property
    def states(self) -> list[str]:
        return [one.state for one in self.episodes]

    @property
    def kinds(self) -> list[str]:
        return [str(one.kind) for one in self.history.events(EventQuery(limit=1000)).events][::-1]

    @property
    def up(self) -> float | None:
        return self.telemetry.registry.get_sample_value("palanca_history_up")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "palanca.db")
    yield made
    made.recorder.close()


def test_an_episode_from_begin_to_end(desk: Desk) -> None:
    """Its moments are those of the diagnoses, not those of the polls."""
    for step, findings in enumerate([(), (firing(),), (firing(),), ()]):
        desk.poll(look(step, engine(*findings)))
    (one,) = desk.episodes
    assert ("eu", "kv-cache-saturated", "resolved", 60.0) == (one.source, one.rule, one.state, one.lasted_s)
    assert ["target-added", "began", "resolved"] == desk.kinds
    assert 1 == desk.up


def test_labels_of_the_source_are_recorded(desk: Desk) -> None:
    """The history knows the engines by the names that the API gives them."""
    desk.poll(look(0, engine(firing())), cluster="eu-1")
    assert "eu-1" == desk.episodes[0].target["cluster"]


def test_a_failed_poll_ends_nothing(desk: Desk) -> None:
    """Recorded as such, once, and taken back when it has recovered."""
    desk.poll(look(0, engine(firing())))
    for step in (1, 2):
        desk.poll(look(0, engine(firing())), result="error", error="refused", began=at(step))
    desk.poll(look(3, engine(firing())))
    assert ["target-added", "began", "source-unreachable", "source-recovered"] == desk.kinds
    assert "firing" == desk.states[0]


def test_a_source_that_never_answered(desk: Desk) -> None:
    """Without a diagnosis there is the moment of the poll."""
    desk.poll(None, result="error", error="refused", began=at(1))
    assert ["source-unreachable"] == desk.kinds


def test_engines_that_have_gone(desk: Desk) -> None:
    """A source that answers and has none has lost them."""
    desk.poll(look(0, engine(firing())))
    desk.poll(look(1), result="no-targets")
    assert "resolved" == desk.states[0]
    assert "target-removed" in desk.kinds


def test_events_are_logged(desk: Desk) -> None:
    """With rule, severity and engine."""
    with capture_logs() as lines:
        desk.poll(look(0, engine(firing())))
    (began,) = [line for line in lines if line["event"] == "began"]
    assert ("kv-cache-saturated", "critical", "eu") == (began["rule"], began["severity"], began["source"])
    assert "llama-3-8b" == began["target"]["model_name"]


# --- housekeeping --------------------------------------------------------------------------------


def test_a_removed_source_is_retired(desk: Desk) -> None:
    """After a reload, at the next poll of another one."""
    desk.poll(look(0, engine(firing())), name="us")
    assert "resolved" == desk.states[0]  # `us` is not among the sources: it is retired at once
    desk.sources = ("eu", "us")
    desk.poll(look(1, engine(firing())), name="us")
    assert "firing" == desk.states[0]
    desk.sources = ("eu",)
    desk.poll(look(2))
    assert "resolved" == desk.states[0]


def test_what_is_too_old_is_forgotten_once_a_day(desk: Desk) -> None:
    """At the first poll, and a day later."""
    desk.poll(look(0, engine(firing())))
    desk.poll(look(1, engine()))
    day = DAY_S / 30
    desk.poll(look(2 + day, engine()))
    assert 1 == len(desk.episodes)
    desk.poll(look(2 + 7.5 * day, engine()))
    assert 0 == len(desk.episodes)


def test_a_replica_that_stands_by_keeps_no_house(tmp_path: Path) -> None:
    """It retires nothing, and makes up for that when it takes over."""
    first = Desk(tmp_path / "palanca.db", ("eu", "us"), Lease("recorder", "a", 60.0))
    second = Desk(tmp_path / "palanca.db", ("eu",), Lease("recorder", "b", 60.0))
    first.poll(look(0, engine(firing())), name="us")
    second.poll(look(1))
    assert "firing" == second.states[0]
    first.recorder.close()
    second.poll(look(2))
    assert "resolved" == second.states[0]
    assert 1 == second.up
    second.recorder.close()


# --- trouble -------------------------------------------------------------------------------------


def test_trouble_is_told_once_and_so_is_its_end(tmp_path: Path) -> None:
    """Diagnoses go on; the reason is in the log, the state in the metrics."""
    ticks = iter(range(0, 10**6, 100))
    desk = Desk(tmp_path / "palanca.db", ticks=lambda: float(next(ticks)))
    (tmp_path / "palanca.db").mkdir()
    with capture_logs() as lines:
        desk.recorder.open()
        assert 0 == desk.up
        desk.poll(look(0, engine(firing())))
        desk.poll(look(1, engine(firing())))
        (tmp_path / "palanca.db").rmdir()
        desk.poll(look(2, engine(firing())))
        assert 1 == desk.up
        desk.poll(look(3, engine(firing())))
    said = [line for line in lines if "history" in line["event"]]
    assert ["error", "info"] == [line["log_level"] for line in said]
    assert str(tmp_path) in said[0]["reason"]
    assert ["recording-resumed", "target-added", "began"] == desk.kinds
    desk.recorder.close()


def test_a_good_start_says_nothing(desk: Desk) -> None:
    """That the history works is what everybody expects."""
    with capture_logs() as lines:
        desk.recorder.open()
    assert [] == lines
    assert 1 == desk.up


def test_skipped_and_published_are_nothing_to_record(desk: Desk) -> None:
    """Only polls are."""
    desk.recorder.skipped("eu")
    desk.recorder.published(None)  # type: ignore[arg-type]
    assert [] == desk.kinds


def test_the_diagnosis_stays_as_it_is(desk: Desk) -> None:
    """Labels are added to what is recorded only."""
    one = look(0, engine(firing()))
    before = replace(one)
    desk.poll(one, cluster="eu-1")
    assert before == one
