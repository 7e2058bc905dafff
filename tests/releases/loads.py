"""Load on an engine, told in any dialect: what is limited, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tests.alerting.replays import Line, Replay
from tests.engines import shipped
from tests.releases.dialects import Dialect

from palanca.signals.identity import BUCKET, COUNT
from palanca.signals.inventory import Place, places
from palanca.sources.exposition import Sample

INTERVAL_S, STEPS = 30, 75
"""More than half an hour: longer than all windows, and what was half an hour ago is known."""
_ONLY = {
    "request_success": {"finished_reason": "stop"},
    "num_requests_waiting_by_reason": {"reason": "capacity"},
    "prompt_tokens_by_source": {"source": "local_compute"},
    "engine_sleep_state": {"sleep_state": "awake"},
}
"""Of a family with labels of its own, the series that has everything."""
_BLOCKS, _BLOCK = 1000, 16
"""KV cache of each engine, and tokens in a block."""


@dataclass(frozen=True)
class Load:
    """By family: levels of gauges, counts a second, and observations (a second, each of one value) of histograms."""

    levels: Mapping[str, float]
    rates: Mapping[str, float]
    observed: Mapping[str, tuple[float, float]]
    rule: str | None = None
    """What it is; nothing where all is well."""


def _load(
    *, running: float, waiting: float, usage: float, preemptions: float, finished: float, prompt: float, answer: float,
    queue: float, prefill: float, gap: float, accepted: float = 0.8, rule: str | None = None,
) -> Load:  # fmt: skip
    """Numbers that belong together: per second, in seconds and in tokens. Drafts have three tokens."""
    decode = answer * gap
    levels = {
        "num_requests_running": running, "num_requests_waiting": waiting, "num_requests_waiting_by_reason": waiting,
        "kv_cache_usage": usage, "engine_sleep_state": 1.0,
        "process_start_time": -86400.0, "spec_draft_acceptance_rate": accepted,
    }  # fmt: skip
    rates = {
        "preemptions": preemptions, "request_success": finished, "prompt_tokens": finished * prompt,
        "prompt_tokens_by_source": finished * prompt, "generation_tokens": finished * answer,
        "prefix_cache_queries": finished * prompt, "prefix_cache_hits": finished * prompt / 2,
        "http_requests": finished, "spec_drafts": 10.0, "spec_draft_tokens": 30.0,
        "spec_accepted_tokens": 30.0 * accepted, "spec_accepted_tokens_per_pos": 10.0 * accepted,
    }  # fmt: skip
    steps = 1 / gap
    observed = {
        "time_to_first_token": (finished, queue + prefill), "inter_token_latency": (finished * answer, gap),
        "time_per_output_token": (finished, gap), "e2e_request_latency": (finished, queue + prefill + decode),
        "request_queue_time": (finished, queue), "request_prefill_time": (finished, prefill),
        "request_decode_time": (finished, decode), "request_inference_time": (finished, prefill + decode),
        "request_prompt_tokens": (finished, prompt), "request_generation_tokens": (finished, answer),
        "iteration_tokens": (steps, finished * (prompt + answer) / steps),
    }  # fmt: skip
    return Load(levels, rates, observed, rule)


LOADS: Mapping[str, Load] = {
    "KV cache full": _load(
        running=24, waiting=30, usage=0.97, preemptions=1.5, finished=2, prompt=400, answer=300, queue=15, prefill=0.4,
        gap=0.04, rule="kv-cache-saturated",
    ),
    "slots full": _load(
        running=16, waiting=30, usage=0.2, preemptions=0, finished=2, prompt=400, answer=200, queue=15, prefill=0.4,
        gap=0.04, rule="slot-limit",
    ),
    "budget small": _load(
        running=3, waiting=30, usage=0.05, preemptions=0, finished=5, prompt=2000, answer=20, queue=6, prefill=0.5,
        gap=0.03, rule="token-budget",
    ),
    "drafts refused": _load(
        running=6, waiting=0, usage=0.2, preemptions=0, finished=2, prompt=400, answer=150, queue=0.01, prefill=0.05,
        gap=0.02, accepted=0.05, rule="speculation-ineffective",
    ),
    "well": _load(
        running=6, waiting=0, usage=0.2, preemptions=0, finished=2, prompt=400, answer=150, queue=0.01, prefill=0.05,
        gap=0.02,
    ),
}  # fmt: skip


def laid(dialect: Dialect, load: Load, name: str) -> Replay:
    """Load on every engine of a page, from 0 on, at an address and of a model of its own."""
    known = places(shipped().metrics)
    engines = len({one.labels.get("engine", "0") for one in dialect.samples})
    server = {"job": "vllm", "instance": f"{name}:8000"}
    lines = [_line("up", server, np.ones(STEPS))]
    for one in dialect.samples:
        labels = {**one.labels, **server}
        if "model_name" in labels:
            labels["model_name"] = name
        lines.append(_line(one.name, _sized(labels, engines), _values(one, load, known)))
    return Replay(INTERVAL_S, STEPS, tuple(lines))


def _line(name: str, labels: Mapping[str, str], values: np.ndarray) -> Line:
    return Line(name, labels, values, np.ones(STEPS, dtype=bool))


def _sized(labels: Mapping[str, str], engines: int) -> dict[str, str]:
    """With a KV cache that fits the load, where the page tells of one: blocks of all engines together."""
    told = {
        "num_gpu_blocks": str(_BLOCKS * engines), "block_size": str(_BLOCK), "num_gpu_blocks_override": "None",
        "kv_cache_size_tokens": str(_BLOCKS * _BLOCK), "kv_cache_max_concurrency": "4.0",
    }  # fmt: skip
    return {label: told[label] if label in told and value != "None" else value for label, value in labels.items()}


def _values(one: Sample, load: Load, known: Mapping[str, Place]) -> np.ndarray:
    seconds = np.arange(STEPS) * float(INTERVAL_S)
    base = next((one.name.removesuffix(part) for part in (BUCKET, "_sum", COUNT) if one.name.endswith(part)), one.name)
    place = known.get(one.name) or known.get(base)
    family = place.family_name if place is not None else ""
    if any(one.labels.get(label, value) != value for label, value in _ONLY.get(family, {}).items()):
        return np.zeros(STEPS)
    if family in load.levels:
        return np.full(STEPS, load.levels[family])
    if family in load.rates:
        return seconds * load.rates[family]
    if family in load.observed:
        often, value = load.observed[family]
        if one.name.endswith(BUCKET):
            return seconds * (often if value <= float(one.labels["le"]) else 0.0)
        return seconds * (often * value if one.name.endswith("_sum") else often)
    return np.full(STEPS, one.value)
