"""PromQL functions on samples, for many series at once.

They follow Prometheus 2.42, where a range includes both its ends. ``left_open=True`` follows 3.x, which leaves out a
sample exactly at the start of the range; ``threshold_first=True`` follows 2.53 and later, where a counter is
extrapolated to zero only within the extrapolation threshold.
All take ``times [samples]`` in milliseconds, ``values [series, samples]`` and ``ends [steps]`` in milliseconds, and
return ``[series, steps]`` with ``MISSING`` where Prometheus returns no sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palanca.signals.leaves import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Times = NDArray[np.int64]
    Values = NDArray[np.float64]

LOOKBACK_MS = 300_000
"""An instant vector takes the newest sample of the last 5 minutes (Prometheus' ``--query.lookback-delta``)."""


def edges(times: Times, ends: Times, window_ms: int, *, left_open: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the half-open index range of the samples of each window."""
    low = np.searchsorted(times, ends - window_ms, side="right" if left_open else "left")
    high = np.searchsorted(times, ends, side="right")
    return low, high


def now(times: Times, values: Values, ends: Times, *, left_open: bool = False) -> Values:
    """Newest sample within the lookback."""
    low, high = edges(times, ends, LOOKBACK_MS, left_open=left_open)
    if not times.size:
        return np.full((len(values), ends.size), MISSING)
    picked = values[:, np.maximum(high - 1, 0)]
    return np.where(high > low, picked, MISSING)


def rate(
    times: Times,
    values: Values,
    ends: Times,
    window_ms: int,
    *,
    left_open: bool = False,
    threshold_first: bool = False,
) -> Values:
    """Per-second rate with counter resets and extrapolation (``extrapolatedRate`` in promql/functions.go)."""
    low, high = edges(times, ends, window_ms, left_open=left_open)
    result = np.full((len(values), ends.size), MISSING)
    usable = high - low >= 2  # noqa: PLR2004  a rate needs two samples
    if not usable.any():
        return result
    first, last = low[usable], high[usable] - 1
    drops = np.zeros_like(values)
    with np.errstate(invalid="ignore"):
        before = values[:, :-1]
        drops[:, 1:] = np.cumsum(np.where(values[:, 1:] < before, before, 0.0), axis=1)
        increase = values[:, last] - values[:, first] + (drops[:, last] - drops[:, first])
        sampled = (times[last] - times[first]) / 1000.0
        to_start = (times[first] - (ends[usable] - window_ms)) / 1000.0
        to_end = (ends[usable] - times[last]) / 1000.0
        average = sampled / (last - first)
        threshold = average * 1.1
        start = np.broadcast_to(to_start, increase.shape)
        if threshold_first:
            start = np.where(start >= threshold, average / 2, start)
        first_values = values[:, first]
        to_zero = sampled * np.divide(first_values, increase, out=np.full_like(increase, np.inf), where=increase > 0)
        start = np.where((increase > 0) & (first_values >= 0) & (to_zero < start), to_zero, start)
        if not threshold_first:
            start = np.where(start < threshold, start, average / 2)
        end = np.where(to_end < threshold, to_end, average / 2)
        # In Prometheus' order, to the last bit: a rank that equals a bucket's count must fall into the same bucket.
        result[:, usable] = increase * ((sampled + start + end) / sampled / (window_ms / 1000.0))
    return result


def _over_time(reduce: Callable[[Values], Values]) -> Callable[..., Values]:
    def over_time(times: Times, values: Values, ends: Times, window_ms: int, *, left_open: bool = False) -> Values:
        low, high = edges(times, ends, window_ms, left_open=left_open)
        result = np.full((len(values), ends.size), MISSING)
        with np.errstate(invalid="ignore", over="ignore"):  # +Inf and -Inf average to NaN
            for step in np.flatnonzero(high > low):
                result[:, step] = reduce(values[:, low[step] : high[step]])
        return result

    return over_time


avg_over_time = _over_time(lambda window: np.mean(window, axis=1))
max_over_time = _over_time(lambda window: np.fmax.reduce(window, axis=1))
min_over_time = _over_time(lambda window: np.fmin.reduce(window, axis=1))
count_over_time = _over_time(lambda window: np.full(len(window), float(window.shape[1])))
resets = _over_time(lambda window: np.sum(window[:, 1:] < window[:, :-1], axis=1).astype(float))


def _changed(window: Values) -> Values:
    before, after = window[:, :-1], window[:, 1:]
    different: NDArray[np.bool_] = (before != after) & ~(np.isnan(before) & np.isnan(after))
    return np.asarray(different.sum(axis=1), dtype=np.float64)


changes = _over_time(_changed)


def histogram_quantile(quantile: float, bounds: Values, rates: Values) -> Values:
    """Quantile of cumulative bucket rates (``bucketQuantile`` in promql/quantile.go).

    ``bounds [buckets]`` ascending, distinct, the last one +Inf; ``rates [buckets, steps]``. Returns ``[steps]``;
    NaN without observations, or without a +Inf bucket.
    """
    steps = rates.shape[1]
    if len(bounds) < 2 or not np.isinf(bounds[-1]):  # noqa: PLR2004  one bucket says nothing
        return np.full(steps, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        counts = np.maximum.accumulate(np.nan_to_num(rates, nan=-np.inf), axis=0)
        counts = np.where(np.isneginf(counts), np.nan, counts)
        total = counts[-1]
        rank = quantile * total
        bucket = np.sum(counts[:-1] < rank, axis=0)
        columns = np.arange(steps)
        start = np.where(bucket > 0, bounds[np.maximum(bucket - 1, 0)], 0.0)
        below = np.where(bucket > 0, counts[np.maximum(bucket - 1, 0), columns], 0.0)
        inside = counts[bucket, columns] - below
        value = start + (bounds[bucket] - start) * ((rank - below) / inside)
        value = np.where((bucket == 0) & (bounds[0] <= 0), bounds[0], value)
        value = np.where(bucket == len(bounds) - 1, bounds[-2], value)
    return np.where((total == 0) | np.isnan(total), np.nan, value)
