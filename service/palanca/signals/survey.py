"""What there is in a Prometheus-compatible server: the targets, their names, and what else readings begin with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from palanca.moments import duration
from palanca.signals import inventory
from palanca.signals.asking import batches, either
from palanca.signals.bounds import BoundsFinder, LaterBounds
from palanca.signals.identity import dropped, join_servers, newest_info
from palanca.signals.inventory import Selection
from palanca.signals.leaves import Discovery
from palanca.signals.recorded import Recorded, missing_engines
from palanca.signals.samples import HEARTBEAT, LAST_HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from palanca.model import Metrics, Target
    from palanca.signals.asking import Asking
    from palanca.signals.identity import Identities
    from palanca.signals.inventory import Alike
    from palanca.signals.leaves import Grid, Leaf
    from palanca.signals.recorded import Recordings
    from palanca.signals.store import Columns, Series

_LAST_HOUR_S = LAST_HOUR_MS / 1000
_HOUR = duration(_LAST_HOUR_S)
_LOOKBACK_S = 300.0
MOST_NAMES = 4
"""Expressions for names in one query: each has many series."""


@dataclass(frozen=True)
class Survey:
    """What was found: the targets, full metric names (histograms without ``_bucket``), and what to select by.

    ``recorded`` is None where nobody asked for recorded series.
    """

    discovery: Discovery
    names: frozenset[str]
    selection: Selection
    recorded: Recorded | None


class Surveyor:
    """Finds the targets of the hour before the end of a grid, and what leaves will need.

    ``survey`` makes two round trips: names of the engines, and of their servers. There is one more for names that only
    some engines have, and another for what began within a grid of more than an hour. Bounds of histograms are asked for
    when they are looked at.
    """

    def __init__(
        self,
        asking: Asking,
        metrics: Metrics,
        grid: Grid,
        leaves: Sequence[Leaf],
        recordings: Recordings | None,
        identities: Identities,
    ) -> None:
        self._asking, self._metrics, self._families = asking, metrics, metrics.families
        self._identities, self._places = identities, inventory.places(metrics)
        self._histograms = {leaf.family: self._families[leaf.family] for leaf in leaves if leaf.function == "quantile"}
        self._recordings, self._grid, self._end = recordings, grid, float(grid.times[-1])
        self._bounds = BoundsFinder(self._instants, metrics, self._histograms.values(), self._places, identities, _HOUR)
        windows = max((leaf.window + leaf.offset for leaf in leaves), default=0.0)
        self._reach = max(_LAST_HOUR_S, (grid.steps - 1) * grid.interval + windows + _LOOKBACK_S)
        """How far back data are asked for, in seconds: whole ages within the windows of all steps."""

    def survey(self, selection: Selection) -> Survey:
        """Ask. Raises ``SourceError``."""
        names, full, beats, recorded = self._engines(selection)
        selection = Selection(selection.matchers, inventory.job_names(names))
        servers, infos = self._instants(*self._servers(selection))
        own, more = inventory.names_of([servers], self._places, self._identities)
        targets = join_servers(names, own, lambda server: _asked_for(server, selection.matchers))
        selection = Selection(selection.matchers, inventory.job_names(targets))
        known = frozenset(full | more)
        (older,) = self._instants(self._older_query(selection) if targets and self._reach > _LAST_HOUR_S else "")
        known |= inventory.names_of([older], self._places, self._identities)[1]
        ordered = tuple(sorted(targets, key=lambda target: target.labels))
        alike: dict[frozenset[str], frozenset[str]] = {}
        having = {target: alike.setdefault(one := frozenset(targets[target]), one) for target in ordered}
        discovery = Discovery(
            targets=ordered,
            names=having,
            prefixes=frozenset(self._places[name].prefix for name in known) - {""},
            heartbeat=beats,
            bounds=LaterBounds(partial(self._bounds.find, having, selection, self._recorded_buckets(recorded))),
            info=newest_info(ordered, ((row.labels, int(row.times[-1])) for row in infos), self._metrics),
        )
        return Survey(discovery, known, selection, recorded)

    def _engines(
        self, selection: Selection
    ) -> tuple[dict[Target, set[str]], set[str], dict[Target, NDArray[np.float64]], Recorded | None]:
        """Plain names of each engine, all full names, the heartbeats, and what is recorded."""
        core = self._families[HEARTBEAT]
        engine = [family for family in self._families.values() if family.scope == "engine"]
        groups = inventory.alike(engine, selection.of)
        many = [group for group in groups if len(group.families) > 1]
        beat_rows, definitions, known_engines, counts, identities, *rows = self._instants(
            f"{inventory.selector(self._metrics, [core], selection.of(core))}[{duration(self._reach)}]",
            *self._recorded_queries(selection),
            inventory.counts_query(self._metrics, many, _HOUR),
            inventory.identities_query(self._metrics, many, _HOUR),
            *self._names_queries([group for group in groups if group not in many]),
        )
        names, full, uneven = inventory.common_names(many, counts, identities, self._places, self._identities, _HOUR)
        rows += self._instants(*map(either, batches(uneven)))
        listed, others = inventory.names_of(rows, self._places, self._identities)
        for target, some in listed.items():
            names.setdefault(target, set()).update(some)
        beats = inventory.heartbeat_of(beat_rows, core, self._identities)
        return names, full | others, beats, self._recorded(names, beats, definitions, known_engines)

    def _instants(self, *texts: str) -> list[Columns]:
        return self._asking.instants(texts, self._end)

    def _names_queries(self, groups: Sequence[Alike]) -> list[str]:
        return [*map(either, batches(inventory.names_queries(self._metrics, groups, _HOUR), most=MOST_NAMES))]

    def _servers(self, selection: Selection) -> tuple[str, str]:
        """Queries for the server-wide names and ``cache_config_info`` of the jobs with engines, and for ``up``."""
        wide = [family for family in self._families.values() if family.scope == "server"]
        names: list[str] = []
        info = ""
        if selection.jobs:
            names += inventory.names_queries(self._metrics, inventory.alike(wide, selection.of), _HOUR)
            if "cache_config_info" in self._families:
                family = self._families["cache_config_info"]
                info = f"{inventory.selector(self._metrics, [family], selection.of(family))}[{_HOUR}]"
        if selection.matchers and "up" in self._families:
            up = inventory.alike([self._families["up"]], selection.whole)
            names += inventory.names_queries(self._metrics, up, _HOUR)
        return " or ".join(names), info

    def _older_query(self, selection: Selection) -> str:
        """Full names that there were in the time of the grid, besides those of the last hour."""
        every = self._families.values()
        return inventory.any_names_query(self._metrics, every, selection.of, duration(self._reach))

    # --- recorded series -------------------------------------------------------------------------

    def _recorded_queries(self, selection: Selection) -> tuple[str, str]:
        """Queries for the definitions of recorded series, and for the engines that are recorded."""
        if self._recordings is None or not self._histograms:
            return "", ""
        core = self._families[HEARTBEAT]
        definitions = f"{self._recordings.definitions}[{duration(self._reach)}]"
        return definitions, f"{self._recordings.engines}{{{', '.join(selection.of(core))}}}"

    def _recorded(
        self,
        names: Mapping[Target, set[str]],
        beats: Mapping[Target, NDArray[np.float64]],
        definitions: Sequence[Series],
        engines: Sequence[Series],
    ) -> Recorded | None:
        if self._recordings is None:
            return None
        read = {name.name for family in self._histograms.values() for name in family.names}
        gone = dropped(self._families[HEARTBEAT])
        there = {self._identities.of(row.labels, gone) for row in engines}
        wanted = [target for target, own in names.items() if own & read]
        return Recorded(self._recordings, definitions, missing_engines(wanted, there, beats, definitions))

    def _recorded_buckets(self, recorded: Recorded | None) -> str:
        usable = recorded is not None and not recorded.why_not(self._grid.milliseconds[-1:])
        return recorded.recordings.buckets if recorded is not None and usable else ""


def _asked_for(server: Target, matchers: Mapping[str, str]) -> bool:
    """Whether an ``up`` series without any vLLM series beside it fits the matchers with all labels."""
    return any(matchers.values()) and all(server.get(label) == value for label, value in matchers.items())
