"""Diagnoses to render: a KV-cache saturation, a healthy fleet, idle and unknown engines, a dead source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from palanca.model import (
    Catalogue,
    Diagnosis,
    Evidence,
    Finding,
    Metrics,
    Recommendation,
    Signal,
    SignalValue,
    SourceInfo,
    State,
    Status,
    Target,
    TargetReport,
    Unjudged,
    Verify,
    VllmVersion,
)

NOW = 1772373810.0  # 2026-03-01 14:03:30 UTC
SOURCE = SourceInfo(name="prometheus", url="http://prometheus:9090", age_s=4.0)
UNITS = {
    "ttft_p50": "s", "ttft_p99": "s", "itl_p99": "s", "running": "requests", "waiting": "requests",
    "kv_cache_usage": "ratio", "prefix_hit_rate": "ratio", "generation_tokens_per_second": "tokens/s", "up": "ratio",
}  # fmt: skip
HEALTHY = {
    "ttft_p50": 0.048, "ttft_p99": 0.121, "itl_p99": 0.031, "running": 27.4, "waiting": 0.0, "kv_cache_usage": 0.41,
    "prefix_hit_rate": 0.634, "generation_tokens_per_second": 1843.2, "up": 1.0,
}  # fmt: skip
FULL = {**HEALTHY, "ttft_p99": 4.71, "waiting": 61.0, "running": 118.0, "kv_cache_usage": 0.972, "itl_p99": 0.084}


def target(index: int = 0, **labels: str) -> Target:
    """Make the engine of that index."""
    base = {"job": "vllm", "instance": f"10.0.0.{5 + index}:8000", "model_name": "llama-3-8b", "engine": "0"}
    return Target.of({**base, **labels})


def signals(values: Mapping[str, float | None], state: State = State.OK) -> dict[str, SignalValue]:
    """Make signals of values; None is a value that ``state`` explains."""
    return {
        name: SignalValue(value, UNITS.get(name, "ratio"), State.OK if value is not None else state, 300.0)
        for name, value in values.items()
    }


def lower_slots(proposed: float = 96.0) -> Recommendation:
    """Lower ``--max-num-seqs``."""
    return Recommendation(
        lever="max_num_seqs",
        direction="lower",
        flag="--max-num-seqs",
        current=256.0,
        provenance="given",
        proposed=proposed,
        argument=f"--max-num-seqs {proposed:.0f}",
        computed_from="floor(0.9 x 87,500 KV tokens / (640 prompt + 340 / 2 generated)), down to a multiple of 8",
        why="Fewer sequences at once need fewer KV blocks.",
        effect="Preemptions stop; requests wait in the queue instead.",
        trade_off="Moves the wait, throughput falls by about 2 %.",
        verify=(Verify(signal="preemptions_per_minute", expect="<= 1", within=600.0),),
        risk="low",
        applies_to="all engines of llama-3-8b",
        order=2,
    )


def drop_override() -> Recommendation:
    """Leave out ``--num-gpu-blocks-override``."""
    return replace(
        lower_slots(),
        lever="num_gpu_blocks_override",
        flag="--num-gpu-blocks-override",
        direction="disable",
        proposed=False,
        argument="remove --num-gpu-blocks-override",
    )


def fp8_cache() -> Recommendation:
    """Set ``--kv-cache-dtype fp8``."""
    return Recommendation(
        lever="kv_cache_dtype",
        direction="change",
        flag="--kv-cache-dtype",
        current="auto",
        provenance="reported",
        proposed="fp8",
        argument="--kv-cache-dtype fp8",
        computed_from="no arithmetic: fp8 stores about twice the tokens in the same memory",
        why="The cache holds too few tokens for the requests that run.",
        effect="About twice the tokens fit; measured +21-26 % throughput.",
        trade_off="TTFT up by 2.5-5 %; check the quality of answers.",
        verify=(
            Verify(signal="preemptions_per_minute", expect="<= 1", within=600.0),
            Verify(signal="waiting", expect="<= 5", within=600.0),
        ),
        risk="medium",
        applies_to="all engines of llama-3-8b",
    )


def saturated(usage: float = 0.972, preemptions: float = 42.0, **changes: object) -> Finding:
    """Find a full KV cache."""
    finding = Finding(
        rule="kv-cache-saturated",
        title="KV cache is full and requests are being preempted",
        cause="kv-capacity",
        severity="critical",
        confidence="high",
        role="root",
        state="firing",
        since=NOW - 210,
        since_at_least=False,
        summary=f"KV cache in use {usage:.2f}, {preemptions:.0f} preemptions per minute.",
        evidence=(
            Evidence("kv_cache_usage", usage, ">", 0.85, "ratio", "avg_over_time(vllm:kv_cache_usage_perc[5m])"),
            Evidence("preemptions_per_minute", preemptions, ">", 30.0, "preemptions/min", ""),
        ),
        recommendations=(fp8_cache(), lower_slots()),
        for_s=180.0,
    )
    return replace(finding, **changes)  # type: ignore[arg-type]


def slow_first_token() -> Finding:
    """Find the symptom that a full KV cache explains."""
    return Finding(
        rule="ttft-high",
        title="Time to first token is above the objective",
        cause="kv-capacity",
        severity="info",
        confidence="high",
        role="symptom",
        state="firing",
        since=NOW - 180,
        since_at_least=False,
        summary="TTFT p99 4.7 s.",
        evidence=(Evidence("ttft_p99", 4.71, ">", 1.0, "s", ""),),
        explained_by=("kv-cache-saturated",),
    )


def misses(**changes: object) -> Finding:
    """Find a pending prefix-cache miss."""
    finding = Finding(
        rule="prefix-cache-miss",
        title="Prefix cache does not hit",
        cause="prefix-cache-miss",
        severity="info",
        confidence="low",
        role="root",
        state="pending",
        since=NOW - 30,
        since_at_least=False,
        summary="Hit rate 0.04.",
        evidence=(Evidence("prefix_hit_rate", 0.04, "<", 0.3, "ratio", ""),),
    )
    return replace(finding, **changes)  # type: ignore[arg-type]


def report(index: int = 0, status: Status = "ok", **changes: object) -> TargetReport:
    """Make the report of one engine, healthy unless changed."""
    made = TargetReport(
        target=target(index),
        status=status,
        version=VllmVersion("0.24.0", "0.33.0", ("v1",), "inferred"),
        signals=signals(HEALTHY),
        facts={},
        findings=(),
        unknown=(),
        not_applicable=("speculation-broken", "speculation-ineffective"),
        bottleneck={"slots": 0.1, "kv": 0.41},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def bad_report(index: int = 0, usage: float = 0.972, **changes: object) -> TargetReport:
    """Make the report of an engine with a full KV cache."""
    values = signals({**FULL, "kv_cache_usage": usage})
    findings = (saturated(usage), slow_first_token())
    return replace(report(index, "critical", signals=values, findings=findings), **changes)  # type: ignore[arg-type]


def diagnosis(*reports: TargetReport, source: SourceInfo = SOURCE) -> Diagnosis:
    """Put reports together."""
    return Diagnosis(NOW, source, reports)


def one_saturated() -> Diagnosis:
    """One engine, its KV cache full."""
    return diagnosis(bad_report(unknown=(Unjudged("cuda-graph-gap", (("enforce_eager", State.ABSENT),)),)))


def three_of_eight() -> Diagnosis:
    """Eight engines, three with a full KV cache, one idle, one unknown, one about to miss its prefix cache."""
    gap = (Unjudged("cuda-graph-gap", (("enforce_eager", State.ABSENT),)),)
    usual = [report(index, unknown=gap) for index in range(3)]
    bad = [bad_report(3 + index, usage, unknown=gap) for index, usage in enumerate((0.95, 0.972, 0.99))]
    return diagnosis(*usual, *bad, replace(idle(6), unknown=gap), replace(unknown(7), findings=(misses(),)))


def idle(index: int = 0) -> TargetReport:
    """Make the report of an engine without traffic."""
    values: dict[str, float | None] = {"running": 0.0, "waiting": 0.0, "kv_cache_usage": 0.0, "up": 1.0}
    nothing: dict[str, float | None] = {"ttft_p99": None, "itl_p99": None, "prefix_hit_rate": None}
    return report(index, "idle", signals={**signals(values), **signals(nothing, State.IDLE)})


def unknown(index: int = 0) -> TargetReport:
    """Make the report of an engine whose scheduler gauges are gone."""
    nothing: dict[str, float | None] = {"running": None, "waiting": None, "kv_cache_usage": None}
    stale: dict[str, float | None] = {"ttft_p99": None}
    values = {**signals(nothing, State.ABSENT), **signals(stale, State.STALE), **signals({"up": 1.0})}
    lacking = (
        Unjudged("kv-cache-saturated", (("kv_cache_usage", State.ABSENT),)),
        Unjudged("kv-cache-leak", (("kv_cache_usage", State.ABSENT),)),
        Unjudged("ttft-high", (("ttft_p99", State.STALE),)),
    )
    return report(index, "unknown", signals=values, unknown=lacking)


def unreachable() -> Diagnosis:
    """No engine, no source."""
    source = SourceInfo(
        name="prometheus",
        url="http://reader:secret@prometheus:9090",
        state="unreachable",
        error="connection refused by http://reader:secret@prometheus:9090 after 3 tries",
    )
    return diagnosis(source=source)


def catalogue() -> Catalogue:
    """Titles of three signals."""
    titles = {
        "kv_cache_usage": "KV cache in use",
        "ttft_p99": "Time to first token, p99",
        "waiting": "Requests waiting",
    }
    return Catalogue(
        metrics=Metrics(prefixes=(), releases=(), families={}),
        signals={name: Signal(title=title, unit=UNITS[name], avg="family") for name, title in titles.items()},
        facts={},
        levers={},
        rules=(),
    )
