"""From leaves to readings: the same assembly whichever reader gave the values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from palanca import expressions
from palanca.model import Readings, SignalReadings, State, Target, VllmVersion
from palanca.signals.identity import ServerIndex, server_of
from palanca.signals.leaves import MISSING, Leaf, compose, missing, possible_range
from palanca.signals.samples import HEARTBEAT, larger
from palanca.signals.versions import available, counts, releases_of, version_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.model import Catalogue, Family, Signal, SourceInfo
    from palanca.signals.leaves import Discovery, Grid, Reader

    Array = NDArray[np.float64]

STALE_AFTER_S = 300.0
"""A target without a sample for longer than Prometheus' lookback is stale."""


@dataclass(frozen=True)
class _Context:
    """What every signal of one diagnosis needs."""

    catalogue: Catalogue
    reader: Reader
    grid: Grid
    found: Discovery
    versions: tuple[VllmVersion | None, ...]
    age: Array
    fresh: NDArray[np.bool_]
    window: float | None
    longest: float | None
    places: dict[tuple[str, int], tuple[tuple[Target, ...], NDArray[np.intp]]] = field(default_factory=dict)
    """Rows of each target among those of a leaf, -1 for none, by scope and ``id`` of all of the leaf: many have the
    same. They are kept beside, so that no others get their ``id``."""

    @cached_property
    def kinds(self) -> tuple[NDArray[np.intp], list[tuple[frozenset[str], VllmVersion | None]]]:
        """What tells targets apart where a series is missing: the number of each one's kind, and the kinds."""
        numbers: dict[tuple[frozenset[str], VllmVersion | None], int] = {}
        own = [
            numbers.setdefault((self.found.names.get(target, frozenset()), version), len(numbers))
            for target, version in zip(self.found.targets, self.versions, strict=True)
        ]
        return np.array(own, dtype=np.intp), list(numbers)

    def span(self, signal: Signal) -> float:
        """Window of a signal in seconds: its own or the one given, but no longer than the history of the source."""
        span = self.window if self.window is not None else signal.window
        return span if self.longest is None else min(span, self.longest)


def read(
    catalogue: Catalogue,
    reader: Reader,
    grid: Grid,
    source: SourceInfo,
    *,
    window: float | None = None,
    only: Collection[str] | None = None,
    longest: float | None = None,
    releases: Mapping[str, str] | None = None,
) -> Readings:
    """Read every signal of every target, or ``only`` those named (and what they are computed from).

    ``window`` replaces the windows of the signals; none is longer than ``longest``. Both are seconds. ``releases`` are
    those that servers report, by instance. Raises ``SourceError``.

    Facts are added afterwards, by ``palanca.facts``.
    """
    found = reader.discover()
    table = version_table(catalogue.metrics)
    versions = tuple(
        table.infer(found.names.get(target, frozenset()), found.info.get(target), target.as_dict())
        for target in found.targets
    )
    versions = tuple(
        table.reported((releases or {}).get(target.get("instance"), ""), version, target.as_dict())
        for target, version in zip(found.targets, versions, strict=True)
    )
    age, fresh = _ages(found, grid)
    context = _Context(catalogue, reader, grid, found, versions, age, fresh, window, longest)
    signals: dict[str, SignalReadings] = {}
    for name in catalogue.signals if only is None else only:
        _read_signal(context, name, signals)
    covered = np.minimum(age[:, -1], np.inf) if len(found.targets) else np.zeros(0)
    empty: tuple[Mapping[str, object], ...] = tuple({} for _ in found.targets)
    info = tuple(found.info.get(target, {}) for target in found.targets)
    known = frozenset[str]().union(*set(found.names.values()))  # many targets have the same
    exposed = frozenset(prefix + name for prefix in found.prefixes for name in known)
    return Readings(found.targets, grid.times, signals, covered, empty, versions, source, info, exposed)  # type: ignore[arg-type]


def widen(readings: Readings, grid: Grid, past: Readings) -> Readings:
    """Lay readings of one instant on a grid that ends there, and the signals of ``past``, read on it, over them.

    Steps before the last are absent where ``past`` says nothing. Both must be of the same targets.
    """
    shape = len(readings.targets), grid.steps - 1
    nothing, absent = np.full(shape, np.nan), np.full(shape, State.ABSENT, dtype=np.uint8)
    signals = {
        name: SignalReadings(
            np.concatenate([nothing, one.values], axis=1),
            np.concatenate([absent, one.states], axis=1),
            np.repeat(one.window, grid.steps, axis=1),
        )
        for name, one in readings.signals.items()
    }
    return replace(readings, times=grid.times, signals={**signals, **past.signals})


def _ages(found: Discovery, grid: Grid) -> tuple[Array, NDArray[np.bool_]]:
    """Age of each target's series, and whether it has a fresh sample: both ``[targets, steps]``."""
    age = np.zeros((len(found.targets), grid.steps))
    fresh = np.zeros((len(found.targets), grid.steps), dtype=bool)
    for row, target in enumerate(found.targets):
        beats = found.heartbeat.get(target)
        if beats is None or not beats.size:
            continue
        age[row] = np.maximum(grid.times - beats[0], 0.0)
        newest = np.searchsorted(beats, grid.times, side="right") - 1
        fresh[row] = (newest >= 0) & (grid.times - beats[np.maximum(newest, 0)] <= STALE_AFTER_S)
    return age, fresh


def _read_signal(context: _Context, name: str, done: dict[str, SignalReadings]) -> SignalReadings:
    if name in done:
        return done[name]
    signal = context.catalogue.signals[name]
    made = _expression(context, signal, done) if signal.expr is not None else _measured(context, signal)
    if signal.fallback is not None:
        other = _read_signal(context, signal.fallback, done)
        made = _fall_back(made, other)
    done[name] = made
    return made


def _fall_back(made: SignalReadings, other: SignalReadings) -> SignalReadings:
    """Take the other signal where a target has no such family at all (never where it is idle or stale)."""
    lacking = np.isin(made.states, (State.ABSENT, State.NOT_APPLICABLE)).all(axis=1, keepdims=True)
    return SignalReadings(
        np.where(lacking, other.values, made.values),
        np.where(lacking, other.states, made.states),
        np.where(lacking, other.window, made.window),
    )


def _measured(context: _Context, signal: Signal) -> SignalReadings:
    families = context.catalogue.metrics.families
    span = context.span(signal)
    composition = compose(signal, window=span, histogram=lambda name: families[name].type == "histogram")
    if composition is None:
        message = "an expression has no leaves"
        raise TypeError(message)
    family = families[signal.family or ""]
    rows = [_rows(context, leaf) for leaf in composition.leaves]
    gone = np.logical_or.reduce([missing(row) for row in rows])
    values = composition.join(*rows)
    if signal.or_gauge is not None:
        values, gone = _or_gauge(context, signal, values, gone)
    effective = np.clip(context.age - signal.offset, 0.0, span)
    if composition.per_window:
        scale = span / np.where(effective > 0, effective, span)
        values = np.multiply(values, scale, out=values.copy(), where=~gone)
    if signal.since is not None:
        values = context.grid.times - values
    if signal.present is not None:
        values, gone = np.where(gone, 0.0, 1.0), gone & _replaced(context.found.targets, gone)
    states = _states(context, values, gone, family)
    if len(composition.leaves) == 1:
        states = np.where(_impossible(signal, values) & ~gone, State.ABSENT, states).astype(np.uint8)
    _mark_uncounted(context, states, values, signal)
    if signal.quantile is not None:
        _mark_bounds(context, states, values, signal.family or "")
    values = np.where(states >= State.ABSENT, np.nan, values)
    instant = signal.now is not None or signal.since is not None or signal.present is not None
    return SignalReadings(values, states, np.zeros_like(effective) if instant else effective)


def _replaced(targets: Sequence[Target], gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say where the server of a target shows another engine, as after a start with other labels: ``[targets, steps]``.

    A new model name or an ``engine`` label that a release brings makes a new target at the same address; the old one
    is over, and no metrics are missing.
    """
    alive: dict[tuple[str, ...], NDArray[np.bool_]] = {}
    servers = [server_of(target) for target in targets]
    for server, lacking in zip(servers, gone, strict=True):
        alive[server] = alive.get(server, np.zeros_like(lacking)) | ~lacking
    return np.stack([alive[server] for server in servers]) if servers else np.zeros_like(gone)


def _impossible(signal: Signal, values: Array) -> NDArray[np.bool_]:
    """Where one leaf says nothing: only what divides may be NaN or infinite, no gauge is below 0, no share above 1."""
    if signal.quantile is not None:
        return np.isinf(values)
    lost = ~np.isfinite(values)
    low, high = possible_range(signal)
    if low is not None:
        lost |= values < low
    if high is not None:
        lost |= values > high
    return lost


def _or_gauge(
    context: _Context, signal: Signal, values: Array, gone: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    """Read the older gauge where the counters are missing; -1 there means that the feature is off."""
    span = context.span(signal)
    gauge = _rows(context, Leaf("avg", signal.or_gauge or "", span, offset=signal.offset))
    usable = ~missing(gauge) & (gauge >= 0)
    take = gone & usable
    return np.where(take, gauge, values), gone & ~usable


def _rows(context: _Context, leaf: Leaf) -> Array:
    """Values of one leaf for every target ``[targets, steps]``; server-wide ones joined on job and instance."""
    found = context.reader.leaf(leaf)
    scope, targets = context.catalogue.metrics.families[leaf.family].scope, context.found.targets
    key = scope, id(found.targets)
    if key not in context.places:
        rows = {target: row for row, target in enumerate(found.targets)}
        index = ServerIndex(found.targets) if scope == "server" else None
        mine = targets if index is None else map(index.of, targets)
        places = [rows.get(one, -1) if one is not None else -1 for one in mine]
        context.places[key] = found.targets, np.array(places, dtype=np.intp)
    whole = np.concatenate([found.matrix, np.full((1, context.grid.steps), MISSING)])
    return whole[context.places[key][1]]


def _states(context: _Context, values: Array, gone: NDArray[np.bool_], family: Family) -> NDArray[np.uint8]:
    states = np.where(np.isnan(values), State.IDLE, State.OK).astype(np.uint8)
    if not gone.any():
        return states
    known = {name.name for name in family.names}
    number, kinds = context.kinds
    why = np.array([_lacking(*kind, family, known) for kind in kinds], dtype=np.uint8)[number][:, np.newaxis]
    stale = np.where(context.fresh, np.uint8(State.ABSENT), np.uint8(State.STALE))
    return np.where(gone, np.where(why == State.STALE, stale, why), states)


def _lacking(names: frozenset[str], version: VllmVersion | None, family: Family, known: set[str]) -> State:
    """Say why a target has no value: never had the family (absent, by design or not), or has it no more (stale)."""
    if known & names:
        return State.STALE
    by_design = family.only_if is not None or (family.prefixed and not available(family.names, version))
    return State.NOT_APPLICABLE if by_design else State.ABSENT


def _mark_uncounted(context: _Context, states: NDArray[np.uint8], values: Array, signal: Signal) -> None:
    """What no release that the target can be running counts is not 0, unless it is there all the same."""
    families = context.catalogue.metrics.families
    asked = [(signal.family or "", signal.where), (signal.per or "", signal.per_where)]
    for version in set(context.versions) if signal.where or signal.per_where else ():
        releases = releases_of(version)
        if not all(counts(families[family], where, releases) for family, where in asked if where):
            mine = np.array([one == version for one in context.versions], dtype=bool)[:, np.newaxis]
            shown = (states < State.ABSENT) & (values > 0)
            states[mine & ~shown] = State.NOT_APPLICABLE


def _mark_bounds(context: _Context, states: NDArray[np.uint8], values: Array, family: str) -> None:
    """Quantiles at the last finite bound are "at least"; up to the first bound they are interpolation."""
    nowhere = (-np.inf, np.inf)
    found = [context.found.bounds.get(target, {}).get(family, nowhere) for target in context.found.targets]
    bounds = np.array(found).reshape(-1, 2)
    ok = states == State.OK
    known = np.isfinite(bounds).all(axis=1, keepdims=True)
    states[ok & known & (values <= bounds[:, :1])] = State.INTERPOLATED
    states[ok & known & (values >= bounds[:, 1:])] = State.LOWER_BOUND


class _Signals:
    """Lets an expression read other signals."""

    def __init__(self, context: _Context, done: dict[str, SignalReadings]) -> None:
        self._context, self._done = context, done

    def number(self, name: str) -> Array:
        return _read_signal(self._context, name, self._done).values

    def fleet(self, function: str, values: Array) -> Array:
        raise KeyError(f"{function} of {values.shape} values")

    def flag(self, name: str) -> NDArray[np.uint8]:
        raise KeyError(name)

    def not_applicable(self, name: str) -> NDArray[np.bool_]:
        return np.equal(_read_signal(self._context, name, self._done).states, State.NOT_APPLICABLE)


def _expression(context: _Context, signal: Signal, done: dict[str, SignalReadings]) -> SignalReadings:
    node = expressions.parse(signal.expr or "0")
    shape = (len(context.found.targets), context.grid.steps)
    values = np.broadcast_to(expressions.number(node, _Signals(context, done)), shape)
    parts = [_read_signal(context, name, done) for name in expressions.names(node)]
    worst = np.maximum.reduce([np.where(part.states == State.INTERPOLATED, State.OK, part.states) for part in parts])
    states = np.where((worst < State.ABSENT) & np.isnan(values), State.IDLE, worst).astype(np.uint8)
    window = np.maximum.reduce([part.window for part in parts])
    return SignalReadings(np.where(states >= State.ABSENT, np.nan, values), states, window)


__all__ = ["HEARTBEAT", "larger", "read"]
