"""Values of signals at which an alert must fire or stay quiet, found by search.

For each part of a condition there are values at which the condition would say something else without that part.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from palanca import expressions
from palanca.engine import ReadingsEnvironment
from palanca.expressions import FLEET, Call, Logic, Node, Not
from palanca.model import Readings, SignalReadings, SourceInfo, State, Target, Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.alerting.matrix import Exported
    from palanca.alerting.recording import Recorder
    from palanca.model import Catalogue

    Numbers = NDArray[np.float64]
    Values = Mapping[str, Numbers]
    """Values ``[engines, samples]`` of each signal."""
    Wanted = Callable[[Values], NDArray[np.bool_]]

_SIZES = (300, 1000, *(3000,) * 16)
"""How many values are tried at once, round after round: most are found among few."""
_FLEET_SIZE = 3
_CHANGED = 4
_FACTORS = (0.1, 0.5, 0.9, 1.1, 1.5, 2.0, 5.0, 20.0)
_DIGITS = 3
_CLOSE = (0.95, 0.98, 0.99, 1.0, 1.02)
_SOME = 0.15
_FIRES = "fires"


@dataclass(frozen=True)
class Trial:
    """Signals of each engine, and where the alert holds. ``resolved`` are values at which it ends."""

    name: str
    engines: tuple[Mapping[str, float], ...]
    holds: tuple[bool, ...]
    resolved: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True)
class _Derived:
    """How a signal follows from others: by an expression over what it ``needs``, or another one stands in for it."""

    needs: tuple[str, ...]
    node: Node | None
    stands_in: str


def _derived(name: str, catalogue: Catalogue, recorder: Recorder) -> _Derived | None:
    signal = catalogue.signals[name]
    if signal.expr is not None:
        return _Derived(recorder.needs(name), expressions.parse(signal.expr), "")
    return _Derived((signal.fallback,), None, signal.fallback) if signal.fallback is not None else None


class Search:
    """Finds the trials of one alert."""

    def __init__(self, one: Exported, catalogue: Catalogue, recorder: Recorder) -> None:
        self._one, self._catalogue, self._recorder = one, catalogue, recorder
        self._node = expressions.parse(one.rule.when)
        fleet = any(isinstance(part, Call) and part.function in FLEET for part in expressions.walk(self._node))
        self._engines = _FLEET_SIZE if fleet else 1
        used = [name for name in expressions.names(self._node) if name in catalogue.signals]
        self._order = recorder.ordered(name for name in used if recorder.available(name))
        self.inputs = tuple(name for name in self._order if not recorder.needs(name))
        self._lost = {
            name: State.ABSENT if recorder.available(name) else State.NOT_APPLICABLE
            for name in dict.fromkeys((*self._order, *used))
        }
        derived = [(name, _derived(name, catalogue, recorder)) for name in self._order]
        self._derived = tuple((name, made) for name, made in derived if made is not None)
        self._pools = {name: self._pool(name) for name in self.inputs}
        self._random = np.random.default_rng(zlib.crc32(one.rule.id.encode()))

    @property
    def fleet(self) -> bool:
        """Whether engines are compared with each other."""
        return self._engines > 1

    def trials(self) -> tuple[Trial, ...]:
        """Firing, quiet and missing: what tells every part of the condition, and every signal, from none.

        Empty where no values are found at which the condition holds.
        """
        fires = self._found.get(_FIRES)
        if fires is None:
            return ()
        made = [self._trial(name, values) for name, values in self._found.items() if values is not None]
        quiet = next((one for one in made if not any(one.holds)), None)
        if quiet is None:
            near = self._around(fires, _SIZES[-1], self.inputs)
            nothing = _column(near, np.logical_not(self._truth(self._node, near).any(axis=0, keepdims=True)))
            made.append(quiet := self._trial("quiet", nothing or fires))
        made[0] = replace(made[0], resolved=quiet.engines)
        made += [self._trial(f"missing {name}", fires, without=name) for name in self.inputs]
        unique: dict[object, Trial] = {}
        for one in made:
            unique.setdefault(tuple(tuple(sorted(engine.items())) for engine in one.engines), one)
        return tuple(unique.values())

    def untold(self) -> list[str]:
        """Parts of the condition that no values tell from none: they say nothing, or the search is too short."""
        return [name for name, values in self._found.items() if values is None] if self._found else [_FIRES]

    @cached_property
    def _found(self) -> dict[str, Values | None]:
        """Values at which the condition holds, and those that tell each of its parts from none."""
        fires = self._find(lambda values: self._truth(self._node, values))
        if fires is None:
            return {}
        made: dict[str, Values | None] = {_FIRES: fires}
        firing = [fires]
        for mutant in _mutants(self._node):
            made[mutant.name] = values = self._telling(mutant, firing)
            if values is not None and self._truth(self._node, values).any():
                firing.append(values)
        return made

    # --- search ----------------------------------------------------------------------------------

    def _telling(self, mutant: _Mutant, firing: Sequence[Values]) -> Values | None:
        """Values where the mutant says something else: near those that fire, else anywhere.

        From round to round those that fire give way to others near them that fire too.
        """
        told, near = self._inputs_of(mutant.part), list(firing)
        for size in _SIZES:
            for index, fires in enumerate(near):
                values = self._around(fires, size, told)
                truth = self._truth(self._node, values)
                found = _column(values, truth ^ self._truth(mutant.node, values))
                if found is not None:
                    return found
                near[index] = _column(values, truth) or fires
        return self._find(lambda values: self._truth(self._node, values) ^ self._truth(mutant.node, values))

    def _find(self, wanted: Wanted) -> Values | None:
        for size in _SIZES:
            values = self._anything(size)
            found = _column(values, wanted(values))
            if found is not None:
                return found
        return None

    def _anything(self, size: int) -> Values:
        return self._related({name: self._drawn(name, (self._engines, size)) for name in self.inputs})

    def _inputs_of(self, part: Node) -> Sequence[str]:
        """Inputs that a part of the condition depends on; all of them where it depends on none."""
        needed = set(self._recorder.ordered(name for name in expressions.names(part) if name in self._order))
        return [name for name in self.inputs if name in needed] or self.inputs

    def _around(self, fires: Values, size: int, first: Sequence[str]) -> Values:
        """Change one to four signals of what fires, one of them of the ``first``."""
        shape = (self._engines, size)
        chosen = self._random.integers(0, len(self.inputs), (_CHANGED, size))
        chosen[0] = self._random.choice([self.inputs.index(name) for name in first], size)
        chosen = np.where(np.arange(_CHANGED)[:, None] > self._random.integers(0, _CHANGED, size), chosen[0], chosen)
        drawn = self._related({name: self._drawn(name, shape) for name in self.inputs})
        return {
            name: np.where((chosen == index).any(axis=0), drawn[name], fires[name])
            for index, name in enumerate(self.inputs)
        }

    def _related(self, values: dict[str, Numbers]) -> Values:
        """Let some values be nearly those of another signal of the same unit, and some engines of several have none."""
        units = {name: self._catalogue.signals[name].unit for name in values}
        for name in self.inputs:
            alike = [other for other in self.inputs if units[other] == units[name] and other != name]
            if alike:
                other = values[alike[int(self._random.integers(len(alike)))]]
                close = _rounded(other * self._random.choice(_CLOSE, other.shape))
                values[name] = np.where(self._random.random(other.shape) < _SOME, close, values[name])
        if self.fleet:
            for name, table in values.items():
                values[name] = np.where(self._random.random(table.shape) < _SOME, np.nan, table)
        return values

    def _pool(self, name: str) -> Numbers:
        signal, rule = self._catalogue.signals[name], self._one.rule
        named = [one for one in expressions.names(self._node) if one in self._one.values]
        same = [
            self._one.values[one]
            for one in named
            if (rule.thresholds[one].unit if one in rule.thresholds else self._catalogue.facts[one].unit) == signal.unit
        ]
        every = [self._one.values[one] for one in named]
        return np.array([value * factor for value in [*same, *same, *every, 1.0] for factor in _FACTORS] + [0.0, *same])

    def _drawn(self, name: str, shape: tuple[int, int]) -> Numbers:
        """Values beside the numbers of the condition, of which those of the same unit come first."""
        signal = self._catalogue.signals[name]
        wide = 10 ** self._random.uniform(-3, 5, shape)
        beside = self._random.choice(self._pools[name], shape)
        values = np.where(self._random.random(shape) < 0.7, beside, wide)  # noqa: PLR2004
        if signal.unit == "ratio" and signal.kind in {"avg", "max", "min", "now", "present"}:
            values = np.minimum(values, 1.0)
        if signal.present is not None:
            values = np.where(values > 0.5, 1.0, 0.0)  # noqa: PLR2004
        return _rounded(values)

    # --- truth -----------------------------------------------------------------------------------

    def _truth(self, node: Node, values: Values) -> NDArray[np.bool_]:
        """Where a condition holds, ``[engines, samples]``; what is not given is missing."""
        shape = (self._engines, max((table.shape[1] for table in values.values()), default=1))
        nothing, at_once = np.full(shape, np.nan), np.zeros(shape)
        there = np.full(shape, State.OK, dtype=np.uint8)
        lost = {state: np.full(shape, state, dtype=np.uint8) for state in {*self._lost.values()}}
        signals = {name: SignalReadings(nothing, lost[state], at_once) for name, state in self._lost.items()}
        signals |= {name: SignalReadings(table, there, at_once) for name, table in values.items()}
        environment = self._environment(signals, shape)
        known = set(values)
        for name, made in self._derived:
            if name in known or not known.issuperset(made.needs):
                continue
            table = signals[made.stands_in].values if made.node is None else expressions.number(made.node, environment)
            signals[name] = SignalReadings(np.broadcast_to(table, shape), there, at_once)
            known.add(name)
        return np.equal(np.broadcast_to(expressions.holds(node, environment), shape), Truth.TRUE)

    def _environment(self, signals: Mapping[str, SignalReadings], shape: tuple[int, int]) -> ReadingsEnvironment:
        engines, samples = shape
        readings = Readings(
            targets=tuple(Target.of({"instance": str(number)}) for number in range(engines)),
            times=np.arange(samples, dtype=np.float64),
            signals=signals,
            covered=np.zeros(engines),
            facts=tuple({} for _ in range(engines)),
            versions=tuple(None for _ in range(engines)),
            source=SourceInfo("trials", ""),
        )
        return ReadingsEnvironment(readings, dict(self._one.values))

    def _trial(self, name: str, values: Values, without: str | None = None) -> Trial:
        kept = {signal: table for signal, table in values.items() if signal != without}
        holds = self._truth(self._node, kept)
        engines = tuple(
            {signal: float(table[row, 0]) for signal, table in kept.items() if not np.isnan(table[row, 0])}
            for row in range(self._engines)
        )
        return Trial(name, engines, tuple(bool(one) for one in holds[:, 0]))


def _column(values: Values, wanted: NDArray[np.bool_]) -> Values | None:
    """The first sample at which something is so at some engine, ``wanted [engines, samples]``."""
    hits = np.flatnonzero(wanted.any(axis=0))
    return {name: table[:, hits[:1]] for name, table in values.items()} if hits.size else None


def _rounded(values: Numbers) -> Numbers:
    """Values as short as people write them."""
    size = np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values))))
    scale = 10.0 ** (_DIGITS - 1 - size)
    return np.asarray(np.round(values * scale) / scale, dtype=np.float64)


@dataclass(frozen=True)
class _Mutant:
    """The condition without one of its parts."""

    name: str
    part: Node
    node: Node


def _mutants(node: Node) -> Iterator[_Mutant]:
    """The condition without each of its parts."""
    match node:
        case Logic(op=op, parts=parts):
            for index, part in enumerate(parts):
                rest = (*parts[:index], *parts[index + 1 :])
                whole = rest[0] if len(rest) == 1 else Logic(op, rest, node.column)
                yield _Mutant(_left_out(op, part), part, whole)
                for one in _mutants(part):
                    inside = (*parts[:index], one.node, *parts[index + 1 :])
                    yield replace(one, node=Logic(op, inside, node.column))
        case Not(part=part):
            for one in _mutants(part):
                yield replace(one, node=Not(one.node, node.column))
        case _:
            return


def _left_out(op: str, part: Node) -> str:
    return f"{'unless' if op == 'and' else 'by'} {expressions.text(part)}"
