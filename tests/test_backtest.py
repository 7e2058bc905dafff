"""A backtest says at every moment what ``diagnose --at`` says, whatever its blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.engines import RECORDINGS, catalogue, rule, shipped
from tests.engines import readings as made_readings
from tests.recorded import raw, store

from palanca import backtest
from palanca.backtest import Backtest, Span, cut_at, restarted
from palanca.engine import evaluate
from palanca.errors import UsageError
from palanca.model import Catalogue, Diagnosis, Fact, Finding, Readings, Target
from palanca.poll import INTERVAL_S, Question, grid_for, run
from palanca.signals.leaves import Grid
from palanca.sources.recording import RecordingSource

FULL = ("kv-saturated", "spec-decode-bad")
DEPTH = grid_for(shipped(), 0.0).steps


class Log:
    """Reads a recording and remembers the grids."""

    def __init__(self, name: str) -> None:
        self.name, self.grids = name, list[Grid]()

    def __call__(self, grid: Grid) -> Readings:
        self.grids.append(grid)
        return raw(self.name, grid)


def whole(name: str, step: float = INTERVAL_S) -> Span:
    first, last = store(name).span()
    return Span(first, last, step)


def told(finding: Finding) -> tuple[object, ...]:
    """What must agree; everything but numbers that a histogram's bounds may mark otherwise."""
    arguments = tuple(one.argument for one in finding.recommendations)
    return (finding.rule, finding.state, finding.severity, finding.role, finding.cause, finding.confidence,
            finding.since, finding.since_at_least, finding.summary, arguments)  # fmt: skip


def findings(diagnosis: Diagnosis | None) -> list[tuple[object, ...]]:
    return [told(one) for report in (diagnosis.targets if diagnosis else ()) for one in report.findings]


@cache
def judged(name: str) -> dict[float, Diagnosis | None]:
    return dict(Backtest(shipped(), Log(name), whole(name)).diagnoses())


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("tenth", range(10))
def test_every_moment_is_as_diagnosed(name: str, tenth: int) -> None:
    """At ten instants of two recordings the findings are those of a diagnosis at that instant."""
    moments = sorted(judged(name))
    moment = moments[round(tenth / 9 * (len(moments) - 1))]
    expected = run(shipped(), RecordingSource(RECORDINGS / f"{name}.om.gz"), Question(at=moment))
    assert findings(expected) == findings(judged(name)[moment])


def test_episodes_of_a_recording() -> None:
    """The fault of a recording is one episode that is still open, with peak and recommendation of its time."""
    test = Backtest(shipped(), Log("kv-saturated"), whole("kv-saturated"))
    episode = next(one for one in test.run() if one.rule == "kv-cache-saturated")
    assert ("firing", None, "critical") == (episode.state, episode.ended, episode.worst)
    assert "num_gpu_blocks_override" == episode.first.recommendations[0].lever
    peak = {one.signal: one.value for one in episode.peak}
    assert peak["kv_cache_usage"] >= episode.first.evidence[0].value
    summary = next(one for one in test.summaries() if one.rule == "kv-cache-saturated")
    assert (1, 25, 0.0) == (summary.episodes, summary.looks, summary.not_applicable)
    assert episode.lasted(whole("kv-saturated").time(24)) == summary.firing_s
    assert summary.firing == summary.firing_s / INTERVAL_S + 1


def test_blocks_do_not_matter() -> None:
    """Small blocks give the same episodes, and none is longer than was allowed."""
    small, large = Log("kv-saturated"), Log("kv-saturated")
    span = whole("kv-saturated")
    expected = list(Backtest(shipped(), large, span).run())
    found = list(Backtest(shipped(), small, span, max_steps=DEPTH + 3).run())
    assert [(one.rule, one.began, one.ended) for one in expected] == [(one.rule, one.began, one.ended) for one in found]
    assert [1, 7] == [len(large.grids), len(small.grids)]
    assert DEPTH + 3 == max(grid.steps for grid in small.grids)


@pytest.mark.parametrize("most", [1, 2])
def test_verdicts_that_are_not_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many sets of facts are kept is a matter of memory only: facts change from moment to moment here."""
    seen: list[int] = []

    def settings(_: Target) -> dict[str, Fact]:
        seen.append(len(seen) % 3)
        return {"tensor_parallel_size": Fact(float(1 + seen[-1]), "given", "a test")}

    def diagnosed() -> list[list[tuple[object, ...]]]:
        seen.clear()
        test = Backtest(shipped(), Log("kv-saturated"), whole("kv-saturated"), settings=settings)
        return [findings(diagnosis) for _, diagnosis in test.diagnoses()]

    expected = diagnosed()
    monkeypatch.setattr(backtest, "MOST_KNOWN", most)
    assert expected == diagnosed()
    assert any(expected)


def test_a_long_step_looks_less_often() -> None:
    """Every fourth moment is judged, on the same grid: states are as with the short step."""
    every = judged("kv-saturated")
    fourth = dict(
        Backtest(shipped(), Log("kv-saturated"), whole("kv-saturated", 60.0), max_steps=DEPTH + 4).diagnoses()
    )
    assert sorted(every)[::4] == sorted(fourth)
    assert all(findings(every[moment]) == findings(made) for moment, made in fourth.items())


def test_blocks_are_no_longer_than_discovery_looks_back() -> None:
    """Targets are those of the last hour, so a block is an hour at most."""
    log = Log("idle")
    first, _ = store("idle").span()
    list(Backtest(shipped(), log, Span(first, first + 7200.0)).diagnoses())
    assert 241 == max(grid.steps for grid in log.grids)


@pytest.mark.parametrize(
    ("span", "message"),
    [((10.0, 9.0, 15.0), "is after --to"), ((0.0, 9.0, 20.0), "no multiple of 15s"), ((0.0, 9.0, 5.0), "no multiple")],
)
def test_ranges_that_cannot_be_meant(span: tuple[float, float, float], message: str) -> None:
    """A range must not end before it begins, nor look between the steps of the grid."""
    with pytest.raises(UsageError, match=message):
        Span(*span)


def test_blocks_too_short() -> None:
    """A block holds at least one diagnosis."""
    with pytest.raises(UsageError, match=f"{DEPTH} steps"):
        Backtest(shipped(), Log("idle"), Span(0.0, 0.0), max_steps=DEPTH - 1)


def test_a_moment_of_a_block() -> None:
    """A cut has the grid of its moment, what was covered by then, and no engine that began later."""
    block = made_readings({"running": list(map(float, range(41)))}, {"running": 1.0}, covered=[3600.0, 100.0])
    cut = cut_at(block, 20, 11)
    assert list(range(10, 21)) == cut.signals["running"].values[0].tolist()
    assert (block.times[20], 3300.0) == (cut.times[-1], cut.covered[0])
    assert block.targets[:1] == cut.targets
    assert block.targets == cut_at(block, 36, 11).targets


def test_a_block_ends_at_a_restart() -> None:
    """Steps before a restart are judged by the configuration before it."""
    plain = {"uptime": [15.0 * step for step in range(41)]}
    again = {"uptime": [15.0 * step for step in range(30)] + [15.0 * step for step in range(11)]}
    assert restarted(made_readings(plain), 11) is None
    assert restarted(made_readings({}), 11) is None
    assert 20 == restarted(made_readings(again), 11)
    assert 20 == restarted(made_readings(plain, again), 11)
    assert restarted(made_readings(again), 32) is None
    assert restarted(made_readings(), 11) is None


def test_a_restart_is_read_twice() -> None:
    """The block is read anew up to the restart, and goes on behind it."""
    grids: list[Grid] = []
    rules = catalogue(rule())

    def reading(grid: Grid) -> Readings:
        grids.append(grid)
        made = made_readings({"kv_cache_usage": 0.9, "uptime": 0.0})
        began = np.where(grid.times < 150.0, -1000.0, 150.0)
        values = np.stack([np.resize(made.signals["kv_cache_usage"].values, grid.steps)])
        signals = {name: type(one)(values * np.nan, np.full(values.shape, 3, np.uint8), values)
                   for name, one in made.signals.items()}  # fmt: skip
        signals["kv_cache_usage"] = type(signals["uptime"])(values, np.zeros(values.shape, np.uint8), values)
        signals["uptime"] = type(signals["uptime"])(
            (grid.times - began)[None], np.zeros(values.shape, np.uint8), values
        )
        return Readings(
            made.targets, grid.times, signals, made.covered, made.facts, made.versions, made.source, made.info
        )

    test = Backtest(rules, reading, Span(0.0, 300.0))
    assert [(0.0, 300.0)] == [(one.began, one.lasted(300.0)) for one in test.run()]
    assert [300.0, 135.0, 300.0] == [grid.end for grid in grids]


def test_an_episode_that_ends() -> None:
    """What is resolved is told with its end, what is only pending at the end not at all."""
    rules = catalogue(rule(id="short", **{"for": "0s"}), rule(id="long", **{"for": "10m"}))

    def reading(grid: Grid) -> Readings:
        made = made_readings({"kv_cache_usage": 0.9})
        high = (grid.times < 60.0) & (grid.times >= 0) | (grid.times >= 285.0)
        values = np.where(high, 0.9, 0.1)[None]
        known = type(made.signals["uptime"])(values, np.zeros(values.shape, np.uint8), values)
        signals = {"kv_cache_usage": known}
        return replace(made, times=grid.times, signals=signals)

    test = Backtest(rules, reading, Span(-60.0, 300.0))
    assert [("short", 0.0, 60.0), ("short", 285.0, None)] == [(one.rule, one.began, one.ended) for one in test.run()]
    summaries = {one.rule: one for one in test.summaries()}
    assert (2, 75.0, 60.0) == (summaries["short"].episodes, summaries["short"].firing_s, summaries["short"].longest_s)
    assert (0, 6) == (summaries["long"].episodes, summaries["long"].pending)


def test_unknown_counts() -> None:
    """What cannot be judged, or is not applicable, is counted for each rule at each moment."""
    name = "kv-saturated"
    test = Backtest(shipped(), Log(name), whole(name))
    list(test.run())
    made = {one.rule: one for one in test.summaries()}
    assert 24 == made["speculation-ineffective"].not_applicable
    assert 0.0 == made["speculation-ineffective"].unknown_share
    assert 0 < made["ttft-high"].unknown < 25


def test_a_catalogue_without_rules() -> None:
    """Nothing is found without rules."""
    empty = Catalogue(shipped().metrics, shipped().signals, shipped().facts, shipped().levers, ())
    assert () == evaluate((), raw("idle", Grid(store("idle").span()[1], 3, 15.0)))
    assert [] == list(Backtest(empty, Log("idle"), whole("idle")).run())
