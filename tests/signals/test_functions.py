"""PromQL functions: values counted by hand, and the loops of Prometheus 2.42 and 3.x written out again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.signals import functions
from palanca.signals.leaves import MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAN, INF = math.nan, math.inf


def milliseconds(times: Sequence[float]) -> NDArray[np.int64]:
    return np.round(np.asarray(times, dtype=np.float64) * 1000).astype(np.int64)


def row(values: Sequence[float]) -> NDArray[np.float64]:
    return np.asarray([values], dtype=np.float64)


def at(
    function: Callable[..., NDArray[np.float64]],
    times: Sequence[float],
    values: Sequence[float],
    end: float,
    window: float,
    *,
    left_open: bool = False,
) -> float:
    """One series at one moment, with times in seconds."""
    return float(
        function(milliseconds(times), row(values), milliseconds([end]), round(window * 1000), left_open=left_open)[0, 0]
    )


def now(times: Sequence[float], values: Sequence[float], end: float, *, left_open: bool = False) -> float:
    return float(functions.now(milliseconds(times), row(values), milliseconds([end]), left_open=left_open)[0, 0])


# --- rate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "values", "end", "window", "expected"),
    [
        pytest.param([0, 15, 30, 45, 60], [0, 15, 30, 45, 60], 60, 60, 1.0, id="whole window"),
        pytest.param([0, 15, 30, 45, 60], [7] * 5, 60, 60, 0.0, id="no increase"),
        pytest.param([0, 60], [100, 160], 60, 60, 1.0, id="two samples"),
        pytest.param([60], [100], 60, 60, MISSING, id="one sample"),
        pytest.param([], [], 60, 60, MISSING, id="no sample"),
        pytest.param([0, 15], [0, 15], 500, 60, MISSING, id="samples before the window"),
        pytest.param([100, 115], [0, 15], 60, 60, MISSING, id="samples after the window"),
        # increase 30 of 90 -> 0 -> 20: (90 - 60) + 20 - 0, over exactly the window
        pytest.param([0, 20, 40, 60], [60, 90, 0, 20], 60, 60, 50 / 60, id="reset"),
        pytest.param([0, 20, 40, 60], [60, 5, 3, 4], 60, 60, (5 + 3 - 0 + 1) / 60, id="two resets"),
        pytest.param([-20, 0, 20, 40, 60], [99, 1, 2, 3, 4], 60, 60, 3 / 60, id="reset before the window"),
        # average interval 10: 10 to the start is below 11, so all of it is added; 50 samples seconds, 60 in all
        pytest.param(
            [10, 20, 30, 40, 50, 60], [100, 110, 120, 130, 140, 150], 60, 60, 1.0, id="start within 1.1 intervals"
        ),
        # 12 to the start is beyond it: half an interval is added
        pytest.param(
            [12, 22, 32, 42, 52, 62], [100, 110, 120, 130, 140, 150], 62, 62, 55 / 62, id="start beyond 1.1 intervals"
        ),
        pytest.param(
            [0, 10, 20, 30, 40, 50], [100, 110, 120, 130, 140, 150], 60, 60, 1.0, id="end within 1.1 intervals"
        ),
        pytest.param([0, 10, 20, 30, 40], [100, 110, 120, 130, 140], 60, 60, 45 / 60, id="end beyond 1.1 intervals"),
        # zero is reached 5 s before the first sample, earlier than the start of the window
        pytest.param(
            [10, 20, 30, 40, 50, 60], [5, 15, 25, 35, 45, 55], 60, 60, 55 / 60, id="extrapolation ends at zero"
        ),
        pytest.param([10, 20, 30, 40, 50, 60], [0, 10, 20, 30, 40, 50], 60, 60, 50 / 60, id="from zero"),
        # 2.x: 30 s to the start is cut to the 5 s to zero, which is below the threshold
        pytest.param([30, 40, 50, 60], [5, 15, 25, 35], 60, 60, 35 / 60, id="far start, near zero"),
        # zero is 30 s before the first sample and the start 20: beyond the threshold, half an interval
        pytest.param([20, 30, 40, 50, 60], [30, 40, 50, 60, 70], 60, 60, 45 / 60, id="far start, far zero"),
        pytest.param([10, 20, 30, 40, 50, 60], [-5, 5, 15, 25, 35, 45], 60, 60, 1.0, id="negative first value"),
        pytest.param([0, 30, 60], [1, NAN, 5], 60, 60, 4 / 60, id="NaN in the middle"),
        pytest.param([0, 30, 60], [NAN, 3, 5], 60, 60, NAN, id="NaN first"),
        pytest.param([0, 30, 60], [1, 3, NAN], 60, 60, NAN, id="NaN last"),
    ],
)
def test_rate(times: list[float], values: list[float], end: float, window: float, expected: float) -> None:
    """Resets count from zero, and the increase is extrapolated as far as Prometheus 2.42 does it."""
    np.testing.assert_allclose(at(functions.rate, times, values, end, window), expected, rtol=1e-12)


def test_left_open_windows_leave_out_their_start() -> None:
    """2.42 includes a sample exactly at the start of a range, 3.x does not."""
    times, values = [0.0, 30.0, 60.0], [0.0, 30.0, 90.0]

    assert 90 / 60 == at(functions.rate, times, values, 60, 60)
    assert 60 * (30 + 15) / 30 / 60 == at(functions.rate, times, values, 60, 60, left_open=True)
    assert 40.0 == at(functions.avg_over_time, times, values, 60, 60)
    assert 60.0 == at(functions.avg_over_time, times, values, 60, 60, left_open=True)
    assert MISSING == at(functions.rate, [0, 60], [0, 60], 60, 60, left_open=True)


def test_zero_is_tried_within_the_threshold_only_from_2_53_on() -> None:
    """2.42 compares zero with the start of the window, 2.53 with the half interval that it would add."""
    times, values = [60.0, 70.0, 80.0], [8.0, 18.0, 28.0]

    assert pytest.approx(20 * 28 / 20 / 80) == at(functions.rate, times, values, 80, 80)
    later = partial(functions.rate, threshold_first=True)
    assert pytest.approx(20 * 25 / 20 / 80) == at(later, times, values, 80, 80)


def go_rate(
    times: Sequence[int], values: Sequence[float], end: int, window: int, *, left_open: bool, threshold_first: bool
) -> float:
    """``extrapolatedRate`` of promql/functions.go, sample by sample: 2.42, 2.53 (``threshold_first``), 3.x (both)."""
    start = end - window
    points = [
        (t, v) for t, v in zip(times, values, strict=True) if t <= end and (t > start or (t == start and not left_open))
    ]
    if len(points) < 2:
        return float(MISSING)
    result = points[-1][1] - points[0][1]
    for (_, before), (_, after) in itertools.pairwise(points):
        if after < before:
            result += before
    to_start, to_end = (points[0][0] - start) / 1000, (end - points[-1][0]) / 1000
    sampled = (points[-1][0] - points[0][0]) / 1000
    average = sampled / (len(points) - 1)
    if threshold_first and to_start >= average * 1.1:
        to_start = average / 2
    if result > 0 and points[0][1] >= 0:
        to_start = min(to_start, sampled * (points[0][1] / result))
    if not threshold_first and to_start >= average * 1.1:
        to_start = average / 2
    if to_end >= average * 1.1:
        to_end = average / 2
    return result * ((sampled + to_start + to_end) / sampled / (window / 1000))


SAMPLES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), max_size=14).map(
    lambda steps: ([int(t) * 1000 for t in np.cumsum([step for step, _ in steps])], [float(v) for _, v in steps])
)


@given(SAMPLES, st.integers(0, 300), st.integers(1, 300), st.booleans(), st.booleans())
def test_rate_is_prometheus(
    samples: tuple[list[int], list[float]], end: int, window: int, left_open: bool, threshold_first: bool
) -> None:
    """For any counter the vectorised rate equals the loop of Prometheus."""
    times, values = samples
    how = {"left_open": left_open, "threshold_first": threshold_first}
    expected = go_rate(times, values, end * 1000, window * 1000, **how)
    got = functions.rate(np.asarray(times, dtype=np.int64), row(values), np.asarray([end * 1000]), window * 1000, **how)

    np.testing.assert_allclose(got[0, 0], expected, rtol=1e-9, atol=1e-12)


def test_many_series_and_steps() -> None:
    """Rows are series, columns are steps; each is computed for itself."""
    times = milliseconds([0, 30, 60, 90])
    values = np.asarray([[0, 30, 60, 90], [100, 130, 0, 30]], dtype=np.float64)
    got = functions.rate(times, values, milliseconds([-10, 60, 90, 1000]), 60_000)

    np.testing.assert_allclose(got, [[MISSING, 1, 1, MISSING], [MISSING, 0.5, 0.5, MISSING]])


# --- over time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        (functions.avg_over_time, [1, 2, 6], 3),
        (functions.avg_over_time, [1, NAN, 3], NAN),
        (functions.avg_over_time, [INF, 1, 1], INF),
        (functions.avg_over_time, [INF, -INF, 1], NAN),
        (functions.max_over_time, [1, 6, 2], 6),
        (functions.max_over_time, [NAN, 6, NAN], 6),
        (functions.max_over_time, [NAN] * 3, NAN),
        (functions.min_over_time, [3, 1, 2], 1),
        (functions.min_over_time, [NAN, 6, NAN], 6),
        (functions.min_over_time, [NAN] * 3, NAN),
        (functions.resets, [1, 2, 3], 0),
        (functions.resets, [5, 2, 1], 2),
        (functions.resets, [5, 5, 4], 1),
        (functions.resets, [5, NAN, 1], 0),
        (functions.changes, [1, 1, 1], 0),
        (functions.changes, [1, 2, 1], 2),
        (functions.changes, [NAN, NAN, 1], 1),
        (functions.changes, [1, NAN, NAN], 1),
    ],
)
def test_over_time(function: Callable[..., NDArray[np.float64]], values: list[float], expected: float) -> None:
    """Averages, extremes (NaN loses), resets and changes (NaN equals NaN) of the samples of a window."""
    np.testing.assert_equal(at(function, [0, 30, 60], values, 60, 60), expected)


OVER_TIME = [
    functions.avg_over_time,
    functions.max_over_time,
    functions.min_over_time,
    functions.resets,
    functions.changes,
]


@pytest.mark.parametrize("function", OVER_TIME)
def test_one_sample_is_enough(function: Callable[..., NDArray[np.float64]]) -> None:
    """Unlike a rate these need one sample, and have nothing without any."""
    expected = 0.0 if function in {functions.resets, functions.changes} else 7.0

    assert expected == at(function, [60], [7], 60, 60)
    assert expected == at(function, [0, 60], [9, 7], 60, 59.999)
    assert MISSING == at(function, [], [], 60, 60)
    assert MISSING == at(function, [0], [7], 60, 59.999)
    assert MISSING == at(function, [61], [7], 60, 60)
    assert MISSING == at(function, [0], [7], 60, 60, left_open=True)


# --- instant values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "left_open", "expected"),
    [
        (59.999, False, MISSING),
        (60, False, 1),
        (119.999, False, 1),
        (120, False, 2),
        (419.999, False, 2),
        (420, False, 2),
        (420.001, False, MISSING),
        (60, True, 1),
        (419.999, True, 2),
        (420, True, MISSING),
    ],
)
def test_staleness(end: float, left_open: bool, expected: float) -> None:
    """The newest sample counts for 5 minutes; 3.x excludes the fifth minute's end."""
    assert expected == now([60, 120], [1, 2], end, left_open=left_open)


def test_nan_is_a_value() -> None:
    """NaN is shown as such, not as a missing sample, and hides an older number."""
    assert math.isnan(now([0, 15], [1, NAN], 20))
    assert MISSING == now([], [], 20)


# --- quantiles ---------------------------------------------------------------------------------------


def quantile(q: float, bounds: Sequence[float], counts: Sequence[float]) -> float:
    made = np.asarray(counts, dtype=np.float64)[:, None]
    return float(functions.histogram_quantile(q, np.asarray(bounds, dtype=np.float64), made)[0])


@pytest.mark.parametrize(
    ("q", "bounds", "counts", "expected"),
    [
        pytest.param(0.5, [1, 2, 4, INF], [0, 10, 10, 10], 1.5, id="middle of a bucket"),
        pytest.param(0.5, [1, 2, 4, INF], [10, 10, 10, 10], 0.5, id="first bucket counts from zero"),
        pytest.param(0.99, [1, 2, 4, INF], [10, 10, 10, 10], 0.99, id="deep in the first bucket"),
        pytest.param(0.5, [0.3, INF], [8, 10], 0.3 * 5 / 8, id="one finite bucket"),
        pytest.param(0.9, [0.3, INF], [8, 10], 0.3, id="last bucket gives the last finite bound"),
        pytest.param(0.99, [1, 2, INF], [0, 0, 10], 2, id="all beyond the last finite bound"),
        pytest.param(0.5, [1, 2, 4, INF], [5, 5, 10, 10], 1, id="exactly at a bound"),
        pytest.param(0.8, [1, 2, 4, INF], [5, 5, 10, 10], 3.2, id="an empty bucket is skipped"),
        pytest.param(0.5, [1, 2, INF], [0, 0, 0], NAN, id="no observations"),
        pytest.param(0.5, [1, 2, 4], [1, 2, 3], NAN, id="no +Inf bucket"),
        pytest.param(0.5, [INF], [3], NAN, id="+Inf alone"),
        pytest.param(0.5, [], [], NAN, id="no bucket"),
        pytest.param(0.5, [1, 2, 4, INF], [4, 2, 8, 8], 1.0, id="not monotonic: raised to the largest before"),
        pytest.param(0.9, [1, 2, INF], [10, 10, 5], 0.9, id="+Inf below the others: raised too"),
        pytest.param(0.1, [-2, -1, INF], [5, 10, 10], -2, id="first bound not above zero"),
        pytest.param(0.7, [-2, -1, INF], [5, 10, 10], -1.6, id="negative bounds interpolate"),
        pytest.param(0.5, [0, 1, INF], [6, 10, 10], 0, id="first bound zero"),
        pytest.param(0.5, [1, 2, INF], [NAN, NAN, NAN], NAN, id="NaN"),
        pytest.param(0.5, [1, 2, INF], [1e-9, 3e-9, 4e-9], 1.5, id="tiny rates"),
    ],
)
def test_histogram_quantile(q: float, bounds: list[float], counts: list[float], expected: float) -> None:
    """Linear inside the bucket, from 0 in the first, the last finite bound in the last."""
    np.testing.assert_allclose(quantile(q, bounds, counts), expected, rtol=1e-12)


def go_quantile(q: float, bounds: Sequence[float], counts: Sequence[float]) -> float:
    """``bucketQuantile`` of promql/quantile.go 2.42."""
    monotonic = [max(counts[: index + 1]) for index in range(len(counts))]
    if monotonic[-1] == 0:
        return NAN
    rank = q * monotonic[-1]
    bucket = next((i for i, count in enumerate(monotonic[:-1]) if count >= rank), len(bounds) - 1)
    if bucket == len(bounds) - 1:
        return bounds[-2]
    if bucket == 0 and bounds[0] <= 0:
        return bounds[0]
    start = bounds[bucket - 1] if bucket else 0.0
    below = monotonic[bucket - 1] if bucket else 0.0
    return start + (bounds[bucket] - start) * ((rank - below) / (monotonic[bucket] - below))


@given(
    st.floats(0.01, 0.99),
    st.lists(st.tuples(st.integers(-2, 20), st.integers(0, 9)), min_size=2, max_size=8, unique_by=lambda one: one[0]),
)
def test_quantile_is_prometheus(q: float, buckets: list[tuple[int, int]]) -> None:
    """For any buckets the vectorised quantile equals the search of Prometheus."""
    bounds = [*sorted(float(bound) for bound, _ in buckets[1:]), INF]
    counts = [float(count) for _, count in buckets]

    np.testing.assert_allclose(quantile(q, bounds, counts), go_quantile(q, bounds, counts), rtol=1e-12)


def test_quantile_of_many_steps() -> None:
    """Each column is a moment of its own."""
    rates = np.asarray([[0, 10, 0], [10, 10, 0], [10, 10, 0]], dtype=np.float64)

    np.testing.assert_equal(functions.histogram_quantile(0.5, np.asarray([1.0, 2.0, INF]), rates), [1.5, 0.5, NAN])
