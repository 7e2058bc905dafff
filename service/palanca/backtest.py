"""Judges a long range of time as ``diagnose --at`` would have judged each moment of it, block by block.

A block is read once and cut into the grid that a diagnosis at each moment uses (``palanca.poll.grid_for``), facts are
made anew for each moment, and ``diagnose`` judges the cut: the same code path, so the states are the same. Where no
rule holds there is nothing to find, and the vectorised truth of the block says so without a diagnosis.

The next block is read while one is judged, so memory is bounded by ``max_steps`` of two blocks. Blocks overlap by the
grid of a diagnosis, which covers the longest ``for``. Two more things bound them: discovery sees the hour before the
end of a block, so none is longer; and a block ends where a process restarts, since ``cache_config_info``, the release
and with them the facts may change there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from palanca.diagnosis import diagnose
from palanca.engine import FactColumns, evaluate
from palanca.episodes import Episode, RuleSummary, Tally, advance, keep_firing, keys_of
from palanca.errors import UsageError
from palanca.facts import add_facts
from palanca.model import SignalReadings, Truth
from palanca.moments import rfc3339
from palanca.poll import INTERVAL_S, grid_for
from palanca.signals.leaves import Grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from palanca.engine import Overrides, Verdict
    from palanca.episodes import Key
    from palanca.model import Catalogue, Diagnosis, Fact, Readings, Target

    Reading = Callable[[Grid], Readings]
    """Reads a grid of times from a source, without facts (``palanca.signals.readings.read``)."""

MAX_STEPS = 1000
MOST_KNOWN = 4
"""Sets of facts whose verdicts of a block are kept, the newest: each has the size of the block."""
DISCOVERY_S = 3600.0
"""Readers find the targets of the hour before the end of their grid."""
RESTART_TOLERANCE_S = 1.0


@dataclass(frozen=True)
class Span:
    """Moments ``start``, ``start + step``, ... up to ``end``, unix seconds.

    The grid under them always has the interval of a diagnosis, 15 s, so that ``for`` means the same at every ``step``:
    a rule fires after ``for / 15 s + 1`` true steps in a row. A ``step`` of several intervals looks less often, and
    reads as much. Raises ``UsageError``.
    """

    start: float
    end: float
    step: float = INTERVAL_S

    def __post_init__(self) -> None:
        """Refuse a range that ends before it begins, and steps between those of the grid."""
        if not self.start <= self.end:
            raise UsageError(f"--from {rfc3339(self.start)} is after --to {rfc3339(self.end)}; swap them")
        stride = self.step / INTERVAL_S
        if stride < 1 or not math.isclose(stride, round(stride)):
            raise UsageError(f"--step {self.step:g}s is no multiple of {INTERVAL_S:g}s; write e.g. 15s, 30s or 1m")

    @property
    def stride(self) -> int:
        """Grid steps between two moments."""
        return round(self.step / INTERVAL_S)

    @property
    def steps(self) -> int:
        """Grid steps from ``start`` to the last one that is not after ``end``."""
        return math.floor((self.end - self.start) / INTERVAL_S + 1e-9) + 1

    def time(self, index: int) -> float:
        """Unix seconds of a grid step."""
        return self.start + index * INTERVAL_S


class Backtest:
    """One run over a range. ``run`` gives episodes as they end, ``summaries`` what each rule did so far."""

    def __init__(
        self,
        catalogue: Catalogue,
        reading: Reading,
        span: Span,
        *,
        flags: Mapping[str, str] | None = None,
        objectives: Mapping[str, float] | None = None,
        settings: Callable[[Target], Mapping[str, Fact]] | None = None,
        thresholds: Overrides | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._catalogue, self._reading, self._span = catalogue, reading, span
        self._flags, self._objectives = flags or {}, objectives or {}
        self._settings, self._thresholds = settings, thresholds
        self._depth = grid_for(catalogue, span.end).steps
        self._room = min(max_steps, round(DISCOVERY_S / INTERVAL_S) + 1) - self._depth + 1
        if self._room < 1:
            raise UsageError(f"blocks of {max_steps} steps are shorter than one diagnosis, {self._depth} steps")
        self._optional = catalogue.optional_facts
        self._tallies = {rule.id: Tally(rule) for rule in catalogue.rules}

    def run(self) -> Iterator[Episode]:
        """Yield every episode that fired, when it is resolved; those still open at the end come last."""
        keep, now = keep_firing(self._catalogue), self._span.start
        episodes: dict[Key, Episode] = {}
        for moment, diagnosis in self.diagnoses():
            now = moment
            findings = {} if diagnosis is None else keys_of(diagnosis)
            for (_, rule), finding in findings.items():
                tally = self._tallies[rule]
                tally.firing += finding.state == "firing"
                tally.pending += finding.state == "pending"
            step = advance(episodes, findings, now, keep)
            episodes = dict(step.open)
            for event in step.events:
                if event.kind == "resolved":
                    yield self._done(event.episode, now)
        for episode in episodes.values():
            if episode.began is not None:
                yield self._done(episode, now)

    def summaries(self) -> tuple[RuleSummary, ...]:
        """Return one summary a rule, in the order of the catalogue."""
        return tuple(tally.summary() for tally in self._tallies.values())

    def _done(self, episode: Episode, now: float) -> Episode:
        self._tallies[episode.rule].add(episode, now)
        return episode

    def diagnoses(self) -> Iterator[tuple[float, Diagnosis | None]]:
        """Yield each moment with its diagnosis; None where no rule holds at any target."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="palanca-block") as ahead:
            first, reading = 0, ahead.submit(self._block, 0)
            while first < self._span.steps:
                block, count = reading.result()
                if first + count < self._span.steps:
                    reading = ahead.submit(self._block, first + count)
                known: dict[object, tuple[Verdict, ...]] = {}
                for offset in range(-first % self._span.stride, count, self._span.stride):
                    yield float(block.times[offset + self._depth - 1]), self._judge(block, offset, known)
                first += count

    # --- blocks ----------------------------------------------------------------------------------

    def _block(self, first: int) -> tuple[Readings, int]:
        """Read from the grid step ``first`` on; return the block and how many steps of it are new."""
        count = min(self._room, self._span.steps - first)
        block = self._read(first, count)
        restart = restarted(block, self._depth)
        return (block, count) if restart is None else (self._read(first, restart), restart)

    def _read(self, first: int, count: int) -> Readings:
        return self._reading(Grid(self._span.time(first + count - 1), count + self._depth - 1, INTERVAL_S))

    def _judge(self, block: Readings, offset: int, known: dict[object, tuple[Verdict, ...]]) -> Diagnosis | None:
        last = offset + self._depth - 1
        cut = add_facts(
            cut_at(block, last, self._depth),
            self._catalogue, flags=self._flags, objectives=self._objectives, settings=self._settings,
        )  # fmt: skip
        whole = self._verdicts(block, cut, known)
        for verdict in whole:
            truth, tally = verdict.when[:, last], self._tallies[verdict.rule.id]
            tally.looks += truth.size
            tally.unknown += int(np.count_nonzero(truth == Truth.UNKNOWN))
            tally.not_applicable += int(np.count_nonzero(truth == Truth.NOT_APPLICABLE))
        if not any((verdict.when[:, last] == Truth.TRUE).any() for verdict in whole):
            return None
        facts, steps = FactColumns(cut, self._optional), slice(offset, last + 1)
        mine = [verdict.cut(steps, verdict.environment.over(cut, facts)) for verdict in whole]
        return diagnose(self._catalogue, cut, self._thresholds, mine)

    def _verdicts(
        self, block: Readings, cut: Readings, known: dict[object, tuple[Verdict, ...]]
    ) -> tuple[Verdict, ...]:
        """Verdicts ``[targets, steps]`` of a whole block under the facts of one moment; few sets of facts are usual."""
        values = tuple(tuple((name, fact.value) for name, fact in facts.items()) for facts in cut.facts)
        key = (cut.targets, values)
        if key not in known:
            while len(known) >= MOST_KNOWN:
                del known[next(iter(known))]
            whole = replace(keep_targets(block, [block.targets.index(one) for one in cut.targets]), facts=cut.facts)
            known[key] = evaluate(self._catalogue.rules, whole, self._optional, self._thresholds)
        return known[key]


def cut_at(block: Readings, last: int, depth: int) -> Readings:
    """Return the grid of ``depth`` steps that ends at step ``last``, without targets that began after it."""
    back = float(block.times[-1] - block.times[last])
    there = [row for row, age in enumerate(block.covered) if age <= 0 or age >= back]
    kept = keep_targets(block, there)
    steps = slice(last - depth + 1, last + 1)
    signals = {
        name: SignalReadings(one.values[:, steps], one.states[:, steps], one.window[:, steps])
        for name, one in kept.signals.items()
    }
    covered = np.maximum(kept.covered - back, 0.0)
    return replace(kept, times=kept.times[steps], signals=signals, covered=covered)


def keep_targets(readings: Readings, rows: list[int]) -> Readings:
    """Return the readings of some targets."""
    if len(rows) == len(readings.targets):
        return readings
    signals = {
        name: SignalReadings(one.values[rows], one.states[rows], one.window[rows])
        for name, one in readings.signals.items()
    }
    chosen: dict[str, tuple[object, ...]] = defaultdict(tuple)
    for name in ("targets", "facts", "versions", "info"):
        whole = getattr(readings, name)
        chosen[name] = tuple(whole[row] for row in rows) if whole else ()
    return replace(readings, signals=signals, covered=readings.covered[rows], **chosen)  # type: ignore[arg-type]


def restarted(block: Readings, depth: int) -> int | None:
    """Return how many new steps (from index ``depth - 1`` on) come before the first restart among them."""
    uptime = block.signals.get("uptime")
    if uptime is None:
        return None
    began = np.nan_to_num(block.times - uptime.values, nan=-np.inf)
    if not began.size:
        return None
    newest = np.maximum.accumulate(began, axis=1)
    with np.errstate(invalid="ignore"):  # -inf - -inf: not known yet
        jumped = (began[:, 1:] - newest[:, :-1] > RESTART_TOLERANCE_S) & np.isfinite(newest[:, :-1])
    steps = np.flatnonzero(jumped.any(axis=0)) + 1
    later = steps[steps >= depth]
    return int(later[0]) - depth + 1 if later.size else None
