"""A rolling window of scrapes in memory, 16 bytes a sample."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from palanca.signals.store import SampleStore, Series

if TYPE_CHECKING:
    from palanca.sources.exposition import Page

JOB = "scrape"
"""Value of the label ``job`` on everything that palanca scrapes itself."""


@dataclass(slots=True)
class _Column:
    """The samples of one series: times in milliseconds, values."""

    name: str
    labels: Mapping[str, str]
    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))


class History:
    """The samples of several servers. ``keep`` says which metric names are wanted; ``seconds`` how long."""

    def __init__(self, keep: Callable[[str], bool], seconds: float) -> None:
        self._keep, self._length = keep, round(seconds * 1000)
        self._columns: dict[tuple[str, str, frozenset[tuple[str, str]]], _Column] = {}
        self._last: dict[str, int] = defaultdict(int)

    def add(self, instance: str, moment: float, page: Page | None) -> None:
        """Add a scrape that began at ``moment``, unix seconds; None for one that failed. Writes ``up``, as Prometheus.

        Times of a server ascend, also where the clock was set back.
        """
        time = max(round(moment * 1000), self._last[instance] + 1)
        self._last[instance] = time
        self._append(instance, "up", {}, time, float(page is not None))
        for sample in page.samples if page is not None else ():
            if self._keep(sample.name):
                self._append(instance, sample.name, sample.labels, time, sample.value)

    def _append(self, instance: str, name: str, labels: Mapping[str, str], time: int, value: float) -> None:
        key = (instance, name, frozenset(labels.items()))
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _Column(name, _labels(labels, instance))
        column.times.append(time)
        column.values.append(value)

    def keep_only(self, instances: Container[str]) -> None:
        """Forget every server but these."""
        self._columns = {key: column for key, column in self._columns.items() if key[0] in instances}

    def span(self) -> tuple[float, float]:
        """First and last time of a scrape, unix seconds; both 0 without any."""
        times = [(column.times[0], column.times[-1]) for column in self._columns.values()]
        if not times:
            return 0.0, 0.0
        return min(first for first, _ in times) / 1000, max(last for _, last in times) / 1000

    def store(self) -> SampleStore:
        """Copy the samples into a store, and forget those that are too old."""
        self._forget(round(self.span()[1] * 1000) - self._length)
        return SampleStore(self._series())

    def _forget(self, before: int) -> None:
        for key, column in list(self._columns.items()):
            old = bisect_left(column.times, before)
            if old:
                del column.times[:old], column.values[:old]
            if not column.times:
                del self._columns[key]

    def _series(self) -> Iterator[Series]:
        for column in self._columns.values():
            times, values = np.array(column.times, dtype=np.int64), np.array(column.values, dtype=np.float64)
            yield Series(column.name, column.labels, times, values)


def _labels(labels: Mapping[str, str], instance: str) -> dict[str, str]:
    """Labels of the page with job and instance; its own of these names are kept as ``exported_``, as in Prometheus."""
    own = {f"exported_{name}" if name in {"job", "instance"} else name: value for name, value in labels.items()}
    return {**own, "job": JOB, "instance": instance}
