"""The ready Grafana panels: what they select is in the document that /diagnose gives."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from tests.deploy.files import document
from tests.engines import ROOT
from typer.testing import CliRunner

from palanca.cli import app

DASHBOARD = ROOT / "dashboards" / "diagnosis.json"
PANELS = json.loads(DASHBOARD.read_text())["panels"]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "diagnosis-v1.schema.json").read_text())
QUERIES = [(panel["title"], query) for panel in PANELS for query in panel["targets"]]


def deref(schema: Any) -> list[Any]:  # noqa: ANN401  JSON
    """Return what a schema can be, references followed and `null` left out."""
    if "$ref" in schema:
        return deref(SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    if "anyOf" in schema:
        return [one for part in schema["anyOf"] if part.get("type") != "null" for one in deref(part)]
    return [schema]


def select(schema: Any, path: str) -> Any:  # noqa: ANN401  JSON
    """Return the schema at a path such as `findings.0.title`; fails where the path leads nowhere."""
    for key in path.split("."):
        (schema,) = deref(schema)
        if key.isdigit():
            schema = schema["items"]
        elif key in schema.get("properties", {}):
            schema = schema["properties"][key]
        else:
            # Labels of a target: any name, always a string.
            assert isinstance(schema.get("additionalProperties"), dict), f"{path}: no {key}"
            schema = schema["additionalProperties"]
    return schema


@cache
def incident() -> Any:  # noqa: ANN401  JSON
    """Give the diagnosis of the recording that comes with palanca."""
    recording = ROOT / "examples" / "kv-saturated.om.gz"
    command = ["diagnose", "--recording", str(recording), "--at", "2026-11-29T20:09:11.17Z", "--format", "json"]
    return json.loads(CliRunner().invoke(app, command).stdout)


def pick(value: Any, path: str) -> Any:  # noqa: ANN401  JSON
    for key in path.split("."):
        value = value[int(key)] if key.isdigit() else value.get(key)
    return value


def test_dashboard() -> None:
    made = json.loads(DASHBOARD.read_text())
    assert made["uid"] == "palanca-diagnosis"
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_data_source_is_the_provisioned_one() -> None:
    provisioned = document(ROOT / "dashboards" / "provisioning" / "datasources" / "palanca.yaml")
    known = [{"type": source["type"], "uid": source["uid"]} for source in provisioned["datasources"]]
    for panel in PANELS:
        assert panel["datasource"] in known
        assert all(query["datasource"] == panel["datasource"] for query in panel["targets"])


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
class TestQuery:
    def test_is_read_by_the_server(self, title: str, query: dict[str, Any]) -> None:
        """So that the token stays in Grafana's server and alerting works."""
        assert (query["type"], query["parser"], query["source"]) == ("json", "backend", "url")
        assert query["url"] == "/diagnose"

    def test_selectors_are_in_the_schema(self, title: str, query: dict[str, Any]) -> None:
        (rows,) = deref(select(SCHEMA, query["root_selector"]))
        item = rows["items"] if rows["type"] == "array" else rows
        for column in query["columns"]:
            kinds = {kind.get("type") for kind in deref(select(item, column["selector"]))}
            if column["type"] == "number":
                assert kinds <= {"number", "integer"}, column
            if column["type"] == "timestamp":
                assert select(item, column["selector"])["format"] == "date-time"

    def test_columns_show_an_incident(self, title: str, query: dict[str, Any]) -> None:
        rows = pick(incident(), query["root_selector"])
        row = rows[0] if isinstance(rows, list) else rows
        shown = {column["text"]: pick(row, column["selector"]) for column in query["columns"]}
        assert len(shown) == len(query["columns"])
        may_be_empty = {"Error", "Age", "URL", "Decode", "Frontend", "Change to", "Token budget", "Prefill", "Slots"}
        assert {name for name, value in shown.items() if value is None} <= may_be_empty

    def test_overrides_are_of_columns(self, title: str, query: dict[str, Any]) -> None:
        panel = next(panel for panel in PANELS if panel["title"] == title)
        texts = {column["text"] for column in query["columns"]}
        for override in panel["fieldConfig"]["overrides"]:
            matcher = override["matcher"]
            assert matcher["id"] == "byType" or matcher["options"] in texts


@pytest.mark.parametrize(("column", "definition", "field"), [
    ("Status", "TargetDocument", "status"),
    ("Severity", "FindingDocument", "severity"),
    ("State", "SourceDocument", "state"),
])  # fmt: skip
def test_every_value_has_a_colour(column: str, definition: str, field: str) -> None:
    values = SCHEMA["$defs"][definition]["properties"][field]["enum"]
    (mappings,) = [
        prop["value"]
        for panel in PANELS
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["options"] == column
        for prop in override["properties"]
        if prop["id"] == "mappings"
    ]
    assert set(mappings[0]["options"]) == set(values)
