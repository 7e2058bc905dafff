"""Discovery through PromQL: the texts of its queries, and what their answers say."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from palanca.errors import UsageError
from palanca.signals.identity import BUCKET, COUNT, SERVER_LABELS, Identities, dropped
from palanca.signals.promql import quote
from palanca.signals.recorded import HISTOGRAM
from palanca.signals.samples import le_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from palanca.model import Family, Metrics, Target
    from palanca.signals.store import Columns, Series

    Matchers = Callable[[Family], tuple[str, ...]]
    Bound = tuple[float, float]
    Bounds = dict[Target, dict[str, Bound]]

NAME_TAG = "palanca_name"
LEAF_TAG = "palanca_leaf"
LONGEST_FILTER = 1000
"""Characters; with more jobs than that server-wide series are read from all jobs, and the like with instances."""

_LABEL_NAME = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")


def tagged(text: str, label: str, value: str) -> str:
    """Mark every series of an expression with a label."""
    return f'label_replace({text}, "{label}", "{value}", "", "")'


def one_of(label: str, values: Iterable[str]) -> str:
    """Matcher for a label that has one of some values; an empty one stands for no such label."""
    every = sorted(set(values))
    if len(every) == 1:
        return f"{label}={quote(every[0])}"
    return f"{label}=~{quote('|'.join(re.escape(value) for value in every))}"


@dataclass(frozen=True)
class Selection:
    """What ``--match`` means for each family: the same series that ``SampleReader`` keeps.

    A label that a server-wide series lacks leaves that series in, since it is joined on job and instance; ``jobs``
    bound those series to the jobs of the targets, and ``instances`` all series to these, where there are any.
    Raises ``UsageError`` for a label name that cannot be one.
    """

    matchers: Mapping[str, str] = field(default_factory=dict)
    jobs: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse what is no label name; values are quoted, so any text is safe there."""
        for label, value in self.matchers.items():
            if not _LABEL_NAME.match(label) or label.startswith("__"):
                raise UsageError(f"--match {label}={value}: {label!r} is not a label name (give LABEL=VALUE)")
            if "\ufffd" in value or (not value.isascii() and value.encode(errors="ignore").decode() != value):
                raise UsageError(f"--match {label}={value!r}: the value is not UTF-8 text")

    def of(self, family: Family) -> tuple[str, ...]:
        """Matchers for the series of a family."""
        gone = dropped(family)
        strict = family.scope == "engine"
        texts = [
            one_of(label, (value,) if strict and label not in gone else (value, ""))
            for label, value in sorted(self.matchers.items())
        ]
        bounds = [one_of("job", self.jobs)] if self.jobs and not strict else []
        bounds += [one_of("instance", self.instances)] if self.instances else []
        return (*texts, *(text for text in bounds if len(text) <= LONGEST_FILTER))

    def whole(self, _: Family) -> tuple[str, ...]:
        """Matchers that a series must fit with every label."""
        return tuple(one_of(label, (value,)) for label, value in sorted(self.matchers.items()))


@dataclass(frozen=True)
class Place:
    """What a full metric name is: its live prefix, its plain name, its family, and labels that are of no identity."""

    prefix: str
    name: str
    family_name: str
    family: Family
    gone: frozenset[str]


@lru_cache(maxsize=8)
def places(metrics: Metrics) -> Mapping[str, Place]:
    """Return every full name that can be exposed; histograms without ``_bucket`` and ``_count``."""
    return {
        prefix + name.name: Place(prefix, name.name, family_name, family, dropped(family))
        for family_name, family in metrics.families.items()
        for prefix in (metrics.prefixes if family.prefixed else ("",))
        for name in family.names
    }


def selector(metrics: Metrics, families: Iterable[Family], matchers: Iterable[str], histograms: str = COUNT) -> str:
    """Vector selector for all names of families that are alike; histograms by one of their suffixes."""
    suffixed = {
        name.name + (histograms if family.type == "histogram" else ""): family.prefixed
        for family in families
        for name in family.names
    }
    prefixes = "|".join(metrics.prefixes)
    names = "|".join(sorted(suffixed))
    pattern = f"(?:{prefixes})(?:{names})" if all(suffixed.values()) else names
    return "{" + ", ".join([f'__name__=~"{pattern}"', *matchers]) + "}"


def _with_name(text: str) -> str:
    return f'label_replace({text}, "{NAME_TAG}", "$1", "__name__", "(.+)")'


def _named(text: str, without: Collection[str]) -> str:
    """One series for each metric name and target: 1, with the name in a label of its own."""
    return f"group without ({', '.join(sorted(without))}) ({_with_name(text)})"


def _alike(families: Iterable[Family], matchers: Matchers) -> list[tuple[list[Family], tuple[str, ...]]]:
    """Families that can share a selector and an aggregation, and their matchers."""
    groups: dict[tuple[frozenset[str], bool, bool, tuple[str, ...]], list[Family]] = defaultdict(list)
    for family in families:
        needs = (f'{family.needs_label}!=""',) if family.needs_label else ()
        texts = (*needs, *matchers(family))
        groups[dropped(family), family.type == "histogram", family.prefixed, texts].append(family)
    return [(members, texts) for (_, _, _, texts), members in groups.items()]


def names_queries(metrics: Metrics, families: Iterable[Family], matchers: Matchers, span: str) -> list[str]:
    """Write the expressions for the metric names that each identity has had within the span; no two for one name."""
    parts = []
    for members, texts in _alike(families, matchers):
        chosen = selector(metrics, members, texts)
        parts.append(_named(f"last_over_time({chosen}[{span}])", dropped(members[0]) - {"__name__"}))
    return parts


def any_names_query(metrics: Metrics, families: Iterable[Family], matchers: Matchers, span: str) -> str:
    """Write the query for the metric names that there have been at all within the span."""
    parts = []
    for members, texts in _alike(families, matchers):
        chosen = selector(metrics, members, texts)
        parts.append(f"group by ({NAME_TAG}) ({_with_name(f'last_over_time({chosen}[{span}])')})")
    return " or ".join(parts)


def names_of(
    answers: Iterable[Columns], known: Mapping[str, Place], targets: Identities
) -> tuple[dict[Target, set[str]], set[str]]:
    """Read the answers: plain names of each identity, and the full names that there are."""
    names: dict[Target, set[str]] = {}
    full: set[str] = set()
    for answer in answers:
        named = answer.by(NAME_TAG)
        own: dict[frozenset[str], list[set[str]]] = {}
        for text, rows in named.rows.items():
            name, place = _place(text, known)
            if place is None:
                continue
            full.add(name)
            having = own.setdefault(place.gone, [set() for _ in named.labels])
            for row in rows:
                having[named.sets[row]].add(place.name)
        for gone, having in own.items():
            for target, more in zip(targets.of_all(named.labels, gone), having, strict=True):
                if more:
                    names.setdefault(target, set()).update(more)
    return names, full


def _place(name: str, known: Mapping[str, Place]) -> tuple[str, Place | None]:
    if name in known:
        return name, known[name]
    base = name.removesuffix(BUCKET).removesuffix(COUNT)
    return base, known.get(base)


def buckets_query(metrics: Metrics, families: Iterable[Family], matchers: Matchers, span: str) -> str:
    """Write the query for how many series of each histogram have each ``le``."""
    parts = [
        f"count by (__name__, le) (last_over_time({selector(metrics, members, texts, BUCKET)}[{span}]))"
        for members, texts in _alike(families, matchers)
    ]
    return " or on (__name__, le) ".join(parts)


@dataclass(frozen=True)
class Buckets:
    """Finite bounds of one histogram: the first and last that all series have, and labels of those beyond them."""

    shared: Bound | None
    beyond: tuple[str, ...]


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
        found[full] = Buckets(common, tuple(sorted(beyond)))
    return found


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
            texts.append(_named(f"last_over_time({{{inside}}}[{span}])", place.gone - {"__name__", "le"}))
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
        _, place = _place(labels.pop(NAME_TAG, ""), known)
        bound = le_of(labels)
        if place is not None and math.isfinite(bound):
            _widen(bounds.setdefault(targets.of(labels, place.gone), {}), place.family_name, bound, bound)
    return bounds


def _widen(bounds: dict[str, Bound], family: str, low: float, high: float) -> None:
    first, last = bounds.get(family, (low, high))
    bounds[family] = min(first, low), max(last, high)


def heartbeat_of(rows: Iterable[Series], family: Family, targets: Identities) -> dict[Target, NDArray[np.float64]]:
    """Read raw samples: their times in unix seconds, ascending, all series of an identity together."""
    found: dict[Target, list[NDArray[np.int64]]] = defaultdict(list)
    gone = dropped(family)
    for row in rows:
        found[targets.of(row.labels, gone)].append(row.times)
    return {
        target: (times[0] if len(times) == 1 else np.unique(np.concatenate(times))) / 1000
        for target, times in found.items()
    }


def job_names(targets: Iterable[Target]) -> frozenset[str]:
    """Jobs of the targets; empty for a target without the label."""
    return frozenset(target.get(SERVER_LABELS[0]) for target in targets)
