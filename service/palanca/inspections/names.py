"""Metric names that doctor looks at: what is shown, what is about to go, what never was, and who still asks for it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.inspections.evidence import Check, Evidence, some
from palanca.releases import Release
from palanca.signals.identity import unprefixed

if TYPE_CHECKING:
    from palanca.model import Catalogue, Family, MetricName, Metrics

_PARTS = ("_bucket", "_sum", "_count", "_created")


@dataclass(frozen=True)
class Known:
    """A name of the catalogue and its family."""

    name: MetricName
    family: Family

    @property
    def last(self) -> Release:
        """The last release that can show it, on any engine, also where it is hidden."""
        ranges = (self.name.v0, self.name.v1, self.name.hidden_v0, self.name.hidden_v1)
        return max(one.last or one.first for one in ranges if one is not None)

    @property
    def now(self) -> str:
        """The name that took its place."""
        return self.family.names[0].name


def known_names(metrics: Metrics) -> dict[str, Known]:
    """Every prefixed name of the catalogue, plain; of those in several families the one that lives longest."""
    found: dict[str, Known] = {}
    for family in metrics.families.values():
        for name in family.names if family.prefixed else ():
            one = Known(name, family)
            if name.name not in found or found[name.name].last < one.last:
                found[name.name] = one
    return found


def plain(full: str, metrics: Metrics, known: Mapping[str, Known]) -> str | None:
    """Name without live prefix and without the part of a histogram; None without a live prefix."""
    split = unprefixed(full, metrics)
    if split is None:
        return None
    name = split[1]
    if name in known:
        return name
    base = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)
    return base if base in known or f"{base}_total" not in known else f"{base}_total"


def prefixes(evidence: Evidence, catalogue: Catalogue) -> Iterator[Check]:
    """Which live prefixes there are; several may be the same engine twice."""
    counts: dict[str, int] = defaultdict(int)
    for full in {one.name for one in evidence.series}:
        split = unprefixed(full, catalogue.metrics)
        if split is not None:
            counts[split[0]] += 1
    told = ", ".join(f"{prefix}* ({counts[prefix]})" for prefix in catalogue.metrics.prefixes if prefix in counts)
    if len(counts) > 1:
        hint = "is the same engine scraped through two fronts? Then it is counted twice"
        yield Check("prefixes", "note", f"metric names under several prefixes: {told}", hint=hint)
    elif counts:
        yield Check("prefixes", "ok", f"metric names: {told}")


def unknown_names(evidence: Evidence, catalogue: Catalogue) -> Iterator[Check]:
    """Names under vLLM's prefix that the catalogue does not have, and counters that lost their ``_total``."""
    metrics, known = catalogue.metrics, known_names(catalogue.metrics)
    strange, cut = set(), set()
    for full in {one.name for one in evidence.series} - evidence.recorded:
        name = plain(full, metrics, known)
        if name is None or full.endswith("_created"):
            continue
        if name not in known:
            strange.add(full)
        elif known[name].family.type == "counter" and not full.endswith("_total") and name.endswith("_total"):
            cut.add(f"{full} instead of {full}_total")
    if cut:
        hint = "a collector or remote write drops the suffix: keep it (add_metric_suffixes), or no rule can find them"
        yield Check("counters-without-total", "warning", "counters without _total", some(sorted(cut)), hint)
    if strange:
        hint = f"made by a plugin, or by a release newer than {metrics.releases[-1]}; palanca leaves them out"
        yield Check("names-unknown", "note", "names that palanca does not know", some(sorted(strange)), hint)


def old_names(evidence: Evidence, catalogue: Catalogue) -> Iterator[Check]:
    """Names that are still shown here and that a later release removes."""
    known = known_names(catalogue.metrics)
    newest = Release(catalogue.metrics.releases[-1])
    shown = {name for names in (evidence.discovery.names.values() if evidence.discovery else ()) for name in names}
    old = sorted(name for name in shown if name in known and known[name].last < newest)
    details = [f"{name}: last in {known[name].last}" + _instead(known[name], name) for name in old]
    if details:
        hint = "dashboards and alerts on these go blank with an upgrade"
        yield Check("names-old", "note", "names that later releases do not have", some(details), hint)


def _instead(one: Known, name: str) -> str:
    return f", now {one.now}" if one.now != name else ", without a successor"


def dead_queries(evidence: Evidence, catalogue: Catalogue) -> Iterator[Check]:
    """Rules loaded in Prometheus that ask for names which the engines here do not show."""
    metrics, known = catalogue.metrics, known_names(catalogue.metrics)
    if not evidence.queries or evidence.discovery is None:
        return
    shown = {name for names in evidence.discovery.names.values() for name in names}
    seen = {one.name for one in evidence.series} | evidence.recorded
    starts = "|".join(re.escape(prefix) for prefix in metrics.prefixes)
    pattern = re.compile(rf"(?<![A-Za-z0-9_:])(?:{starts})[A-Za-z0-9_:]+")
    dead: dict[str, list[str]] = defaultdict(list)
    for where, text in sorted(evidence.queries.items()):
        for full in sorted(set(pattern.findall(text))):
            name = plain(full, metrics, known)
            if full in seen or name in shown:
                continue
            if name is None or name not in known:
                dead[f"{full}: vLLM {metrics.releases[0]} to {metrics.releases[-1]} never had it"].append(where)
            elif known[name].last < Release(metrics.releases[-1]):
                one = known[name]
                dead[f"{full}: not shown here, last in {one.last}" + _instead(one, name)].append(where)
    details = [f"{what} (in {', '.join(some(places))})" for what, places in sorted(dead.items())]
    if details:
        hint = "these rules never fire: put in the new name"
        yield Check("names-dead", "warning", "rules of this Prometheus ask for dead names", some(details), hint)
    else:
        yield Check("names-dead", "ok", f"{len(evidence.queries)} rules of this Prometheus ask for no dead name")
