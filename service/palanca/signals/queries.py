"""Reader 1: signals read through PromQL, with few queries however many targets and signals there are.

The reader writes query texts and reads answers; how a query is sent is the business of ``Queries``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from palanca import expressions
from palanca.errors import SourceError, UsageError
from palanca.signals.asking import Asking
from palanca.signals.identity import Identities, dropped
from palanca.signals.inventory import LEAF_TAG, Selection, narrowest, tagged
from palanca.signals.leaves import MISSING, Leaf, Values, compose, missing
from palanca.signals.promql import UNOBSERVED, PromQL
from palanca.signals.survey import Surveyor

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.model import Catalogue, Target
    from palanca.signals.asking import Queries
    from palanca.signals.leaves import Discovery, Grid
    from palanca.signals.recorded import Recordings
    from palanca.signals.store import Columns
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
        self._signals: Collection[str] | None = None
        self._survey: Survey | None = None
        if grid.steps > 1 and (grid.interval * 1000) % 1:
            raise UsageError(f"a step of {grid.interval} s is not a whole number of milliseconds")
        self._grid = grid
        self._values: dict[Leaf, Values] = {}

    def at(
        self, grid: Grid, signals: Collection[str] | None = None, targets: Collection[Target] | None = None
    ) -> PromQLReader:
        """Return a reader on another grid that knows what this one has discovered."""
        survey = self._surveyed()
        other = PromQLReader(self._asking.client, self._catalogue, grid, window=self._window)
        other._asking = self._asking
        other._signals = signals
        narrow = {} if targets is None else narrowest(targets, survey.discovery.targets)
        other._survey = replace(survey, selection=survey.selection.narrowed(narrow))
        other._identities, other._recordings = self._identities, self._recordings
        return other

    @cached_property
    def _leaves(self) -> tuple[Leaf, ...]:
        return planned(self._catalogue, self._window, self._signals)

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
            surveyor = Surveyor(
                self._asking, self._metrics, self._grid, self._leaves, self._recordings, self._identities
            )
            self._survey = surveyor.survey(self._selection)
        return self._survey

    @property
    def unrecorded(self) -> str:
        """Why recorded series are not read on this grid; empty where they are. Raises ``SourceError``."""
        recorded = self._surveyed().recorded
        return "nobody asked for them" if recorded is None else recorded.why_not(self._grid.milliseconds)

    # --- leaves ----------------------------------------------------------------------------------

    def leaf(self, leaf: Leaf) -> Values:
        """Evaluate a leaf for each identity of its family; the first call asks for all leaves together."""
        if leaf not in self._values:
            self._fetch(self._leaves if leaf in self._leaves else (leaf,))
        return self._values[leaf]

    def _fetch(self, leaves: Sequence[Leaf]) -> None:
        recorded = {} if self._recordings is None or self.unrecorded else self._recordings.series
        texts = [(index, self._text(leaf, recorded.get(leaf))) for index, leaf in enumerate(leaves)]
        marked = [tagged(text, LEAF_TAG, str(index)) for index, text in texts if text]
        gone = {str(index): dropped(self._metrics.families[leaf.family]) for index, leaf in enumerate(leaves)}
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="palanca-bounds") as beside:
            quantiles = any(leaf.function == "quantile" for leaf in leaves)
            bounds = beside.submit(len, self._surveyed().discovery.bounds) if quantiles else None  # looks at them
            answers = self._asking.joined(marked, self._grid, partial(self._by_leaf, gone))
        if bounds is not None:
            bounds.result()
        found: dict[str, list[Values]] = {tag: [] for tag in gone}
        for tag, values in chain.from_iterable(answers):
            found[tag].append(values)
        for index, leaf in enumerate(leaves):
            values = _laid(found[str(index)], self._grid.steps)
            if leaf.function == "quantile":
                values.matrix[values.matrix == UNOBSERVED] = np.nan
            self._values[leaf] = values

    def _by_leaf(self, gone: Mapping[str, frozenset[str]], answer: Columns) -> list[tuple[str, Values]]:
        """Read an answer: values by the tag of their leaf; ``gone`` has the labels of no identity by tag."""
        laid, by_leaf = answer.on(self._grid.milliseconds, MISSING), answer.by(LEAF_TAG)
        targets_of = cache(partial(self._identities.of_all, by_leaf.labels))
        alike: dict[tuple[frozenset[str], tuple[int, ...]], tuple[Target, ...]] = {}
        found = []
        for tag, rows in by_leaf.rows.items():
            if tag not in gone:
                message = f"the answer has a series with another {LEAF_TAG} ({tag!r}) than the query sets: "
                raise SourceError(message + str(dict(by_leaf.labels[by_leaf.sets[rows[0]]])))
            sets = tuple([by_leaf.sets[row] for row in rows])
            if (gone[tag], sets) not in alike:
                having = targets_of(gone[tag])
                alike[gone[tag], sets] = self._identities.together([having[one] for one in sets])
            found.append((tag, Values(alike[gone[tag], sets], laid[rows])))
        return found

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


def _laid(parts: Sequence[Values], steps: int) -> Values:
    """Lay all that answers have of a leaf over each other, later rows of a target on top."""
    if len(parts) == 1 and len(set(map(id, parts[0].targets))) == len(parts[0].targets):  # equal ones are the same
        return parts[0]
    found: dict[Target, NDArray[np.float64]] = {}
    for target, row in ((target, row) for part in parts for target, row in zip(part.targets, part.matrix, strict=True)):
        found[target] = np.where(missing(row), found[target], row) if target in found else row
    return Values.of(found, steps)
