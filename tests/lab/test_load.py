"""The load follows from its seed alone."""

from __future__ import annotations

import pytest
from lab.faults import FAULTS
from lab.load import FIRST_WORD, STAMP, WORDS, Load, first, unique_last

OPEN = Load(rate=5, shared=64, stamp="first", prompt=(10, 30), answer=(8, 24))
CLOSED = Load(clients=3, prompt=(5, 9), answer=(1, 4), words=4)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.name)
def test_equal_seeds_give_equal_requests(fault: object) -> None:
    """Before and after a change clients ask for the same."""
    load = next(one for one in FAULTS if one is fault).load
    assert first(load, 7, 20, 1) == first(load, 7, 20, 1)
    assert first(load, 7, 20, 1) != first(load, 8, 20, 1)


def test_clients_differ() -> None:
    assert first(CLOSED, 1, 5, 0) != first(CLOSED, 1, 5, 1)


def test_a_rate_is_kept() -> None:
    """Arrivals are Poisson: 2,000 of them at 5/s take 400 s, give or take 3 %."""
    due = [one.due for one in first(OPEN, 1, 2000)]
    assert sorted(due) == due
    assert 2000 / 5 == pytest.approx(due[-1], rel=0.07)


def test_a_closed_loop_has_no_timetable() -> None:
    assert {0.0} == {one.due for one in first(CLOSED, 1, 9)}


def test_lengths_are_as_told() -> None:
    for one in first(CLOSED, 3, 200):
        assert 5 <= len(one.prompt) <= 9
        assert 1 <= one.answer <= 4
        assert set(one.prompt) <= set(range(FIRST_WORD, FIRST_WORD + 4))


def test_long_prompts_are_a_share() -> None:
    """Of any stretch."""
    load = Load(rate=1, prompt=(10, 20), answer=(1, 1), long=4, long_prompt=(100, 200))
    assert [False, False, False, True] * 5 == [len(one.prompt) >= 100 for one in first(load, 1, 20)]


def test_a_timestamp_first_leaves_nothing_in_common() -> None:
    one, other = (request.prompt for request in first(OPEN, 1, 2))
    assert one[:STAMP] != other[:STAMP]
    assert one[STAMP : STAMP + 64] == other[STAMP : STAMP + 64]


def test_what_is_unique_last() -> None:
    """The same tokens, with the shared ones first."""
    last = unique_last(OPEN)
    for one, other in zip(first(OPEN, 1, 5), first(last, 1, 5), strict=True):
        assert sorted(one.prompt) == sorted(other.prompt)
        assert one.prompt[STAMP : STAMP + 64] == other.prompt[:64]
    assert last == unique_last(last)
    assert CLOSED == unique_last(CLOSED)


def test_all_words_are_in_the_vocabulary() -> None:
    assert max(token for one in first(OPEN, 1, 200) for token in one.prompt) < FIRST_WORD + WORDS


@pytest.mark.parametrize("wrong", [{}, {"clients": 1, "rate": 1.0}, {"rate": 1.0, "stamp": "middle"}])
def test_loads_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"load has|timestamp"):
        Load(prompt=(1, 1), answer=(1, 1), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.name)
def test_faults_are_told(fault: object) -> None:
    one = next(known for known in FAULTS if known is fault)
    assert one.load.said()
    longest = max(one.load.prompt[1], one.load.long_prompt[1]) + one.load.shared + STAMP + one.load.answer[1]
    assert longest <= one.context
