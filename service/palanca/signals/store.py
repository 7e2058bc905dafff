"""Samples in memory, grouped so that numpy works on many series at once.

A ``Block`` holds the series of one metric name that share their timestamps: those of one scrape target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Labels = Mapping[str, str]


class Series(NamedTuple):
    """One series: ``times [samples]`` in whole milliseconds, ascending; ``values [samples]``."""

    name: str
    labels: Labels
    times: NDArray[np.int64]
    values: NDArray[np.float64]


class Tagged(NamedTuple):
    """Series by the value of one label.

    ``rows`` are the numbers of those that have each value, "" standing for no such label; ``labels`` the sets of other
    labels that there are, each once; ``sets`` has for every series the number of its set.
    """

    rows: Mapping[str, list[int]]
    labels: Sequence[Labels]
    sets: Sequence[int]


class LabelSets:
    """Names and labels of many series; ``labels`` may be changed by who asked."""

    def __init__(self, names: Sequence[str], labels: Sequence[dict[str, str]]) -> None:
        self._names, self._labels = names, labels

    @property
    def names(self) -> Sequence[str]:
        """Name of each series; empty where it has none."""
        return self._names

    @property
    def labels(self) -> Sequence[dict[str, str]]:
        """Labels of each series, without its name."""
        return self._labels

    def __len__(self) -> int:
        """Number of series."""
        return len(self.labels)

    def by(self, tag: str) -> Tagged:
        """Group by a label, which is taken away from ``labels``."""
        rows: dict[str, list[int]] = defaultdict(list)
        known: dict[tuple[str, ...], int] = {}
        labels: list[Labels] = []
        sets = []
        for row, own in enumerate(self.labels):
            rows[own.pop(tag, "")].append(row)
            key = (*own, *own.values())
            number = known.get(key)
            if number is None:
                number = known[key] = len(labels)
                labels.append(own)
            sets.append(number)
        return Tagged(rows, labels, sets)


class Columns(Sequence[Series]):
    """Series of one answer, column by column: so that many are handled at once. A sequence of ``Series`` too.

    ``heads`` has one entry a series; ``times`` and ``values`` the samples of all, one series after another, and
    ``sizes`` how many each has.
    """

    def __init__(
        self, heads: LabelSets, times: NDArray[np.int64], values: NDArray[np.float64], sizes: NDArray[np.intp]
    ) -> None:
        self.times, self.values = times, values
        self._heads, self._sizes, self._ends = heads, sizes, np.cumsum(sizes)

    @classmethod
    def of(cls, rows: Sequence[Series]) -> Columns:
        """Lay series side by side; labels are copied."""
        if isinstance(rows, Columns):
            return rows
        return cls(
            LabelSets([row.name for row in rows], [dict(row.labels) for row in rows]),
            np.concatenate([row.times for row in rows]) if rows else np.zeros(0, dtype=np.int64),
            np.concatenate([row.values for row in rows]) if rows else np.zeros(0),
            np.array([row.times.size for row in rows], dtype=np.intp),
        )

    @property
    def labels(self) -> Sequence[Labels]:
        """Labels of each series, without its name."""
        return self._heads.labels

    def __len__(self) -> int:
        """Number of series."""
        return len(self._heads)

    @overload
    def __getitem__(self, index: int) -> Series: ...
    @overload
    def __getitem__(self, index: slice) -> list[Series]: ...
    def __getitem__(self, index: int | slice) -> Series | list[Series]:
        """One series, or some."""
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        end = int(self._ends[row])
        mine = slice(end - int(self._sizes[row]), end)
        return Series(self._heads.names[row], self.labels[row], self.times[mine], self.values[mine])

    def by(self, tag: str) -> Tagged:
        """Group by a label. Neither the label nor the series of ``labels`` are to be used afterwards."""
        return self._heads.by(tag)

    def on(self, times: NDArray[np.int64], empty: float) -> NDArray[np.float64]:
        """Lay the samples on ascending times, ``[series, times]``; gaps are ``empty``, samples between left out."""
        laid = np.full((len(self), times.size), empty)
        row = np.repeat(np.arange(len(self)), self._sizes)
        step = np.searchsorted(times, self.times)
        inside = (step < times.size) & (times[np.minimum(step, times.size - 1)] == self.times)
        laid[row[inside], step[inside]] = self.values[inside]
        return laid


@dataclass(frozen=True)
class Block:
    """Series of one name with equal timestamps: ``times [samples]``, ``values [series, samples]``."""

    labels: tuple[Labels, ...]
    times: NDArray[np.int64]
    values: NDArray[np.float64]


class SampleStore:
    """All series of a recording or of a rolling window of scrapes."""

    def __init__(self, series: Iterable[Series]) -> None:
        """Group the series by name and by equal timestamps."""
        grouped: dict[str, dict[bytes, list[Series]]] = defaultdict(lambda: defaultdict(list))
        for one in series:
            grouped[one.name][one.times.tobytes()].append(one)
        self._blocks: dict[str, tuple[Block, ...]] = {
            name: tuple(
                Block(tuple(one.labels for one in alike), alike[0].times, np.stack([one.values for one in alike]))
                for alike in by_times.values()
            )
            for name, by_times in grouped.items()
        }

    @property
    def names(self) -> frozenset[str]:
        """Metric names with at least one series."""
        return frozenset(self._blocks)

    def blocks(self, name: str) -> tuple[Block, ...]:
        """The series of one metric name; empty if there is none."""
        return self._blocks.get(name, ())

    def span(self) -> tuple[float, float]:
        """First and last sample time in unix seconds. Raises ``ValueError`` when the store is empty."""
        edges = [(block.times[0], block.times[-1]) for blocks in self._blocks.values() for block in blocks]
        return min(int(first) for first, _ in edges) / 1000, max(int(last) for _, last in edges) / 1000
