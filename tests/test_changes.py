"""When a change was made, and what is compared around it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.engines import END, INTERVAL, STEPS, shipped, target
from tests.engines import readings as made_readings
from tests.recorded import raw, store

from palanca.changes import (
    Change,
    batch_length,
    differing_settings,
    find_change,
    plan,
    plan_of_two,
    scrape_interval,
    warm_up,
)
from palanca.errors import UsageError
from palanca.model import Fact
from palanca.signals.leaves import Grid
from palanca.signals.samples import SampleReader

UP = [15.0 * step for step in range(STEPS)]
RESTART = UP[:30] + UP[:11]
"""Restarted 10 steps before the end."""
NONE = [float("nan")]


@pytest.mark.parametrize(
    ("engines", "back", "how"),
    [
        ([{"uptime": RESTART}], (150.0, 150.0), "the process restarted"),
        ([{"uptime": RESTART}, {"uptime": UP[:20] + UP[:21]}], (300.0, 150.0), "the process restarted"),
        ([{"counter_resets": [0.0] * 30 + [1.0] * 11}], (150.0, 150.0), "the counters began anew"),
        (
            [{"running_now": [1.0] * 20 + NONE * 21}, {"running_now": NONE * 25 + [1.0] * 16}],
            (225.0, 225.0),
            "the engines were replaced",
        ),
        (
            [{"uptime": NONE * 5 + UP[:25] + UP[:11], "running_now": NONE * 5 + [1.0] * 34 + NONE * 2}],
            (150.0, 150.0),
            "the process restarted",
        ),
    ],
)  # fmt: skip
def test_a_change_is_found(engines: list[dict[str, list[float]]], back: tuple[float, float], how: str) -> None:
    """By a new process, by counters where that is not exposed, or by other engines; restarts close by are one."""
    found = find_change(made_readings(*engines))
    assert found is not None
    assert (*back, how) == (END - found.first, END - found.last, found.how)


@pytest.mark.parametrize(
    "engines",
    [
        [{}],
        [{"uptime": UP}],
        [{"counter_resets": 0.0}],
        [{"running_now": NONE * 5 + [1.0] * 36}],
        [{"running_now": [1.0] * 36 + NONE * 5}],
        [{"running_now": NONE * 5 + [1.0] * 30 + NONE * 6}],
        [{"running_now": NONE * 5 + [1.0] * 30 + NONE * 6}, {"running_now": NONE * 5 + [1.0] * 36}],
    ],
)
def test_no_change(engines: list[dict[str, object]]) -> None:
    """Engines that only came, or only went, and processes that only ran on are none; none replaces itself."""
    assert find_change(made_readings(*engines)) is None  # type: ignore[arg-type]


def test_the_newest_change_counts() -> None:
    """Of two changes half an hour apart the later one is taken by itself."""
    slow = [[10 * age for age in ages] for ages in (UP[:20] + UP[:21], RESTART)]
    made = made_readings(*({"uptime": ages} for ages in slow))
    far = replace(made, times=END + 10 * (made.times - END))
    found = find_change(far)
    assert found is not None
    assert (1500.0, 1500.0) == (END - found.first, END - found.last)


@pytest.mark.parametrize(
    ("e2e", "span"), [(None, 120.0), (float("nan"), 120.0), (10.0, 120.0), (60.0, 180.0), (1e4, 600.0)]
)
def test_warm_up(e2e: float | None, span: float) -> None:
    """Two minutes, or three mean request times if that is longer, ten minutes at most."""
    assert span == warm_up(e2e)


@pytest.mark.parametrize(
    ("period", "scrape", "length"), [(60, 2, 10), (30, 2, 6), (600, 15, 100), (60, 15, 45), (2, 0.1, 1)]
)
def test_batches(period: float, scrape: float, length: float) -> None:
    """A sixth of the period, three scrapes at least."""
    assert length == batch_length(period, scrape)


def test_a_plan() -> None:
    """Before ends at the change, after begins when the warm-up is over, and no step reaches across."""
    made = plan(Change(1000.0, 1100.0, ""), 0.0, 5000.0, 15.0)
    assert (Grid(1000.0, 6, 100.0), Grid(1820.0, 6, 100.0), 100.0) == (made.before, made.after, made.window)
    assert 1220.0 == made.after.times[0] - made.window


def test_a_plan_with_little_data() -> None:
    """Each side is as long as there is data."""
    made = plan(Change(1000.0, 1000.0, ""), 750.0, 1500.0, 15.0)
    assert (2, 3) == (made.before.steps, made.after.steps)


@pytest.mark.parametrize(
    ("oldest", "newest", "message"), [(950.0, 5000.0, "no data before the change"), (0.0, 1200.0, "no data yet after")]
)
def test_a_side_without_data(oldest: float, newest: float, message: str) -> None:
    """A side without a single batch is told, and when to ask again."""
    with pytest.raises(UsageError, match=message):
        plan(Change(1000.0, 1000.0, ""), oldest, newest, 15.0)


def test_a_plan_of_two() -> None:
    """Of two sources the newest stretch is taken, equally long."""
    made = plan_of_two((0.0, 100.0), (500.0, 560.0), 2.0)
    assert (Grid(100.0, 6, 10.0), Grid(560.0, 6, 10.0)) == (made.before, made.after)
    with pytest.raises(UsageError, match="less than one batch"):
        plan_of_two((0.0, 1.0), (0.0, 100.0), 15.0)


def test_what_was_changed() -> None:
    """Labels and given facts that differ, but neither places nor what profiling finds anew at each start."""
    before = {"cache_dtype": "auto", "num_gpu_blocks": "30899", "instance": "a", "block_size": "16"}
    after = {"cache_dtype": "fp8", "num_gpu_blocks": "30851", "instance": "b", "block_size": "16"}
    facts = [{"max_num_seqs": Fact(size, "given", ""), "x": Fact(size, "inferred", "")} for size in (8.0, 64.0)]
    assert (("cache_dtype", "auto", "fp8"), ("max_num_seqs", "8.0", "64.0")) == differing_settings(
        (before, facts[0]), (after, facts[1])
    )


def test_the_scrape_interval() -> None:
    """The recordings of the GPU say how often they were scraped."""
    grid = Grid(store("h200-A_kv_saturated").span()[1], 2, INTERVAL)
    found = SampleReader(store("h200-A_kv_saturated"), shipped().metrics, grid).discover()
    assert 2.0 == scrape_interval(found)
    alone = type(found)(found.targets, {}, frozenset(), {target(): np.array([1.0])}, {}, {})
    assert 15.0 == scrape_interval(alone)


def test_a_recording_has_no_restart() -> None:
    """A real process start time does not move."""
    assert find_change(raw("healthy", Grid(store("healthy").span()[1], 24, 15.0))) is None
