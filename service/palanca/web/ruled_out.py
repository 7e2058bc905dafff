"""What it is not: causes that were judged and do not hold at an engine, each with the numbers against it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from palanca import expressions
from palanca.diagnosis import unit_of
from palanca.engine import FactColumns, ReadingsEnvironment, thresholds_of
from palanca.model import Evidence, Readings, SignalReadings, State, Truth, scope_of
from palanca.render.gaps import lacking
from palanca.render.groups import evidence_row
from palanca.render.words import signal_title

if TYPE_CHECKING:
    from palanca.expressions import Node
    from palanca.model import Catalogue, Diagnosis, Rule, SignalValue, Target, TargetReport

Overrides = Callable[["Target"], Mapping[str, Mapping[str, float]]]
Standing = Literal["ruled out", "not judged", "unknown", "not applicable"]
_ORDER: tuple[Standing, ...] = ("unknown", "not judged", "ruled out", "not applicable")
_UNFIT: Mapping[str, str] = {"idle": "no traffic to judge it by", "unknown": "the engine cannot be judged"}
"""Why nothing is ruled out at an engine of such a status."""


@dataclass(frozen=True)
class AgainstRule:
    """Why a rule is not among the findings: numbers beside their thresholds, or what it lacks."""

    rule: str
    title: str
    why: str


@dataclass(frozen=True)
class Considered:
    """A cause that was not found, and why not. One of several rules that cannot be judged makes it unknown.

    Not judged: a rule is false only for want of observations, or the engine has no traffic or cannot be judged.
    """

    cause: str
    standing: Standing
    rules: tuple[AgainstRule, ...]


def considered(
    diagnosis: Diagnosis, report: TargetReport, catalogue: Catalogue, overrides: Overrides | None = None
) -> tuple[Considered, ...]:
    """Say of every cause that was not found at an engine why not. ``overrides`` are the thresholds in force."""
    found = {finding.cause for finding in report.findings if finding.role == "root"}
    missing = {one.rule: one.missing for one in report.unknown}
    holding = {finding.rule for finding in report.findings}
    by_cause: dict[str, list[Rule]] = {}
    for rule in catalogue.rules:
        if rule.cause is not None and rule.cause not in found and rule.id not in holding:
            by_cause.setdefault(rule.cause, []).append(rule)
    against = _Against(diagnosis, report, catalogue, overrides)
    made = []
    for cause, rules in by_cause.items():
        unknown = [AgainstRule(rule.id, rule.title, _lacks(missing[rule.id], catalogue)) for rule in rules
                   if rule.id in missing]  # fmt: skip
        judged = [rule for rule in rules if rule.id not in missing and rule.id not in report.not_applicable]
        false = [AgainstRule(rule.id, rule.title, against.reason(rule)) for rule in judged]
        standing: Standing
        if unknown:
            standing = "unknown"
        elif not all(against.speaks(rule) for rule in judged):
            standing = "not judged"
        else:
            standing = "ruled out" if false else "not applicable"
        made.append(Considered(cause, standing, (*unknown, *false)))
    return tuple(sorted(made, key=lambda one: (_ORDER.index(one.standing), one.cause)))


def _lacks(missing: Sequence[tuple[str, State]], catalogue: Catalogue) -> str:
    return f"lacks {lacking(missing, lambda name: signal_title(name, catalogue))}"


class _Against:
    """Evaluates conditions at the moment of the diagnosis, over the engines of one configuration scope."""

    def __init__(
        self, diagnosis: Diagnosis, report: TargetReport, catalogue: Catalogue, overrides: Overrides | None
    ) -> None:
        scope = scope_of(report.target)
        reports = [one for one in diagnosis.targets if scope_of(one.target) == scope]
        self._row, self._catalogue = reports.index(report), catalogue
        self._readings = last_step(diagnosis, reports)
        self._overrides = [overrides(one.target) for one in reports] if overrides is not None else []
        self._facts = FactColumns(self._readings, catalogue.optional_facts)
        self._signals = report.signals
        self._unfit = _UNFIT.get(report.status)

    def speaks(self, rule: Rule) -> bool:
        """Whether something speaks against a rule: it is false even if there were observations enough."""
        if self._unfit is not None:
            return False
        opened = self._environment(rule, dict.fromkeys(rule.gates, -np.inf))
        return self._truth(expressions.parse(rule.when), opened) is Truth.FALSE

    def reason(self, rule: Rule) -> str:
        """Numbers that speak against a rule, or why there are none."""
        if self._unfit is not None:
            return self._unfit
        environment = self._environment(rule)
        texts = [self._text(part, rule, environment) for part in self._false(expressions.parse(rule.when), environment)]
        few = "" if self.speaks(rule) else "too few observations: "
        return few + ("; ".join(dict.fromkeys(texts)) or "its condition did not hold")

    def _environment(self, rule: Rule, instead: Mapping[str, float] = MappingProxyType({})) -> ReadingsEnvironment:
        return ReadingsEnvironment(self._readings, {**thresholds_of(rule, self._overrides), **instead}, self._facts)

    def _truth(self, node: Node, environment: ReadingsEnvironment) -> Truth:
        table = np.atleast_2d(expressions.holds(node, environment))
        return Truth(int(table[self._row % len(table), -1]))

    def _false(self, node: Node, environment: ReadingsEnvironment) -> list[Node]:
        """The parts without which it would hold: of an ``and`` those that are false, of an ``or`` all."""
        if self._truth(node, environment) is not Truth.FALSE:
            return []
        match node:
            case expressions.Logic(parts=parts):
                return [one for part in parts for one in self._false(part, environment)]
            case _:
                return list(expressions.comparisons(node)) or [node]

    def _text(self, node: Node, rule: Rule, environment: ReadingsEnvironment) -> str:
        if not isinstance(node, expressions.Compare):
            return f"not so: {expressions.text(node)}"
        signal = expressions.text(node.left)
        one = Evidence(
            signal,
            self._scalar(node.left, environment),
            node.op,
            self._scalar(node.right, environment),
            unit_of(node, rule, self._catalogue),
            "",
        )
        state = self._signals[signal].state if signal in self._signals else State.OK
        row = evidence_row([(one, state)], self._catalogue)
        return f"{row.title} {row.value}, not {row.threshold}"

    def _scalar(self, node: Node, environment: ReadingsEnvironment) -> float:
        table = np.atleast_2d(expressions.number(node, environment))
        return float(table[self._row % len(table), -1])


def last_step(diagnosis: Diagnosis, reports: Sequence[TargetReport]) -> Readings:
    """What a diagnosis says of some engines as readings of one step, without its past."""
    names = dict.fromkeys(name for report in reports for name in report.signals)
    return Readings(
        targets=tuple(report.target for report in reports),
        times=np.array([diagnosis.time]),
        signals={name: _column([report.signals.get(name) for report in reports]) for name in names},
        covered=np.zeros(len(reports)),
        facts=tuple(report.facts for report in reports),
        versions=tuple(report.version for report in reports),
        source=diagnosis.source,
    )


def _column(values: Sequence[SignalValue | None]) -> SignalReadings:
    """One signal at all engines; what no number can say was beyond all bounds (``diagnosis`` does it the other way)."""
    states = [State.ABSENT if one is None else one.state for one in values]
    numbers = [
        np.inf if one is not None and one.value is None and one.state is State.LOWER_BOUND else
        np.nan if one is None or one.value is None else one.value
        for one in values
    ]  # fmt: skip
    windows = [0.0 if one is None else one.window_s for one in values]
    return SignalReadings(
        np.array(numbers, dtype=np.float64).reshape(-1, 1),
        np.array(states, dtype=np.uint8).reshape(-1, 1),
        np.array(windows, dtype=np.float64).reshape(-1, 1),
    )
