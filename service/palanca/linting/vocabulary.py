"""What is known of metric names: which releases of vLLM show them, their kind, labels and buckets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from string import Template
from typing import Literal

from palanca.linting.names_file import Names, Successor
from palanca.linting.tree import Matcher, Selector
from palanca.model import Metrics
from palanca.releases import Release, ReleaseRange
from palanca.signals.identity import unprefixed

Type = Literal["counter", "gauge", "histogram", "info"]
PARTS = ("_bucket", "_sum", "_count", "_created")
ENGINE_LABELS = frozenset({"model_name", "engine"})
_RISKY = re.compile(r"\)[*+{]")
"""A repeated group can take for ever to match."""


@dataclass(frozen=True)
class Entry:
    """One name without prefix, as exposed (histograms without ``_bucket``): ``family`` is shared by its other names.

    ``successor`` is the name that the family has today, if that is another; ``labels`` are all that vLLM gives it.
    """

    name: str
    type: Type
    unit: str
    family: str
    shown: tuple[ReleaseRange, ...]
    hidden: tuple[ReleaseRange, ...]
    labels: frozenset[str]
    prefixed: bool = True
    successor: str | None = None
    quiet: bool = False
    """No series may be there though everything is well: it appears when first counted, or with a feature."""

    @property
    def last(self) -> Release:
        """The last release that can show it, also where it is hidden."""
        return max(one.last or one.first for one in (*self.shown, *self.hidden))

    @property
    def first(self) -> Release:
        """The first release that can show it."""
        return min(one.first for one in (*self.shown, *self.hidden))


@dataclass(frozen=True)
class Metric:
    """What a full name is: its prefix, its entry, and the part of a histogram (``_bucket``) or nothing."""

    full: str
    prefix: str
    entry: Entry
    part: str

    @property
    def cumulative(self) -> bool:
        """Whether the values only rise: counters and the parts of histograms."""
        return self.entry.type == "counter" or self.part in {"_bucket", "_sum", "_count"}

    @property
    def labels(self) -> frozenset[str]:
        """Labels that vLLM gives the series."""
        return self.entry.labels | ({"le"} if self.part == "_bucket" else set())

    @property
    def ratio(self) -> bool:
        """Whether the value lies between 0 and 1."""
        return self.entry.type == "gauge" and self.entry.unit == "ratio"

    @property
    def is_partless_histogram(self) -> bool:
        """Whether it is the name of a histogram, which no series has."""
        return self.entry.type == "histogram" and not self.part


class Vocabulary:
    """Names, and which of them the ``releases`` that are looked at show: those of a range, by default the newest."""

    def __init__(self, metrics: Metrics, names: Names, span: ReleaseRange | None = None) -> None:
        self.metrics, self.names = metrics, names
        self.known = tuple(Release(one) for one in metrics.releases)
        self.releases = self.known[-1:] if span is None else tuple(one for one in self.known if one in span)
        self.entries = _entries(metrics, names)
        self.elsewhere = {name: owner for owner, every in names.elsewhere.items() for name in every}

    # --- names -----------------------------------------------------------------------------------

    def metric(self, full: str) -> Metric | None:
        """Find what a full name is; None for what vLLM never had, and for names of others."""
        bare = self.entries.get(full)
        if bare is not None and not bare.prefixed:
            return Metric(full, "", bare, "")
        split = unprefixed(full, self.metrics)
        if split is None:
            found = self._part(full)
            return None if found is None or found[0].prefixed else Metric(full, "", *found)
        prefix, name = split
        exact = self.entries.get(name)
        found = (exact, "") if exact is not None else self._part(name)
        return None if found is None or not found[0].prefixed else Metric(full, prefix, *found)

    def _part(self, name: str) -> tuple[Entry, str] | None:
        for part in PARTS:
            base = self.entries.get(name.removesuffix(part)) if name.endswith(part) else None
            if base is not None and base.type == "histogram":
                return base, part
        counter = self.entries.get(name.removesuffix("_created") + "_total")
        return (counter, "_created") if name.endswith("_created") and counter is not None else None

    def metrics_of(self, selector: Selector) -> tuple[Metric, ...]:
        """Everything that vLLM has or had and that a selector can mean; several where its name is a pattern."""
        if selector.name is not None:
            found = self.metric(selector.name)
            return () if found is None else (found,)
        patterns = [one for one in selector.matchers if one.label == "__name__" and one.op == "=~"]
        if len(patterns) != 1 or _RISKY.search(patterns[0].value):
            return ()
        return tuple(one for one in self._everything if matches(patterns[0], one.full))

    @cached_property
    def _everything(self) -> tuple[Metric, ...]:
        made = []
        for entry in self.entries.values():
            for prefix in self.metrics.prefixes if entry.prefixed else ("",):
                parts = PARTS if entry.type == "histogram" else ("",)
                made += [Metric(prefix + entry.name + part, prefix, entry, part) for part in parts]
        return tuple(made)

    def without_prefix(self, full: str) -> Entry | None:
        """Find the entry of a name that stands without the prefix that it ought to have."""
        base = next((full.removesuffix(part) for part in PARTS if full.endswith(part)), full)
        entry = self.entries.get(full) or self.entries.get(base)
        return entry if entry is not None and entry.prefixed else None

    def shows(self, entry: Entry) -> tuple[Release, ...]:
        """Releases, of those looked at, that show a name unasked."""
        return tuple(one for one in self.releases if any(one in span for span in entry.shown))

    def hides(self, entry: Entry) -> tuple[Release, ...]:
        """Releases, of those looked at, that show a name only with a flag."""
        return tuple(one for one in self.releases if any(one in span for span in entry.hidden))

    def after(self, release: Release) -> Release | None:
        """The next release that the catalogue knows."""
        return next((one for one in self.known if one > release), None)

    # --- what to ask instead ---------------------------------------------------------------------

    def successor(self, entry: Entry) -> Successor | None:
        """What took the place of a name."""
        if entry.successor is not None:
            return Successor(name=entry.successor)
        return self.names.successors.get(entry.name)

    def mistaken(self, name: str) -> tuple[Successor, str] | None:
        """What is meant by a plain name that never was, and the part of a histogram that it ends with."""
        if name in self.names.mistaken:
            return self.names.mistaken[name], ""
        for part in PARTS:
            if name.endswith(part) and name.removesuffix(part) in self.names.mistaken:
                return self.names.mistaken[name.removesuffix(part)], part
        return None

    # --- buckets ---------------------------------------------------------------------------------

    def bounds(self, entry: Entry) -> tuple[tuple[float, ...], ...]:
        """Finite bounds of a histogram in the releases looked at, without doubles; empty where nothing is known."""
        return tuple(
            one.bounds
            for one in self.names.buckets
            if entry.name in one.histograms and any(release in one.releases for release in self.releases)
        )

    def settable(self, entry: Entry) -> bool:
        """Whether an operator of one of the releases can have set other bounds."""
        own = self.names.configurable
        return entry.name in own.histograms and any(one in own.releases for one in self.releases)

    def is_length(self, entry: Entry) -> bool:
        """Whether the bounds are 1, 2, 5, 10, ... up to the longest request."""
        return entry.name in self.names.lengths

    # --- labels ----------------------------------------------------------------------------------

    @cached_property
    def own_labels(self) -> frozenset[str]:
        """Labels that vLLM itself gives to some series."""
        return frozenset({"le"}).union(*(one.labels for one in self.entries.values() if one.type != "info"))

    def values(self, entry: Entry, label: str) -> Mapping[str, ReleaseRange | None] | None:
        """Values that a label can have; None where they are not a closed list."""
        return self.names.label_values.get(entry.name, {}).get(label)


def written(expression: str, prefix: str, matchers: str) -> str:
    """Put live prefix and matchers (``{...}`` or nothing) into the expression of a successor, on one line."""
    return Template(" ".join(expression.split())).safe_substitute(prefix=prefix, matchers=matchers)


def matches(matcher: Matcher, value: str) -> bool:
    """Whether a value fits a matcher; a pattern that Python cannot read, or only slowly, fits everything."""
    if matcher.op in {"=", "!="}:
        return (matcher.value == value) == (matcher.op == "=")
    if _RISKY.search(matcher.value):
        return True
    try:
        return (re.fullmatch(matcher.value, value, re.DOTALL) is not None) == (matcher.op == "=~")
    except re.error:
        return True


def is_one_two_five(bound: float) -> bool:
    """Whether a number is 1, 2 or 5 times a power of ten."""
    if bound < 1:
        return False
    return round(bound / 10 ** math.floor(math.log10(bound)), 9) in {1, 2, 5}


def _entries(metrics: Metrics, names: Names) -> dict[str, Entry]:
    made: dict[str, Entry] = {}
    for key, family in metrics.families.items():
        server = frozenset[str]()
        for name in family.names:
            server = frozenset(names.server_labels.get(name.name, ()))
            own = {*family.labels, *family.info_labels}
            entry = Entry(
                name.name, family.type, family.unit, key,
                shown=tuple(one for one in (name.v0, name.v1) if one is not None),
                hidden=tuple(one for one in (name.hidden_v0, name.hidden_v1) if one is not None),
                labels=frozenset(own) | (ENGINE_LABELS if family.scope == "engine" else server),
                prefixed=family.prefixed,
                successor=None if name is family.names[0] else family.names[0].name,
                quiet=family.sparse or family.only_if is not None,
            )  # fmt: skip
            made[name.name] = _joined(made.get(name.name), entry)
    for other in names.names:
        server = frozenset(names.server_labels.get(other.name, ()))
        entry = Entry(
            other.name, other.type, other.unit, other.name,
            shown=tuple(one for one in (other.v0, other.v1) if one is not None),
            hidden=tuple(one for one in (other.hidden_v0,) if one is not None),
            labels=frozenset(other.labels) | (ENGINE_LABELS if other.scope == "engine" else server),
            prefixed=other.prefixed, quiet=True,
        )  # fmt: skip
        made[other.name] = _joined(made.get(other.name), entry)
    return made


def _joined(first: Entry | None, second: Entry) -> Entry:
    """One entry for a name that stands in two places: the first one, in the releases of both."""
    if first is None:
        return second
    return Entry(
        first.name, first.type, first.unit, first.family, (*first.shown, *second.shown),
        (*first.hidden, *second.hidden), first.labels | second.labels, first.prefixed,
        first.successor if first.last >= second.last else second.successor, first.quiet,
    )  # fmt: skip
