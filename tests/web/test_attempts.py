"""How often somebody may try."""

from __future__ import annotations

import pytest

from palanca.web import attempts
from palanca.web.attempts import Attempts


def test_a_bucket_that_fills_again() -> None:
    """So many at once, then one in every so many seconds."""
    mine = Attempts(3, 10.0)
    for _ in range(3):
        assert 0.0 == mine.wait("a", 100.0)
        mine.failed("a", 100.0)
    assert 10.0 == mine.wait("a", 100.0)
    assert pytest.approx(4.0) == mine.wait("a", 106.0)
    assert 0.0 == mine.wait("a", 110.0)
    mine.failed("a", 110.0)
    assert 10.0 == mine.wait("a", 110.0)
    assert 0.0 == mine.wait("a", 200.0)


def test_each_address_by_itself() -> None:
    """Who gets in begins anew."""
    mine = Attempts(1, 10.0)
    mine.failed("a", 0.0)
    assert 0.0 == mine.wait("b", 0.0)
    mine.succeeded("a")
    assert 0.0 == mine.wait("a", 0.0)
    mine.succeeded("never seen")


def test_a_clock_that_is_set_back() -> None:
    """Locks nobody out for longer."""
    mine = Attempts(1, 10.0)
    mine.failed("a", 1000.0)
    assert 10.0 == mine.wait("a", 0.0)


def test_many_addresses() -> None:
    """The oldest are forgotten, and memory stays as it is."""
    mine = Attempts(1, 10.0)
    for number in range(attempts.MOST_ADDRESSES + 10):
        mine.failed(str(number), 0.0)
    assert attempts.MOST_ADDRESSES == len(mine._used)
    assert (0.0, 10.0) == (mine.wait("0", 0.0), mine.wait(str(attempts.MOST_ADDRESSES), 0.0))
