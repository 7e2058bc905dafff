"""Quantiles that rules of the server have recorded, and whether they may be read instead of the buckets.

They may where the groups of these rules say that they are made of the same expressions, were evaluated just before
each moment that is asked for, and have all engines. Otherwise everything is read from the buckets: never some
engines from here and others from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.model import Target
    from palanca.signals.leaves import Leaf
    from palanca.signals.store import Series

HISTOGRAM = "palanca_name"
"""Label of the recorded counts of buckets: which histogram they are of."""
DIGEST, GROUP, SELECTED = "palanca_digest", "palanca_group", "palanca_selected"
"""Labels of the definitions: a digest of the expressions, the group of rules, and which targets these select."""
FRESH_INTERVALS = 2.5
"""A group that was evaluated so many of its intervals ago is late, and its series are too old."""


@dataclass(frozen=True)
class Recordings:
    """What a server with the exported rules records: names of series, those of quantiles by leaf.

    ``definitions`` has for each of the ``groups`` the seconds between evaluations, and ``digest`` in a label;
    ``engines`` one series for each engine that the rules know; ``buckets`` how many series have each ``le``, by
    histogram.
    """

    definitions: str
    engines: str
    buckets: str
    digest: str
    groups: frozenset[str]
    series: Mapping[Leaf, str]


@dataclass(frozen=True)
class Recorded:
    """What was found of it: samples of the definitions, and the engines that should be recorded and are not."""

    recordings: Recordings
    definitions: Sequence[Series]
    uncovered: Collection[Target]

    def why_not(self, times: NDArray[np.int64]) -> str:
        """Say why the recorded series may not be read at all of these times, unix milliseconds; empty if they may."""
        if not self.definitions:
            return "it records none (load what palanca alerts export writes)"
        fresh = [(row, _fresh(row, times)) for row in self.definitions]
        if any(when.any() for row, when in fresh if row.labels.get(DIGEST) != self.recordings.digest):
            return (
                "they are of another version of palanca, of other signals (--rules) or of some releases only (--vllm)"
            )
        selected: dict[str, set[str]] = {}
        for group in self.recordings.groups:
            mine = [(row, when) for row, when in fresh if row.labels.get(GROUP) == group]
            selected[group] = {row.labels.get(SELECTED, "") for row, when in mine if when.all()}
            if not selected[group]:
                return f"the group {group} of rules was not evaluated in time (is the Prometheus overloaded?)"
        if len(set(map(frozenset, selected.values()))) > 1:
            return f"the groups {' and '.join(sorted(selected))} of rules select different engines"
        if self.uncovered:
            first = " ".join(f"{label}={value}" for label, value in min(one.labels for one in self.uncovered))
            return f"{len(self.uncovered)} engines are not among those recorded, the first: {first}"
        return ""


def missing_engines(
    wanted: Collection[Target],
    engines: Collection[Target],
    heartbeat: Mapping[Target, NDArray[np.float64]],
    definitions: Sequence[Series],
) -> tuple[Target, ...]:
    """Engines that are not recorded, other than those that began after the newest evaluation."""
    newest: dict[str, float] = {}
    for row in definitions:
        group = row.labels.get(GROUP, "")
        newest[group] = max(newest.get(group, -np.inf), float(row.times[-1]) / 1000)
    evaluated = min(newest.values(), default=-np.inf)
    return tuple(
        target
        for target in wanted
        if target not in engines and (target not in heartbeat or heartbeat[target][0] <= evaluated)
    )


def _fresh(row: Series, times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """At which times the newest sample is young enough: ``[times]``."""
    newest = np.searchsorted(row.times, times, side="right") - 1
    at = np.maximum(newest, 0)
    return np.asarray((newest >= 0) & (times - row.times[at] <= FRESH_INTERVALS * 1000 * row.values[at]))
