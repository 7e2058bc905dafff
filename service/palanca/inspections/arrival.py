"""How the metrics arrive: servers, targets, the time between scrapes, the number of series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from palanca.inspections.evidence import Check, Evidence, some
from palanca.moments import duration

if TYPE_CHECKING:
    from palanca.model import Catalogue, Target
    from palanca.signals.leaves import Discovery

SLOW_S = 1.0
"""An answer that takes longer is worth a note: Prometheus gives up on a scrape after 10 s."""
FEWEST_IN_WINDOW = 4
"""Scrapes that a window needs for a rate that does not jump (Prometheus' rule of thumb, and rule scrape-coarse)."""
STALE_S = 300.0
LARGE_FLEET = 100
"""Engines from which on it is worth to have quantiles recorded."""
MOST_PER_ENGINE = 2000
"""Series of one engine: 0.33.0 shows about 450, with every feature on some 700."""


def reachability(evidence: Evidence, _: Catalogue) -> Iterator[Check]:
    """Whether each server answers, and how quickly."""
    failed = [one.error for one in evidence.servers if one.error is not None]
    if failed:
        all_of_them = len(failed) == len(evidence.servers)
        title = f"{len(failed)} of {len(evidence.servers)} servers cannot be read"
        yield Check("reachability", "error" if all_of_them else "warning", title, some(failed))
    slow = [f"{one.url}: {one.seconds:.1f} s" for one in evidence.servers if (one.seconds or 0.0) > SLOW_S]
    if slow:
        hint = "an overloaded front end answers late; many API server processes make the page costly"
        yield Check("latency", "note", f"answers take longer than {SLOW_S:g} s", some(slow), hint)
    if not failed and not slow:
        count = len(evidence.servers)
        yield Check("reachability", "ok", "the server answers" if count == 1 else f"all {count} servers answer")


def targets(evidence: Evidence, _: Catalogue) -> Iterator[Check]:
    """Whether there are engines, and whether some have gone."""
    found = evidence.discovery
    if evidence.failure is not None and not all(one.error for one in evidence.servers):
        yield Check("targets", "error", "no engine can be judged", tuple(evidence.failure.splitlines()))
    if found is None:
        return
    gone = [target for target in found.targets if _stale(found, target, evidence.end)]
    silent = [target for target in found.targets if target not in found.heartbeat]
    if silent:
        hint = "down, still starting, or started with --disable-log-stats"
        title = f"{len(silent)} of {len(found.targets)} targets show no vLLM series"
        yield Check("targets-silent", "warning", title, some([_place(one) for one in silent]), hint)
    if gone:
        hint = "restarts under new labels leave such targets behind for an hour"
        title = f"{len(gone)} of {len(found.targets)} engines have had no sample for {duration(STALE_S)}"
        yield Check("targets-gone", "note", title, some([_place(one) for one in gone]), hint)
    live = len(found.targets) - len(gone) - len(silent)
    if live:
        yield Check("targets", "ok", f"{live} engine{'s' if live > 1 else ''} with fresh samples")


def interval(evidence: Evidence, catalogue: Catalogue) -> Iterator[Check]:
    """Whether the windows of the signals hold enough scrapes."""
    found = evidence.discovery
    if found is None or evidence.own_scrapes:
        return
    windows = [signal.window for signal in catalogue.signals.values() if signal.expr is None]
    shortest = min(windows, default=0.0)
    known = {target: every for target in found.targets if (every := interval_of(found, target)) is not None}
    coarse = {target: every for target, every in known.items() if every * FEWEST_IN_WINDOW > shortest}
    if coarse:
        details = [f"{_place(target)}: every {every:.3g} s" for target, every in coarse.items()]
        title = f"{len(coarse)} engines are scraped too rarely for windows of {duration(shortest)}"
        hint = f"set scrape_interval to {duration(shortest / FEWEST_IN_WINDOW)} or less, or ask with a longer --window"
        yield Check("scrape-interval", "warning", title, some(details), hint)
    elif known:
        longest = max(known.values())
        yield Check(
            "scrape-interval",
            "ok",
            f"scraped every {longest:.3g} s; the shortest window, {duration(shortest)}, holds {shortest / longest:.0f}",
        )


def interval_of(found: Discovery, target: Target) -> float | None:
    """Median time between the samples of a target in seconds; None with fewer than three samples."""
    beats = found.heartbeat.get(target)
    return None if beats is None or beats.size < FEWEST_IN_WINDOW - 1 else float(np.median(np.diff(beats)))


def _stale(found: Discovery, target: Target, end: float) -> bool:
    beats = found.heartbeat.get(target)
    return beats is not None and bool(beats.size) and end - float(beats[-1]) > STALE_S


def _place(target: Target) -> str:
    labels = target.as_dict()
    parts = [labels.get("model_name", ""), labels.get("instance", "")]
    return " @ ".join(part for part in parts if part) or str(labels)


def recorded(evidence: Evidence, _: Catalogue) -> Iterator[Check]:
    """Whether quantiles that the exported rules record are read, or all buckets."""
    if evidence.unrecorded is None or evidence.discovery is None:
        return
    if not evidence.unrecorded:
        yield Check("recorded", "ok", "quantiles are read as the rules of this Prometheus record them")
        return
    large = len(evidence.discovery.targets) >= LARGE_FLEET
    hint = "each diagnosis of a large fleet asks much of the server then" if large else ""
    title = f"quantiles are read from all buckets: {evidence.unrecorded}"
    yield Check("recorded", "note" if large else "ok", title, hint=hint)


def cardinality(evidence: Evidence, catalogue: Catalogue) -> Iterator[Check]:
    """Whether some instance has far more series than an engine needs."""
    engines: dict[str, int] = defaultdict(int)
    for target in evidence.discovery.targets if evidence.discovery is not None else ():
        engines[target.get("instance")] += 1
    totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in evidence.series:
        if one.name.startswith(tuple(catalogue.metrics.prefixes)):
            totals[one.instance][one.name] += one.count
    many = []
    for instance, names in sorted(totals.items()):
        total, expected = sum(names.values()), max(engines[instance], 1) * MOST_PER_ENGINE
        if total > expected:
            worst = ", ".join(f"{name} {count}" for name, count in sorted(names.items(), key=lambda one: -one[1])[:3])
            many.append(f"{instance}: {total} series of {max(engines[instance], 1)} engines (most: {worst})")
    if many:
        hint = "a label with many values (pod, request, adapter)? Drop it in metric_relabel_configs"
        yield Check("cardinality", "warning", "more series than engines account for", some(many), hint)
