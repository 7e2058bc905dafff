"""Reader 2: signals from samples in memory, as a real Prometheus would compute them."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from palanca.model import Target
from palanca.signals import functions
from palanca.signals.identity import (
    BUCKET,
    COPY_LABELS,
    COUNT,
    PROCESS_LABEL,
    dropped,
    identity,
    join_servers,
    newest_info,
)
from palanca.signals.leaves import MISSING, Discovery, Values, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from palanca.model import Family, Metrics
    from palanca.signals.leaves import Grid, Leaf
    from palanca.signals.store import Block, SampleStore

    Copy = tuple[Target, tuple[str, ...]]
    """An identity, and which redundant Prometheus or process a series of it comes from."""

HEARTBEAT = "num_requests_running"
LAST_HOUR_MS = 3_600_000
_OVER_TIME: dict[str, Callable[..., NDArray[np.float64]]] = {
    "avg": functions.avg_over_time,
    "max": functions.max_over_time,
    "min": functions.min_over_time,
    "count": functions.count_over_time,
    "resets": functions.resets,
    "changes": functions.changes,
}


class SampleReader:
    """Evaluates leaves over a ``SampleStore``.

    ``matchers`` keep the series whose labels have these values; a matcher on a label that a server-wide series does
    not have leaves that series in, since it is joined on job and instance later.
    """

    def __init__(
        self,
        store: SampleStore,
        metrics: Metrics,
        grid: Grid,
        *,
        matchers: Mapping[str, str] | None = None,
        left_open: bool = False,
        threshold_first: bool = False,
        servers: bool = False,
    ) -> None:
        """Read a store; with ``servers`` every ``up`` series is a target, also one without any vLLM series.

        ``left_open`` and ``threshold_first`` are those of ``palanca.signals.functions``.
        """
        self._store, self._metrics, self._grid = store, metrics, grid
        self._matchers = dict(matchers or {})
        self._left_open, self._threshold_first, self._servers = left_open, threshold_first, servers
        self._ends = np.round(grid.times * 1000).astype(np.int64)

    def at(
        self, grid: Grid, signals: Collection[str] | None = None, targets: Collection[Target] | None = None
    ) -> SampleReader:
        """Return a reader of the same samples on another grid."""
        del signals, targets
        return SampleReader(
            self._store,
            self._metrics,
            grid,
            matchers=self._matchers,
            left_open=self._left_open,
            threshold_first=self._threshold_first,
            servers=self._servers,
        )

    def _apply(self, leaf: Leaf, block: Block) -> NDArray[np.float64]:
        """Evaluate the leaf's function on a block: ``[series, steps]``."""
        ends, window = self._ends - round(leaf.offset * 1000), round(leaf.window * 1000)
        if leaf.function == "now":
            return functions.now(block.times, block.values, ends, left_open=self._left_open)
        rate = partial(functions.rate, threshold_first=self._threshold_first)
        function = _OVER_TIME.get(leaf.function, rate)
        return function(block.times, block.values, ends, window, left_open=self._left_open)

    # --- discovery -------------------------------------------------------------------------------

    def discover(self) -> Discovery:
        """Find the targets by the engine-wide families with a sample in the last hour, and by ``up``."""
        names: dict[Target, set[str]] = defaultdict(set)
        servers: dict[Target, set[str]] = defaultdict(set)
        bounds: dict[Target, dict[str, tuple[float, float]]] = defaultdict(dict)
        prefixes: set[str] = set()
        for family_name, family in self._metrics.families.items():
            for prefix, name, block in self._blocks(family):
                if not self._recent(block):
                    continue
                prefixes.add(prefix)
                found = servers if family.scope == "server" else names
                for labels in block.labels:
                    found[identity(labels, family)].add(name)
            if family.type == "histogram":
                self._note_bounds(bounds, family_name, family)
        targets = join_servers(names, servers, self._asked_for)
        ordered = tuple(sorted(targets, key=lambda target: target.labels))
        return Discovery(
            targets=ordered,
            names={target: frozenset(targets[target]) for target in ordered},
            prefixes=frozenset(prefixes - {""}),
            heartbeat=self._heartbeat(),
            bounds=dict(bounds),
            info=self._info(ordered),
        )

    def _recent(self, block: Block) -> bool:
        end = int(self._ends[-1])
        low = np.searchsorted(block.times, end - LAST_HOUR_MS)
        return bool(low < len(block.times) and block.times[low] <= end)

    def _note_bounds(self, bounds: dict[Target, dict[str, tuple[float, float]]], name: str, family: Family) -> None:
        recent = (block for _, _, block in self._blocks(family, suffix=BUCKET) if self._recent(block))
        for labels in (labels for block in recent for labels in block.labels):
            bound = le_of(labels)
            if not math.isfinite(bound):
                continue
            target = identity(labels, family)
            low, high = bounds[target].get(name, (bound, bound))
            bounds[target][name] = (min(low, bound), max(high, bound))

    def _heartbeat(self) -> dict[Target, NDArray[np.float64]]:
        family = self._metrics.families[HEARTBEAT]
        found: dict[Target, list[NDArray[np.int64]]] = defaultdict(list)
        for _, _, block in self._blocks(family):
            times = block.times[block.times <= self._ends[-1]]
            for labels in block.labels:
                found[identity(labels, family)].append(times)
        return {target: np.unique(np.concatenate(times)) / 1000 for target, times in found.items()}

    def _info(self, targets: Iterable[Target]) -> dict[Target, dict[str, str]]:
        family = self._metrics.families.get("cache_config_info")
        rows: list[tuple[Mapping[str, str], int]] = []
        for _, _, block in self._blocks(family) if family is not None else ():
            if self._recent(block):
                newest = int(block.times[np.searchsorted(block.times, self._ends[-1], side="right") - 1])
                rows += [(labels, newest) for labels in block.labels]
        return newest_info(targets, rows, self._metrics)

    def _asked_for(self, server: Target) -> bool:
        """Whether an ``up`` series is a target by itself: when it fits every matcher, and there are some."""
        # an empty value asks for what lacks the label, which is no choice
        asked = self._servers or any(self._matchers.values())
        return asked and all(server.get(name) == value for name, value in self._matchers.items())

    def label_values(self) -> dict[str, list[str]]:
        """Label names and values of all engine-wide series, matched or not: what ``--match`` could have said."""
        every = SampleReader(self._store, self._metrics, self._grid, left_open=self._left_open)
        values: dict[str, set[str]] = defaultdict(set)
        for target in every.discover().targets:
            for label, value in target.labels:
                values[label].add(value)
        return {label: sorted(values[label]) for label in sorted(values)}

    # --- leaves ----------------------------------------------------------------------------------

    def leaf(self, leaf: Leaf) -> Values:
        """Evaluate a leaf for each identity of its family; names preferred in the order of the catalogue."""
        return Values.of(self._evaluated(leaf), self._ends.size)

    def _evaluated(self, leaf: Leaf) -> dict[Target, NDArray[np.float64]]:
        family = self._metrics.families[leaf.family]
        if leaf.function == "quantile":
            return self._quantile(leaf, family)
        suffix = f"_{leaf.part}" if leaf.part else ""
        by_name: dict[str, dict[Copy, NDArray[np.float64]]] = {}
        for prefix, name, block in self._blocks(family, suffix=suffix, where=dict(leaf.where)):
            rows = zip(block.labels, self._apply(leaf, block), strict=True)
            self._add(by_name.setdefault(prefix + name, {}), rows, family, leaf)
        found = prefer(_largest(copies) for copies in by_name.values())
        if family.sparse and leaf.where:
            whole = self._evaluated(replace(leaf, where=()))
            zeros = {target: np.where(missing(values), values, 0.0) for target, values in whole.items()}
            found = prefer([found, zeros])
        return found

    @staticmethod
    def _add(
        copies: dict[Copy, NDArray[np.float64]],
        rows: Iterator[tuple[Mapping[str, str], NDArray[np.float64]]],
        family: Family,
        leaf: Leaf,
    ) -> None:
        """Add up own labels, and processes where they are counted; redundant Prometheus copies stay apart."""
        summed = leaf.function in {"rate", "resets", "changes"}
        for labels, values in rows:
            process = () if summed else (labels.get(PROCESS_LABEL, ""),)
            copy = (*(labels.get(label, "") for label in COPY_LABELS), *process)
            key = (identity(labels, family), copy)
            copies[key] = plus(copies[key], values) if key in copies else values

    def _quantile(self, leaf: Leaf, family: Family) -> dict[Target, NDArray[np.float64]]:
        by_name: dict[str, dict[Target, dict[float, NDArray[np.float64]]]] = {}
        for prefix, name, block in self._blocks(family, suffix=BUCKET, where=dict(leaf.where)):
            rates = self._apply(leaf, block)
            buckets = by_name.setdefault(prefix + name, {})
            for labels, values in zip(block.labels, rates, strict=True):
                mine = buckets.setdefault(identity(labels, family), {})
                bound = le_of(labels)
                mine[bound] = plus(mine[bound], values) if bound in mine else values
        return prefer({t: _quantile_of(leaf.quantile, of) for t, of in buckets.items()} for buckets in by_name.values())

    # --- series ----------------------------------------------------------------------------------

    def _blocks(
        self, family: Family, *, suffix: str | None = None, where: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, str, Block]]:
        """Yield live prefix, plain name and block of every series of the family that matches."""
        if suffix is None:
            suffix = COUNT if family.type == "histogram" else ""
        prefixes = self._metrics.prefixes if family.prefixed else ("",)
        for name in family.names:
            for prefix in prefixes:
                for block in self._store.blocks(prefix + name.name + suffix):
                    kept = self._select(block, family, where or {})
                    if kept is not None:
                        yield prefix, name.name, kept

    def _select(self, block: Block, family: Family, where: Mapping[str, str]) -> Block | None:
        gone = dropped(family)

        def fits(labels: Mapping[str, str]) -> bool:
            if family.needs_label is not None and not labels.get(family.needs_label):
                return False
            if any(labels.get(label, "") != value for label, value in where.items()):
                return False
            return all(
                labels.get(label, "") == value
                for label, value in self._matchers.items()
                if (family.scope == "engine" and label not in gone) or label in labels
            )

        if not where and not self._matchers and family.needs_label is None:
            return block
        keep = [index for index, labels in enumerate(block.labels) if fits(labels)]
        if not keep:
            return None
        if len(keep) == len(block.labels):
            return block
        return type(block)(tuple(block.labels[index] for index in keep), block.times, block.values[keep])


def le_of(labels: Mapping[str, str]) -> float:
    """Upper bound of a bucket; NaN when the label is no number."""
    try:
        return float(labels.get("le", "nan"))
    except ValueError:
        return math.nan


def plus(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of two series as ``sum`` does it: a missing side is left out."""
    return np.add(a, b, out=np.where(missing(a), b, a), where=~missing(a) & ~missing(b))


def larger(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Larger of two series as ``max`` does it: a missing side is left out, NaN only when both are."""
    return np.where(missing(a), b, np.where(missing(b), a, np.fmax(a, b)))


def _largest(copies: Mapping[Copy, NDArray[np.float64]]) -> dict[Target, NDArray[np.float64]]:
    found: dict[Target, NDArray[np.float64]] = {}
    for (target, _), values in copies.items():
        found[target] = larger(found[target], values) if target in found else values
    return found


def prefer(candidates: Iterable[Mapping[Target, NDArray[np.float64]]]) -> dict[Target, NDArray[np.float64]]:
    """Join by ``or``: at each step the first candidate that has a sample."""
    joined: dict[Target, NDArray[np.float64]] = {}
    for candidate in candidates:
        for target, values in candidate.items():
            mine = joined.get(target)
            joined[target] = values if mine is None else np.where(missing(mine), values, mine)
    return joined


def _quantile_of(quantile: float, buckets: Mapping[float, NDArray[np.float64]]) -> NDArray[np.float64]:
    bounds = np.array(sorted(bound for bound in buckets if not math.isnan(bound)))
    if not bounds.size:
        return np.full(len(next(iter(buckets.values()))), MISSING)
    rates = np.stack([buckets[bound] for bound in bounds])
    absent = missing(rates)
    result = np.empty(rates.shape[1])
    for pattern in np.unique(absent, axis=1).T:
        columns = np.flatnonzero((absent == pattern[:, None]).all(axis=0))
        if pattern.all():
            result[columns] = MISSING
            continue
        result[columns] = functions.histogram_quantile(quantile, bounds[~pattern], rates[~pattern][:, columns])
    return result
