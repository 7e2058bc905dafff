"""Made-up fleets of vLLM servers as OpenMetrics text: everything that can go wrong with series, at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

BEGIN = 1_800_000_000.0
SPAN = 2400.0
"""Unix time at which a world begins, and its length in seconds."""

BOUNDS = {
    "time_to_first_token_seconds": ("0.001", "0.05", "0.25", "1.0", "10.0"),
    "request_queue_time_seconds": ("0.3", "0.5", "1.0", "60.0"),
    "iteration_tokens_total": ("1.0", "8.0", "64.0", "512.0", "8192.0"),
}
NONE: Mapping[str, str] = {}
LATENCY = ("0.01", "0.1", "1.0", "2.5")


@dataclass(frozen=True)
class Server:
    """What one scrape target does. Times are shares of the span of the world."""

    seed: int
    job: str
    prefix: str
    engines: int
    engine_label: bool
    pids: int
    copies: tuple[str, ...]
    interval: float
    begins: float
    ends: float
    gap: tuple[float, float]
    resets: tuple[float, ...]
    upgrade: float
    """When the old metric names give way to the new ones; both are there for a while."""
    renamed: float
    """When the model changes, and so the series; above 1 never."""
    spec: bool
    extra: Mapping[str, str] = field(default_factory=dict)


shares = st.floats(0.05, 0.95)
servers = st.builds(
    Server,
    seed=st.integers(0, 2**32 - 1),
    job=st.sampled_from(["vllm", "llm.prod|x", "b"]),
    prefix=st.sampled_from(["vllm:", "vllm:", "ray_vllm_", "kserve_vllm:", "vllm_"]),
    engines=st.integers(1, 3),
    engine_label=st.booleans(),
    pids=st.sampled_from([0, 0, 2]),
    copies=st.sampled_from([(), (), ("a", "b")]),
    interval=st.sampled_from([5.0, 15.0, 30.0, 60.0]),
    begins=st.sampled_from([0.0, 0.0, 0.4, 0.93]),
    ends=st.sampled_from([1.0, 1.0, 1.0, 0.6]),
    gap=st.tuples(shares, st.sampled_from([0.0, 0.02, 0.15, 0.3])),
    resets=st.lists(shares, max_size=3).map(tuple),
    upgrade=st.sampled_from([-1.0, 0.5, 0.85, 2.0]),
    renamed=st.sampled_from([2.0, 2.0, 0.7]),
    spec=st.booleans(),
    extra=st.sampled_from([{}, {"cluster": "eu-1"}, {"note": 'a "b" \\ ü|x', "zone": "1"}]),
)
worlds = st.lists(servers, min_size=4, max_size=8)


class _Writer:
    """Collects the samples of one server."""

    def __init__(self, server: Server, number: int, copy: str) -> None:
        self._server, self._random = server, np.random.default_rng(server.seed)
        shift = round(float(self._random.uniform(0, server.interval)), 3) + (1.7 if copy == "b" else 0.0)
        times = np.round(BEGIN + shift + np.arange(0.0, SPAN, server.interval), 3)
        share = (times - BEGIN) / SPAN
        start, length = server.gap
        keep = (share >= server.begins) & (share <= server.ends) & ~((share > start) & (share < start + length))
        self.times, self.share = times[keep], share[keep]
        self._place = {"job": server.job, "instance": f"host{number}:8000", **server.extra}
        if copy:
            self._place["prometheus_replica"] = copy
        self.lines: list[str] = []

    def add(self, name: str, labels: Mapping[str, str], values: np.ndarray, when: np.ndarray | None = None) -> None:
        """Write a series, only where ``when`` holds."""
        text = ",".join(f'{key}="{escaped(value)}"' for key, value in {**self._place, **labels}.items())
        chosen = zip(self.times, values, np.ones(len(values), bool) if when is None else when, strict=True)
        self.lines += [f"{name}{{{text}}} {number(value)} {time:.3f}" for time, value, there in chosen if there]

    def counter(self, most: int) -> np.ndarray:
        """Return an integer counter that falls back to 0 at each reset; now and then it stands still."""
        steps = self._random.integers(0, most, len(self.times)) * (self._random.random(len(self.times)) < 0.7)
        total = np.cumsum(steps).astype(float)
        for at in self._server.resets:
            after = np.flatnonzero(self.share >= at)
            if after.size:
                total[after] -= total[after[0]] - steps[after[0]]
        floored: np.ndarray = np.maximum(total, 0.0)
        return floored

    def gauge(self, most: float, nans: float = 0.0) -> np.ndarray:
        """Return a gauge; some samples may be NaN."""
        values = np.round(self._random.uniform(0, most, len(self.times)), 3)
        return np.where(self._random.random(len(self.times)) < nans, np.nan, values)

    def histogram(
        self, name: str, labels: Mapping[str, str], bounds: tuple[str, ...], when: np.ndarray | None = None
    ) -> None:
        """Write buckets, sum and count that belong together."""
        parts = [self.counter(6) for _ in (*bounds, "+Inf")]
        cumulative = np.cumsum(parts, axis=0)
        for bound, values in zip((*bounds, "+Inf"), cumulative, strict=True):
            self.add(f"{name}_bucket", {**labels, "le": bound}, values, when)
        self.add(f"{name}_count", labels, cumulative[-1], when)
        self.add(f"{name}_sum", labels, np.round(cumulative[-1] * 0.37, 3), when)


def number(value: float) -> str:
    """Write a value as OpenMetrics does."""
    return "NaN" if np.isnan(value) else repr(float(value))


def escaped(value: str) -> str:
    """Escape a label value as OpenMetrics does."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def text(world: list[Server]) -> str:
    """Write a world as OpenMetrics text."""
    return "\n".join([*(line for number, server in enumerate(world) for line in _server(server, number)), "# EOF\n"])


def _server(server: Server, number: int) -> Iterator[str]:
    for copy in server.copies or ("",):
        out = _Writer(server, number, copy)
        _server_wide(out, server)
        for engine in range(server.engines if server.engine_label else 1):
            for pid in [str(41 + process) for process in range(server.pids)] or [""]:
                labels = {"model_name": "org/m"} | ({"engine": str(engine)} if server.engine_label else {})
                labels |= {"pid": pid} if pid else {}
                later = out.share >= server.renamed
                _engine(out, server, labels, ~later)
                if later.any():
                    _engine(out, server, {**labels, "model_name": "org/new"}, later)
        yield from out.lines


def _server_wide(out: _Writer, server: Server) -> None:
    out.add("up", {}, np.where(out.gauge(1) < 0.9, 1.0, 0.0))
    began = BEGIN - 500.25
    for at in server.resets:
        out.add("process_start_time_seconds", {}, np.full(len(out.times), began), out.share < at)
        break
    else:
        out.add("process_start_time_seconds", {}, np.full(len(out.times), began))
    for status, handler, since in (("2xx", "/v1/x", 0.0), ("2xx", "none", 0.3), ("5xx", "/v1/x", 0.6)):
        labels = {"status": status, "handler": handler, "method": "POST"}
        out.add("http_requests_total", labels, out.counter(9), out.share >= since)
    old, new = out.share < 0.5, out.share >= 0.5
    for blocks, when in (("100", old), ("200", new)):
        labels = {"block_size": "16", "num_gpu_blocks": blocks} | ({"engine": "0"} if server.engine_label else {})
        out.add(f"{server.prefix}cache_config_info", labels, np.ones(len(out.times)), when)
    rejected = {"model_name": "org/m", "reason": "max_num_queued_reqs"}
    out.add(f"{server.prefix}admission_rejections_total", rejected, out.counter(3), out.share >= 0.4)


def _engine(out: _Writer, server: Server, labels: Mapping[str, str], when: np.ndarray) -> None:
    prefix, old, new = server.prefix, out.share < server.upgrade + 0.2, out.share >= server.upgrade

    def add(name: str, values: np.ndarray, more: Mapping[str, str] = NONE, also: np.ndarray | None = None) -> None:
        out.add(prefix + name, {**labels, **more}, values, when if also is None else when & also)

    add("num_requests_running", np.round(out.gauge(9)))
    add("num_requests_waiting", out.gauge(30, nans=0.02))
    for reason in ("capacity", "deferred"):
        add("num_requests_waiting_by_reason", np.round(out.gauge(9)), {"reason": reason}, new)
    add("kv_cache_usage_perc", out.gauge(1), also=new)
    add("gpu_cache_usage_perc", out.gauge(1), also=old)
    add("gpu_prefix_cache_hit_rate", np.where(out.gauge(1) < 0.3, -1.0, out.gauge(1)), also=old)
    for name in ("prompt_tokens_total", "generation_tokens_total", "num_preemptions_total"):
        add(name, out.counter(4000))
    for name in ("prefix_cache_queries_total", "prefix_cache_hits_total"):
        add(name, out.counter(90), also=new)
    for reason, since in (("stop", 0.0), ("length", 0.2), ("error", 0.7)):
        add("request_success_total", out.counter(7), {"finished_reason": reason}, out.share >= since)
    for state in ("awake", "discard_all"):
        add("engine_sleep_state", np.ones(len(out.times)), {"sleep_state": state}, new)
    for name, bounds in BOUNDS.items():
        out.histogram(prefix + name, labels, bounds, when)
    out.histogram(f"{prefix}time_per_output_token_seconds", labels, LATENCY, when & old)
    out.histogram(f"{prefix}inter_token_latency_seconds", labels, (*LATENCY, "80.0"), when & new)
    if server.spec:
        for name in ("drafts", "draft_tokens", "accepted_tokens"):
            add(f"spec_decode_num_{name}_total", out.counter(50))
        for position in ("0", "1", "2"):
            add("spec_decode_num_accepted_tokens_per_pos_total", out.counter(50), {"position": position})
