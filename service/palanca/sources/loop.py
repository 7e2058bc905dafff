"""A recording replayed for ever, as if it happened now: an incident to look at without a server."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from palanca.errors import NoTargetsError, UsageError
from palanca.model import SourceInfo
from palanca.moments import rfc3339
from palanca.poll import Opened, grid_for
from palanca.signals.samples import LAST_HOUR_MS, SampleReader
from palanca.signals.store import SampleStore, Series
from palanca.sources.recording import known_names, load, nothing_selected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palanca.model import Catalogue
    from palanca.poll import Question
    from palanca.signals.store import Block

PLAYS = 3
"""How often the recording is played in a round: an incident long enough for every ``for``."""
REST_S = 480.0
"""Pause at the end of a round, in which the server is as it was at the end of the recording: long enough to end what
is computed over 5 minutes."""
FUTURE_S = 60.0
"""How far ahead of now a moment may lie, as with a server."""
_RUNNING_MS = 86_400_000
"""For so long the server has been running at the beginning of round 0."""
_STARTED = "process_start_time_seconds"
_SPACING_MS = 5000
"""Between the scrapes of the pause, and from one play to the next."""

Times = np.ndarray[tuple[int], np.dtype[np.int64]]
Values = np.ndarray[tuple[int, int], np.dtype[np.float64]]


class LoopSource:
    """Plays a recording round after round; round 0 begins at ``start``, unix seconds, and there are earlier ones.

    Counters go on from round to round, so that a new one is no restart. May be asked by several threads.
    """

    def __init__(self, path: Path, *, start: float, clock: Callable[[], float]) -> None:
        self._path, self._start, self._clock = path, start, clock
        self._lock = threading.Lock()
        self._blocks: dict[str, tuple[Block, ...]] = {}
        self._counters: frozenset[str] = frozenset()
        self._begin = self._play = self._length = 0

    @property
    def url(self) -> str:
        """What is played."""
        return f"{self._path} (replayed for ever)"

    def stop(self) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to close."""

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        """Lay the rounds out that a question at its moment can see.

        Raises ``RecordingError``, ``NoTargetsError``, and ``UsageError`` for the future.
        """
        with self._lock:
            if not self._blocks:
                self._load(catalogue)
        now = self._clock()
        end = now if question.at is None else question.at
        if end > now + FUTURE_S:
            raise UsageError(f"{rfc3339(end)} is in the future; it is {rfc3339(now)}")
        grid = grid_for(catalogue, round(end, 3))
        reader = SampleReader(SampleStore(self._rounds(end)), catalogue.metrics, grid, matchers=question.matchers)
        if not reader.discover().targets:
            raise NoTargetsError(nothing_selected(question.matchers, reader.label_values()))
        info = SourceInfo("demo", self.url, warnings=("this is a recording that is replayed, not a server",))
        return Opened(reader, grid, lambda: info)

    def _load(self, catalogue: Catalogue) -> None:
        store = load(self._path, keep=known_names(catalogue.metrics))
        first, last = store.span()
        families = catalogue.metrics.families.values()
        self._counters = frozenset(
            prefix + name.name + suffix
            for family in families
            if family.type in {"counter", "histogram"}
            for name in family.names
            for prefix in (catalogue.metrics.prefixes if family.prefixed else ("",))
            for suffix in (("_bucket", "_sum", "_count") if family.type == "histogram" else ("",))
        )
        self._begin = round(first * 1000)
        self._play = round((last - first) * 1000) + _SPACING_MS
        self._length = PLAYS * self._play + round(REST_S * 1000)
        self._blocks = {name: store.blocks(name) for name in store.names}
        # The process of long ago would have begun at whatever time, perhaps a later one than now.
        began = (round(self._start * 1000) - _RUNNING_MS) / 1000
        for name in [one for one in self._blocks if one.endswith(_STARTED)]:
            self._blocks[name] = tuple(
                replace(one, values=np.full_like(one.values, began)) for one in store.blocks(name)
            )

    def _rounds(self, end: float) -> Iterator[Series]:
        """Yield the samples of the last hour before ``end``: a diagnosis looks no further back."""
        start, last = round(self._start * 1000), round(end * 1000)
        numbers = range((last - LAST_HOUR_MS - start) // self._length, (last - start) // self._length + 1)
        for name, blocks in self._blocks.items():
            for block in blocks:
                times, values = self._round(block, counting=name in self._counters)
                grown = values[:, -1:] if name in self._counters else np.zeros((len(block.labels), 1))
                laid = np.concatenate([times + start + number * self._length for number in numbers])
                whole = np.concatenate([values + grown * number for number in range(len(numbers))], axis=1)
                seen = laid <= last
                for row, labels in enumerate(block.labels):
                    yield Series(name, labels, laid[seen], whole[row, seen])

    def _round(self, block: Block, *, counting: bool) -> tuple[Times, Values]:
        """One round of the series of a block: the plays, and the pause. Counters begin at 0 and never fall."""
        own = block.times - self._begin
        pause = np.arange(int(own[-1]) + (PLAYS - 1) * self._play + _SPACING_MS, self._length, _SPACING_MS)
        values = block.values - block.values[:, :1] if counting else block.values
        grown = values[:, -1:] if counting else np.zeros((len(block.labels), 1))
        plays = np.concatenate([values + grown * number for number in range(PLAYS)], axis=1)
        times = np.concatenate([own + number * self._play for number in range(PLAYS)])
        held = np.repeat(plays[:, -1:], pause.size, axis=1)
        return np.concatenate([times, pause.astype(np.int64)]), np.concatenate([plays, held], axis=1)
