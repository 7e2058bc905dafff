"""How much of each resource an engine uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.advice.arithmetic import EFFICIENCY
from palanca.quantities import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.model import SignalValue


def _attainable(floor: object) -> float | None:
    """Step time that a GPU really reaches, in seconds, from the one that its nominal bandwidth allows."""
    return float(floor) / EFFICIENCY if is_number(floor) else None


def bottleneck(signals: Mapping[str, SignalValue], facts: Mapping[str, object]) -> dict[str, float | None]:
    """Share in use of each resource; None where it cannot be known.

    slots: running / max_num_seqs. kv: usage. token_budget: mean tokens of a step / budget. prefill: requests in prefill
    at once (Little: rate x mean time), at most 1. frontend: share of TTFT outside the engine. decode needs the
    bandwidth of the hardware: shortest step / mean inter-token latency; unknown without it.
    """

    def value(name: str) -> float | None:
        return signals[name].value if name in signals else None

    def share(above: float | None, below: object) -> float | None:
        usable = is_number(below) and below > 0
        return min(above / below, 1.0) if above is not None and usable else None  # type: ignore[operator]

    def times(a: float | None, b: float | None) -> float | None:
        return a * b if a is not None and b is not None else None

    rate, running = value("requests_per_second"), value("running")
    return {
        "slots": share(running, facts.get("max_num_seqs")),
        "kv": value("kv_cache_usage"),
        "token_budget": share(value("iteration_tokens_mean"), facts.get("max_num_batched_tokens")),
        "prefill": share(times(rate, value("prefill_time_mean")), 1.0),
        "decode": share(_attainable(facts.get("step_floor")), value("itl_mean")),
        "frontend": share(value("frontend_share"), 1.0),
    }
