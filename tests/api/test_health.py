"""Probes and own metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.apps import fleet, odd, world

from palanca import __version__


def test_alive() -> None:
    """As long as the process answers, whatever the sources do."""
    mine = world(fleet())
    mine.backend.infos = []
    assert {"status": "ok", "version": __version__} == mine.get("/healthz").json


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (["ok"], 200),
        (["partial"], 200),
        (["stale"], 503),
        (["unreachable"], 503),
        (["unreachable", "ok"], 200),
        (["unreachable", "stale"], 503),
        ([], 503),
    ],
)
def test_ready(states: list[str], status: int) -> None:
    """One source that is up to date is enough; each is told by itself, without credentials."""
    mine = world(fleet())
    url = "http://user:secret@prometheus:9090"
    mine.backend.infos = [
        replace(fleet().source, name=str(at), state=state, url=url, age_s=3.0, error="lone \ud800" if at else None)  # type: ignore[arg-type]
        for at, state in enumerate(states)
    ]
    answer = mine.get("/readyz")
    assert (status, status == 200) == (answer.status, answer.json["ready"])
    assert states == [source["state"] for source in answer.json["sources"]]
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_may_bring_parameters(path: str) -> None:
    """Scrapers and load balancers do."""
    assert 200 == world(fleet()).get(path, "x=1&match[]=y").status


def test_metrics() -> None:
    """Text that Prometheus reads, with the requests before."""
    mine = world(odd())
    mine.telemetry.published(mine.backend.snapshot)
    mine.get("/diagnose")
    mine.get("/nothing")
    answer = mine.get("/metrics")
    assert "text/plain; version=0.0.4; charset=utf-8" == answer["Content-Type"]
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    counts = {
        (one.labels["route"], one.labels["status"]): one.value
        for one in families["palanca_http_request_duration_seconds"].samples
        if one.name.endswith("_count")
    }
    assert {("/diagnose", "200"): 1.0, ("other", "404"): 1.0} == counts
