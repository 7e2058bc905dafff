"""Every way in which vLLM's metrics are told: a page of each release, and what front ends and processes make of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

from tests.engines import ROOT

from palanca.releases import Release
from palanca.sources.exposition import ExpositionParser, Sample

TEXTS = sorted((ROOT / "tests" / "data" / "exposition").rglob("*.txt"))
_FILE = re.compile(r"(?P<release>[0-9.]+)-(?P<engine>v[01])(?P<hidden>-hidden)?")
_PROCESS = re.compile(r"(process|python)_.*|.*_created")
_NOT_IN_RUST = re.compile(
    r"(process|python)_.*|.*_created|vllm:(cache_config_info|mm_cache_.*|engine_sleep_state|admission_rejections.*|kv_offload_.*)"
)
"""What the Rust front end of 0.33.0 lacks (rust/src/server/src/routes/metrics.rs)."""
_SERVED = Sample("http_requests_total", {"handler": "/v1/completions", "method": "POST", "status": "2xx"}, 0.0)
_SERVED_SINCE = Release("0.8.3")
"""A series that appears with its first request, in front ends from this release on."""
_KV_USAGE = re.compile("vllm:(gpu|kv)_cache_usage_perc")


@dataclass(frozen=True, eq=False)
class Dialect:
    """Samples as a scrape shows them; ``prefix`` is that of vLLM's names."""

    release: str
    engine: str
    variant: str
    samples: tuple[Sample, ...]
    prefix: str = "vllm:"

    @property
    def title(self) -> str:
        """Release, engine and what is special: ``0.24.0 V1, Ray``."""
        return ", ".join(filter(None, [f"{self.release} {self.engine.upper()}", self.variant]))


@cache
def dialects() -> tuple[Dialect, ...]:
    """All of them, old releases first."""
    plain = [_page(path.stem, path.read_bytes()) for path in TEXTS]
    made = plain + [change(one) for one in plain for change in _CHANGES.get((one.release, one.engine, one.variant), ())]
    return tuple(sorted(made, key=lambda one: (Release(one.release).key, one.engine, one.variant)))


def _page(stem: str, text: bytes) -> Dialect:
    found = _FILE.fullmatch(stem)
    assert found is not None, stem
    variant = "hidden metrics shown" if found["hidden"] else ""
    samples = ExpositionParser().parse(text).samples
    served = (
        (_SERVED,)
        if Release(found["release"]) >= _SERVED_SINCE and all(_SERVED.name != one.name for one in samples)
        else ()
    )
    return Dialect(found["release"], found["engine"], variant, (*samples, *served))


# --- what changes a page ---------------------------------------------------------------------------

Change = Callable[[Dialect], Dialect]


def _renamed(dialect: Dialect, variant: str, prefix: str, labels: Mapping[str, str]) -> Dialect:
    """Metrics through something that renames them and adds labels."""
    samples = tuple(
        Sample(prefix + one.name.removeprefix("vllm:"), {**one.labels, **labels}, one.value)
        for one in dialect.samples
        if one.name.startswith("vllm:")
    )
    return replace(dialect, variant=variant, prefix=prefix, samples=samples)


def _without(dialect: Dialect, variant: str, names: re.Pattern[str]) -> Dialect:
    kept = tuple(one for one in dialect.samples if not names.fullmatch(one.name))
    return replace(dialect, variant=variant, samples=kept)


def _processes(dialect: Dialect, variant: str, with_pid: re.Pattern[str] | None = None) -> Dialect:
    """Several API servers: what a process tells of itself is gone, and some gauges come once for each of them."""
    shared = _without(dialect, variant, _PROCESS)
    if with_pid is None:
        return shared
    return replace(shared, samples=tuple(_each(shared.samples, with_pid, "pid", ("41", "42"))))


def _engines(dialect: Dialect, variant: str) -> Dialect:
    """Data parallel: every series of an engine once for each of two."""
    return replace(
        dialect, variant=variant, samples=tuple(_each(dialect.samples, re.compile(".*"), "engine", ("0", "1")))
    )


def _each(samples: Iterable[Sample], names: re.Pattern[str], label: str, values: Iterable[str]) -> Iterator[Sample]:
    """Samples of these names once for each value of a label: a new one, or ``engine`` where there is one."""
    for one in samples:
        if names.fullmatch(one.name) and (label == "pid" or label in one.labels):
            yield from (Sample(one.name, {**one.labels, label: value}, one.value) for value in values)
        else:
            yield one


RAY = partial(_renamed, variant="Ray", prefix="ray_vllm_", labels={"ReplicaId": "r1", "WorkerId": "w1"})
KSERVE = partial(_renamed, variant="KServe", prefix="kserve_vllm:", labels={})
COLLECTOR = partial(_renamed, variant="OpenTelemetry collector", prefix="vllm_", labels={"otel_scope_name": "vllm"})
RUST = partial(_without, variant="Rust front end", names=_NOT_IN_RUST)
PROCESSES = partial(_processes, variant="several API servers")
PROCESSES_PID = partial(_processes, variant="several API servers, pid", with_pid=_KV_USAGE)
ENGINES = partial(_engines, variant="data parallel")


def _engines_processes(dialect: Dialect) -> Dialect:
    return replace(_processes(_engines(dialect, ""), ""), variant="data parallel, several API servers")


_CHANGES: Mapping[tuple[str, str, str], tuple[Change, ...]] = {
    ("0.8.5", "v0", ""): (PROCESSES,),  # the default of `vllm serve` on V0
    ("0.10.2", "v1", ""): (PROCESSES_PID, ENGINES),
    ("0.11.0", "v1", ""): (PROCESSES_PID, RAY),
    ("0.15.1", "v1", ""): (_engines_processes, KSERVE),  # the default of data parallel from 0.15.0 on
    ("0.24.0", "v1", ""): (RAY, COLLECTOR),
    ("0.33.0", "v1", ""): (RUST, RAY, KSERVE, ENGINES, _engines_processes),
}
