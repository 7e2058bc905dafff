"""Discovery through PromQL: the texts of its queries, and what their answers say."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from palanca.errors import UsageError
from palanca.signals.identity import BUCKET, COUNT, SERVER_LABELS, Identities, dropped
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.model import Family, Metrics, Target
    from palanca.signals.store import Columns

    Matchers = Callable[[Family], tuple[str, ...]]

NAME_TAG = "palanca_name"
LEAF_TAG = "palanca_leaf"
ALIKE_TAG = "palanca_alike"
LONGEST_FILTER = 1000
"""Characters; with more jobs than that server-wide series are read from all jobs."""

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
    bound those series to the jobs of the targets, and ``narrow`` has a matcher for the series of a scope where only
    some targets matter.
    Raises ``UsageError`` for a label name that cannot be one.
    """

    matchers: Mapping[str, str] = field(default_factory=dict)
    jobs: frozenset[str] = frozenset()
    narrow: Mapping[str, str] = field(default_factory=dict)

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
        texts += [jobs] if 0 < len(jobs) <= LONGEST_FILTER else []
        return (*texts, *filter(None, [self.narrow.get(family.scope)]))

    def narrowed(self, narrow: Mapping[str, str]) -> Selection:
        """Return the same selection of some targets; ``narrow`` as of ``narrowest``."""
        return replace(self, narrow=narrow)

    def whole(self, _: Family) -> tuple[str, ...]:
        """Matchers that a series must fit with every label."""
        return tuple(one_of(label, (value,)) for label, value in sorted(self.matchers.items()))


def narrowest(wanted: Collection[Target], targets: Collection[Target]) -> dict[str, str]:
    """Write for each scope a matcher that ``wanted`` fit, and of the other targets as few as can be.

    It is for one label, and none where all that there are would be longer than ``LONGEST_FILTER``.
    """
    everywhere = set.intersection(*({label for label, _ in one.labels} for one in wanted)) if wanted else set()
    found = {}
    for scope, labels in (("engine", everywhere), ("server", everywhere & set(SERVER_LABELS))):
        texts = []
        for label in sorted(labels):
            values = {one.get(label) for one in wanted}
            text = one_of(label, values)
            if len(text) <= LONGEST_FILTER:
                texts.append((sum(one.get(label) in values for one in targets), len(text), text))
        if texts:
            found[scope] = min(texts)[2]
    return found


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


def named(text: str, without: Collection[str]) -> str:
    """Write one series for each metric name and target: 1, with the name in a label of its own."""
    return f"group without ({', '.join(sorted(without))}) ({_with_name(text)})"


@dataclass(frozen=True)
class Alike:
    """Families whose series have the same labels beside those of a target, and matchers for these series."""

    families: tuple[Family, ...]
    matchers: tuple[str, ...]

    @property
    def without(self) -> frozenset[str]:
        """Labels to aggregate over; the name goes by itself."""
        return dropped(self.families[0]) - {"__name__"}


def alike(families: Iterable[Family], matchers: Matchers) -> list[Alike]:
    """Put families together that can share a selector and an aggregation."""
    groups: dict[tuple[frozenset[str], bool, bool, tuple[str, ...]], list[Family]] = defaultdict(list)
    for family in families:
        needs = (f'{family.needs_label}!=""',) if family.needs_label else ()
        texts = (*needs, *matchers(family))
        groups[dropped(family), family.type == "histogram", family.prefixed, texts].append(family)
    return [Alike(tuple(members), texts) for (_, _, _, texts), members in groups.items()]


def names_queries(metrics: Metrics, groups: Iterable[Alike], span: str) -> list[str]:
    """Write the expressions for the metric names that each identity has had within the span; no two for one name."""
    return [named(_seen(metrics, group, span), group.without) for group in groups]


def _seen(metrics: Metrics, group: Alike, span: str) -> str:
    return f"last_over_time({selector(metrics, group.families, group.matchers)}[{span}])"


def counts_query(metrics: Metrics, groups: Iterable[Alike], span: str) -> str:
    """Write the query for how many identities have had each name within the span."""
    return " or ".join(f"count by ({NAME_TAG}) ({text})" for text in names_queries(metrics, groups, span))


def identities_query(metrics: Metrics, groups: Iterable[Alike], span: str) -> str:
    """Write the query for the identities that have had a name of each group, marked with the group's number."""
    return " or ".join(
        tagged(
            f"group without ({', '.join(sorted(group.without))}) ({_seen(metrics, group, span)})", ALIKE_TAG, str(at)
        )
        for at, group in enumerate(groups)
    )


def common_names(
    groups: Sequence[Alike],
    counts: Columns,
    identities: Columns,
    known: Mapping[str, Place],
    targets: Identities,
    span: str,
) -> tuple[dict[Target, set[str]], set[str], list[str]]:
    """Read both answers: names of each identity as far as all of a group have them, and all full names.

    The third is expressions as those of ``names_queries`` for the names that only some have.
    """
    numbers = {name.name: at for at, group in enumerate(groups) for family in group.families for name in family.names}
    marked = identities.by(ALIKE_TAG)
    common: list[set[str]] = [set() for _ in groups]
    some: list[list[str]] = [[] for _ in groups]
    full = set()
    for labels, count in zip(counts.labels, counts.values.tolist(), strict=True):
        text = labels.get(NAME_TAG, "")
        name, place = place_of(text, known)
        if place is None or place.name not in numbers:
            continue
        full.add(name)
        at = numbers[place.name]
        if count == len(marked.rows.get(str(at), ())):
            common[at].add(place.name)
        else:
            some[at].append(text)
    names: dict[Target, set[str]] = {}
    for at, group in enumerate(groups):
        having = targets.of_all(marked.labels, dropped(group.families[0]))
        for row in marked.rows.get(str(at), ()):
            names.setdefault(having[marked.sets[row]], set()).update(common[at])
    uneven = [
        named(f"last_over_time({{{', '.join([one_of('__name__', texts), *group.matchers])}}}[{span}])", group.without)
        for group, texts in zip(groups, some, strict=True)
        if texts
    ]
    return names, full, uneven


def any_names_query(metrics: Metrics, families: Iterable[Family], matchers: Matchers, span: str) -> str:
    """Write the query for the metric names that there have been at all within the span."""
    parts = [
        f"group by ({NAME_TAG}) ({_with_name(_seen(metrics, group, span))})" for group in alike(families, matchers)
    ]
    return " or ".join(parts)


def names_of(
    answers: Iterable[Columns], known: Mapping[str, Place], targets: Identities
) -> tuple[dict[Target, set[str]], set[str]]:
    """Read answers to ``names_queries``: plain names of each identity, and the full names that there are."""
    names: dict[Target, set[str]] = {}
    full: set[str] = set()
    for answer in answers:
        named = answer.by(NAME_TAG)
        own: dict[frozenset[str], list[set[str]]] = {}
        for text, rows in named.rows.items():
            name, place = place_of(text, known)
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


def place_of(name: str, known: Mapping[str, Place]) -> tuple[str, Place | None]:
    """Return the full name that the name of a series is of, and what it is; None for one of no family."""
    if name in known:
        return name, known[name]
    base = name.removesuffix(BUCKET).removesuffix(COUNT)
    return base, known.get(base)


def heartbeat_of(rows: Columns, family: Family, targets: Identities) -> dict[Target, NDArray[np.float64]]:
    """Read raw samples: their times in unix seconds, ascending, all series of an identity together."""
    found: dict[Target, list[NDArray[np.int64]]] = defaultdict(list)
    for target, row in zip(targets.of_all(rows.labels, dropped(family)), rows, strict=True):
        found[target].append(row.times)
    return {
        target: (times[0] if len(times) == 1 else np.unique(np.concatenate(times))) / 1000
        for target, times in found.items()
    }


def job_names(targets: Iterable[Target]) -> frozenset[str]:
    """Jobs of the targets; empty for a target without the label."""
    return frozenset(target.get(SERVER_LABELS[0]) for target in targets)
