"""Readings kept between polls: the same as if everything had been read at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

import numpy as np
import pytest
from tests.engines import RECORDINGS, shipped
from tests.recorded import AT, store

from palanca.diagnosis import diagnose
from palanca.errors import NoTargetsError, SourceError
from palanca.facts import add_facts
from palanca.model import Catalogue, Readings, SourceInfo, State, Target
from palanca.poll import Opened, Question, grid_for
from palanca.render.document import document
from palanca.signals.leaves import Discovery, Grid, Reader
from palanca.signals.readings import read
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore, Series
from palanca.window import Window

INTERVAL = 30.0
KV = "kv-saturated"


@dataclass
class Spying:
    """A reader that notes the grids it is asked for."""

    inner: Reader
    asked: list[Grid]

    def discover(self) -> Discovery:
        return self.inner.discover()

    def at(
        self, grid: Grid, signals: Collection[str] | None = None, targets: Collection[Target] | None = None
    ) -> Reader:
        self.asked.append(grid)
        return self.inner.at(grid, signals, targets)

    def leaf(self, leaf: object) -> object:
        raise AssertionError


@dataclass
class Recorded:
    """A recording as a server that is asked for instants; ``broken`` moments fail."""

    samples: SampleStore
    asked: list[Grid] = field(default_factory=list)
    broken: bool = False
    state: Literal["ok", "partial"] = "ok"
    questions: list[Question] = field(default_factory=list)

    def anew(self) -> bool:
        """Whether the first questions are for the last step and for the past of what holds there; forgets them.

        The past of what infers facts is asked at the same time as the last step.
        """
        grids = [grid.steps for grid in self.asked]
        whole = grid_for(shipped(), 0.0, INTERVAL).steps
        if 1 not in grids[:2]:
            return False
        grids.remove(1)
        count = len(list(takewhile(lambda steps: steps == whole, grids)))
        del self.asked[: 1 + count]
        return count > 0

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        self.questions.append(question)
        if self.broken:
            raise SourceError("the cable is out")
        assert question.at is not None
        grid = grid_for(catalogue, question.at)
        reader = Spying(SampleReader(self.samples, catalogue.metrics, grid, matchers=question.matchers), self.asked)
        return Opened(reader, grid, lambda: SourceInfo("recorded", KV, self.state), costly=True)  # type: ignore[arg-type]


def at_once(samples: SampleStore, end: float) -> Readings:
    grid = grid_for(shipped(), end, INTERVAL)
    info = SourceInfo("recorded", KV)
    return add_facts(read(shipped(), SampleReader(samples, shipped().metrics, grid), grid, info), shipped())


def same(left: Readings, right: Readings) -> None:
    """The last step is equal, and so is all that a diagnosis says of the past."""
    assert left.targets == right.targets
    assert left.facts == right.facts
    np.testing.assert_array_equal(left.times, right.times)
    for name, one in right.signals.items():
        np.testing.assert_array_equal(left.signals[name].values[:, -1], one.values[:, -1], err_msg=name)
        np.testing.assert_array_equal(left.signals[name].states[:, -1], one.states[:, -1], err_msg=name)
        np.testing.assert_array_equal(left.signals[name].window[:, -1], one.window[:, -1], err_msg=name)
    assert document(diagnose(shipped(), left)) == document(diagnose(shipped(), right))


@pytest.mark.parametrize("name", sorted(path.name.removesuffix(".om.gz") for path in RECORDINGS.glob("*.om.gz")))
def test_polls_add_up_to_one_range(name: str) -> None:
    """Instant after instant gives what one range gives, at every poll of a recording."""
    source, question = Recorded(store(name)), Question()
    first, last = store(name).span()
    window = Window(shipped(), source, INTERVAL)
    for now in np.arange(first + 35.0, last, INTERVAL):
        readings = window.poll(question, float(now))
        same(readings, at_once(store(name), window.moment(float(now))))
    assert source.anew()
    assert {grid.steps for grid in source.asked} <= {1}


def test_a_gap_is_filled() -> None:
    """What was missed while a server was down is read as one short range."""
    source, question, end = Recorded(store(KV)), Question(), AT[KV]
    window = Window(shipped(), source, INTERVAL)
    window.poll(question, end - 150.0)
    assert source.anew()
    source.broken = True
    with pytest.raises(SourceError):
        window.poll(question, end - 120.0)
    source.broken = False
    same(window.poll(question, end - 30.0), at_once(store(KV), window.moment(end - 30.0)))
    assert [4] == [grid.steps for grid in source.asked]


@pytest.mark.parametrize("later", [1000.0, 0.0, -60.0])
def test_a_long_gap_or_a_clock_set_back(later: float) -> None:
    """After a quarter of an hour, at the same moment again, and after a clock was set back everything is read anew."""
    source, question, end = Recorded(store(KV)), Question(), AT[KV]
    window = Window(shipped(), source, INTERVAL)
    window.poll(question, end - 60.0)
    assert source.anew()
    now = end - 60.0 + later
    same(window.poll(question, now), at_once(store(KV), window.moment(now)))
    assert source.anew()
    assert [] == source.asked


def test_a_target_that_comes_back() -> None:
    """A target that one poll did not see, but that was there, has its past."""
    both = SampleStore([*all_series(store(KV)), *all_series(store(KV), instance="b:8000")])
    source, question, end = Recorded(both), Question(), AT[KV]
    window = Window(shipped(), source, INTERVAL)
    source.samples = store(KV)
    window.poll(question, end - 60.0)
    source.samples = both
    readings = window.poll(question, end - 30.0)
    assert len(readings.targets) == 2
    same(readings, at_once(both, window.moment(end - 30.0)))


def all_series(samples: SampleStore, **more: str) -> list[Series]:
    return [
        Series(name, {**labels, **more}, block.times, row)
        for name in samples.names
        for block in samples.blocks(name)
        for labels, row in zip(block.labels, block.values, strict=True)
    ]


def test_no_target() -> None:
    """Nothing to judge is told, and what was kept stays."""
    source, end = Recorded(store(KV)), AT[KV]
    window = Window(shipped(), source, INTERVAL)
    window.poll(Question(), end - 60.0)
    source.samples = SampleStore([])
    with pytest.raises(NoTargetsError, match="no vLLM series"):
        window.poll(Question(), end - 30.0)
    source.samples = store(KV)
    same(window.poll(Question(), end), at_once(store(KV), window.moment(end)))


def test_moments_are_multiples_of_the_interval() -> None:
    """All who poll with the same interval agree on the moments."""
    window = Window(shipped(), Recorded(SampleStore([])), INTERVAL)
    assert 1_800_000_000.0 == window.moment(1_800_000_029.9)
    assert 1_800_000_030.0 == window.moment(1_800_000_030.0)


def test_a_target_that_goes() -> None:
    """The rows of those that stay are theirs."""
    before = SampleStore([*all_series(store("healthy"), instance="a:1"), *all_series(store("healthy"), instance="b:1")])
    after = SampleStore(all_series(store("healthy"), instance="b:1"))
    source, end = Recorded(before), AT["healthy"]
    window = Window(shipped(), source, INTERVAL)
    window.poll(Question(), end - 60.0)
    source.samples = after
    same(window.poll(Question(), end - 30.0), at_once(after, window.moment(end - 30.0)))


def test_what_was_read_in_part_is_read_again() -> None:
    """As soon as a source answers in full, the past is as if it had never been otherwise."""
    both = SampleStore([*all_series(store(KV)), *all_series(store(KV), instance="b:8000")])
    source, end = Recorded(both), AT[KV]
    window = Window(shipped(), source, INTERVAL)
    window.poll(Question(), end - 120.0)
    assert source.anew()
    source.state, source.samples = "partial", without(both, "vllm:num_preemptions_total")
    for before in (90.0, 60.0):
        assert window.poll(Question(), end - before).source.state == "partial"
    source.state, source.samples = "ok", both
    same(window.poll(Question(), end - 30.0), at_once(both, window.moment(end - 30.0)))
    assert [1, 1, 1] == [grid.steps for grid in source.asked[:3]]
    del source.asked[:3]
    assert source.anew()
    same(window.poll(Question(), end), at_once(both, window.moment(end)))
    assert [1] == [grid.steps for grid in source.asked]


def test_samples_that_come_late_are_read() -> None:
    """An engine without a sample for minutes, whose samples arrive after all, has its past."""
    source, end = Recorded(store(KV)), AT[KV]
    window = Window(shipped(), source, INTERVAL)
    source.samples = SampleStore(cut(all_series(store(KV)), end - 330.0))
    window.poll(Question(), end)
    readings = window.poll(Question(), end + 30.0)
    assert State.STALE == readings.signals["running_now"].states[0, -1]
    source.samples = store(KV)
    same(window.poll(Question(), end + 60.0), at_once(store(KV), window.moment(end + 60.0)))


def test_an_engine_that_stays_silent_costs_nothing() -> None:
    """It is asked for one instant again and again."""
    source, end = Recorded(SampleStore(cut(all_series(store(KV)), AT[KV] - 330.0))), AT[KV]
    window = Window(shipped(), source, INTERVAL)
    for later in range(4):
        window.poll(Question(), end + later * INTERVAL)
    assert source.anew()
    assert [1, 1, 1] == [grid.steps for grid in source.asked]


def test_only_the_first_poll_may_take_its_time() -> None:
    """From then on a question that takes longer than the interval comes too late."""
    source, end = Recorded(store(KV)), AT[KV]
    window = Window(shipped(), source, INTERVAL)
    for now in (end - 60.0, end - 30.0, end + 3600.0):
        window.poll(Question(), now)
    assert [None, INTERVAL, None] == [question.patience for question in source.questions]


def cut(series: list[Series], end: float) -> list[Series]:
    kept = [(one, one.times <= end * 1000) for one in series]
    return [Series(one.name, one.labels, one.times[early], one.values[early]) for one, early in kept if early.any()]


def without(samples: SampleStore, name: str) -> SampleStore:
    return SampleStore([one for one in all_series(samples) if one.name != name])
