"""Statistics on a few autocorrelated numbers: non-overlapping batch means, an exact permutation test, a bootstrap.

A signal over overlapping windows is so autocorrelated that its spread says nothing. The classical answer of simulation
output analysis is used instead: cut each period into a few windows that share no sample ("batches"), take one number of
each, and treat these as independent (Law and Kelton, Simulation Modeling and Analysis, "batch means"; Schmeiser 1982
shows that more than about 30 gain little and that 10 do). Where the batches are still correlated, neighbours are merged
(Fishman's rule), as long as enough are left for a test. On 4 to 8 numbers a side the two questions are asked without any
assumption on their distribution, which for queues and tail latencies is neither normal nor of equal spread:

* is there a difference: permutation test on the difference of means, exact, so that 4 + 4 suffice (p = 2 / 70)
* how large is it: percentile bootstrap of the difference of means, with a fixed seed (same data, same answer)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

FEWEST = 4
"""Batches a side; with fewer no arrangement of them is rarer than ``ALPHA``."""
MOST = 8
"""Batches a side: 12,870 arrangements are counted at once."""
ALPHA = 0.05
CORRELATED = 0.5
"""Lag-1 autocorrelation from which neighbours are merged. Estimates from few numbers are biased downwards by about 1/n."""
RESAMPLES = 2000
_SEED = 20260117
_TINY = 1e-12


@dataclass(frozen=True)
class Difference:
    """After minus before: means of the batches, 95 % interval of the difference, p value, batches a side."""

    before: float
    after: float
    low: float
    high: float
    p: float
    batches: tuple[int, int]

    @property
    def change(self) -> float:
        """Difference of the means."""
        return self.after - self.before

    @property
    def enough(self) -> bool:
        """Whether there are batches enough for a test."""
        return min(self.batches) >= FEWEST

    @property
    def significant(self) -> bool:
        """Whether so large a difference would be rare if the change did nothing."""
        return self.enough and self.p <= ALPHA


def difference(before: Numbers, after: Numbers) -> Difference | None:
    """Compare two series of batches ``[steps]``; None where a side has no number at all."""
    one, other = settled(before[np.isfinite(before)]), settled(after[np.isfinite(after)])
    if not one.size or not other.size:
        return None
    low, high = interval(one, other)
    sizes = (len(one), len(other))
    p = permutation(one, other) if min(sizes) >= FEWEST else 1.0
    return Difference(float(one.mean()), float(other.mean()), low, high, p, sizes)


def settled(values: Numbers) -> Numbers:
    """Merge neighbours until at most ``MOST`` are left and they hardly correlate, or merging would leave too few."""
    while len(values) > MOST or (len(values) >= 2 * FEWEST and lag_one(values) > CORRELATED):
        even = values[len(values) % 2 :]
        values = even.reshape(-1, 2).mean(axis=1)
    return values


def lag_one(values: Numbers) -> float:
    """Lag-1 autocorrelation; 0 for a constant."""
    off = values - values.mean()
    power = float(off @ off)
    scale = float(np.abs(values).max()) ** 2 * len(values)
    return float(off[1:] @ off[:-1]) / power if power > _TINY * scale else 0.0


@cache
def _arrangements(one: int, other: int) -> NDArray[np.bool_]:
    """All ways to call ``one`` of ``one + other`` numbers "before": ``[ways, numbers]``."""
    chosen = np.array(list(combinations(range(one + other), one)))
    table = np.zeros((len(chosen), one + other), dtype=bool)
    np.put_along_axis(table, chosen, values=True, axis=1)
    return table


def permutation(before: Numbers, after: Numbers) -> float:
    """Two-sided p value: share of arrangements of all numbers whose means differ at least as much."""
    pooled = np.concatenate([before, after])
    table = _arrangements(len(before), len(after))
    sums = table @ pooled
    apart = np.abs((pooled.sum() - sums) / len(after) - sums / len(before))
    seen = abs(float(after.mean() - before.mean()))
    return float(np.mean(apart >= seen - 1e-9 * float(np.abs(pooled).max())))


def interval(before: Numbers, after: Numbers) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the difference of means."""
    random = np.random.default_rng(_SEED)
    means = [
        values[random.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1) for values in (before, after)
    ]
    low, high = np.quantile(means[1] - means[0], (ALPHA / 2, 1 - ALPHA / 2))
    return float(low), float(high)
