"""Few queries for many expressions, and smaller ones where a server says that it is too much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pytest

from palanca.errors import SourceError, TooMuchError
from palanca.signals.asking import MOST_STEPS, Asking, batches, either
from palanca.signals.leaves import Grid
from palanca.signals.store import Columns, Series

END = 1_800_000_000.0


@dataclass
class Limited:
    """Answers each expression with one series, as long as no question is for more than ``most`` values."""

    most: int
    asked: list[tuple[str, int]] = field(default_factory=list)
    refused: int = 0

    def query(self, text: str, time: float) -> Sequence[Series]:
        return self._answer(text, np.array([time]))

    def query_range(self, text: str, start: float, end: float, step: float) -> Sequence[Series]:
        return self._answer(text, np.arange(start, end + step / 2, step))

    def _answer(self, text: str, times: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Sequence[Series]:
        names = [name for name in text.replace("(", " ").replace(")", " ").split() if name != "or"]
        if len(names) * times.size > self.most:
            self.refused += 1
            raise TooMuchError("too many samples")
        self.asked.append((text, times.size))
        stamps = np.round(times * 1000).astype(np.int64)
        return [Series("", {"of": name}, stamps, np.ones(times.size)) for name in names]


def lengths(answers: Iterable[Sequence[Series]]) -> dict[str, list[int]]:
    """Which times each expression was answered for, in the order of the grid."""
    found: dict[str, list[int]] = {}
    for row in chain.from_iterable(answers):
        found.setdefault(row.labels["of"], []).extend(int(at) for at in row.times)
    return found


def test_expressions_are_joined_half_by_half() -> None:
    assert "a" == either(["a"])
    assert "(a or b)" == either(["a", "b"])
    assert "((a or b) or (c or d))" == either(["a", "b", "c", "d"])


def test_batches() -> None:
    assert [["a", "b"], ["ccccccccccc"], ["d"]] == batches(["a", "b", "ccccccccccc", "d"], longest=11)
    assert [["a", "b"], ["c"]] == batches(["a", "b", "c"], most=2)
    assert [] == batches([])


def whole(answer: Columns) -> Columns:
    return answer


@pytest.mark.parametrize(("most", "queries"), [(100, 1), (60, 2), (20, 4), (10, 8), (3, 32)])
def test_too_much_is_asked_in_halves(most: int, queries: int) -> None:
    """Of the expressions first, then of the time; every expression is answered once at every step."""
    server, grid = Limited(most), Grid(END, 20, 15)
    answers = Asking(server, 2).joined(["a", "b", "c", "d"], grid, whole)
    assert {name: [int(at * 1000) for at in grid.times] for name in "abcd"} == lengths(answers)
    assert queries == len(server.asked)
    assert all(count == 20 for text, count in server.asked if " or " in text)


def test_one_value_that_is_too_much() -> None:
    server = Limited(0)
    with pytest.raises(TooMuchError):
        Asking(server, 1).joined(["a", "b"], Grid(END, 8, 15), whole)
    assert 5 == server.refused


def test_other_errors_are_not_asked_again() -> None:
    class Broken(Limited):
        def query(self, text: str, time: float) -> Sequence[Series]:
            self.asked.append((text, 1))
            raise SourceError("connection refused")

    server = Broken(9)
    with pytest.raises(SourceError, match="refused"):
        Asking(server, 1).joined(["a", "b"], Grid(END, 1, 15), whole)
    assert 1 == len(server.asked)


def test_nothing_is_begun_after_an_error() -> None:
    """Each question to a server that hangs takes as long as the timeout."""

    class Hanging(Limited):
        def query(self, text: str, time: float) -> Sequence[Series]:
            self.asked.append((text, 1))
            raise SourceError("no whole answer")

    for _ in range(50):
        server = Hanging(9)
        with pytest.raises(SourceError, match="no whole answer"):
            Asking(server, 2).instants([str(number) for number in range(20)], END)
        assert len(server.asked) <= 2


def test_the_first_error_is_told_to_everybody() -> None:
    """Whoever asks afterwards, or at the same time, asks nothing more and hears of the same fault."""

    class Odd(Limited):
        def query(self, text: str, time: float) -> Sequence[Series]:
            self.asked.append((text, 1))
            raise ValueError(text)

    server = Odd(9)
    asking = Asking(server, 1)
    with pytest.raises(ValueError, match="first"):
        asking.instants(["first", "second"], END)
    with pytest.raises(ValueError, match="first"):
        asking.instants(["third"], END)
    with pytest.raises(ValueError, match="first"):
        asking.joined(["fourth"], Grid(END, 3, 15), whole)
    assert [("first", 1)] == server.asked


def test_a_range_of_more_points_than_a_server_answers() -> None:
    server, grid = Limited(10**9), Grid(END, 3 * MOST_STEPS, 1)
    answers = Asking(server, 1).joined(["a"], grid, whole)
    assert [int(at * 1000) for at in grid.times] == lengths(answers)["a"]
    assert all(count <= MOST_STEPS for _, count in server.asked)
    assert 4 == len(server.asked)
