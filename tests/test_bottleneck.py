"""How much of each resource is in use."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from palanca.advice.arithmetic import EFFICIENCY
from palanca.bottleneck import bottleneck
from palanca.model import SignalValue, State

BUSY = {
    "running": 4.0,
    "requests_per_second": 2.0,
    "kv_cache_usage": 0.9,
    "iteration_tokens_mean": 256.0,
    "prefill_time_mean": 0.2,
    "frontend_share": 0.25,
    "itl_mean": 0.02,
}


def signals(values: Mapping[str, float | None]) -> dict[str, SignalValue]:
    return {name: SignalValue(value, "", State.OK, 300.0) for name, value in values.items()}


def test_shares_in_use() -> None:
    """Slots and budget of what is known, prefill by Little's law, decode by what a GPU reaches of its bandwidth."""
    facts = {"max_num_seqs": 8.0, "max_num_batched_tokens": 512.0, "step_floor": 0.5 * 0.02 * EFFICIENCY}
    expected = {"slots": 0.5, "kv": 0.9, "token_budget": 0.5, "prefill": 0.4, "decode": 0.5, "frontend": 0.25}
    assert expected == bottleneck(signals(BUSY), facts)


@pytest.mark.parametrize("facts", [{}, {"max_num_seqs": 0.0, "max_num_batched_tokens": -1.0, "step_floor": "fast"}])
def test_what_is_not_known(facts: dict[str, object]) -> None:
    """Without numbers a share is null, never a division by zero."""
    assert {None} == set(bottleneck(signals({"running": 4.0, "itl_mean": None}), facts).values())


def test_no_share_is_above_one() -> None:
    """More running than slots, as right after a change, is a full bottleneck."""
    assert 1.0 == bottleneck(signals(BUSY), {"max_num_seqs": 2.0})["slots"]
