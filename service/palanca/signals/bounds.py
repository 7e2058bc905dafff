"""First and last finite bounds of every target's histograms, of which quantiles beyond them are known to be one side.

Buckets are most of what a server has, so few of them are looked at where there are many targets: those of one target
of each kind say which bounds are inner ones, and of all targets only the others are counted.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from palanca.signals.identity import BUCKET
from palanca.signals.inventory import NAME_TAG, alike, named, narrowest, one_of, place_of, selector
from palanca.signals.promql import quote
from palanca.signals.recorded import HISTOGRAM
from palanca.signals.samples import le_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from palanca.model import Family, Metrics, Target
    from palanca.signals.identity import Identities
    from palanca.signals.inventory import Matchers, Place, Selection
    from palanca.signals.store import Columns, Series

    Bound = tuple[float, float]
    Bounds = dict[Target, dict[str, Bound]]
    Having = Mapping[Target, frozenset[str]]
    """Plain names of each target."""
    Ask = Callable[..., list[Columns]]
    """Asks queries for an instant, together."""

FEW_TARGETS = 20
"""Up to so many the buckets of all are looked at at once."""
MOST_KINDS = 5
"""Kinds of targets of which one is looked at closely; what is told by no other is found out by asking for all."""


@dataclass(frozen=True)
class Buckets:
    """Finite bounds of one histogram: the first and last that all series have, and labels of those beyond them.

    ``ends`` are the labels of the shared ones.
    """

    shared: Bound | None
    beyond: tuple[str, ...]
    ends: tuple[str, ...] = ()


class LaterBounds(Mapping["Target", Mapping[str, "Bound"]]):
    """Bounds of each target by family, asked for when somebody looks; threads that look at once ask once.

    Whoever looks first gets the ``SourceError``.
    """

    def __init__(self, find: Callable[[], Bounds]) -> None:
        self._find, self._lock = find, Lock()
        self._found: Bounds | None = None

    @property
    def found(self) -> Bounds:
        """Ask, if nobody has."""
        with self._lock:
            if self._found is None:
                self._found = self._find()
            return self._found

    def __getitem__(self, target: Target) -> Mapping[str, Bound]:
        """Bounds of one target by family."""
        return self.found[target]

    def __iter__(self) -> Iterator[Target]:
        """Return the targets that have bounds."""
        return iter(self.found)

    def __len__(self) -> int:
        """Number of targets that have bounds."""
        return len(self.found)


@dataclass(frozen=True)
class BoundsFinder:
    """Asks for the bounds of ``histograms`` within ``span``."""

    ask: Ask
    metrics: Metrics
    histograms: Collection[Family]
    known: Mapping[str, Place]
    identities: Identities
    span: str

    def find(self, having: Having, selection: Selection, recorded: str) -> Bounds:
        """Ask; ``recorded`` has how many series have each ``le``, where a server has that. Raises ``SourceError``."""
        if not self.histograms or not having:
            return {}
        if recorded:
            buckets = self._buckets(f"{recorded}[{self.span}]")
        elif len(having) <= FEW_TARGETS:
            buckets = self._buckets(self._query(self.histograms, selection.of))
        else:
            buckets = self._of_many(having, selection)
        buckets = told_apart(buckets, self.known)
        texts = beyond_queries(buckets, self.known, selection.of, self.span)
        return bounds_for(having, buckets, chain(*self.ask(*texts)), self.known, self.identities)

    def _query(self, families: Iterable[Family], matchers: Matchers) -> str:
        return buckets_query(self.metrics, families, matchers, self.span)

    def _buckets(self, text: str) -> dict[str, Buckets]:
        return buckets_of(chain(*self.ask(text)), self.known)

    def _of_many(self, having: Having, selection: Selection) -> dict[str, Buckets]:
        kinds = {own: target for target, own in having.items()}
        narrow = narrowest([*kinds.values()][:MOST_KINDS], having)
        (rows,) = self.ask(self._query(self.histograms, selection.narrowed(narrow).of))
        layout = _layout(rows, self.known)
        inner = inner_bounds(layout, self.known)

        def outer(family: Family) -> tuple[str, ...]:
            labels = sorted({label for name in family.names for label in inner.get(name.name, ())})
            without = (f"le!~{quote('|'.join(map(re.escape, labels)))}",) if labels else ()
            return (*selection.of(family), *without)

        buckets = self._buckets(self._query(self.histograms, outer))
        odd = {
            self.known[full].family_name
            for full, one in buckets.items()
            if inner.get(self.known[full].name) and (full not in layout or one.shared != _edges(layout[full]))
        }
        if odd:
            families = [self.metrics.families[name] for name in sorted(odd)]
            buckets |= self._buckets(self._query(families, selection.of))
        return buckets


def buckets_query(metrics: Metrics, families: Iterable[Family], matchers: Matchers, span: str) -> str:
    """Write the query for how many series of each histogram have each ``le``."""
    parts = [
        f"count by (__name__, le) (last_over_time({selector(metrics, group.families, group.matchers, BUCKET)}[{span}]))"
        for group in alike(families, matchers)
    ]
    return " or on (__name__, le) ".join(parts)


def _layout(rows: Iterable[Series], known: Mapping[str, Place]) -> dict[str, list[str]]:
    """Finite bounds as written in ``le``, by full name."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        full, label = row.name.removesuffix(BUCKET), row.labels.get("le", "")
        if full in known and math.isfinite(le_of({"le": label})):
            found[full].append(label)
    return found


def _edges(labels: Collection[str]) -> Bound | None:
    bounds = [le_of({"le": label}) for label in labels]
    return (min(bounds), max(bounds)) if bounds else None


def inner_bounds(layout: Mapping[str, Collection[str]], known: Mapping[str, Place]) -> dict[str, set[str]]:
    """Labels of bounds that lie within all histograms of a plain name."""
    found: dict[str, set[str]] = {}
    for full, labels in layout.items():
        low, high = _edges(labels) or (math.inf, -math.inf)
        within = {label for label in labels if low < le_of({"le": label}) < high}
        found.setdefault(known[full].name, set(within)).intersection_update(within)
    return found


def buckets_of(rows: Iterable[Series], known: Mapping[str, Place]) -> dict[str, Buckets]:
    """Read the answer, or what was recorded of it over an hour, by full name.

    A bound that always had as many series as ``+Inf`` is one that all have.
    """
    counts: dict[str, dict[str, Series]] = defaultdict(dict)
    for row in rows:
        full = row.labels.get(HISTOGRAM, row.name)
        counts[full.removesuffix("_bucket")][row.labels.get("le", "")] = row
    found: dict[str, Buckets] = {}
    for full, by_le in counts.items():
        if full not in known:
            continue
        every = by_le.get("+Inf")
        finite = [le for le in by_le if math.isfinite(le_of({"le": le}))]
        shared = [le for le in finite if every is not None and _equal(by_le[le], every)]
        bounds = [le_of({"le": le}) for le in shared]
        common = (min(bounds), max(bounds)) if bounds else None
        beyond = [le for le in finite if le not in shared and not _within(le_of({"le": le}), common)]
        ends = tuple(sorted(le for le in shared if common is not None and le_of({"le": le}) in common))
        found[full] = Buckets(common, tuple(sorted(beyond)), ends)
    return found


def told_apart(buckets: Mapping[str, Buckets], known: Mapping[str, Place]) -> dict[str, Buckets]:
    """Share nothing where a name is there under several prefixes: which target has which is not known.

    Its bounds are all such that not every target has them then.
    """
    several = Counter(known[full].name for full in buckets)
    return {
        full: one if several[known[full].name] == 1 else Buckets(None, (*one.ends, *one.beyond))
        for full, one in buckets.items()
    }


def _equal(one: Series, other: Series) -> bool:
    return np.array_equal(one.times, other.times) and np.array_equal(one.values, other.values)


def _within(bound: float, common: Bound | None) -> bool:
    return common is not None and common[0] <= bound <= common[1]


def beyond_queries(
    buckets: Mapping[str, Buckets], known: Mapping[str, Place], matchers: Matchers, span: str
) -> list[str]:
    """Write the queries for which targets have the bounds that not all have."""
    texts = []
    for full, one in buckets.items():
        place = known[full]
        if one.beyond:
            inside = ", ".join([f'__name__="{full}_bucket"', one_of("le", one.beyond), *matchers(place.family)])
            texts.append(named(f"last_over_time({{{inside}}}[{span}])", place.gone - {"__name__", "le"}))
    return texts


def bounds_for(
    names: Mapping[Target, frozenset[str]],
    buckets: Mapping[str, Buckets],
    beyond: Iterable[Series],
    known: Mapping[str, Place],
    targets: Identities,
) -> Bounds:
    """Give every target the bounds of its names, the widest of each family; ``beyond`` answers ``beyond_queries``."""
    alike: dict[frozenset[str], dict[str, Bound]] = {}
    for own in set(names.values()):
        alike[own] = {}
        for full, one in buckets.items():
            if known[full].name in own and one.shared is not None:
                _widen(alike[own], known[full].family_name, *one.shared)
    bounds = {target: dict(alike[own]) for target, own in names.items()}
    for row in beyond:
        labels = dict(row.labels)
        _, place = place_of(labels.pop(NAME_TAG, ""), known)
        bound = le_of(labels)
        if place is not None and math.isfinite(bound):
            _widen(bounds.setdefault(targets.of(labels, place.gone), {}), place.family_name, bound, bound)
    return bounds


def _widen(bounds: dict[str, Bound], family: str, low: float, high: float) -> None:
    first, last = bounds.get(family, (low, high))
    bounds[family] = min(first, low), max(last, high)
