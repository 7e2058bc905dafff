"""Reader 1: signals read through PromQL, with few queries however many targets and signals there are.

The reader writes query texts and reads answers; how a query is sent is the business of ``Queries``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from palanca import expressions
from palanca.errors import SourceError, UsageError
from palanca.signals.asking import Asking
from palanca.signals.identity import Identities, dropped
from palanca.signals.inventory import LEAF_TAG, Selection, tagged
from palanca.signals.leaves import MISSING, Leaf, compose
from palanca.signals.promql import UNOBSERVED, PromQL
from palanca.signals.survey import Surveyor

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.model import Catalogue, Target
    from palanca.signals.asking import Queries
    from palanca.signals.leaves import Discovery, Grid
    from palanca.signals.recorded import Recordings
    from palanca.signals.store import Series
    from palanca.signals.survey import Survey


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
    ``window`` replaces the windows of the signals. ``threads`` bounds the queries under way at once. What is recorded
    as ``recordings`` say is read instead of buckets, where it may be.
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
        recordings: Recordings | None = None,
    ) -> None:
        self._asking, self._recordings = Asking(client, threads), recordings
        self._catalogue, self._metrics, self._window = catalogue, catalogue.metrics, window
        self._selection, self._identities = Selection(dict(matchers or {})), Identities()
        self._leaves = planned(catalogue, window)
        self._survey: Survey | None = None
        if grid.steps > 1 and (grid.interval * 1000) % 1:
            raise UsageError(f"a step of {grid.interval} s is not a whole number of milliseconds")
        self._grid = grid
        self._values: dict[Leaf, dict[Target, NDArray[np.float64]]] = {}

    def at(
        self, grid: Grid, signals: Collection[str] | None = None, instances: frozenset[str] | None = None
    ) -> PromQLReader:
        """Return a reader on another grid that knows what this one has discovered."""
        survey = self._surveyed()
        other = PromQLReader(
            self._asking.client, self._catalogue, grid, window=self._window, threads=self._asking.threads
        )
        other._leaves = planned(self._catalogue, self._window, signals)
        other._survey = replace(survey, selection=replace(survey.selection, instances=instances or frozenset()))
        other._identities, other._recordings = self._identities, self._recordings
        return other

    # --- discovery -------------------------------------------------------------------------------

    @property
    def names(self) -> frozenset[str]:
        """Full metric names that the source has, histograms without ``_bucket``; empty before the discovery."""
        return frozenset() if self._survey is None else self._survey.names

    def discover(self) -> Discovery:
        """Find the targets; asks once. Raises ``SourceError``."""
        return self._surveyed().discovery

    def _surveyed(self) -> Survey:
        if self._survey is None:
            surveyor = Surveyor(self._asking, self._metrics, self._grid, self._leaves, self._recordings)
            self._survey = surveyor.survey(self._selection)
        return self._survey

    @property
    def unrecorded(self) -> str:
        """Why recorded series are not read on this grid; empty where they are. Raises ``SourceError``."""
        recorded = self._surveyed().recorded
        return "nobody asked for them" if recorded is None else recorded.why_not(self._grid.milliseconds)

    # --- leaves ----------------------------------------------------------------------------------

    def leaf(self, leaf: Leaf) -> Mapping[Target, NDArray[np.float64]]:
        """Values ``[steps]`` for each identity of the family; the first call asks for all leaves together."""
        if leaf not in self._values:
            self._fetch(self._leaves if leaf in self._leaves else (leaf,))
        return self._values[leaf]

    def _fetch(self, leaves: Sequence[Leaf]) -> None:
        self._values |= {leaf: {} for leaf in leaves}
        recorded = {} if self._recordings is None or self.unrecorded else self._recordings.series
        texts = [(index, self._text(leaf, recorded.get(leaf))) for index, leaf in enumerate(leaves)]
        marked = [tagged(text, LEAF_TAG, str(index)) for index, text in texts if text]
        of_leaf = {
            str(index): (self._values[leaf], dropped(self._metrics.families[leaf.family]))
            for index, leaf in enumerate(leaves)
        }
        times, whole = self._grid.milliseconds, None
        for row in self._asking.joined(marked, self._grid):
            labels = dict(row.labels)
            tag = labels.pop(LEAF_TAG, "")
            if tag not in of_leaf:
                raise SourceError(f"the answer has a series without the label {LEAF_TAG} that the query sets: {labels}")
            values, gone = of_leaf[tag]
            target = self._identities.of(labels, gone)
            if row.times is not whole and np.array_equal(row.times, times):
                whole = row.times
            if row.times is whole and target not in values:
                values[target] = row.values
            else:
                _lay(row, times, values.setdefault(target, np.full(times.size, MISSING)))
        for leaf in leaves:
            if leaf.function == "quantile":
                for found in self._values[leaf].values():
                    found[found == UNOBSERVED] = np.nan

    def _text(self, leaf: Leaf, recorded: str | None) -> str:
        """PromQL of a leaf, or the series that has it recorded; empty where the source has no name of its family."""
        family, found = self._metrics.families[leaf.family], self._surveyed()
        prefixes = self._metrics.prefixes if family.prefixed else ("",)
        if not any(prefix + name.name in found.names for prefix in prefixes for name in family.names):
            return ""
        if recorded is not None:
            return f"{recorded}{{{', '.join(found.selection.of(family))}}}"
        promql = PromQL(self._catalogue, found.names, found.selection.of(family))
        if leaf.function == "quantile":
            return f"({promql.leaf(leaf)}) or {promql.unobserved(leaf)}"
        return promql.leaf(leaf)


def _lay(row: Series, times: NDArray[np.int64], values: NDArray[np.float64]) -> None:
    """Lay the samples of a row on the grid of ``values``; those beside it are left out."""
    index = np.searchsorted(times, row.times)
    inside = (index < times.size) & (times[np.minimum(index, times.size - 1)] == row.times)
    values[index[inside]] = row.values[inside]
