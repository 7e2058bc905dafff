"""The rules of the matrix as one group: the signals that they need, in order, and behind them the alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca import expressions
from palanca.alerting import conditions, names, quantiles, wording
from palanca.alerting.conditions import Part
from palanca.alerting.faults import NotExportableError
from palanca.alerting.recording import Recorder
from palanca.alerting.rules import AlertRule, Group, RecordingRule
from palanca.expressions import Compare, Logic, Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.alerting.options import Cell, Options
    from palanca.expressions import Node
    from palanca.model import Catalogue, Rule, Severity

OBJECTIVE = "slo."


class Speech:
    """The names of one rule's condition for the targets of one cell; ``signals`` and ``fleets`` note what was used.

    ``lacking`` are signals that no chosen release has.
    """

    def __init__(self, catalogue: Catalogue, recorder: Recorder, values: Mapping[str, float], cell: Cell) -> None:
        self._catalogue, self._recorder, self._values = catalogue, recorder, values
        self._selector = "{" + ", ".join(str(one) for one in cell.matchers) + "}" if cell.matchers else ""
        self.signals: dict[str, None] = {}
        self.lacking: dict[str, None] = {}
        self.fleets: dict[tuple[str, str], None] = {}

    def name(self, name: str) -> Part | float | None:
        """A number for a threshold or objective, the recorded series of a signal."""
        if name in self._values:
            return self._values[name]
        if name not in self._catalogue.signals:
            raise NotExportableError(_unseen(name, self._catalogue))
        if not self._recorder.available(name):
            self.lacking.setdefault(name)
            return None
        self.signals.setdefault(name)
        return Part(self._recorder.series(name) + self._selector)

    def fleet(self, function: str, argument: Node) -> Part | None:
        """The recorded series of a function over the engines of a model."""
        if not isinstance(argument, Name) or argument.name not in self._catalogue.signals:
            for name in expressions.names(argument):
                self.name(name)
            raise NotExportableError(f"{function} of something else than a signal; make the argument a signal")
        if not self._recorder.available(argument.name):
            self.lacking.setdefault(argument.name)
            return None
        self.fleets.setdefault((function, argument.name))
        unit = self._catalogue.signals[argument.name].unit
        return Part(names.fleet_recorded(function, argument.name, unit) + self._selector)


@dataclass(frozen=True)
class Exported:
    """An alert with what it was made of: ``values`` are thresholds and objectives of its cell."""

    rule: Rule
    cell: Cell
    values: Mapping[str, float]
    alert: AlertRule
    signals: tuple[str, ...]
    fleets: tuple[tuple[str, str], ...]


class Matrix:
    """The exported rules of a catalogue."""

    def __init__(self, catalogue: Catalogue, options: Options) -> None:
        """Compile every rule that was chosen. Raises ``UsageError`` for options that do not fit the catalogue."""
        self.catalogue, self.options = catalogue, options.checked(catalogue)
        self.recorder = Recorder(catalogue, options)
        self.left_out: dict[str, str] = {}
        self.partly: dict[str, str] = {}
        """Rules of which some parts ask for signals that no chosen release has, and which these are."""
        exported: list[Exported] = []
        for rule in catalogue.rules:
            if not options.chosen(rule.id):
                continue
            try:
                made = [self._exported(rule, cell) for cell in options.cells(rule.id, _objectives(rule))]
            except NotExportableError as error:
                self.left_out[rule.id] = str(error)
            else:
                exported += [one for one in made if self._wanted(one.alert)]
        self.exported = tuple(exported)

    def _wanted(self, alert: AlertRule) -> bool:
        return not self.options.severities or alert.labels[names.SEVERITY] in self.options.severities

    # --- alerts ----------------------------------------------------------------------------------

    def values(self, rule: Rule, cell: Cell) -> dict[str, float]:
        """Thresholds of a rule and objectives, as they hold for the targets of a cell."""
        made: dict[str, float] = {name: threshold.value for name, threshold in rule.thresholds.items()}
        for name, fact in self.catalogue.facts.items():
            if name.startswith(OBJECTIVE) and isinstance(fact.default, int | float):
                made[name] = float(fact.default)
        return made | dict(cell.values)

    def _exported(self, rule: Rule, cell: Cell) -> Exported:
        values = self.values(rule, cell)
        speech = Speech(self.catalogue, self.recorder, values, cell)
        node = expressions.parse(rule.when)
        parts = conditions.promql(node, speech)
        if speech.lacking:
            self.partly[rule.id] = (
                f"no chosen release has {', '.join(speech.lacking)}; the rest of the condition counts"
            )
        for name in wording.named(rule.summary):
            if name in self.catalogue.signals and self.recorder.available(name):
                speech.signals.setdefault(name)
        alert = AlertRule(
            alert=names.alert_name(rule.id, self.options.alert_prefix),
            expr="\nand ".join(parts),
            for_=rule.for_,
            keep_firing_for=rule.keep_firing_for,
            labels=self._labels(rule, cell),
            annotations={
                names.SUMMARY: wording.plain(rule.title),
                names.DESCRIPTION: wording.sentence(
                    rule, self.catalogue, values, self._series, _shown(node, self.catalogue)
                ),
                **wording.links(rule.id, self.options),
            },
        )
        return Exported(rule, cell, values, alert, tuple(speech.signals), tuple(speech.fleets))

    def _series(self, name: str) -> str | None:
        return self.recorder.series(name) if self.recorder.available(name) else None

    def _labels(self, rule: Rule, cell: Cell) -> dict[str, str]:
        override = {names.OVERRIDE: wording.plain(cell.name)} if cell.matchers else {}
        return {
            names.SEVERITY: _severity(rule, cell),
            names.CAUSE: rule.cause or "unexplained",
            names.RULE: rule.id,
            names.MATURITY: rule.maturity,
            **override,
            **wording.labels(self.options),
        }

    # --- the group -------------------------------------------------------------------------------

    def recordings(self) -> tuple[RecordingRule, ...]:
        """Recorded series that the alerts need, each after what it is computed from."""
        signals = [name for one in self.exported for name in one.signals]
        fleets = {pair for one in self.exported for pair in one.fleets}
        ordered = self.recorder.ordered([*signals, *(name for _, name in fleets)])
        made = []
        if fleets or any(self.recorder.on_servers(name) for name in ordered):
            made.append(RecordingRule(names.ENGINE, self.recorder.engines()))
        made += [RecordingRule(self.recorder.series(name), self.recorder.text(name)) for name in ordered]
        for function, name in sorted(fleets):
            unit = self.catalogue.signals[name].unit
            text = conditions.fleet(function, Part(self.recorder.series(name)))
            made.append(RecordingRule(names.fleet_recorded(function, name, unit), text))
        return tuple(made)

    def group(self) -> Group:
        """Signals and alerts, in this order, so that an alert sees the values of its own moment."""
        alerts = tuple(one.alert for one in self.exported)
        recorded = self.recordings()
        known = (quantiles.definitions(self, names.MATRIX_GROUP, self.options.interval),) if recorded else ()
        return Group(names.MATRIX_GROUP, self.options.interval, (*recorded, *known, *alerts))


def _unseen(name: str, catalogue: Catalogue) -> str:
    """Say why a fact is no series."""
    fact = catalogue.facts[name]
    title = fact.title[0].lower() + fact.title[1:]
    if fact.label is not None:
        return f"only a label shows {name} ({title}), and PromQL reads no value from a label"
    return f"no series shows {name} ({title})"


def _objectives(rule: Rule) -> tuple[str, ...]:
    used = {*expressions.names(expressions.parse(rule.when)), *wording.named(rule.summary), rule.slo or ""}
    return tuple(sorted(name for name in used if name.startswith(OBJECTIVE)))


def _severity(rule: Rule, cell: Cell) -> Severity:
    """As ``palanca.diagnosis``: a symptom is a warning only where somebody set the objective."""
    if not rule.symptom:
        return rule.severity
    return "warning" if rule.slo is not None and rule.slo in cell.values else "info"


def _shown(node: Node, catalogue: Catalogue) -> str:
    """The signal that the value of the alert is: the left side of the first comparison. Empty if it is none."""
    while isinstance(node, Logic) and node.op == "and":
        node = node.parts[0]
    if isinstance(node, Compare) and isinstance(node.left, Name) and node.left.name in catalogue.signals:
        return node.left.name
    return ""


def not_exportable(catalogue: Catalogue, options: Options) -> dict[str, str]:
    """Rules that cannot be alerts of Prometheus, and why. Raises ``UsageError``."""
    return Matrix(catalogue, options).left_out
