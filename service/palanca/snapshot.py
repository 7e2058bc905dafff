"""What is said of every signal at the last step of readings: made when somebody asks, as most are never looked at."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from palanca.model import SignalValue, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palanca.model import Readings, SignalReadings

_STATES = tuple(State)


class Snapshot:
    """Signals of all targets at the last step; ``units`` are theirs."""

    def __init__(self, readings: Readings, units: Mapping[str, str]) -> None:
        self._columns = {name: _Column(one, units[name]) for name, one in readings.signals.items()}

    def of(self, row: int) -> Mapping[str, SignalValue]:
        """Return the signals of one target by name."""
        return _Row(self._columns, row)


class _Row(Mapping[str, SignalValue]):
    def __init__(self, columns: Mapping[str, _Column], row: int) -> None:
        self._columns, self._row = columns, row

    def __getitem__(self, name: str) -> SignalValue:
        return self._columns[name].at(self._row)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class _Column:
    """One signal; the arrays ``[targets, steps]`` that it comes from are not kept."""

    def __init__(self, one: SignalReadings, unit: str) -> None:
        self._unit = unit
        self._values = one.values[:, -1].copy()
        self._states = one.states[:, -1].copy()
        self._windows = one.window[:, -1].copy()

    @cached_property
    def _rows(self) -> list[SignalValue]:
        values: NDArray[np.float64] = self._values
        # x/0: no number says it, and comparisons take it as Prometheus does
        states = np.where(np.isinf(values), State.LOWER_BOUND, self._states)
        known = np.isfinite(values).tolist()
        rows = zip(values.tolist(), known, states.tolist(), self._windows.tolist(), strict=True)
        return [
            SignalValue(value if there else None, self._unit, _STATES[state], window)
            for value, there, state, window in rows
        ]

    def at(self, row: int) -> SignalValue:
        return self._rows[row]
