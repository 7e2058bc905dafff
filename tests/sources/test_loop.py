"""A recording that is replayed for ever."""

from __future__ import annotations

import resource
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.engines import ROOT, shipped

from palanca.errors import NoTargetsError, RecordingError, UsageError
from palanca.model import Diagnosis
from palanca.poll import Question, run
from palanca.signals.samples import LAST_HOUR_MS
from palanca.signals.store import SampleStore
from palanca.sources.loop import FUTURE_S, PLAYS, REST_S, LoopSource

RECORDING = ROOT / "examples" / "kv-saturated.om.gz"
START = 1_800_000_000.0


class Clock:
    """Unix seconds that a test sets."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@cache
def source(start: float = START) -> LoopSource:
    """Played from the start on; the clock stands far ahead."""
    made = LoopSource(RECORDING, start=start, clock=Clock(start + 20 * 86400))
    made.open(Question(at=start + 60), shipped())
    return made


def length() -> float:
    """Seconds of a round."""
    return source()._length / 1000


def incident() -> float:
    """Seconds of a round in which the recording is played."""
    return PLAYS * source()._play / 1000


@cache
def diagnosed(after: float) -> Diagnosis:
    return run(shipped(), source(), Question(at=START + after))


def firing(after: float) -> set[str]:
    """Rules that fire as roots, so many seconds after the start of round 0."""
    (report,) = diagnosed(after).targets
    return {one.rule for one in report.findings if one.state == "firing" and one.severity != "info"}


# --- what is seen --------------------------------------------------------------------------------


def test_length_of_a_round() -> None:
    """The recording several times, and a pause."""
    assert length() == pytest.approx(incident() + REST_S)
    assert 25 * 60 < length() < 35 * 60


@pytest.mark.parametrize("number", [0, 1, 7, 100])
def test_the_incident_fires_in_the_middle_of_every_round(number: int) -> None:
    """Critical, as in the recording."""
    assert "kv-cache-saturated" in firing(number * length() + 700)
    assert "critical" == diagnosed(number * length() + 700).targets[0].status


@pytest.mark.parametrize("number", [0, 1, 7])
def test_nothing_fires_at_the_end_of_the_pause(number: int) -> None:
    """So that an episode ends in every round."""
    assert set() == firing((number + 1) * length() - 5)
    assert diagnosed((number + 1) * length() - 5).targets[0].status in {"ok", "idle"}


def test_the_seam_between_rounds_is_no_restart() -> None:
    """Nothing but the incident's own rules fires just after a round has begun, or while it is played."""
    allowed = {"kv-cache-saturated"}
    for after in (1, 20, 60, 120, 200, 300, 500, incident() - 5, incident() + 30, incident() + 200):
        assert firing(length() + after) <= allowed, after
        (report,) = diagnosed(length() + after).targets
        assert 0 == (report.signals["counter_resets"].value or 0), after


@pytest.mark.parametrize("hours", [0.5, 1, 3, 12])
def test_the_past_is_known(hours: float) -> None:
    """Also that before the first round; what was seen at a moment does not depend on when one asks."""
    back = diagnosed(-hours * 3600)
    (report,) = back.targets
    assert back.time == START - hours * 3600
    assert (report.signals["uptime"].value or 0) > 0
    again = run(shipped(), LoopSource(RECORDING, start=START, clock=Clock(START + 5)), Question(at=back.time))
    assert {name: one.value for name, one in report.signals.items()} == {
        name: one.value for name, one in again.targets[0].signals.items()
    }


def test_now_is_the_clock() -> None:
    """Without a moment it is now."""
    clock = Clock(START + 700.1234)
    made = LoopSource(RECORDING, start=START, clock=clock)
    assert START + 700.123 == run(shipped(), made, Question()).time
    clock.now += 10
    assert START + 710.123 == run(shipped(), made, Question()).time


def test_the_process_began_before_everything_that_is_seen() -> None:
    """Whatever the clock says: a machine whose clock stands before the recording sees no negative uptime."""
    for start in (1_000_000_000.0, START):
        made = LoopSource(RECORDING, start=start, clock=Clock(start + 700))
        (report,) = run(shipped(), made, Question()).targets
        assert 86400 + 700 == pytest.approx(report.signals["uptime"].value, abs=1)


# --- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [60.0, 700.0, 5000.0, 86400.0])
def test_counters_never_fall(after: float) -> None:
    """Nor do times stand still, within all that a question can see."""
    made, end = source(), START + after
    store = SampleStore(made._rounds(end))
    counting = 0
    for name in store.names:
        for block in store.blocks(name):
            assert (np.diff(block.times) > 0).all()
            assert block.times[-1] <= end * 1000
            if name in made._counters:
                assert (np.diff(block.values, axis=1) >= 0).all(), name
                counting += len(block.labels)
    assert counting > 100


def test_a_whole_hour_is_seen_without_gaps() -> None:
    """As far as a diagnosis looks back, and no gap is as long as staleness."""
    store = SampleStore(source()._rounds(START + 5000))
    for block in store.blocks("vllm:num_requests_running"):
        assert block.times[0] <= (START + 5000) * 1000 - LAST_HOUR_MS
        assert np.diff(block.times).max() <= 15_000


def test_no_more_is_laid_out_than_is_seen() -> None:
    """However long it has been running: the last round before the hour at most."""
    sizes = []
    for days in (0, 1, 19):
        (block, *_) = SampleStore(source()._rounds(START + days * 86400 + 700)).blocks("vllm:num_requests_running")
        sizes.append(block.times.size)
    longest = (LAST_HOUR_MS / 1000 + 2 * length()) / 2
    assert max(sizes) < longest


def test_memory_stays() -> None:
    """Fifty questions over a day leave nothing behind."""
    made = source()
    for number in range(10):
        run(shipped(), made, Question(at=START + number * 1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(20):
        run(shipped(), made, Question(at=START + number * 4000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 * 1024


def test_two_threads() -> None:
    """A poll and a fresh diagnosis at once, the first of all: the same comes of both."""
    made = LoopSource(RECORDING, start=START, clock=Clock(START + 700))
    found: list[Diagnosis] = []
    threads = [threading.Thread(target=lambda: found.append(run(shipped(), made, Question()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = found
    assert first == second


# --- what cannot be asked --------------------------------------------------------------------------


def test_the_future() -> None:
    """It is not known, as it is not to a server; clocks may differ a little."""
    made = LoopSource(RECORDING, start=START, clock=Clock(START + 700))
    made.open(Question(at=START + 700 + FUTURE_S), shipped())
    with pytest.raises(UsageError, match="in the future"):
        made.open(Question(at=START + 700 + FUTURE_S + 1), shipped())


def test_matchers_that_select_nothing() -> None:
    """With the labels that there are."""
    with pytest.raises(NoTargetsError, match=r"model_name=other selects nothing[^$]*tiny-llama"):
        _ = source().open(Question(at=START + 700, matchers={"model_name": "other"}), shipped())


def test_a_recording_that_is_not_there(tmp_path: Path) -> None:
    """As for any recording."""
    made = LoopSource(tmp_path / "none.om", start=START, clock=Clock())
    with pytest.raises(RecordingError, match="no such file"):
        made.open(Question(), shipped())


def test_its_name_says_that_it_is_a_recording() -> None:
    """Nobody takes the demonstration for a server."""
    assert "replayed for ever" in source().url
    assert ("demo", "ok") == (diagnosed(700).source.name, diagnosed(700).source.state)
    assert ("this is a recording that is replayed, not a server",) == diagnosed(700).source.warnings
    source().stop()
    source().close()
