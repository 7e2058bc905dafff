"""Whatever comes from outside, there is a result or an error of palanca's own that says where; and soon."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import given
from tests.fuzz.entries import ENTRIES
from tests.fuzz.mutated import inputs, seeds
from tests.fuzz.profile import examples

LONGEST_S = 10.0
"""Processor time of one input of some kilobytes."""
SLOW = frozenset({"settings", "query", "webhook", "query-api", "linted-file", "rule-file", "exposition", "silences"})


@pytest.mark.parametrize("name", ENTRIES)
def test_whatever_comes(name: str) -> None:
    """Nothing else is raised, and both outcomes are met, so that it is known to look at something."""
    outcomes = Counter[bool]()
    run = ENTRIES[name].run

    @examples(25 if name in SLOW else 100)
    @given(inputs(name))
    def one(data: bytes) -> None:
        begin = time.thread_time()
        outcomes[run(data)] += 1
        assert time.thread_time() - begin < LONGEST_S

    one()
    assert outcomes[True] > 0
    assert outcomes[False] > 0


@pytest.mark.parametrize("name", ENTRIES)
def test_seeds_are_taken(name: str) -> None:
    """Some of what is started from is good."""
    assert any(ENTRIES[name].run(one) for one in seeds(name))
