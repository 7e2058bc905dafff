"""Recorded incidents as data of now, for a real Prometheus: they began a while ago and go on for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.engines import RECORDINGS, shipped

from palanca.signals.promql import quote
from palanca.signals.store import Series
from palanca.sources.loop import LoopSource

AGO_S = 950.0
"""How long ago it began: the middle of the third play, with 170 s of load to come."""
AHEAD_S = 170.0
"""How far the data reach into the future: no more than what has to be of now while a test runs."""
SICK, WELL = "127.0.0.1:8000", "127.0.0.1:8001"
ENGINES = {
    "kv-saturated": {"instance": SICK, "job": "sick"},
    "healthy": {"instance": WELL, "job": "well"},
}
"""Two engines that have nothing to do with each other."""


def write_live(
    path: Path,
    now: float,
    engines: Mapping[str, Mapping[str, str]] = ENGINES,
    *,
    ago: float = AGO_S,
    ahead: float = AHEAD_S,
) -> Path:
    """Write recordings, each with labels of its own, as OpenMetrics text from ``ago`` to ``ahead`` of ``now``.

    Both together are an hour at most.
    """
    with path.open("w", encoding="utf-8") as out:
        for name, own in engines.items():
            source = LoopSource(RECORDINGS / f"{name}.om.gz", start=now - ago, clock=lambda: now)
            source._load(shipped())
            for series in source._rounds(now + ahead):
                out.writelines(lines(series, {**series.labels, **own}, round((now - ago) * 1000)))
        out.write("# EOF\n")
    return path


def lines(series: Series, labels: Mapping[str, str], begin: int = 0) -> Iterator[str]:
    """Write a series as OpenMetrics text with other labels, from ``begin`` on, in milliseconds."""
    pairs = ",".join(f"{name}={quote(value)}" for name, value in labels.items())
    for time, value in zip(series.times.tolist(), series.values.tolist(), strict=True):
        if time >= begin:
            yield f"{series.name}{{{pairs}}} {value!r} {time / 1000:.3f}\n"
