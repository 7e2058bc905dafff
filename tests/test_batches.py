"""Statistics on a few batches: exact where it can be checked by hand, calibrated where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.batches import FEWEST, MOST, difference, drift, interval, permutation, settled

numbers = st.lists(st.floats(-1e6, 1e6), min_size=FEWEST, max_size=MOST).map(np.array)


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=float)


@pytest.mark.parametrize(
    ("before", "after", "p"),
    [
        ([1, 2, 3], [4, 5, 6], 2 / 20),
        ([1, 2, 3], [1, 2, 3], 1.0),
        ([0, 0, 0, 0, 0], [1, 1, 1, 1, 1], 2 / 252),
        ([5, 5, 5], [5, 5, 5], 1.0),
    ],
)
def test_the_permutation_test_is_exact(before: list[float], after: list[float], p: float) -> None:
    """The p value is the share of arrangements that are as far apart."""
    assert p == pytest.approx(permutation(array(*before), array(*after)))


@given(numbers, numbers)
def test_the_permutation_test_is_symmetric(before: np.ndarray, after: np.ndarray) -> None:
    """The sides can be exchanged, and no p value is below that of complete separation."""
    one, other = permutation(before, after), permutation(after, before)
    assert one == pytest.approx(other)
    assert 0 < one <= 1


def test_the_false_alarms_are_as_many_as_said() -> None:
    """Independent batches of one distribution differ at 1 % in about 1 % of the cases."""
    random = np.random.default_rng(1)
    alarms = [permutation(random.lognormal(size=6), random.lognormal(size=6)) <= 0.01 for _ in range(1000)]
    assert 0.003 < np.mean(alarms) < 0.02


@given(numbers, numbers)
def test_the_interval_is_deterministic_and_holds_the_difference(before: np.ndarray, after: np.ndarray) -> None:
    """The same data give the same interval, which lies within what the batches allow."""
    low, high = interval(before, after)
    assert (low, high) == interval(before, after)
    slack = 1e-6
    assert after.min() - before.max() - slack <= low <= high <= after.max() - before.min() + slack


@pytest.mark.parametrize(
    ("count", "left"),
    [(1, [0.0]), (8, list(range(8))), (9, [1.5, 3.5, 5.5, 7.5]), (20, [2.5 + 4 * n - 1 for n in range(5)])],
)
def test_neighbours_are_merged(count: int, left: list[float]) -> None:
    """More than eight batches become half as many; of an odd number the oldest goes."""
    assert left == settled(np.arange(count, dtype=float)).tolist()


def test_a_difference() -> None:
    """Means, sizes and significance; NaN is left out."""
    made = difference(array(1, 1, 1, 1, 1, np.nan), array(3, 3, 3, 3, 3))
    assert made is not None
    assert (1.0, 3.0, 2.0, 2.0, 2.0, (5, 5)) == (
        made.before,
        made.after,
        made.change,
        made.low,
        made.high,
        made.batches,
    )
    assert made.significant
    few = difference(array(1, 1, 1, 1), array(3, 3, 3, 3, 3))
    assert few is not None
    assert (False, False) == (few.enough, few.significant)
    assert difference(array(np.nan), array(1.0)) is None


@pytest.mark.parametrize(("values", "moved"), [([1], 0.0), ([1, 2], 1.0), ([0, 0, 9, 4, 4], 4.0)])
def test_drift(values: list[float], moved: float) -> None:
    """The later half against the earlier half."""
    assert moved == drift(array(*values))


def test_a_straight_line_is_its_own_trend() -> None:
    """The trend of a line over one period is the difference to the next."""
    made = difference(np.arange(6, dtype=float), np.arange(6, 12, dtype=float))
    assert made is not None
    assert made.change == made.trend == 6.0
