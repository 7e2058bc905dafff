"""Evaluates rules over readings: pure, and vectorised over targets and time.

``evaluate`` gives the truth of every condition as ``[targets, steps]``; ``held`` turns one row into pending or firing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from palanca import expressions
from palanca.model import State, Truth, scope_of
from palanca.quantities import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.expressions import Node
    from palanca.model import Readings, Rule, Target

    Overrides = Callable[[Target], Mapping[str, Mapping[str, float]]]
    """Rule, threshold and value for one target."""
    Numbers = NDArray[np.float64]
    Truths = NDArray[np.uint8]


class FactColumns:
    """Facts of all targets ``[targets, 1]``, and the rows of each scope: the same for every rule, made when asked."""

    def __init__(self, readings: Readings, optional: frozenset[str] = frozenset()) -> None:
        self._targets, self._facts, self._optional = readings.targets, readings.facts, optional
        self.number, self.flag, self.lacking = cache(self._number), cache(self._flag), cache(self._lacking)

    @cached_property
    def scopes(self) -> list[list[int]]:
        """Rows of the targets of each scope."""
        members: dict[tuple[str, ...], list[int]] = {}
        for row, target in enumerate(self._targets):
            members.setdefault(scope_of(target), []).append(row)
        return list(members.values())

    def _number(self, name: str) -> Numbers:
        return np.array([_number(facts, name) for facts in self._facts], dtype=np.float64).reshape(-1, 1)

    def _flag(self, name: str) -> Truths:
        known = [facts.get(name) for facts in self._facts]
        truth = [Truth.UNKNOWN if fact is None else Truth(bool(fact.value)) for fact in known]
        return np.array(truth, dtype=np.uint8).reshape(-1, 1)

    def _lacking(self, name: str) -> NDArray[np.bool_]:
        lacking = [name in self._optional and name not in facts for facts in self._facts]
        return np.array(lacking, dtype=bool).reshape(-1, 1)


class ReadingsEnvironment:
    """Lets the expressions of one rule read signals, facts and its thresholds."""

    def __init__(
        self, readings: Readings, thresholds: Mapping[str, float | Numbers], facts: FactColumns | None = None
    ) -> None:
        self._readings, self._thresholds, self._facts = readings, thresholds, facts or FactColumns(readings)
        self._truths: dict[Node, Truths] = {}
        self._values: dict[Node, Numbers] = {}

    def over(self, readings: Readings, facts: FactColumns) -> ReadingsEnvironment:
        """Return the environment of the same rule over other readings of the same targets."""
        return ReadingsEnvironment(readings, self._thresholds, facts)

    def including(self, more: Mapping[str, float]) -> ReadingsEnvironment:
        """Return the same environment with further named numbers."""
        return ReadingsEnvironment(self._readings, {**self._thresholds, **more}, self._facts)

    def truth_at(self, node: Node, row: int) -> Truth:
        """Truth of a condition at one target and the last step; evaluated for all targets at once."""
        if node not in self._truths:
            self._truths[node] = np.atleast_2d(expressions.holds(node, self))[:, -1]
        column = self._truths[node]
        return Truth(int(column[row % len(column)]))

    def value_at(self, node: Node, row: int) -> float:
        """Value of an expression at one target and the last step; evaluated for all targets at once."""
        if node not in self._values:
            self._values[node] = np.atleast_2d(expressions.number(node, self))[:, -1]
        column = self._values[node]
        return float(column[row % len(column)])

    def fleet(self, function: str, values: Numbers) -> Numbers:
        """Apply a function over the engines of each scope; missing numbers are left out, NaN where all are missing."""
        table = np.broadcast_to(values, (len(self._readings.targets), len(self._readings.times)))
        result = np.full(table.shape, np.nan)
        for rows in self._facts.scopes:
            result[rows] = _over_engines(function, table[rows])
        return result

    def number(self, name: str) -> Numbers:
        """A scalar for a threshold, ``[targets, 1]`` for a fact or overridden threshold, else ``[targets, steps]``."""
        if name in self._thresholds:
            return np.asarray(self._thresholds[name])
        if name in self._readings.signals:
            return self._readings.signals[name].values
        return self._facts.number(name)

    def flag(self, name: str) -> Truths:
        """Truth of a flag fact ``[targets, 1]``."""
        return self._facts.flag(name)

    def not_applicable(self, name: str) -> NDArray[np.bool_]:
        """Where the signal does not exist by design."""
        if name in self._readings.signals:
            return np.equal(self._readings.signals[name].states, State.NOT_APPLICABLE)
        return self._facts.lacking(name)


def _median(table: Numbers) -> Numbers:
    """As ``numpy.nanmedian``, which is slow for many small tables; every column has a number."""
    ordered, count = np.sort(table, axis=0), np.count_nonzero(~np.isnan(table), axis=0)
    columns = np.arange(table.shape[1])
    middle: Numbers = (ordered[(count - 1) // 2, columns] + ordered[count // 2, columns]) / 2
    return middle


_FLEET: dict[str, Callable[[Numbers], Numbers]] = {
    "fleet_min": lambda table: np.nanmin(table, axis=0),
    "fleet_max": lambda table: np.nanmax(table, axis=0),
    "fleet_mean": lambda table: np.nanmean(table, axis=0),
    "fleet_median": _median,
}


def _over_engines(function: str, table: Numbers) -> Numbers:
    """``[engines, steps]`` to ``[steps]``."""
    there = ~np.isnan(table)
    if function == "fleet_count":
        return np.asarray(there.sum(axis=0), dtype=np.float64)
    result = np.full(table.shape[1], np.nan)
    some = there.any(axis=0)
    if some.any():
        result[some] = _FLEET[function](table[:, some])
    return result


def _number(facts: Mapping[str, object], name: str) -> float:
    fact = facts.get(name)
    value = getattr(fact, "value", None)
    return float(value) if is_number(value) else float("nan")


def thresholds_of(
    rule: Rule, overrides: Sequence[Mapping[str, Mapping[str, float]]] = ()
) -> dict[str, float | Numbers]:
    """Thresholds of a rule by name: a scalar, or ``[targets, 1]`` where ``overrides`` has another for some target.

    ``overrides`` has for each target rule, threshold and value.
    """
    made: dict[str, float | Numbers] = {name: threshold.value for name, threshold in rule.thresholds.items()}
    own = [one.get(rule.id, {}) for one in overrides]
    for name in {name for one in own for name in one if name in made}:
        made[name] = np.array([[one.get(name, made[name])] for one in own], dtype=np.float64)
    return made


@dataclass(frozen=True)
class Verdict:
    """Truth of one rule: ``when [targets, steps]``; supports and contradictions likewise, in the rule's order."""

    rule: Rule
    when: Truths
    supports: tuple[Truths, ...]
    contradicts: tuple[Truths, ...]
    environment: ReadingsEnvironment

    def cut(self, steps: slice, environment: ReadingsEnvironment) -> Verdict:
        """Return the verdict of some steps; ``environment`` is that over them."""
        return Verdict(
            self.rule,
            self.when[:, steps],
            tuple(one[:, steps] for one in self.supports),
            tuple(one[:, steps] for one in self.contradicts),
            environment,
        )


def evaluate(
    rules: Sequence[Rule],
    readings: Readings,
    optional: frozenset[str] = frozenset(),
    thresholds: Overrides | None = None,
) -> tuple[Verdict, ...]:
    """Evaluate every rule at every target and step. ``optional`` facts make a rule not applicable when not given.

    ``thresholds`` gives for a target what replaces the thresholds of the rules there.
    """
    shape = (len(readings.targets), len(readings.times))
    overrides = [] if thresholds is None else [thresholds(target) for target in readings.targets]
    verdicts, facts = [], FactColumns(readings, optional)
    for rule in rules:
        environment = ReadingsEnvironment(readings, thresholds_of(rule, overrides), facts)

        def truth(text: str, environment: ReadingsEnvironment = environment) -> Truths:
            return np.broadcast_to(expressions.holds(expressions.parse(text), environment), shape)

        verdicts.append(
            Verdict(
                rule,
                truth(rule.when),
                tuple(truth(text) for text in rule.supports),
                tuple(truth(text) for text in rule.contradicts),
                environment,
            )
        )
    return tuple(verdicts)


@dataclass(frozen=True)
class Held:
    """How long a condition has held at the last step."""

    state: Literal["pending", "firing"]
    since: float
    since_at_least: bool
    full_history: bool


def held(truth: Truths, times: Numbers, for_s: float, covered: float) -> Held | None:
    """Judge one row ``[steps]``; None when the condition does not hold at the last step.

    Firing needs it true at all ``for / interval + 1`` consecutive steps of the grid; false and unknown reset it, as in
    Prometheus. ``full_history`` is False where the source covers less than ``for``.
    """
    if truth[-1] != Truth.TRUE:
        return None
    broken = np.flatnonzero(truth != Truth.TRUE)
    first = int(broken[-1]) + 1 if broken.size else 0
    since = float(times[first])
    at_least = first == 0 or bool(truth[first - 1] != Truth.FALSE)
    enough = bool(times[-1] - since >= for_s - 1e-6)
    return Held("firing" if enough else "pending", since, at_least, covered >= for_s)


def missing_names(node: Node, environment: ReadingsEnvironment) -> dict[str, NDArray[np.bool_]]:
    """Names of a condition, each with where it has no number at the last step: ``[targets]``."""
    return {name: _missing(name, environment) for name in expressions.names(node)}


def _missing(name: str, environment: ReadingsEnvironment) -> NDArray[np.bool_]:
    """Where there is no number, and neither a flag, nor a design that has none."""
    number = np.isnan(np.atleast_2d(environment.number(name))[:, -1])
    flag = environment.flag(name)[:, 0] == Truth.UNKNOWN
    return np.asarray(number & flag & ~np.atleast_2d(environment.not_applicable(name))[:, -1])
