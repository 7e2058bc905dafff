"""Sample stores for tests: from short lists of values, and from texts of ``/metrics``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from palanca.check import expand_signals
from palanca.loader import Signals, build, read
from palanca.model import Catalogue, Metrics
from palanca.resources import shipped
from palanca.signals.store import SampleStore, Series

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = {"job": "vllm", "instance": "a:8000", "model_name": "m", "engine": "0"}
SERVER = {"job": "vllm", "instance": "a:8000"}


@lru_cache
def catalogue() -> Catalogue:
    """The metrics and signals that palanca ships, without facts, levers and rules."""
    folder = shipped("rules")
    metrics = build(Metrics, read(folder / "metrics.yaml"))
    signals = build(Signals, read(folder / "signals.yaml")).signals
    return Catalogue(metrics, expand_signals(signals), {}, {}, ())


def series(
    name: str,
    values: Sequence[float],
    labels: Mapping[str, str] = ENGINE,
    *,
    start: float = 0.0,
    step: float = 15.0,
    **more: str,
) -> Series:
    """One series with a value every ``step`` seconds from ``start`` on."""
    times = np.round((start + np.arange(len(values)) * step) * 1000).astype(np.int64)
    kept = {label: value for label, value in {**labels, **more}.items() if value}
    return Series(name, kept, times, np.asarray(values, dtype=np.float64))


def steady(
    name: str, per_second: float, seconds: float, labels: Mapping[str, str] = ENGINE, *, start: float = 0.0, **more: str
) -> Series:
    """A counter that rises evenly, from 0 at ``start`` on."""
    values = [per_second * 15 * index for index in range(int(seconds // 15) + 1)]
    return series(name, values, {**labels, **more}, start=start)


def histogram(
    name: str,
    observations: Mapping[float, float],
    total: float,
    seconds: float,
    labels: Mapping[str, str] = ENGINE,
    **more: str,
) -> list[Series]:
    """A histogram whose buckets fill evenly: ``observations`` per second to each bound, ``total`` for the sum."""
    every = max(observations.values())
    made = [
        steady(f"{name}_bucket", rate, seconds, {**labels, **more}, le="+Inf" if bound == np.inf else f"{bound}")
        for bound, rate in observations.items()
    ]
    return [
        *made,
        steady(f"{name}_sum", total, seconds, {**labels, **more}),
        steady(f"{name}_count", every, seconds, {**labels, **more}),
    ]


def scraped(path: Path, at: float, labels: Mapping[str, str] = SERVER) -> SampleStore:
    """A store of one scrape of a text of ``/metrics``."""
    samples = [
        sample
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8"))
        for sample in family.samples
    ]
    return SampleStore([series(one.name, [one.value], {**one.labels, **labels}, start=at) for one in samples])
