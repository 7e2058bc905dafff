"""Facts inferred from what a target does under load (docs/design.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palanca.facts.told import Facts
from palanca.model import Fact, State
from palanca.signals.versions import available

if TYPE_CHECKING:
    from palanca.model import Catalogue, Readings

PLATEAU = 0.95
KV_FREE = 0.9
INFERENCE_SIGNALS = ("running_now", "waiting_now")
"""Signals whose past the inference of slots reads; of all others it needs the last step only."""
ENOUGH_SAMPLES = 4
AT_PLATEAU = 0.9
POWER_OF_TWO_TOLERANCE = 0.03
SMALLEST_BUDGET = 64
PREFILL_HEAVY = 8.0


def infer(readings: Readings, row: int, catalogue: Catalogue) -> Facts:
    """Infer slots, token budget and speculation of one target from what it did over the grid."""
    facts: Facts = {}
    slots = infer_slots(readings, row)
    if slots is not None:
        facts["max_num_seqs"] = Fact(slots, "inferred", "running stays at this value while requests wait")
    budget = infer_token_budget(readings, row)
    if budget is not None:
        facts["max_num_batched_tokens"] = Fact(budget, "inferred", "mean tokens per step while requests wait")
    speculation = readings.signals.get("drafts_per_second")
    drafts = catalogue.metrics.families["spec_drafts"].names
    if speculation is not None and available(drafts, readings.versions[row]):
        state = State(int(speculation.states[row, -1]))
        if state is not State.STALE:
            on = state < State.ABSENT or state is State.IDLE
            facts["speculation"] = Fact(on, "inferred", f"speculation series are {'there' if on else 'not there'}")
    if "speculation" in facts and facts["speculation"].value:
        length = _last(readings, "draft_length", row)
        if np.isfinite(length) and abs(length - round(length)) < POWER_OF_TWO_TOLERANCE and round(length) > 0:
            facts["num_speculative_tokens"] = Fact(float(round(length)), "inferred", "tokens per draft")
    return facts


def _last(readings: Readings, name: str, row: int) -> float:
    return float(readings.signals[name].values[row, -1]) if name in readings.signals else float("nan")


def infer_slots(readings: Readings, row: int) -> float | None:
    """Most running, if at least 90 % of the samples with waiting > 0 are within 5 % of it and KV stays below 0.9.

    Deferred requests do not count as waiting: no slot holds them.
    """
    if not {"running_now", "waiting_now", "running_max"} <= set(readings.signals):
        return None
    window = readings.signals["running_max"].window[row, -1]
    steps = readings.times >= readings.times[-1] - window
    running, waiting = (readings.signals[name].values[row, steps] for name in ("running_now", "waiting_now"))
    most = _last(readings, "running_max", row)
    with np.errstate(invalid="ignore"):
        queued = running[(waiting > 0) & np.isfinite(running)]
    free = _last(readings, "kv_cache_usage_max", row) < KV_FREE and _last(readings, "waiting_capacity", row) >= 1
    if len(queued) < ENOUGH_SAMPLES or not most >= 1 or not free:
        return None
    return most if np.mean(queued >= PLATEAU * most) >= AT_PLATEAU else None


def infer_token_budget(readings: Readings, row: int) -> float | None:
    """Mean tokens per step, if within 3 % of a power of two while requests wait.

    Only where the KV cache is free and steps are mostly prefill: a KV-bound batch may pass a power of two by chance.
    """
    mean = _last(readings, "iteration_tokens_mean", row)
    prefill = _last(readings, "step_tokens_per_running", row) > PREFILL_HEAVY
    free = _last(readings, "kv_cache_usage_max", row) < KV_FREE
    if not (_last(readings, "waiting_min", row) > 0 and prefill and free and SMALLEST_BUDGET <= mean < np.inf):
        return None
    power = float(2 ** round(np.log2(mean)))
    return power if abs(mean / power - 1) <= POWER_OF_TWO_TOLERANCE else None
