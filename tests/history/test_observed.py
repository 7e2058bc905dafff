"""Restarts and changes of configuration between two looks at a target."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.engines import shipped
from tests.history.looks import START, at, engine, given, reported

from palanca.history.observed import RESETS, UPTIME, Change, Observed, Restart, compared, observed
from palanca.model import Fact, VllmVersion

Looks = list[tuple[float | None, float | None]]
"""Uptime and resets of the counters at looks 30 s apart."""


def restarts(looks: Looks) -> list[tuple[int, str]]:
    """Which look tells of a restart, and by what."""
    known: Observed | None = None
    told: list[tuple[int, str]] = []
    for step, (uptime, resets) in enumerate(looks):
        now = observed(engine(uptime=uptime, resets=resets), at(step))
        if known is None:
            known = now
            continue
        known, restart, _ = compared(known, now, at(step))
        told += [(step, restart.by)] if restart is not None else []
    return told


def changes(before: Mapping[str, Fact], *later: Mapping[str, Fact]) -> list[Change]:
    """Changes of one look after the other."""
    known, told = Observed(before), list[Change]()
    for facts in later:
        known, _, found = compared(known, Observed(facts), START)
        told += found
    return told


def test_the_signals_are_those_of_the_catalogue() -> None:
    """Their meaning is what is relied on here."""
    signals = shipped().signals
    assert ("process_start_time", "prompt_tokens") == (signals[UPTIME].since, signals[RESETS].resets)


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([(100, 0), (130, 0), (160.9, 0)], []),
        ([(100, 0), (5, 0), (35, 0)], [(1, "process start")]),
        ([(100, 0), (5, 0), (5, 0), (35, 0)], [(1, "process start"), (2, "process start")]),
        ([(100, 0), (None, None), (None, None), (20, 1), (50, 1)], [(3, "process start")]),
        ([(5000, 0), (5030, 1), (5060, 1), (5090, 0), (5120, 1)], [(1, "counter reset"), (4, "counter reset")]),
        ([(5000, 0), (5, 0), (35, 1), (65, 2)], [(1, "process start")]),
        ([(5000, 0), (5030, 1), (10, 1)], [(1, "counter reset")]),
        ([(5000, 0), (5030, 1), (10, 1), (5, 1)], [(1, "counter reset"), (3, "process start")]),
        ([(None, 0), (None, 1), (None, 2), (None, 1)], [(1, "counter reset"), (2, "counter reset")]),
        ([(None, None), (None, 3), (100, 3), (130, 3)], []),
        ([(float("inf"), 0), (100, 0)], []),
    ],
)
def test_restarts(looks: Looks, told: list[tuple[int, str]]) -> None:
    """The start of the process says it best; resets of the counters say it where the process went on or is unseen."""
    assert told == restarts(looks)


def test_small_steps_do_not_hide_a_restart() -> None:
    """The start is compared with the first one seen, not with the last."""
    assert 1 <= len(restarts([(100 + 28.5 * step, 0) for step in range(6)]))


def test_what_a_restart_says() -> None:
    """The new start of the process."""
    before, now = (observed(engine(uptime=uptime), START) for uptime in (500.0, 20.0))
    assert Restart(START - 20, "process start") == compared(before, now, START)[1]


def test_facts_that_are_compared() -> None:
    """What is inferred or a default moves by itself."""
    facts = {
        "block_size": reported("block_size", 16.0),
        "gpu": given("h100"),
        "max_num_seqs": Fact(64.0, "inferred", "running"),
        "watermark": Fact(0.0, "default", "default"),
    }
    assert {"block_size", "gpu"} == set(observed(engine(facts=facts), START).facts)


BLOCK, WIDER = reported("block_size", 16.0), reported("block_size", 32.0)
BLOCKS = reported("num_gpu_blocks", 1000.0)


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([{"b": BLOCK}, {"b": BLOCK}], []),
        ([{"b": BLOCK}, {"b": WIDER}], [("b", 16.0, 32.0)]),
        ([{"b": BLOCK}, {"b": given(16.0)}], []),
        ([{"b": BLOCK}, {}, {"b": BLOCK}], []),
        ([{"b": BLOCK}, {}, {"b": WIDER}], [("b", 16.0, 32.0)]),
        ([{"b": BLOCK, "n": BLOCKS}, {"n": BLOCKS}], [("b", 16.0, None)]),
        ([{}, {"b": BLOCK}], []),
        ([{"n": BLOCKS}, {"n": BLOCKS, "b": BLOCK}], [("b", None, 16.0)]),
        ([{}, {"g": given("h100")}, {}], [("g", None, "h100"), ("g", "h100", None)]),
    ],
)
def test_changes(looks: list[dict[str, Fact]], told: list[tuple[str, object, object]]) -> None:
    """Configuration that cannot be read for a while has not changed; what comes or goes beside other facts has."""
    assert [Change(*one) for one in told] == changes(*looks)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (("0.26.0", "0.26.0"), ("0.26.0", "0.26.0"), []),
        (("0.26.0", "0.26.0"), ("0.26.1", "0.26.1"), [("0.26.0", "0.26.1")]),
        (("0.24.0", "0.33.0"), ("0.28.0", "0.33.0"), []),
        (("0.24.0", "0.25.0"), ("0.26.0", "0.33.0"), [("0.24.0-0.25.0", "0.26.0-0.33.0")]),
        (("nightly", "nightly"), ("nightly", "nightly"), []),
        (("nightly", "nightly"), ("weekly", "weekly"), [("nightly", "weekly")]),
        (("0.26.0", "0.26.0"), None, []),
        (None, ("0.26.0", "0.26.0"), []),
    ],
)
def test_releases(before: tuple[str, str] | None, after: tuple[str, str] | None, told: list[tuple[str, str]]) -> None:
    """Ranges that share a release may be the same one."""
    looks = [None if one is None else VllmVersion(*one, ("v1",), "inferred") for one in (before, after)]
    first, second = (observed(engine(release=one), START) for one in looks)
    kept, _, found = compared(first, second, START)
    assert [Change("vllm_release", *one) for one in told] == [*found]
    assert (after or before) == kept.release
