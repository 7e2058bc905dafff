"""Thresholds of panels: the numbers of the matrix and of the objectives, none of their own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from palanca.alerting.matrix import OBJECTIVE
from palanca.model import SEVERITY_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from palanca.alerting.options import Override
    from palanca.model import Catalogue, Severity

GOOD = "green"
COLOURS: dict[Severity, str] = {"critical": "red", "warning": "orange", "info": "yellow"}


@dataclass(frozen=True)
class Limit:
    """A threshold of a rule, or an objective (``slo.ttft_p99``) that it compares with; ``below`` is the bad side."""

    rule: str
    name: str
    below: bool = False


@dataclass(frozen=True)
class Line:
    """A limit as it is drawn: its value in the unit of the signal, and where it is from."""

    limit: Limit
    value: float
    severity: Severity
    title: str
    """Of the rule."""


class Limits:
    """Reads limits out of the catalogue; ``overrides`` that hold for all targets replace what it says."""

    def __init__(self, catalogue: Catalogue, overrides: Iterable[Override] = ()) -> None:
        self._catalogue = catalogue
        self._general = tuple(one for one in overrides if not one.match)

    def line(self, limit: Limit) -> Line:
        """Find the value and the severity. Raises ``KeyError`` for a rule or a threshold that does not exist."""
        rule = self._catalogue.rule(limit.rule)
        if limit.name.startswith(OBJECTIVE):
            default = self._catalogue.facts[limit.name].default
            assert isinstance(default, int | float)  # noqa: S101  objectives have one
            value = float(default)
            for one in self._general:
                value = one.slo.get(limit.name.removeprefix(OBJECTIVE), value)
        else:
            value = rule.thresholds[limit.name].value
            for one in self._general:
                value = one.thresholds.get(limit.rule, {}).get(limit.name, value)
        return Line(limit, value, rule.severity, rule.title)

    def lines(self, limits: Sequence[Limit]) -> tuple[Line, ...]:
        """All of them, by value; those of rules that the catalogue does not have are left out."""
        known = {rule.id for rule in self._catalogue.rules}
        return tuple(sorted((self.line(one) for one in limits if one.rule in known), key=lambda line: line.value))


def steps(lines: Sequence[Line]) -> list[tuple[float | None, str]]:
    """Colours from below: ``[(None, base), (value, colour), ...]``. All lines have the same bad side.

    Of two lines at one value the more severe one counts.
    """
    sides = {line.limit.below for line in lines}
    if len(sides) > 1:
        raise ValueError("limits of one panel with different bad sides")
    worst: dict[float, Severity] = {}
    for line in lines:
        worst[line.value] = min(worst.get(line.value, line.severity), line.severity, key=SEVERITY_ORDER.index)
    if sides != {True}:
        return [(None, GOOD), *((value, COLOURS[severity]) for value, severity in sorted(worst.items()))]
    values = sorted(worst)
    made: list[tuple[float | None, str]] = [(None, COLOURS[worst[values[0]]])]
    made += [(low, COLOURS[worst[high]]) for low, high in pairwise(values)]
    return [*made, (values[-1], GOOD)]
