"""Samples in memory, grouped so that numpy works on many series at once.

A ``Block`` holds the series of one metric name that share their timestamps: those of one scrape target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
