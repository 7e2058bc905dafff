"""Answers column by column."""

from __future__ import annotations

import numpy as np
import pytest

from palanca.signals.store import Columns, Series

GONE = -1.0


def series(labels: dict[str, str], *samples: tuple[int, float], name: str = "m") -> Series:
    return Series(name, labels, np.array([at for at, _ in samples], dtype=np.int64), np.array([v for _, v in samples]))


A = series({"a": "1", "tag": "x"}, (10, 1.0), (20, 2.0))
B = series({"a": "2", "tag": "y"}, (20, 3.0), name="n")
C = series({"a": "1", "tag": "y"}, (5, 4.0), (30, 5.0))
D = series({"a": "3"}, (10, 6.0))


def test_a_sequence_of_series() -> None:
    """It has the series that it was made of, from both ends, and in slices."""
    made = Columns.of([A, B, C])
    assert 3 == len(made)
    for one, other in zip([A, B, C], made, strict=True):
        assert (one.name, one.labels) == (other.name, other.labels)
        assert [*one.times] == [*other.times]
        assert [*one.values] == [*other.values]
    assert "n" == made[1].name == made[-2].name
    assert ["n", "m"] == [row.name for row in made[1:]]
    with pytest.raises(IndexError):
        made[3]
    assert made is Columns.of(made)


def test_nothing() -> None:
    made = Columns.of([])
    assert not made
    assert ({}, [], []) == tuple(made.by("tag"))
    assert (0, 2) == made.on(np.array([10, 20]), GONE).shape


def test_by_a_label() -> None:
    """Equal sets of other labels are one; without the label its value is empty. The given series stay as they were."""
    rows, labels, sets = Columns.of([A, B, C, D]).by("tag")
    assert {"x": [0], "y": [1, 2], "": [3]} == rows
    assert [{"a": "1"}, {"a": "2"}, {"a": "3"}] == labels
    assert [0, 1, 0, 2] == sets
    assert "x" == A.labels["tag"]


def test_names_and_values_of_labels_are_not_mixed_up() -> None:
    """Equal texts in other places are other labels."""
    one, other = series({"a": "b", "c": "d"}, (1, 1.0)), series({"a": "c", "b": "d"}, (1, 1.0))
    assert [0, 1] == Columns.of([one, other]).by("tag").sets


def test_on_a_grid() -> None:
    """Samples find their time; those beside it are left out, where there are none it is empty, NaN is a value."""
    times = np.array([10, 20, 30], dtype=np.int64)
    odd = series({}, (9, 7.0), (20, np.nan), (31, 8.0))
    laid = Columns.of([A, B, C, D, odd]).on(times, GONE)
    expected = [[1, 2, GONE], [GONE, 3, GONE], [GONE, GONE, 5], [6, GONE, GONE], [GONE, np.nan, GONE]]
    np.testing.assert_array_equal(expected, laid)
