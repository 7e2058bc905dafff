"""The OpenAPI document is complete, is what the service does, and is committed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from jsonschema import Draft202012Validator
from tests.api.apps import FakeSink, Json, fleet, kept, world
from tests.api.requests import tried_all
from tests.engines import ROOT
from tests.servers import free_port

from palanca.api.guard import OPEN

COMMITTED = ROOT / "docs" / "schema" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    answer = world(fleet()).get("/openapi.json")
    assert (200, "application/json") == (answer.status, answer["Content-Type"])
    found: dict[str, Any] = answer.json
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            answers = {status: named(answer, document) for status, answer in operation["responses"].items()}
            yield path, method, {**operation, "responses": answers}


def named(part: Json, document: dict[str, Any]) -> Json:
    """What a reference names; anything else as it is."""
    found: Json = document
    if "$ref" not in part:
        return part
    for step in part["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return {**found, **{key: value for key, value in part.items() if key != "$ref"}}


def resolved(part: Json, document: dict[str, Any]) -> Json:
    """A schema in which nothing is named elsewhere."""
    if isinstance(part, dict):
        if "$ref" in part:
            return resolved(named(part, document), document)
        return {key: resolved(value, document) for key, value in part.items()}
    return [resolved(one, document) for one in part] if isinstance(part, list) else part


def test_it_is_committed(document: dict[str, Any]) -> None:
    """To be read without running anything. ``python -m tests.api.test_openapi`` writes it anew.

    The version is that of the release which wrote it.
    """
    there = json.loads(COMMITTED.read_text(encoding="utf-8"))
    there["info"]["version"] = document["info"]["version"]
    assert written(document) == written(there)


def written(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def test_every_route_is_there(document: dict[str, Any]) -> None:
    """Those of the contract."""
    assert {
        "/diagnose", "/api/v1/targets", "/api/v1/findings", "/api/v1/signals", "/api/v1/rules",
        "/api/v1/rules/{rule_id}", "/api/v1/history", "/api/v1/history/events", "/api/v1/history/{episode_id}",
        "/api/v1/history/{episode_id}/acknowledge", "/api/v1/history/{episode_id}/verify", "/healthz", "/readyz",
        "/metrics", "/api/v1/alerts/prometheus.yaml", "/api/v1/alerts/operator.yaml", "/api/v1/alerts/tests.yaml",
        "/api/v1/alerts/alertmanager.yaml", "/api/v1/alerts/palanca.tmpl", "/api/v1/alertmanager",
        "/api/v1/dashboards/five.json", "/api/v1/dashboards/fleet.json", "/api/v1/dashboards/engine.json",
        "/api/v1/dashboards/itself.json", "/api/v1/dashboards/diagnosis.json",
    } == set(document["paths"])  # fmt: skip


def test_everything_is_described(document: dict[str, Any]) -> None:
    """Operations, parameters with examples, answers with their media types and examples, and every key."""
    tags = {tag["name"] for tag in document["tags"]}
    for path, method, operation in operations(document):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["description"], where
        assert tags >= set(operation["tags"]), where
        assert operation["operationId"], where
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (where, parameter["name"])
            if parameter["schema"].get("type") != "boolean":
                assert parameter["schema"].get("examples"), (where, parameter["name"])
        for status, answer in operation["responses"].items():
            assert answer["description"], (where, status)
            for kind, content in answer.get("content", {}).items():
                assert "schema" in content, (where, status, kind)
                assert "example" in content or (status == "503" and path == "/readyz"), (where, status, kind)
    for name, schema in document["components"]["schemas"].items():
        for key, one in schema.get("properties", {}).items():
            assert named(one, document).get("description") or "const" in one, (name, key)


def test_every_problem_is_there(document: dict[str, Any]) -> None:
    """What the guard can answer holds for all routes."""
    for path, method, operation in operations(document):
        expected = {"200", "414", "500", "503"}
        if path not in OPEN:
            expected |= {"401", "421"}
        if method == "post":
            expected |= {"400", "403", "413", "415", "422"} | ({"404"} if "{" in path else set())
        assert expected <= set(operation["responses"]), (method, path)
        for status, answer in operation["responses"].items():
            if int(status) >= 400 and (path, status) != ("/readyz", "503"):
                assert ["application/problem+json"] == list(answer["content"]), (path, status)


def test_examples_are_valid(document: dict[str, Any]) -> None:
    """Each under its own schema; those of parameters too."""
    for path, method, operation in operations(document):
        for status, answer in operation["responses"].items():
            for kind, content in answer.get("content", {}).items():
                if "example" in content:
                    checked(content["schema"], content["example"], document, f"{method} {path} {status} {kind}")
            for name, header in answer.get("headers", {}).items():
                if "example" in header:
                    checked(header["schema"], header["example"], document, f"{method} {path} {status} {name}")
        for parameter in operation.get("parameters", []):
            for example in parameter["schema"].get("examples", []):
                checked(parameter["schema"], example, document, f"{method} {path} {parameter['name']}")


def checked(schema: Json, example: Json, document: dict[str, Any], where: str) -> None:
    errors = [error.message for error in Draft202012Validator(resolved(schema, document)).iter_errors(example)]
    assert [] == errors, where


def test_probes_need_no_token(document: dict[str, Any]) -> None:
    """The document says so."""
    for path, _, operation in operations(document):
        assert (path in OPEN) == (operation.get("security") == [])


def test_no_schema_of_others(document: dict[str, Any]) -> None:
    """Problems are ours, not FastAPI's."""
    assert {"HTTPValidationError", "ValidationError"}.isdisjoint(document["components"]["schemas"])


# --- any request that the document allows, and many that it does not -------------------------------

SEED = 20261129


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The application on a port of its own, in a thread."""
    mine = world(fleet(), history=kept(folder, fleet()), sink=FakeSink())
    mine.backend.tick = 0.001
    config = uvicorn.Config(mine.app, port=free_port(), log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    url = f"http://127.0.0.1:{config.port}"
    try:
        with httpx2.Client() as client:
            for _ in range(200):
                with contextlib.suppress(httpx2.TransportError):
                    if client.get(url + "/healthz").status_code == 200:
                        break
                threading.Event().wait(0.05)
        yield url
    finally:
        server.should_exit = True
        thread.join()


def test_schemathesis(tmp_path: Path, document: dict[str, Any]) -> None:
    """No fault of ours, no status, type, body or header that is undocumented; the same requests each time."""
    with serving(tmp_path) as url:
        failures, statuses = tried_all(document, url, SEED)
    assert [] == failures
    assert {200, 404, 422} <= statuses


if __name__ == "__main__":
    COMMITTED.write_text(written(world(fleet()).get("/openapi.json").json), encoding="utf-8")
