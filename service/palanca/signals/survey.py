"""What there is in a Prometheus-compatible server: the targets, their names, and what else readings begin with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from palanca.moments import duration
from palanca.signals import inventory
from palanca.signals.identity import join_servers, newest_info
from palanca.signals.inventory import Selection
from palanca.signals.leaves import Discovery, Grid
from palanca.signals.samples import HEARTBEAT, LAST_HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from palanca.model import Metrics, Target
    from palanca.signals.asking import Asking
    from palanca.signals.identity import Identities
    from palanca.signals.leaves import Leaf

_LAST_HOUR_S = LAST_HOUR_MS / 1000
_HOUR = duration(_LAST_HOUR_S)
_LOOKBACK_S = 300.0


@dataclass(frozen=True)
class Survey:
    """What was found: the targets, full metric names (histograms without ``_bucket``), and what to select by."""

    discovery: Discovery
    names: frozenset[str]
    selection: Selection


def survey(
    asking: Asking,
    metrics: Metrics,
    grid: Grid,
    leaves: Sequence[Leaf],
    selection: Selection,
    identities: Identities,
) -> Survey:
    """Find the targets of the hour before the end of the grid, and what the leaves will need. Raises ``SourceError``.

    Three round trips at most: names of the engines; those of their servers; names of earlier, for a grid of more than
    an hour.
    """
    return _Surveyor(asking, metrics, grid, leaves, identities).survey(selection)


class _Surveyor:
    def __init__(
        self, asking: Asking, metrics: Metrics, grid: Grid, leaves: Sequence[Leaf], identities: Identities
    ) -> None:
        self._asking, self._metrics, self._families = asking, metrics, metrics.families
        self._identities, self._places = identities, inventory.places(metrics)
        self._histograms = {leaf.family: self._families[leaf.family] for leaf in leaves if leaf.function == "quantile"}
        self._end = float(grid.times[-1])
        self._instant = Grid(self._end, 1, grid.interval)
        windows = max((leaf.window + leaf.offset for leaf in leaves), default=0.0)
        self._reach = max(_LAST_HOUR_S, (grid.steps - 1) * grid.interval + windows + _LOOKBACK_S)
        """How far back data are asked for, in seconds: whole ages within the windows of all steps."""

    def survey(self, selection: Selection) -> Survey:
        core = self._families[HEARTBEAT]
        engine = [family for family in self._families.values() if family.scope == "engine"]
        beats, buckets, *rows = self._asking.instants(
            [
                f"{inventory.selector(self._metrics, [core], selection.of(core))}[{duration(self._reach)}]",
                inventory.buckets_query(self._metrics, self._histograms.values(), selection.of, _HOUR),
                *inventory.names_queries(self._metrics, engine, selection.of, _HOUR),
            ],
            self._end,
        )
        names, full = inventory.names_of(chain(*rows), self._places, self._identities)
        shared, uneven = inventory.shared_bounds(buckets, self._places)
        selection = Selection(selection.matchers, inventory.job_names(names))
        servers, infos, differing = self._asking.instants(
            [*self._servers(selection), self._bounds_query(selection, uneven)], self._end
        )
        own, more = inventory.names_of(servers, self._places, self._identities)
        targets = join_servers(names, own, lambda server: _asked_for(server, selection.matchers))
        selection = Selection(selection.matchers, inventory.job_names(targets))
        known = frozenset(full | more)
        if targets and self._reach > _LAST_HOUR_S:
            known |= self._older_names(selection)
        ordered = tuple(sorted(targets, key=lambda target: target.labels))
        alike: dict[frozenset[str], frozenset[str]] = {}
        having = {target: alike.setdefault(one := frozenset(targets[target]), one) for target in ordered}
        bounds = inventory.bounds_for(having, shared, self._family_names(uneven))
        for target, found in inventory.bounds_of(differing, self._places).items():
            bounds.setdefault(target, {}).update(found)
        discovery = Discovery(
            targets=ordered,
            names=having,
            prefixes=frozenset(self._places[name].prefix for name in known) - {""},
            heartbeat=inventory.heartbeat_of(beats, core),
            bounds=bounds,
            info=newest_info(ordered, ((row.labels, int(row.times[-1])) for row in infos), self._metrics),
        )
        return Survey(discovery, known, selection)

    def _servers(self, selection: Selection) -> tuple[str, str]:
        """Queries for the server-wide names and ``cache_config_info`` of the jobs with engines, and for ``up``."""
        wide = [family for family in self._families.values() if family.scope == "server"]
        names: list[str] = []
        info = ""
        if selection.jobs:
            names += inventory.names_queries(self._metrics, wide, selection.of, _HOUR)
            if "cache_config_info" in self._families:
                family = self._families["cache_config_info"]
                info = f"{inventory.selector(self._metrics, [family], selection.of(family))}[{_HOUR}]"
        if selection.matchers and "up" in self._families:
            names += inventory.names_queries(self._metrics, [self._families["up"]], selection.whole, _HOUR)
        return " or ".join(names), info

    def _bounds_query(self, selection: Selection, uneven: Collection[str]) -> str:
        """Query for the bounds of every target, of families in which not all have the same."""
        families = [self._histograms[name] for name in sorted(uneven)]
        return inventory.bounds_query(self._metrics, families, selection.of, _HOUR)

    def _family_names(self, uneven: Collection[str]) -> dict[str, str]:
        """Families whose bounds are shared, by plain name."""
        return {
            name.name: family
            for family, spec in self._histograms.items()
            if family not in uneven
            for name in spec.names
        }

    def _older_names(self, selection: Selection) -> frozenset[str]:
        """Full names that there were in the time of the grid, besides those of the last hour."""
        query = partial(inventory.any_names_query, self._metrics, self._families.values())
        (rows,) = self._asking.instants([query(selection.of, duration(self._reach))], self._end)
        return frozenset(inventory.names_of(rows, self._places, self._identities)[1])


def _asked_for(server: Target, matchers: Mapping[str, str]) -> bool:
    """Whether an ``up`` series without any vLLM series beside it fits the matchers with all labels."""
    return any(matchers.values()) and all(server.get(label) == value for label, value in matchers.items())
