"""What the evidence of an engine's findings looked like over time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from palanca import expressions
from palanca.render.words import signal_title
from palanca.web.plots import Limit, Plot, plot

if TYPE_CHECKING:
    from palanca.model import Catalogue, Finding, Readings, TargetReport

MOST_PLOTS = 8


def plotted(report: TargetReport, catalogue: Catalogue) -> dict[str, list[Limit]]:
    """Signals in the evidence of an engine's findings, each with its thresholds; problems first."""
    found: dict[str, list[Limit]] = {}
    for finding in sorted(report.findings, key=lambda one: not one.problem):
        for one in finding.evidence:
            for name in expressions.names(expressions.parse(one.signal)):
                if name in catalogue.signals and (name in found or len(found) < MOST_PLOTS):
                    limits = found.setdefault(name, [])
                    limit = Limit(one.op, one.threshold)
                    if name == one.signal and limit not in limits:
                        limits.append(limit)
    return found


def plots(readings: Readings, report: TargetReport, catalogue: Catalogue) -> tuple[Plot, ...]:
    """Draw the signals of an engine over a stretch of time, with the moment at which its worst finding began."""
    row = next((index for index, target in enumerate(readings.targets) if target == report.target), 0)
    began = _began(report.findings)
    made = []
    for name, limits in plotted(report, catalogue).items():
        if name in readings.signals:
            unit = catalogue.signals[name].unit
            values = readings.signals[name].values[row]
            made.append(
                plot(readings.times, values, title=signal_title(name, catalogue), unit=unit, limits=limits, began=began)
            )
    return tuple(made)


def _began(findings: Sequence[Finding]) -> float | None:
    return next((one.since for one in findings if one.problem), None) or next((one.since for one in findings), None)
