"""Facts inferred from load."""

from __future__ import annotations

import pytest
from tests.engines import Value, readings, shipped
from tests.facts.known import values

from palanca.facts import (
    infer,
    infer_slots,
    infer_token_budget,
)
from palanca.model import Readings, State, VllmVersion


def slots(
    running: list[float], waiting: list[float], most: float = 8.0, kv: float = 0.5, capacity: float = 5.0
) -> float | None:
    signals: dict[str, Value] = {
        "running_now": running, "waiting_now": waiting, "running_max": most, "kv_cache_usage_max": kv,
        "waiting_capacity": capacity,
    }  # fmt: skip
    return infer_slots(readings(signals), 0)


@pytest.mark.parametrize(
    ("expected", "running", "waiting"),
    [
        (8.0, [8.0] * 9, [5.0] * 9),
        (8.0, [8.0] * 8 + [7.7], [5.0] * 9),
        (8.0, [1.0] * 5 + [8.0] * 4, [0.0] * 5 + [5.0] * 4),
        (8.0, [1.0] * 30 + [8.0] * 9, [5.0] * 39),
        (None, [8.0] * 7 + [7.0] * 2, [5.0] * 9),
        (None, [8.0] * 9, [0.0] * 9),
        (None, [1.0] * 6 + [8.0] * 3, [0.0] * 6 + [5.0] * 3),
        (None, [float("nan")] * 6 + [8.0] * 3, [5.0] * 9),
        (None, [8.0] * 9, [float("nan")] * 9),
    ],
)
def test_inferred_slots(expected: float | None, running: list[float], waiting: list[float]) -> None:
    """Slots are the most that run, if nine of ten samples with waiting requests are at it; only the window counts."""
    assert expected == slots(running, waiting)


@pytest.mark.parametrize(
    ("most", "kv"),
    [(8.0, 0.9), (8.0, 1.0), (8.0, float("nan")), (0.0, 0.5), (float("nan"), 0.5), (-4.0, 0.5), (float("inf"), 0.5)],
)
def test_slots_are_not_inferred(most: float, kv: float) -> None:
    """A full KV cache pins running as well, and without numbers nothing can be said."""
    assert None is slots([8.0] * 9, [5.0] * 9, most, kv)


@pytest.mark.parametrize(("capacity", "expected"), [(1.0, 8.0), (0.9, None), (float("nan"), None)])
def test_deferred_requests_do_not_show_slots(capacity: float, expected: float | None) -> None:
    """Requests that wait for something else than capacity say nothing about slots."""
    assert expected == slots([8.0] * 9, [5.0] * 9, capacity=capacity)


def token_budget(mean: float, waiting: float, kv: float = 0.5, per_running: float = 100.0) -> float | None:
    signals: dict[str, Value] = {
        "iteration_tokens_mean": mean, "waiting_min": waiting, "kv_cache_usage_max": kv,
        "step_tokens_per_running": per_running,
    }  # fmt: skip
    return infer_token_budget(readings(signals), 0)


@pytest.mark.parametrize(
    ("mean", "waiting", "budget"),
    [
        (511.8, 1.0, 512.0),
        (512.0, 1.0, 512.0),
        (525.0, 1.0, 512.0),
        (500.0, 1.0, 512.0),
        (8200.0, 1.0, 8192.0),
        (64.0, 1.0, 64.0),
        (490.0, 1.0, None),
        (530.0, 1.0, None),
        (700.0, 1.0, None),
        (32.0, 1.0, None),
        (512.0, 0.0, None),
        (512.0, float("nan"), None),
        (float("nan"), 1.0, None),
        (float("inf"), 1.0, None),
        (-512.0, 1.0, None),
    ],
)
def test_inferred_token_budget(mean: float, waiting: float, budget: float | None) -> None:
    """The budget is a power of two within 3 % of the mean tokens of a step, while requests always wait."""
    assert budget == token_budget(mean, waiting)


@pytest.mark.parametrize(
    ("kv", "per_running", "budget"),
    [(0.89, 8.1, 512.0), (0.9, 100.0, None), (0.5, 8.0, None), (float("nan"), 100.0, None), (0.5, float("nan"), None)],
)
def test_no_budget_without_prefill(kv: float, per_running: float, budget: float | None) -> None:
    """A batch that the KV cache limits, or that mostly decodes, may pass a power of two by chance."""
    assert budget == token_budget(512.0, 1.0, kv, per_running)


@pytest.mark.parametrize(
    ("drafts", "length", "expected"),
    [
        (5.0, 5.0, {"speculation": True, "num_speculative_tokens": 5.0}),
        (5.0, 4.98, {"speculation": True, "num_speculative_tokens": 5.0}),
        (5.0, 3.4, {"speculation": True}),
        (5.0, 0.0, {"speculation": True}),
        (0.0, State.IDLE, {"speculation": True}),
        (State.IDLE, State.IDLE, {"speculation": True}),
        (State.ABSENT, State.ABSENT, {"speculation": False}),
        (State.NOT_APPLICABLE, State.NOT_APPLICABLE, {"speculation": False}),
        (State.STALE, State.STALE, {}),
    ],
)
def test_inferred_speculation(drafts: Value, length: Value, expected: dict[str, object]) -> None:
    """Series of speculation exist only where it is configured; stale ones prove nothing."""
    facts = infer(readings({"drafts_per_second": drafts, "draft_length": length}), 0, shipped())
    assert expected == values(facts)


def test_inference_without_signals() -> None:
    """Readings that lack the signals altogether infer nothing."""
    full = readings({})
    bare = Readings(full.targets, full.times, {}, full.covered, full.facts, full.versions, full.source, full.info)
    assert {} == infer(bare, 0, shipped())


def test_speculation_of_releases_without_its_series() -> None:
    """Where the release has no such series nothing is inferred from their absence."""
    old = VllmVersion("0.6.0", "0.6.0", ("v0",), "inferred")
    facts = infer(readings({"drafts_per_second": State.NOT_APPLICABLE}, versions=[old]), 0, shipped())
    assert "speculation" not in facts
