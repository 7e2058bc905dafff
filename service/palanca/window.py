"""Readings kept between polls: each poll asks a server for one instant, and the past is already here.

The first poll reads the past of what holds then, and one after a gap what is missing as one range. The diagnosis is
what a range over the whole grid would have given, and stays a function of the data at its moment: nothing depends on
when the service was started.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from palanca.model import SignalReadings, State
from palanca.poll import grid_for, in_two_steps, some, with_facts
from palanca.signals.leaves import Grid
from palanca.signals.readings import read

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palanca.model import Catalogue, Readings, Target
    from palanca.poll import Opened, Question, Source

T = TypeVar("T", bound=np.generic)

_BEAT = "running_now"
"""Every engine has it as long as it is scraped."""


class Window:
    """The readings of one source at the last moments of a grid; ``interval`` is its spacing in seconds.

    Moments are multiples of the interval, so that all who poll the same server with the same interval agree. Not to
    be used by several threads at once.
    """

    def __init__(self, catalogue: Catalogue, source: Source, interval: float) -> None:
        self._catalogue, self._source, self._interval = catalogue, source, interval
        self._kept: Readings | None = None

    def moment(self, now: float) -> float:
        """Return the newest moment of the grid that is not after ``now``; unix seconds."""
        return now // self._interval * self._interval

    def poll(self, question: Question, now: float) -> Readings:
        """Read up to the moment of ``now``, facts included. Raises ``SourceError``; what is kept stays as it was."""
        end = self.moment(now)
        patience = self._interval if self._missing(end) is not None else None
        opened = self._source.open(replace(question, at=end, patience=patience), self._catalogue)
        readings = self._moved(opened, question, end)
        self._kept = replace(some(readings, opened), source=opened.describe())
        return with_facts(self._catalogue, self._kept, question)

    def _missing(self, end: float) -> int | None:
        """Return how many steps of the grid are missing; None where all have to be read."""
        if self._kept is None:
            return None
        new = round((end - float(self._kept.times[-1])) / self._interval)
        return new if 0 < new < grid_for(self._catalogue, end, self._interval).steps else None

    def _moved(self, opened: Opened, question: Question, end: float) -> Readings:
        whole = grid_for(self._catalogue, end, self._interval)
        kept, new = self._kept, self._missing(end)
        if kept is None or new is None:
            return in_two_steps(self._catalogue, opened, question, whole)
        latest = self._read(opened, question, Grid(end, new, self._interval))
        whole_again = kept.source.state != "ok" and opened.describe().state == "ok"
        if whole_again or _returned(latest, kept):
            return in_two_steps(self._catalogue, opened, question, whole)
        return joined(kept, latest, whole)

    def _read(self, opened: Opened, question: Question, grid: Grid) -> Readings:
        return read(self._catalogue, opened.reader.at(grid), grid, opened.describe(), window=question.window)


def _returned(latest: Readings, kept: Readings) -> bool:
    """Whether a target that was not seen at the last poll, or had no samples then, has data from before it."""
    known = set(kept.targets) - _silent(kept)
    ago = float(latest.times[-1] - kept.times[-1])
    silent = _silent(latest)
    return any(
        target not in known and target not in silent and covered > ago
        for target, covered in zip(latest.targets, latest.covered, strict=True)
    )


def _silent(readings: Readings) -> set[Target]:
    """Return the targets without a sample at the last step: what should have come may come later."""
    beat = readings.signals.get(_BEAT)
    if beat is None:
        return set()
    return {
        target
        for target, state in zip(readings.targets, beat.states[:, -1], strict=True)
        if state in {State.ABSENT, State.STALE}
    }


def joined(kept: Readings, latest: Readings, grid: Grid) -> Readings:
    """Append the steps of ``latest`` to those kept and cut both to the grid, for the targets of ``latest``.

    A target that was not there before is absent at the earlier steps.
    """
    rows = {target: row for row, target in enumerate(kept.targets)}
    here = np.array([row for row, target in enumerate(latest.targets) if target in rows], dtype=np.intp)
    there = np.array([rows[target] for target in latest.targets if target in rows], dtype=np.intp)
    signals = {
        name: _appended(kept.signals.get(name), one, here, there, grid.steps) for name, one in latest.signals.items()
    }
    return replace(latest, times=grid.times, signals=signals)


def _appended(
    old: SignalReadings | None, new: SignalReadings, here: NDArray[np.intp], there: NDArray[np.intp], steps: int
) -> SignalReadings:
    """Append to the rows ``there`` of what was kept; they are the rows ``here`` of what is new."""
    before, count = steps - new.values.shape[1], new.values.shape[0]
    values = np.full((count, before), np.nan)
    states = np.full((count, before), State.ABSENT, dtype=np.uint8)
    window = np.zeros((count, before))
    if old is not None and before:
        values[here] = old.values[there, -before:]
        states[here] = old.states[there, -before:]
        window[here] = old.window[there, -before:]
    return SignalReadings(_beside(values, new.values), _beside(states, new.states), _beside(window, new.window))


def _beside(left: NDArray[T], right: NDArray[T]) -> NDArray[T]:
    return np.concatenate([left, right], axis=1)
