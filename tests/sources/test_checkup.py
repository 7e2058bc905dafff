"""Doctor against real servers: a Prometheus over a recording, and pages over real sockets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines import RECORDINGS, shipped
from tests.replay import ManualClock, replaying
from tests.servers import Reply, Request, answering, free_port, prometheus

from palanca.doctor import DoctorReport
from palanca.errors import UsageError
from palanca.poll import Question
from palanca.sources.checkup import check_prometheus, check_servers
from palanca.sources.prometheus import Prometheus
from palanca.sources.scrape import ScrapeSource
from palanca.sources.session import Access

AT = float(json.loads((RECORDINGS / "expect.json").read_text(encoding="utf-8"))["kv-saturated"]["at"])
RECORDING = RECORDINGS / "kv-saturated.om.gz"
QUICK = Access(timeout=5.0, backoff=0.01)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(RECORDING, tmp_path_factory.mktemp("doctor")) as found:
        yield found


def examined(url: str, at: float = AT, question: Question | None = None) -> DoctorReport:
    with Prometheus(url, QUICK) as client:
        return check_prometheus(client, question or Question(), shipped(), clock=lambda: at, timer=time.monotonic)


def scraped(urls: list[str], clock: ManualClock) -> DoctorReport:
    source = ScrapeSource(urls, QUICK, wait=15.0, clock=clock, sleep=clock.sleep)
    return check_servers(source, Question(), shipped(), clock=clock)


def levels(report: DoctorReport) -> dict[str, str]:
    return {check.id: check.level for check in report.checks}


def test_a_prometheus(url: str) -> None:
    """Release, latency, names, interval, buckets, and what cannot be judged of its engine."""
    report = examined(url)

    (server,) = report.servers
    assert ("prometheus", True) == (server.kind, (server.version or "").startswith(("2.", "3.")))
    assert server.seconds is not None
    assert server.series == sum(report.names.values())
    assert {"note"} >= set(levels(report).values()) - {"ok"}
    assert {"scrape-interval", "buckets", "prefixes", "names-dead"} - {"names-dead"} <= set(levels(report))
    (seen,) = report.targets
    assert pytest.approx(5.0, abs=0.1) == seen.interval_s
    assert "slot-limit" not in [rule for gap in seen.gaps for rule in gap.rules]


def test_a_prometheus_agrees_with_the_server_that_it_scrapes(url: str) -> None:
    """The page that was recorded, scraped by palanca, has the same names, the same gaps but for what it says itself."""
    clock = ManualClock(AT - 15.0)
    with replaying(RECORDING, AT, clock=clock, models={"data": [{"id": "m", "max_model_len": 4096}]}) as replay:
        direct = scraped([replay.url], clock)
    asked = examined(url)

    assert asked.names == direct.names
    assert ("vllm", "0.32.0") == (direct.servers[0].kind, direct.servers[0].version)
    blind = [{rule for gap in one.targets[0].gaps for rule in gap.rules} for one in (asked, direct)]
    assert {"answers-truncated", "max-model-len-large"} == blind[0] - blind[1]


def test_a_prometheus_without_vllm(url: str) -> None:
    """The server answers, and why there is nothing is said."""
    report = examined(url, at=AT + 86_400.0)

    assert ("error", "error", "ok") == (report.level, levels(report)["targets"], levels(report)["reachability"])
    assert () == report.targets


def test_a_prometheus_that_is_down() -> None:
    report = examined(f"http://127.0.0.1:{free_port()}")

    assert ("error", "unreachable", "unknown") == (report.level, report.source.state, report.servers[0].kind)
    assert "connection refused" in (report.servers[0].error or "")


def test_a_moment_that_cannot_be_meant(url: str) -> None:
    """What the user got wrong is no finding."""
    with pytest.raises(UsageError, match="is in the future"):
        examined(url, question=Question(at=AT + 10_000.0))


def test_rules_that_are_loaded() -> None:
    """Dead names in alerting rules are found; odd answers of the rules API are not an error."""
    groups: list[Any] = [
        {"name": "g", "rules": [{"name": "Full", "type": "alerting", "query": "vllm:gpu_cache_usage_perc > 0.9"}, 7]},
        {"name": "r", "rules": [{"name": "vllm:x", "type": "recording", "query": "vllm:x"}]},
        {"rules": None},
        "odd",
    ]

    def answer(request: Request) -> Reply:
        data: object = {"groups": groups} if request.path.startswith("/api/v1/rules") else {"version": "2.42.0"}
        if "query" in request.path:
            data = {"resultType": "vector", "result": []}
        return Reply(body=json.dumps({"status": "success", "data": data}).encode())

    with answering(answer) as server, Prometheus(server.url, QUICK) as client:
        queries, recorded = client.rules()
        groups.clear()
        assert ({}, frozenset()) == client.rules()

    assert {"g/Full": "vllm:gpu_cache_usage_perc > 0.9", "r/vllm:x": "vllm:x"} == queries
    assert {"vllm:x"} == recorded


def test_servers_of_which_one_is_down() -> None:
    """Each is listed, and the error is a check."""
    clock = ManualClock(AT - 15.0)
    with replaying(RECORDING, AT, clock=clock) as replay:
        report = scraped([replay.url, f"http://127.0.0.1:{free_port()}"], clock)

    assert ["vllm", "unknown"] == [one.kind for one in report.servers]
    assert "warning" == levels(report)["reachability"]
    assert "warning" == levels(report)["targets-silent"]
    assert 2 == len(report.targets)


def test_servers_that_are_all_down() -> None:
    report = scraped([f"http://127.0.0.1:{free_port()}"], ManualClock(AT))

    assert ("error", "unreachable", ["reachability"]) == (report.level, report.source.state, list(levels(report)))


def test_a_server_without_statistics() -> None:
    """It answers; the reason why nothing can be judged is the one of the scrape."""
    with answering(Reply(body=b"python_info 1\n")) as server:
        report = scraped([server.url], ManualClock(AT))
    found = {check.id: check for check in report.checks}

    assert ("ok", "error") == (found["reachability"].level, found["targets"].level)
    assert "--disable-log-stats" in found["targets"].details[0]


def test_a_page_with_faults_in_its_buckets(tmp_path: Path) -> None:
    """What is only on the page, and in no signal, is looked at too."""
    page = (
        b'vllm:num_requests_running{model_name="m",engine="0"} 1\n'
        b'vllm:time_to_first_token_seconds_bucket{le="10",model_name="m",engine="0"} 1\n'
        b'vllm:time_to_first_token_seconds_bucket{le="10.0",model_name="n",engine="0"} 1\n'
        b'vllm:num_preemptions{model_name="m",engine="0"} 1\n'
    )
    with answering(Reply(body=page)) as server:
        report = scraped([server.url], ManualClock(AT))

    assert {"buckets-mixed", "buckets-no-inf", "counters-without-total"} <= set(levels(report))
