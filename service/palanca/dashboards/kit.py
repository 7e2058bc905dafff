"""What all panels are made of: queries, units, colours, descriptions, links. A panel is a builder of Grafana's SDK."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus as prometheus_builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models import dashboard as grafana
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

from palanca.alerting import names, wording
from palanca.dashboards.limits import COLOURS, GOOD, Limit, Limits, steps
from palanca.dashboards.queries import Queries
from palanca.moments import duration
from palanca.quantities import number
from palanca.units import Unit

if TYPE_CHECKING:
    from palanca.dashboards.options import Options
    from palanca.model import Catalogue

SOURCE = grafana.DataSourceRef(type_val="prometheus", uid="${datasource}")
EMPTY = "no data"
ENGINE = "{{instance}} {{engine}} {{ReplicaId}}"
"""Legend of an engine; labels that it lacks are empty."""
FULL, HALF, THIRD, SIXTH = 24, 12, 8, 4
"""Widths of panels."""
GREY = "#8e8e8e"
SEVERITIES: Mapping[str, str] = {str(name): colour for name, colour in COLOURS.items()}
STATUSES: Mapping[str, str] = {
    "critical": COLOURS["critical"], "warning": COLOURS["warning"], "unknown": "purple", "idle": "blue", "ok": GOOD,
}  # fmt: skip
SOURCE_STATES: Mapping[str, str] = {
    "ok": STATUSES["ok"], "partial": STATUSES["warning"], "stale": STATUSES["warning"],
    "unreachable": STATUSES["critical"],
}  # fmt: skip
_UNITS = {
    "s": "s", "ratio": "percentunit", "bytes": "bytes", "requests/s": "reqps", "preemptions/min": "suffix:/min",
}  # fmt: skip

PanelBuilder = Builder[grafana.Panel]
Shown = shapes.BigValueTextMode


class _Common(Protocol):
    """What builders of all kinds of panels can do."""

    def title(self, title: str) -> object: ...
    def description(self, description: str) -> object: ...
    def datasource(self, datasource: grafana.DataSourceRef) -> object: ...
    def height(self, h: int) -> object: ...
    def span(self, w: int) -> object: ...
    def unit(self, unit: str) -> object: ...
    def no_value(self, no_value: str) -> object: ...
    def min(self, min_val: float) -> object: ...
    def max(self, max_val: float) -> object: ...
    def thresholds(self, thresholds: Builder[grafana.ThresholdsConfig]) -> object: ...
    def with_target(self, target: prometheus_builders.Dataquery) -> object: ...


P = TypeVar("P", bound=_Common)


@dataclass(frozen=True)
class Query:
    """One query of a panel; ``ref`` is unique in it. ``signals`` are those that it is made of, for the description."""

    ref: str
    expr: str
    legend: str = ""
    signals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Look:
    """What a panel says and how wide it is. ``unit`` is one of Grafana's; None takes that of the first signal."""

    title: str
    text: str
    span: int = HALF
    height: int = 8
    unit: str | None = None
    limits: tuple[Limit, ...] = ()
    top: float | None = None
    """The end of the scale, which begins at 0; None lets Grafana choose."""
    runbooks: tuple[str, ...] = ()
    """Rules that the panel is about, besides those of the limits."""
    empty: str = EMPTY
    """What stands there where there is nothing."""


@dataclass(frozen=True)
class Column:
    """A column of a table: a signal, its heading, and what is bad."""

    signal: str
    heading: str
    limits: tuple[Limit, ...] = ()
    unit: str | None = None


class Kit:
    """Makes panels for one catalogue and one choice of options. Raises ``UsageError``."""

    def __init__(self, catalogue: Catalogue, options: Options) -> None:
        self.catalogue, self.options = catalogue, options
        self.queries = Queries(catalogue, options)
        self.limits = Limits(catalogue, options.overrides)
        self._linked = options.alerting(catalogue)

    # --- queries ---------------------------------------------------------------------------------

    def signals(self, wanted: Mapping[str, str]) -> list[Query]:
        """Queries of signals, each with a word before the engine; those of no chosen release are not there."""
        return [
            Query(name, self.queries.signal(name), f"{word} {ENGINE}".strip(), (name,))
            for name, word in wanted.items()
            if self.queries.available(name)
        ]

    def unit(self, signal: str) -> str:
        """The unit of a signal as Grafana calls it."""
        unit = self.catalogue.signals[signal].unit
        if unit in _UNITS:
            return _UNITS[unit]
        above, slash, below = Unit.parse(unit).plural.partition("/")
        return f"suffix:{slash}{below}" if above == "1" and slash else f"suffix: {above}{slash}{below}"

    # --- what a panel says -----------------------------------------------------------------------

    def runbook(self, rule: str) -> str:
        """A link to the runbook of a rule; without an address of palanca the name of its page."""
        url = wording.links(rule, self._linked, labelled=False).get(names.RUNBOOK_URL)
        return f"[{rule}]({url})" if url else f"`{rule}` (docs/rules/{rule}.md)"

    def described(self, look: Look, queries: Iterable[Query] = ()) -> str:
        """The description: what is shown, what each line is, what the thresholds are, and where to read on."""
        lines = [look.text]
        told = list(dict.fromkeys(name for one in queries for name in one.signals))
        lines += [self._told(name) for name in told]
        drawn = self.limits.lines(look.limits)
        lines += [self._drawn(one.limit) for one in drawn]
        known = {rule.id for rule in self.catalogue.rules}
        more = [rule for rule in look.runbooks if rule in known and rule not in {one.limit.rule for one in drawn}]
        if more:
            lines.append("Runbooks: " + ", ".join(self.runbook(rule) for rule in more) + ".")
        return "\n\n".join(lines)

    def _told(self, name: str) -> str:
        signal = self.catalogue.signals[name]
        windowed = signal.expr is None and signal.kind not in {"now", "since", "present"}
        over = f", over {duration(signal.window)}" if windowed else ""
        note = f" ({signal.note})" if signal.note else ""
        return f"- `{name}`: {signal.title}{over}{note}."

    def _drawn(self, limit: Limit) -> str:
        line = self.limits.line(limit)
        rule = self.catalogue.rule(limit.rule)
        of_rule = limit.name in rule.thresholds
        unit = rule.thresholds[limit.name].unit if of_rule else self.catalogue.facts[limit.name].unit
        side = "below" if limit.below else "above"
        what = "threshold" if of_rule else "objective"
        value = number(line.value, unit)
        return f"- {side} {value}: {what} `{limit.name}` of {self.runbook(limit.rule)}, {line.severity}: {rule.title}."

    # --- panels ----------------------------------------------------------------------------------

    def graph(
        self,
        look: Look,
        queries: Sequence[Query],
        *,
        stacked: bool = False,
        filled: bool = False,
        right: Mapping[str, str] | None = None,
    ) -> timeseries.Panel | None:
        """Lines over time; None without a query. ``right`` gives units of queries that have their axis there."""
        if not queries:
            return None
        panel = self._begun(timeseries.Panel(), look, queries)
        panel.legend(
            common.VizLegendOptions()
            .show_legend(show_legend=True)
            .display_mode(shapes.LegendDisplayMode.TABLE)
            .placement(shapes.LegendPlacement.BOTTOM)
            .calcs(["lastNotNull", "max"])
        )
        panel.tooltip(
            common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI).sort(shapes.SortOrder.DESCENDING)
        )
        panel.show_points(shapes.VisibilityMode.NEVER).line_width(1).span_nulls(span_nulls=False)
        panel.fill_opacity(30 if stacked or filled else 0)
        panel.color_scheme(builders.FieldColor().mode(grafana.FieldColorModeId.PALETTE_CLASSIC))
        if stacked:
            panel.stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL).group("A"))
        drawn = shapes.GraphTresholdsStyleMode.DASHED if look.limits else shapes.GraphTresholdsStyleMode.OFF
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(drawn))
        for ref, unit in (right or {}).items():
            panel.override_by_query(ref, [
                value("unit", unit), value("custom.axisPlacement", "right"),
                value("custom.lineStyle", {"fill": "dash", "dash": [6, 4]}),
                value("custom.thresholdsStyle", {"mode": "off"}),
            ])  # fmt: skip
        return panel

    def number(
        self, look: Look, queries: Sequence[Query], *, coloured: bool = True, shown: Shown = Shown.VALUE_AND_NAME
    ) -> stat.Panel | None:
        """The newest values as large figures; None without a query."""
        if not queries:
            return None
        panel = self._begun(stat.Panel(), look, queries, instant=True)
        panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False))
        panel.graph_mode(shapes.BigValueGraphMode.NONE)
        panel.text_mode(shown)
        panel.color_mode(shapes.BigValueColorMode.VALUE if coloured else shapes.BigValueColorMode.NONE)
        return panel

    def bars(
        self, look: Look, queries: Sequence[Query], limits: Mapping[str, Sequence[Limit]]
    ) -> bargauge.Panel | None:
        """The newest values as bars; ``limits`` by query. None without a query."""
        if not queries:
            return None
        every = tuple(limit for ref in limits for limit in limits[ref])
        panel = self._begun(bargauge.Panel(), replace(look, limits=every), queries, instant=True, coloured=False)
        panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False))
        panel.orientation(shapes.VizOrientation.HORIZONTAL)
        panel.display_mode(shapes.BarGaugeDisplayMode.BASIC).show_unfilled(show_unfilled=True)
        panel.color_scheme(builders.FieldColor().mode(grafana.FieldColorModeId.THRESHOLDS))
        panel.thresholds(self._thresholds(()))
        shown = {one.ref for one in queries}
        for ref, some in limits.items():
            if ref in shown:
                panel.override_by_query(ref, [value("thresholds", self._thresholds(some).build())])
        return panel

    def states(
        self, look: Look, queries: Sequence[Query], colours: Mapping[str, tuple[str, str]]
    ) -> statetimeline.Panel:
        """States over time; ``colours`` gives what a number is called and its colour."""
        panel = self._begun(statetimeline.Panel(), look, queries)
        panel.show_value(shapes.VisibilityMode.NEVER).row_height(0.8).merge_values(merge_values=True)
        panel.legend(common.VizLegendOptions().show_legend(show_legend=True).placement(shapes.LegendPlacement.BOTTOM))
        panel.line_width(0).fill_opacity(70)
        panel.mappings([mapped(colours)])
        panel.color_scheme(builders.FieldColor().mode(grafana.FieldColorModeId.THRESHOLDS))
        return panel

    def engines(self, look: Look, columns: Sequence[Column], links: Sequence[Mapping[str, object]]) -> table.Panel:
        """One row an engine, one column a signal; ``links`` are those of an instance."""
        known = [one for one in columns if self.queries.available(one.signal)]
        queries = [Query(one.signal, self.queries.signal(one.signal), "", (one.signal,)) for one in known]
        every = tuple(limit for one in known for limit in one.limits)
        panel = self.rows(replace(look, limits=every), queries, {f"Value #{one.signal}": one.heading for one in known})
        for one in known:
            properties = [value("unit", one.unit or self.unit(one.signal))]
            if one.limits:
                properties += [
                    value("thresholds", self._thresholds(one.limits).build()),
                    value("color", {"mode": "thresholds"}),
                    value("custom.cellOptions", {"type": "color-text"}),
                ]
            panel.override_by_name(one.heading, properties)
        if links:
            panel.override_by_name("Instance", [value("links", list(links))])
        return panel

    def rows(self, look: Look, queries: Sequence[Query], headings: Mapping[str, str]) -> table.Panel:
        """A table of instant values; ``headings`` by field. Labels that engines have besides stand at the end."""
        panel = self._begun(table.Panel(), look, queries, instant=True, tabular=True, coloured=False)
        panel.show_header(show_header=True).cell_height(shapes.TableCellHeight.SM)
        labels = {
            "cluster": "Cluster", "namespace": "Namespace", "job": "Job", "model_name": "Model",
            "instance": "Instance", "engine": "Engine", "ReplicaId": "Replica",
        }  # fmt: skip
        shown = [*(name for name in headings if not name.startswith("Value")), *labels]
        shown += [name for name in headings if name.startswith("Value")]
        if len(queries) > 1:
            panel.with_transformation(grafana.DataTransformerConfig(id_val="merge", options={}))
        hidden = ["Time", "__name__", *([] if any(name.startswith("Value") for name in headings) else ["Value"])]
        panel.with_transformation(grafana.DataTransformerConfig(id_val="organize", options={
            "excludeByName": dict.fromkeys(hidden, True),
            "indexByName": {name: index for index, name in enumerate(dict.fromkeys(shown))},
            "renameByName": {**labels, **headings},
        }))  # fmt: skip
        return panel

    def _begun(
        self,
        panel: P,
        look: Look,
        queries: Sequence[Query],
        *,
        instant: bool = False,
        tabular: bool = False,
        coloured: bool = True,
    ) -> P:
        panel.title(look.title)
        panel.description(self.described(look, queries))
        panel.datasource(SOURCE)
        panel.span(look.span)
        panel.height(look.height)
        panel.no_value(look.empty)
        first = next((one.signals[0] for one in queries if one.signals), None)
        unit = look.unit or (self.unit(first) if first is not None else None)
        if unit is not None and not tabular:
            panel.unit(unit)
        if look.top is not None:
            panel.min(0)
            panel.max(look.top)
        if coloured:
            panel.thresholds(self._thresholds(look.limits))
        for one in queries:
            made = (
                prometheus_builders.Dataquery()
                .ref_id(one.ref)
                .expr(one.expr)
                .legend_format(one.legend)
                .editor_mode(QueryEditorMode.CODE)
            )
            made = made.instant() if instant else made.range()
            panel.with_target(made.format(PromQueryFormat.TABLE if tabular else PromQueryFormat.TIME_SERIES))
        return panel

    def _thresholds(self, limits: Sequence[Limit]) -> builders.ThresholdsConfig:
        made = [grafana.Threshold(value=at, color=colour) for at, colour in steps(self.limits.lines(limits))]
        return builders.ThresholdsConfig().mode(grafana.ThresholdsMode.ABSOLUTE).steps(made)


Section = tuple[str, Sequence[PanelBuilder | None]]
"""A row of a dashboard and its panels; those that no chosen release has are None."""


def value(name: str, what: object) -> grafana.DynamicConfigValue:
    """One property of an override."""
    return grafana.DynamicConfigValue(id_val=name, value=what)


def mapped(words: Mapping[str, tuple[str, str]]) -> grafana.ValueMap:
    """Texts and colours in the place of values."""
    return grafana.ValueMap(
        options={
            one: grafana.ValueMappingResult(text=text, color=colour, index=index)
            for index, (one, (text, colour)) in enumerate(words.items())
        }
    )


def fixed_words(colours: Mapping[str, str]) -> grafana.ValueMap:
    """Colours of words."""
    return mapped({word: (word, colour) for word, colour in colours.items()})


def fixed(colour: str) -> grafana.DynamicConfigValue:
    """A colour whatever the value is."""
    return value("color", {"mode": "fixed", "fixedColor": colour})
