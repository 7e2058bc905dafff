"""Reader 1: signals read through PromQL, with few queries however many targets and signals there are.

The reader writes query texts and reads answers; how a query is sent is the business of ``Queries``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from palanca import expressions
from palanca.errors import SourceError, UsageError
from palanca.moments import duration
from palanca.signals import inventory
from palanca.signals.identity import identity, join_servers, newest_info
from palanca.signals.inventory import LEAF_TAG, Selection, tagged
from palanca.signals.leaves import MISSING, Discovery, Leaf, compose
from palanca.signals.promql import UNOBSERVED, PromQL
from palanca.signals.samples import HEARTBEAT, LAST_HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.model import Catalogue, Target
    from palanca.signals.leaves import Grid
    from palanca.signals.store import Series

LONGEST_QUERY = 8000
"""Characters of one query; some proxies refuse more than 8 KiB, and a short query is a short error message."""

MOST_STEPS = 11_000
"""Points of one range query that Prometheus answers (``maximum resolution of 11,000 points per timeseries``)."""

_LAST_HOUR_S = LAST_HOUR_MS / 1000
_LOOKBACK_S = 300.0


class Queries(Protocol):
    """A Prometheus-compatible query API. Both methods raise ``SourceError`` and may be called from several threads."""

    def query(self, text: str, time: float) -> Sequence[Series]:
        """Value of an expression at a time in unix seconds: one sample a series, or all those of a range vector."""

    def query_range(self, text: str, start: float, end: float, step: float) -> Sequence[Series]:
        """Values of an expression from ``start`` to ``end``, both included, every ``step`` seconds."""


def planned(
    catalogue: Catalogue, window: float | None = None, signals: Collection[str] | None = None
) -> tuple[Leaf, ...]:
    """Return every leaf that the signals need, each once; all of the catalogue, or those named and what they use.

    ``window`` replaces their windows.
    """
    families = catalogue.metrics.families
    leaves: dict[Leaf, None] = {}
    for signal in (catalogue.signals[name] for name in needed(catalogue, signals)):
        made = compose(signal, window=window, histogram=lambda name: families[name].type == "histogram")
        leaves |= dict.fromkeys(made.leaves if made is not None else ())
        if signal.or_gauge is not None:
            span = window if window is not None else signal.window
            leaves[Leaf("avg", signal.or_gauge, span, offset=signal.offset)] = None
    return tuple(leaves)


def needed(catalogue: Catalogue, signals: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the names of signals and of all that they are computed from; every signal for None."""
    found: dict[str, None] = {}
    todo = list(catalogue.signals if signals is None else signals)
    while todo:
        name = todo.pop()
        if name in found or name not in catalogue.signals:
            continue
        found[name] = None
        signal = catalogue.signals[name]
        todo += [signal.fallback] if signal.fallback else []
        todo += expressions.names(expressions.parse(signal.expr)) if signal.expr else ()
    return tuple(name for name in catalogue.signals if name in found)


class PromQLReader:
    """Evaluates leaves by a Prometheus-compatible server.

    ``matchers`` select as in ``SampleReader``, save that an ``up`` series without any vLLM series beside it is a
    target only where they fit it with all labels: a server knows many jobs that have nothing to do with vLLM.
    ``window`` replaces the windows of the signals. ``threads`` bounds the queries under way at once.
    Raises ``UsageError`` for matchers and grids that no query can express.
    """

    def __init__(
        self,
        client: Queries,
        catalogue: Catalogue,
        grid: Grid,
        *,
        matchers: Mapping[str, str] | None = None,
        window: float | None = None,
        threads: int = 4,
    ) -> None:
        if grid.steps > MOST_STEPS:
            raise UsageError(f"{grid.steps} steps are more than a server answers ({MOST_STEPS}): use a larger step")
        if grid.steps > 1 and (grid.interval * 1000) % 1:
            raise UsageError(f"a step of {grid.interval} s is not a whole number of milliseconds")
        self._client, self._catalogue, self._grid, self._threads = client, catalogue, grid, threads
        self._metrics, self._matchers, self._window = catalogue.metrics, dict(matchers or {}), window
        self._selection = Selection(dict(matchers or {}))
        self._leaves = planned(catalogue, window)
        self._places = inventory.places(self._metrics)
        self._names: frozenset[str] = frozenset()
        self._discovery: Discovery | None = None
        self._values: dict[Leaf, dict[Target, NDArray[np.float64]]] = {}

    def at(self, grid: Grid, signals: Collection[str] | None = None) -> PromQLReader:
        """Return a reader on another grid that knows what this one has discovered."""
        self.discover()
        other = PromQLReader(
            self._client, self._catalogue, grid, matchers=self._matchers, window=self._window, threads=self._threads
        )
        other._leaves = planned(self._catalogue, self._window, signals)
        other._selection, other._names, other._discovery = self._selection, self._names, self._discovery
        return other

    # --- discovery -------------------------------------------------------------------------------

    @property
    def names(self) -> frozenset[str]:
        """Full metric names that the source has, histograms without ``_bucket``; empty before the discovery."""
        return self._names

    def discover(self) -> Discovery:
        """Find the targets; asks once. Raises ``SourceError``."""
        if self._discovery is None:
            self._discovery = self._discover()
        return self._discovery

    def _discover(self) -> Discovery:
        families, metrics, selection = self._metrics.families, self._metrics, self._selection
        core = families[HEARTBEAT]
        engine = [family for family in families.values() if family.scope == "engine"]
        read_as_quantile = {leaf.family for leaf in self._leaves if leaf.function == "quantile"}
        quantiles = [families[name] for name in sorted(read_as_quantile)]
        names_rows, bound_rows, beats = self._instants(
            [
                inventory.names_query(metrics, engine, selection.of, "1h"),
                inventory.bounds_query(metrics, quantiles, selection.of, "1h") if quantiles else "",
                f"{inventory.selector(metrics, [core], selection.of(core))}[{duration(self._reach())}]",
            ]
        )
        names, full = inventory.names_of(names_rows, self._places)
        self._selection = Selection(selection.matchers, inventory.job_names(names))
        servers, infos, more = self._servers(inventory.job_names(names))
        targets = join_servers(names, servers, lambda server: self._asked_for(server.as_dict()))
        self._selection = Selection(selection.matchers, inventory.job_names(targets))
        self._names = frozenset(full | more)
        if targets and self._reach() > _LAST_HOUR_S:
            self._names |= self._older_names()
        ordered = tuple(sorted(targets, key=lambda target: target.labels))
        return Discovery(
            targets=ordered,
            names={target: frozenset(targets[target]) for target in ordered},
            prefixes=frozenset(self._places[name].prefix for name in self._names) - {""},
            heartbeat=inventory.heartbeat_of(beats, core),
            bounds=inventory.bounds_of(bound_rows, self._places),
            info=newest_info(ordered, ((row.labels, int(row.times[-1])) for row in infos), self._metrics),
        )

    def _reach(self) -> float:
        """How far back data are asked for, in seconds: whole ages within the windows of all steps."""
        windows = max((leaf.window + leaf.offset for leaf in self._leaves), default=0.0)
        return max(_LAST_HOUR_S, self._span() + windows + _LOOKBACK_S)

    def _span(self) -> float:
        return (self._grid.steps - 1) * self._grid.interval

    def _servers(self, jobs: frozenset[str]) -> tuple[dict[Target, set[str]], Sequence[Series], set[str]]:
        """Ask for the server-wide names and ``cache_config_info`` of the jobs with engines, and for ``up``."""
        families, metrics = self._metrics.families, self._metrics
        wide = [family for family in families.values() if family.scope == "server"]
        names, info = "", ""
        if jobs:
            names = inventory.names_query(metrics, wide, self._selection.of, "1h")
            if "cache_config_info" in families:
                family = families["cache_config_info"]
                info = inventory.selector(metrics, [family], self._selection.of(family)) + "[1h]"
        if self._selection.matchers and "up" in families:
            up = inventory.names_query(metrics, [families["up"]], self._selection.whole, "1h")
            names = f"{names} or {up}" if names else up
        rows, infos = self._instants([names, info])
        servers, full = inventory.names_of(rows, self._places)
        return servers, infos, full

    def _older_names(self) -> set[str]:
        """Full names that there were in the time of the grid, besides those of the last hour."""
        query = partial(inventory.any_names_query, self._metrics, self._metrics.families.values())
        (rows,) = self._instants([query(self._selection.of, duration(self._reach()))])
        return inventory.names_of(rows, self._places)[1]

    def _asked_for(self, labels: Mapping[str, str]) -> bool:
        matchers = self._selection.matchers
        return any(matchers.values()) and all(labels.get(label, "") == value for label, value in matchers.items())

    # --- leaves ----------------------------------------------------------------------------------

    def leaf(self, leaf: Leaf) -> Mapping[Target, NDArray[np.float64]]:
        """Values ``[steps]`` for each identity of the family; the first call asks for all leaves together."""
        self.discover()
        if leaf not in self._values:
            self._fetch(self._leaves if leaf in self._leaves else (leaf,))
        return self._values[leaf]

    def _fetch(self, leaves: Sequence[Leaf]) -> None:
        self._values |= {leaf: {} for leaf in leaves}
        texts = [(index, self._text(leaf)) for index, leaf in enumerate(leaves)]
        batches = packed(tagged(text, LEAF_TAG, str(index)) for index, text in texts if text)
        for rows in self._each(self._on_grid, batches):
            for row in rows:
                self._note(leaves, row)

    def _text(self, leaf: Leaf) -> str:
        """PromQL of a leaf; empty where the source has no name of its family."""
        family = self._metrics.families[leaf.family]
        prefixes = self._metrics.prefixes if family.prefixed else ("",)
        if not any(prefix + name.name in self._names for prefix in prefixes for name in family.names):
            return ""
        promql = PromQL(self._catalogue, self._names, self._selection.of(family))
        if leaf.function == "quantile":
            return f"({promql.leaf(leaf)}) or {promql.unobserved(leaf)}"
        return promql.leaf(leaf)

    def _note(self, leaves: Sequence[Leaf], row: Series) -> None:
        tag = row.labels.get(LEAF_TAG, "")
        if not tag.isdecimal() or int(tag) >= len(leaves):
            raise SourceError(f"the answer has a series without the label {LEAF_TAG} that the query sets: {row.labels}")
        leaf = leaves[int(tag)]
        labels = {label: value for label, value in row.labels.items() if label != LEAF_TAG}
        target = identity(labels, self._metrics.families[leaf.family])
        values = self._values[leaf].setdefault(target, np.full(self._grid.steps, MISSING))
        times = np.round(self._grid.times * 1000).astype(np.int64)
        index = np.searchsorted(times, row.times)
        inside = (index < times.size) & (times[np.minimum(index, times.size - 1)] == row.times)
        found = row.values[inside]
        values[index[inside]] = np.where(found == UNOBSERVED, np.nan, found) if leaf.function == "quantile" else found

    # --- queries ---------------------------------------------------------------------------------

    def _on_grid(self, text: str) -> Sequence[Series]:
        times = self._grid.times
        if times.size == 1:
            return self._instant(text)
        return self._client.query_range(text, float(times[0]), float(times[-1]), self._grid.interval)

    def _instant(self, text: str) -> Sequence[Series]:
        return self._client.query(text, float(self._grid.times[-1])) if text else ()

    def _instants(self, texts: Sequence[str]) -> list[Sequence[Series]]:
        return self._each(self._instant, texts)

    def _each(self, ask: Callable[[str], Sequence[Series]], texts: Iterable[str]) -> list[Sequence[Series]]:
        """Ask several queries at once; the first error ends it. Raises ``SourceError``."""
        with ThreadPoolExecutor(max_workers=self._threads, thread_name_prefix="palanca-query") as pool:
            return list(pool.map(ask, texts))


def packed(texts: Iterable[str], longest: int = LONGEST_QUERY) -> list[str]:
    """Join expressions by ``or`` into as few queries as ``longest`` characters allow."""
    queries: list[str] = []
    for text in texts:
        joined = f"{queries[-1]} or {text}" if queries else text
        if queries and len(joined) <= longest:
            queries[-1] = joined
        else:
            queries.append(text)
    return queries
