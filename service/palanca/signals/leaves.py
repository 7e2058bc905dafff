"""Signals as compositions of leaves: one PromQL function over one family. Readers evaluate leaves, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

    from palanca.model import Signal, Target

Function = Literal["avg", "max", "min", "now", "rate", "quantile", "resets", "changes", "count"]
Part = Literal["", "sum", "count"]
_GAUGES = frozenset({"avg", "max", "min", "now"})
_ROUNDING = 0.01


@dataclass(frozen=True)
class Leaf:
    """``function(family{where}[window])``, aggregated to one value per target.

    ``part`` picks ``_sum`` or ``_count`` of a histogram. ``quantile`` belongs to the function of that name. ``offset``
    shifts the window back by so many seconds.
    """

    function: Function
    family: str
    window: float
    part: Part = ""
    where: tuple[tuple[str, str], ...] = ()
    quantile: float = 0.0
    offset: float = 0.0


@dataclass(frozen=True)
class Grid:
    """Evenly spaced evaluation times: ``steps`` of them, ``interval`` seconds apart, the last one at ``end``."""

    end: float
    steps: int
    interval: float

    @cached_property
    def times(self) -> NDArray[np.float64]:
        """Unix seconds ``[steps]``, whole milliseconds."""
        return np.round(self.end * 1000 - np.arange(self.steps - 1, -1, -1) * self.interval * 1000) / 1000

    @cached_property
    def milliseconds(self) -> NDArray[np.int64]:
        """The same as ``times`` in unix milliseconds."""
        return np.round(self.times * 1000).astype(np.int64)


@dataclass(frozen=True)
class Discovery:
    """What there is: per target, what was seen in the last hour before the end of the grid.

    ``names`` are metric names without live prefix, ``prefixes`` the live prefixes found. ``heartbeat`` are the times
    of the samples of the core gauge, unix seconds ascending. ``bounds`` are the first and last finite ``le`` of each
    histogram family. ``info`` are the labels of ``cache_config_info``.
    """

    targets: tuple[Target, ...]
    names: Mapping[Target, frozenset[str]]
    prefixes: frozenset[str]
    heartbeat: Mapping[Target, NDArray[np.float64]]
    bounds: Mapping[Target, Mapping[str, tuple[float, float]]]
    info: Mapping[Target, Mapping[str, str]]


class Values(Mapping["Target", "NDArray[np.float64]"]):
    """Values of a leaf, ``matrix [targets, steps]``: NaN is a value, a missing one is ``MISSING``."""

    def __init__(self, targets: tuple[Target, ...], matrix: NDArray[np.float64]) -> None:
        self.targets, self.matrix = targets, matrix

    @classmethod
    def of(cls, found: Mapping[Target, NDArray[np.float64]], steps: int) -> Values:
        """Stack the values of each target."""
        return cls(tuple(found), np.stack([*found.values()]) if found else np.empty((0, steps)))

    @cached_property
    def _rows(self) -> dict[Target, int]:
        return {target: row for row, target in enumerate(self.targets)}

    def __getitem__(self, target: Target) -> NDArray[np.float64]:
        """Values ``[steps]`` of one target."""
        row: NDArray[np.float64] = self.matrix[self._rows[target]]
        return row

    def __iter__(self) -> Iterator[Target]:
        """Return the targets, in their order."""
        return iter(self.targets)

    def __len__(self) -> int:
        """Number of targets."""
        return len(self.targets)


class Reader(Protocol):
    """Evaluates leaves on a grid of times."""

    def discover(self) -> Discovery:
        """Find the targets. Raises ``SourceError``."""

    def at(
        self, grid: Grid, signals: Collection[str] | None = None, targets: Collection[Target] | None = None
    ) -> Reader:
        """Return a reader of the same source on another grid, for these ``signals``.

        Where ``targets`` are given, values of others are of no interest and may be missing.
        """

    def leaf(self, leaf: Leaf) -> Values:
        """Evaluate a leaf for every target that has the family. Raises ``SourceError``."""


MISSING = np.float64(-1.7976931348623157e308)
"""Marks "no sample", which is not NaN: NaN is 0/0, an idle server; no sample is an absent or stale series."""


def missing(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where there is no sample."""
    return np.equal(values, MISSING)


@dataclass(frozen=True)
class Composition:
    """A signal as leaves and the function that joins their values (each ``[targets, steps]``)."""

    leaves: tuple[Leaf, ...]
    join: Callable[..., NDArray[np.float64]]
    per_window: bool = False
    """The value is a rate over the whole window and is scaled up where a target is younger than the window."""


def compose(signal: Signal, *, window: float | None = None, histogram: Callable[[str], bool]) -> Composition | None:
    """Return the leaves of a signal; None for an expression. ``window`` replaces the signal's own."""
    span = window if window is not None else signal.window
    where = tuple(sorted(signal.where.items()))
    part: Part = "count" if signal.family is not None and histogram(signal.family) else ""
    kind, family = signal.kind, signal.family or ""

    def leaf(function: Function, part: Part = "") -> Leaf:
        return Leaf(function, family, span, part, where, signal.quantile or 0.0, signal.offset)

    match kind:
        case "avg" | "max" | "min" | "now":
            return Composition((leaf(kind),), _scaled(1.0))
        case "resets" | "changes":
            return Composition((leaf(kind, part),), _scaled(1.0))
        case "since" | "present":
            return Composition((leaf("now"),), _scaled(1.0))
        case "samples":
            return Composition((leaf("count"),), _scaled(1.0))
        case "increase":
            return Composition((leaf("rate", part),), _scaled(span * signal.times))
        case "rate" if signal.per is None:
            return Composition((leaf("rate", part),), _scaled(signal.times), per_window=True)
        case "rate":
            per_part: Part = "count" if histogram(signal.per or "") else ""
            per_where = tuple(sorted(signal.per_where.items()))
            below = Leaf("rate", signal.per or "", span, per_part, per_where, 0.0, signal.offset)
            return Composition((leaf("rate", part), below), _ratio(signal.times))
        case "mean":
            return Composition((leaf("rate", "sum"), leaf("rate", "count")), _mean(signal.times))
        case "quantile":
            return Composition((leaf("quantile"),), _scaled(1.0))
        case _:
            return None


def possible_range(signal: Signal) -> tuple[float | None, float | None]:
    """Smallest and largest value that a signal of one leaf can have; None where there is no bound."""
    if signal.kind not in _GAUGES:
        return None, None
    return 0.0, 1 + _ROUNDING if signal.unit == "ratio" else None


def _scaled(scale: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    return lambda value: np.multiply(value, scale, out=value.copy(), where=~missing(value))


def _ratio(times: float) -> Callable[..., NDArray[np.float64]]:
    def divide(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            return times * above / below

    return divide


def _mean(times: float) -> Callable[..., NDArray[np.float64]]:
    """Nothing observed has no mean, even where resets leave 1e-17 of the sum's rate by rounding."""
    ratio = _ratio(times)

    def divide(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(np.equal(below, 0), np.nan, ratio(above, below))

    return divide
