"""The diagnosis itself, through the Infinity data source: which flag to change, to what, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models import dashboard as grafana

from palanca.dashboards import board
from palanca.dashboards.kit import FULL, SEVERITIES, SOURCE_STATES, STATUSES, fixed_words, value

if TYPE_CHECKING:
    from palanca.dashboards.kit import Kit, Section

INFINITY = "yesoreyeram-infinity-datasource"
UID = "palanca"
"""Of the data source, as it is provisioned."""
_SOURCE = grafana.DataSourceRef(type_val=INFINITY, uid=UID)
_FIRST, _CHANGE = "findings.0", "findings.0.recommendations.0"


@dataclass(frozen=True)
class Field:
    """A column: where it is in a row of the document, its heading, and its type for Infinity."""

    selector: str
    heading: str
    kind: str = "string"


SOURCES = (
    Field("name", "Source"), Field("state", "State"), Field("age_s", "Age", "number"), Field("error", "Error"),
    Field("url", "URL"),
)  # fmt: skip
ENGINES = (
    Field("target.model_name", "Model"),
    Field("target.instance", "Instance"),
    Field("status", "Status"),
    Field(f"{_FIRST}.severity", "Severity"),
    Field(f"{_FIRST}.title", "Finding"),
    Field(f"{_FIRST}.cause", "Cause"),
    Field(f"{_FIRST}.since", "Since", "timestamp"),
    Field(f"{_FIRST}.summary", "Evidence"),
    Field(f"{_CHANGE}.flag", "Flag"),
    Field(f"{_CHANGE}.current", "Now"),
    Field(f"{_CHANGE}.argument", "Change to"),
    Field(f"{_CHANGE}.why", "Why"),
)
BOTTLENECK = (
    Field("target.model_name", "Model"),
    Field("target.instance", "Instance"),
    Field("bottleneck.slots", "Slots", "number"),
    Field("bottleneck.kv", "KV cache", "number"),
    Field("bottleneck.token_budget", "Token budget", "number"),
    Field("bottleneck.prefill", "Prefill", "number"),
    Field("bottleneck.decode", "Decode", "number"),
    Field("bottleneck.frontend", "Frontend", "number"),
)


class _Question(Dataquery, Builder[Dataquery]):
    """A query of Infinity, which the SDK does not have; its backend parser keeps the token in Grafana's server."""

    def __init__(self, root: str, fields: Sequence[Field]) -> None:
        self._root, self._fields = root, fields

    def build(self) -> Dataquery:
        return self

    def to_json(self) -> dict[str, object]:
        """As the plug-in reads it."""
        return {
            "refId": "A", "datasource": _SOURCE, "type": "json", "parser": "backend", "source": "url",
            "format": "table", "url": "/diagnose", "url_options": {"method": "GET", "data": "", "params": []},
            "root_selector": self._root, "filters": [],
            "columns": [{"selector": one.selector, "text": one.heading, "type": one.kind} for one in self._fields],
        }  # fmt: skip


def _panel(title: str, text: str, height: int, root: str, fields: Sequence[Field]) -> table.Panel:
    made = table.Panel().title(title).description(text).datasource(_SOURCE).span(FULL).height(height)
    made.show_header(show_header=True).cell_height(shapes.TableCellHeight.SM).no_value("no data")
    return made.with_target(_Question(root, fields))


def _coloured(panel: table.Panel, heading: str, colours: Mapping[str, str]) -> None:
    panel.override_by_name(heading, [
        value("mappings", [fixed_words(colours)]), value("custom.cellOptions", {"type": "color-background"}),
    ])  # fmt: skip


def sections(kit: Kit) -> Sequence[Section]:
    """Where it is from, what to do, and what is in use."""
    del kit
    sources = _panel("Sources", "Where the numbers come from, and how old they are.", 4, "sources", SOURCES)
    _coloured(sources, "State", SOURCE_STATES)
    sources.override_by_name("Age", [value("unit", "s")])
    engines = _panel(
        "Engines: what limits them, and what to change first",
        "One row an engine. The first finding is the one to act on, its first recommendation is the change to make.",
        12, "targets", ENGINES,
    )  # fmt: skip
    _coloured(engines, "Status", STATUSES)
    _coloured(engines, "Severity", SEVERITIES)
    shares = _panel(
        "Bottleneck: share of each resource in use", "Empty where it cannot be known.", 10, "targets", BOTTLENECK
    )
    shares.override_by_field_type("number", [
        value("unit", "percentunit"), value("min", 0), value("max", 1),
        value("custom.cellOptions", {"type": "gauge", "mode": "gradient"}),
        value("color", {"mode": "continuous-GrYlRd"}),
    ])  # fmt: skip
    return [("", [sources, engines, shares])]


DIAGNOSIS = board.Spec(
    "diagnosis",
    "palanca: diagnosis",
    "What palanca says now, by GET /diagnose; it needs the Infinity data source with the uid `palanca`.",
    sections,
    lambda _: (),
)
