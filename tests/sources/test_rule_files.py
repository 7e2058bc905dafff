"""Rules from a Prometheus, and what it has for them: a real one over a recording, and answers that are odd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines import RECORDINGS
from tests.linting.linted import file_of, ids, vocabulary
from tests.servers import Reply, Request, answering, free_port, prometheus

from palanca.errors import SourceError
from palanca.linting import LintReport, lint
from palanca.sources.prometheus import Prometheus
from palanca.sources.rule_files import look, read_files, read_loaded, read_text
from palanca.sources.session import Access

AT = float(json.loads((RECORDINGS / "expect.json").read_text(encoding="utf-8"))["kv-saturated"]["at"])
QUICK = Access(timeout=5.0, backoff=0.01)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(RECORDINGS / "kv-saturated.om.gz", tmp_path_factory.mktemp("rules")) as found:
        yield found


def against(url: str, *expressions: str, vllm: str | None = None) -> LintReport:
    source = read_text("rules.yml", file_of(*({"expr": one} for one in expressions)).encode())
    with Prometheus(url, QUICK) as client:
        live = look(client, [source], vocabulary(vllm), lambda: AT)
    return lint([source], vocabulary(vllm), live=live)


def test_what_is_there_is_not_called_dead(url: str) -> None:
    """A name that the release does not have, by the catalogue, but this server does."""
    assert [] == ids(against(url, "vllm:kv_cache_usage_perc > 0.9").findings)
    assert [] == ids(against(url, "vllm:kv_cache_usage_perc > 0.9", vllm="0.8").findings)


def test_series_that_are_not_there(url: str) -> None:
    """By name, by label, and with a label of another spelling; the guard's absent() is no such finding."""
    report = against(url, 'vllm:num_requests_waiting{job="typo"} > 5', "node_load1 > vllm:num_requests_waiting")
    assert ["dead-series", "dead-series"] == ids(report.findings)
    assert [
        'vllm:num_requests_waiting{job="typo"} found no series in the last hour',
        "node_load1 found no series in the last hour",
    ] == [one.message for one in report.findings]


def test_buckets_are_those_of_the_series(url: str) -> None:
    good, bad = "vllm:e2e_request_latency_seconds_bucket", '{le="120"}'
    report = against(url, f"rate({good}{bad}[5m]) < 1")
    assert {("missing-bucket", "error"), ("dead-series", "warning")} == {
        (one.check, one.severity) for one in report.findings
    }
    assert [] == ids(against(url, f'rate({good}{{le="120.0"}}[5m]) < 1').findings)


def test_a_prometheus_without_vllm(url: str) -> None:
    """An hour after the end nothing is there any more."""
    source = read_text("rules.yml", file_of({"expr": "vllm:num_requests_waiting > 5"}).encode())
    with Prometheus(url, QUICK) as client:
        live = look(client, [source], vocabulary(), lambda: AT + 86_400)
    assert not live.names
    assert {"vllm:num_requests_waiting", "vllm:num_requests_running"} == live.dead


def test_rules_that_are_loaded() -> None:
    """Whatever the answer holds beside rules is left out, and a selector that is refused is not judged."""
    rule = {"name": "Full", "type": "alerting", "query": "vllm:gpu_cache_usage_perc > 0.9", "duration": 300}
    groups = [{"name": "g", "file": "a.yml", "rules": [rule, 7]}, "odd", {"rules": None}]

    def answer(request: Request) -> Reply:
        text = "".join(request.form.get("query", []))
        if request.path.startswith("/api/v1/rules"):
            return Reply(body=json.dumps({"status": "success", "data": {"groups": groups}}).encode())
        if "last_over_time" in text:
            return Reply(status=422, body=b'{"status": "error", "errorType": "execution", "error": "too many"}')
        return Reply(body=b'{"status": "success", "data": {"resultType": "vector", "result": []}}')

    with answering(answer) as server, Prometheus(server.url, QUICK) as client:
        sources = read_loaded(client)
        live = look(client, sources, vocabulary(), lambda: AT)
    assert (frozenset(), frozenset()) == (live.asked, live.dead)
    report = lint(sources, vocabulary(), live=live)
    assert ["removed-name", "incomplete-alert", "absent-guard", "empty-file"] == ids(report.findings)


def test_a_prometheus_that_is_down() -> None:
    with Prometheus(f"http://127.0.0.1:{free_port()}", QUICK) as client, pytest.raises(SourceError):
        read_loaded(client)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.yml"
    with path.open("wb") as file:
        file.truncate(30_000_000)
    (fault,) = read_files([str(path)], lambda: b"").faults
    assert "this is no rule file" in fault.message
