"""A Prometheus or a vLLM server, told apart by asking over real sockets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.engines import RECORDINGS, shipped
from tests.servers import Reply, Request, answering, free_port, prometheus, self_signed

from palanca.errors import SourceError, UsageError
from palanca.sources.detect import what_is
from palanca.sources.session import Access

METRICS = shipped().metrics
QUICK = Access(timeout=2.0, backoff=0.01)
BUILD = {"status": "success", "data": {"version": "2.42.0"}}
ANSWER = {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}}
PAGE = b'vllm:num_requests_running{model_name="m"} 1\n'


def by_path(replies: Mapping[str, Reply | bytes | object]) -> Callable[[Request], Reply]:
    """Answer some paths, bytes as they are and all else as JSON; 404 for the others."""

    def choose(request: Request) -> Reply:
        found = replies.get(request.path.partition("?")[0], Reply(404, b"not here"))
        if isinstance(found, Reply):
            return found
        return Reply(body=found if isinstance(found, bytes) else json.dumps(found).encode())

    return choose


def refused(reply: Callable[[Request], Reply] | list[Reply] | Reply, access: Access = QUICK) -> str:
    with answering(reply) as server:
        with pytest.raises(SourceError) as caught:
            what_is(server.url, access, METRICS)
        return str(caught.value).replace(server.url, "URL")


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ({"/metrics": PAGE}, "vllm"),
        ({"/metrics": PAGE.replace(b"vllm:", b"ray_vllm_")}, "vllm"),
        ({"/version": {"version": "0.26.0"}}, "vllm"),
        ({"/metrics": b"python_info 1\n", "/version": {"version": "0.26.0"}}, "vllm"),
        ({"/metrics": Reply(401), "/version": {"version": "0.26.0"}}, "vllm"),
        ({"/api/v1/status/buildinfo": BUILD}, "prometheus"),
        ({"/metrics": b"prometheus_build_info 1\n", "/api/v1/status/buildinfo": BUILD}, "prometheus"),
        (
            {"/version": {"version": "2.42.0", "goVersion": "go1.19"}, "/api/v1/status/buildinfo": BUILD},
            "prometheus",
        ),
        ({"/api/v1/query": ANSWER}, "prometheus"),
        ({"/metrics": b"<html>", "/version": b"<html>", "/api/v1/query": ANSWER}, "prometheus"),
    ],
)
def test_what_a_server_is(replies: Mapping[str, object], expected: str) -> None:
    """By vLLM's series or its version, or by the query API, also where the build is hidden."""
    with answering(by_path(replies)) as server:
        assert expected == what_is(server.url, QUICK, METRICS)


def test_a_path_belongs_to_the_query_api_and_not_to_metrics() -> None:
    """Mimir and VictoriaMetrics have the API under a path; what people copy from vLLM ends in /v1 or /metrics."""
    with answering(by_path({"/select/0/prometheus/api/v1/query": ANSWER})) as server:
        assert "prometheus" == what_is(f"{server.url}/select/0/prometheus/", QUICK, METRICS)
    with answering(by_path({"/metrics": PAGE})) as server:
        assert {"vllm"} == {what_is(server.url + path, QUICK, METRICS) for path in ("", "/", "/v1", "/metrics")}


def test_vllm_is_recognised_without_traffic_on_it() -> None:
    """vLLM counts requests to unknown paths; it is asked for its own first."""
    with answering(by_path({"/metrics": PAGE})) as server:
        what_is(server.url, QUICK, METRICS)

    assert ["/metrics"] == [one.path for one in server.requests]


def test_a_real_prometheus(tmp_path: Path) -> None:
    with prometheus(RECORDINGS / "idle.om.gz", tmp_path) as url:
        assert "prometheus" == what_is(url, QUICK, METRICS)


def test_neither() -> None:
    """What was asked and what came back, line by line."""
    text = refused(by_path({"/metrics": b"node_load1 1\n", "/version": b"hello", "/api/v1/query": {"a": 1}}))

    first, *asked = text.splitlines()
    assert first.startswith("URL: neither a Prometheus nor a vLLM server (give the address of vLLM's API")
    assert [
        "  GET /metrics: 1 series, none of vLLM",
        "  GET /version: no JSON",
        "  GET /api/v1/status/buildinfo: HTTP 404 Not Found",
        "  GET /api/v1/query?query=1: JSON, but not of the query API",
    ] == asked


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(401), "neither a Prometheus nor a vLLM server (it wants credentials: give a bearer token"),
        (Reply(403), "it wants credentials"),
        (Reply(404), "GET /metrics: HTTP 404 Not Found"),
        (Reply(500), "GET /metrics: HTTP 500 Internal Server Error"),
        (Reply(503), "GET /version: HTTP 503 Service Unavailable"),
        (Reply(body=b"<html>"), "GET /metrics: line 1: an HTML page instead of metrics"),
        (Reply(body=b"{}"), "GET /version: no version of vLLM"),
        (Reply(body=b""), "GET /metrics: an empty page"),
        (Reply(302, headers={"Location": "/metrics"}), "redirects in a circle"),
        (Reply(body=b"a 1\n", length=100), "the answer broke off"),
        (Reply(body=b"a 1\n", headers={"Content-Encoding": "gzip"}), "the answer broke off"),
    ],
)
def test_servers_that_misbehave(reply: Reply, expected: str) -> None:
    """Whatever comes back is said."""
    assert expected in refused(reply)


def test_nobody_listens() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(SourceError, match=r"/metrics: connection refused \(is the server running"):
        what_is(url, QUICK, METRICS)


def test_the_deadline_holds_for_all_questions_together() -> None:
    start = time.monotonic()

    assert "/metrics: no whole answer within" in refused(Reply(body=b"a 1\n" * 50, drip=0.05), Access(timeout=0.4))
    assert time.monotonic() - start < 2


def test_a_page_without_end() -> None:
    text = refused(Reply(body=b"# a comment\n" * 100_000), Access(max_bytes=100_000))

    assert "more than 100,000 bytes" in text


def test_tls(tmp_path: Path) -> None:
    """The certificate is checked as it is later."""
    pem = self_signed(tmp_path / "server.pem")
    with answering(by_path({"/metrics": PAGE}), pem=pem) as server:
        with pytest.raises(SourceError, match="TLS failed"):
            what_is(server.url, QUICK, METRICS)
        assert "vllm" == what_is(server.url, Access(ca_file=pem.with_suffix(".crt")), METRICS)


def test_credentials_in_the_url_are_used_and_not_shown() -> None:
    with answering(Reply(401)) as server, pytest.raises(SourceError) as caught:
        what_is(server.url.replace("http://", "http://ana:s3cret@"), QUICK, METRICS)

    assert "s3cret" not in str(caught.value)
    assert {"Basic YW5hOnMzY3JldA=="} == {one.headers["Authorization"] for one in server.requests}


def test_urls_that_are_none() -> None:
    with pytest.raises(UsageError, match="not an HTTP URL"):
        what_is("localhost:8000", QUICK, METRICS)
