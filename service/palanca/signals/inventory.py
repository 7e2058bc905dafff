"""Discovery through PromQL: the texts of its queries, and what their answers say."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from palanca.errors import UsageError
from palanca.signals.identity import BUCKET, COUNT, SERVER_LABELS, Identities, dropped, identity
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from palanca.model import Family, Metrics, Target
    from palanca.signals.store import Series

    Matchers = Callable[[Family], tuple[str, ...]]
    Bound = tuple[float, float]
    Bounds = dict[Target, dict[str, Bound]]

NAME_TAG = "palanca_name"
LEAF_TAG = "palanca_leaf"
LONGEST_JOB_FILTER = 1000
"""Characters; with more jobs than that server-wide series are read from all jobs."""

_LABEL_NAME = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")
_FIRST, _LAST = "first", "last"


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
    bound those series to the jobs of the targets. Raises ``UsageError`` for a label name that cannot be one.
    """

    matchers: Mapping[str, str] = field(default_factory=dict)
    jobs: frozenset[str] = frozenset()

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
        jobs = one_of("job", self.jobs) if self.jobs and not strict else ""
        return (*texts, jobs) if 0 < len(jobs) <= LONGEST_JOB_FILTER else tuple(texts)

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


def places(metrics: Metrics) -> dict[str, Place]:
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
    rows: Iterable[Series], known: Mapping[str, Place], targets: Identities
) -> tuple[dict[Target, set[str]], set[str]]:
    """Read the answer: plain names of each identity, and the full names that there are."""
    names: dict[Target, set[str]] = defaultdict(set)
    full: set[str] = set()
    for row in rows:
        labels = dict(row.labels)
        name, place = _place(labels.pop(NAME_TAG, ""), known)
        if place is not None:
            names[targets.of(labels, place.gone)].add(place.name)
            full.add(name)
    return dict(names), full


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


def shared_bounds(rows: Iterable[Series], known: Mapping[str, Place]) -> tuple[dict[str, Bound], set[str]]:
    """Read the answer: the first and last finite ``le`` by plain name, and the families of which series differ.

    Where every ``le`` has as many series as the others, all series have them all.
    """
    counts: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        counts[row.name][float(row.labels.get("le", "NaN"))] += float(row.values[-1])
    bounds: dict[str, Bound] = {}
    uneven: set[str] = set()
    for full, by_bound in counts.items():
        _, place = _place(full, known)
        finite = [bound for bound in by_bound if np.isfinite(bound)]
        if place is None or not finite:
            continue
        found = min(finite), max(finite)
        if len(set(by_bound.values())) > 1 or bounds.setdefault(place.name, found) != found:
            uneven.add(place.family_name)
    return bounds, uneven


def bounds_for(
    names: Mapping[Target, frozenset[str]], shared: Mapping[str, Bound], families: Mapping[str, str]
) -> Bounds:
    """Give every target the bounds of its names, the widest of each family; ``families`` are those of the names."""
    made: dict[frozenset[str], dict[str, Bound]] = {}
    for own in set(names.values()):
        mine = made[own] = {}
        for name in own & families.keys() & shared.keys():
            low, high = shared[name]
            first, last = mine.get(families[name], (low, high))
            mine[families[name]] = min(first, low), max(last, high)
    return {target: dict(made[own]) for target, own in names.items()}


def bounds_query(metrics: Metrics, families: Iterable[Family], matchers: Matchers, span: str) -> str:
    """Write the query for the first and the last finite ``le`` of histograms.

    ``histogram_quantile`` tells them: with 1 in all buckets the quantile 1 is the first bound; with 1 in the last
    bucket only, any quantile is the last finite one.
    """
    parts = []
    for members, texts in _alike(families, matchers):
        kept = dropped(members[0]) - {"__name__", "le"}
        every, infinite, finite = (
            _named(f"last_over_time({selector(metrics, members, (*le, *texts), BUCKET)}[{span}])", kept)
            for le in ((), ('le="+Inf"',), ('le!="+Inf"',))
        )
        first = f"histogram_quantile(1, {every})"
        last = f"histogram_quantile(0.5, ({infinite}) or (0 * {finite}))"
        parts += [tagged(first, LEAF_TAG, _FIRST), tagged(last, LEAF_TAG, _LAST)]
    return " or ".join(parts)


def bounds_of(rows: Iterable[Series], known: Mapping[str, Place]) -> Bounds:
    """Read the answer: the widest bounds of each family over its names."""
    found: dict[tuple[Target, str], dict[str, list[float]]] = defaultdict(lambda: {_FIRST: [], _LAST: []})
    for row in rows:
        _, place = _place(row.labels.get(NAME_TAG, ""), known)
        which, value = row.labels.get(LEAF_TAG, ""), float(row.values[-1])
        if place is None or which not in {_FIRST, _LAST} or not np.isfinite(value):
            continue
        labels = {label: text for label, text in row.labels.items() if label not in {NAME_TAG, LEAF_TAG}}
        found[identity(labels, place.family), place.family_name][which].append(value)
    bounds: Bounds = defaultdict(dict)
    for (target, name), values in found.items():
        if values[_FIRST] and values[_LAST]:
            bounds[target][name] = (min(values[_FIRST]), max(values[_LAST]))
    return dict(bounds)


def heartbeat_of(rows: Iterable[Series], family: Family) -> dict[Target, NDArray[np.float64]]:
    """Read raw samples: their times in unix seconds, ascending, all series of an identity together."""
    found: dict[Target, list[NDArray[np.int64]]] = defaultdict(list)
    for row in rows:
        found[identity(row.labels, family)].append(row.times)
    return {target: np.unique(np.concatenate(times)) / 1000 for target, times in found.items()}


def job_names(targets: Iterable[Target]) -> frozenset[str]:
    """Jobs of the targets; empty for a target without the label."""
    return frozenset(target.get(SERVER_LABELS[0]) for target in targets)
