"""How much of each resource of an engine is in use, which one binds it, and why some are unknown. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.model import State
from palanca.quantities import is_number
from palanca.render.gaps import STATE_WORDS

if TYPE_CHECKING:
    from palanca.model import TargetReport


@dataclass(frozen=True)
class Resource:
    """A resource that can bind an engine: the signals and the fact that show its use, and the causes that name it."""

    title: str
    signals: tuple[str, ...]
    fact: str | None
    hint: str
    causes: frozenset[str]


_ARGUMENTS = "no metric shows it and no load has: give the arguments of vllm serve (targets[].serve_args)"
RESOURCES: Mapping[str, Resource] = {
    "slots": Resource("Slots", ("running",), "max_num_seqs", _ARGUMENTS, frozenset({"slot-limit"})),
    "kv": Resource("KV cache", ("kv_cache_usage",), None, "",
                   frozenset({"kv-capacity", "kv-overadmission", "kv-leak"})),
    "token_budget": Resource("Token budget", ("iteration_tokens_mean",), "max_num_batched_tokens", _ARGUMENTS,
                             frozenset({"token-budget"})),
    "prefill": Resource("Prefill", ("requests_per_second", "prefill_time_mean"), None, "",
                        frozenset({"prefill-capacity", "long-prefill-blocking", "prefix-cache-miss"})),
    "decode": Resource("Decode", ("itl_mean",), "step_floor",
                       "the bandwidth of the hardware is not known: give targets[].gpu and model_config",
                       frozenset({"decode-bandwidth"})),
    "frontend": Resource("Front end", ("frontend_share",), None, "", frozenset({"frontend-bound"})),
}  # fmt: skip
"""By their keys in a diagnosis."""
NEAR_ITS_LIMIT = 0.85


@dataclass(frozen=True)
class Bar:
    """The share of a resource that is in use, 0 to 1; None where it is unknown, and ``why``."""

    title: str
    share: float | None
    used: str
    free: str
    why: str
    binding: bool


def bars_of(report: TargetReport) -> tuple[Bar, ...]:
    """Return a bar for each resource, whether it is known or not."""
    shares = {name: report.bottleneck.get(name) for name in RESOURCES}
    binding = _binding(report, shares)
    return tuple(_bar(report, name, resource, shares[name], name == binding) for name, resource in RESOURCES.items())


def _binding(report: TargetReport, shares: Mapping[str, float | None]) -> str | None:
    """The resource that the worst finding names; without one the fullest, where that is near its limit."""
    for finding in report.findings:
        for name, resource in RESOURCES.items():
            if finding.problem and finding.cause in resource.causes:
                return name
    known = {name: share for name, share in shares.items() if share is not None}
    fullest = max(known, key=lambda name: known[name], default=None)
    return fullest if fullest is not None and known[fullest] >= NEAR_ITS_LIMIT else None


def _state(signal: str, state: State) -> str:
    return f"{signal} {'had' if state is State.IDLE else 'is'} {STATE_WORDS[state]}"


def _bar(report: TargetReport, name: str, resource: Resource, share: float | None, binding: bool) -> Bar:  # noqa: FBT001
    if share is not None:
        share = min(max(share, 0.0), 1.0)
        return Bar(resource.title, share, f"{share:.0%} in use", f"{1 - share:.0%} free", "", binding)
    lacking = [
        _state(one, report.signals[one].state if one in report.signals else State.ABSENT)
        for one in resource.signals
        if one not in report.signals or report.signals[one].value is None
    ]
    fact = resource.fact is not None and not is_number(getattr(report.facts.get(resource.fact), "value", None))
    why = "; ".join(lacking) or (resource.hint if fact else f"nothing to compute {name} from")
    return Bar(resource.title, None, "unknown", "", why, binding)
