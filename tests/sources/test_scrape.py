"""vLLM servers scraped directly, over real sockets."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines import RECORDINGS, shipped
from tests.replay import ManualClock, replaying
from tests.servers import Reply, Request, answering, free_port, self_signed

from palanca.errors import NoTargetsError, SourceError, UsageError
from palanca.model import Diagnosis, State
from palanca.poll import Question, grid_for, run
from palanca.sources.collector import schedule
from palanca.sources.scrape import ScrapeSource
from palanca.sources.session import Access
from palanca.sources.vllm import VllmServer, longest_context, vllm_version

START = 1_800_000_000.0
QUICK = Access(timeout=1.0, backoff=0.01)
EXPECT: dict[str, dict[str, Any]] = json.loads((RECORDINGS / "expect.json").read_text(encoding="utf-8"))


@dataclass
class Engine:
    """A vLLM server in a few lines: counters that go with the clock, from a life before the first scrape on."""

    clock: Callable[[], float]
    model: str = "m"
    per_second: float = 10.0
    before: float = 1_000_000.0
    version: str | None = "0.26.0"
    context: int | None = 4096
    page: bytes | None = None
    fails: Callable[[float], bool] = lambda _: False
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        self.asked.append(request.path)
        if self.fails(self.clock() - START):
            return Reply(503)
        if request.path == "/metrics":
            return Reply(body=self._page() if self.page is None else self.page)
        if request.path == "/version" and self.version:
            return Reply(body=json.dumps({"version": self.version}).encode())
        if request.path == "/v1/models" and self.context:
            return Reply(body=json.dumps({"data": [{"id": self.model, "max_model_len": self.context}]}).encode())
        return Reply(404, b"{}")

    def _page(self) -> bytes:
        labels = f'model_name="{self.model}",engine="0"'
        count = self.before + (self.clock() - START) * self.per_second
        rows = {
            f"vllm:num_requests_running{{{labels}}}": 2.0,
            f"vllm:num_requests_waiting{{{labels}}}": 0.0,
            f"vllm:kv_cache_usage_perc{{{labels}}}": 0.5,
            f"vllm:generation_tokens_total{{{labels}}}": count,
            f"vllm:prompt_tokens_total{{{labels}}}": count,
            f'vllm:time_to_first_token_seconds_bucket{{le="0.1",{labels}}}': count,
            f'vllm:time_to_first_token_seconds_bucket{{le="+Inf",{labels}}}': count,
            f"vllm:time_to_first_token_seconds_count{{{labels}}}": count,
            f"vllm:time_to_first_token_seconds_sum{{{labels}}}": count * 0.05,
        }
        return "".join(f"{series} {value!r}\n" for series, value in rows.items()).encode()


def source(urls: list[str], clock: ManualClock, *, wait: float = 15.0, access: Access = QUICK) -> ScrapeSource:
    return ScrapeSource(urls, access, wait=wait, clock=clock, sleep=clock.sleep)


@contextmanager
def serving(*engines: Engine) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [stack.enter_context(answering(engine)).url for engine in engines]


def scraped(*engines: Engine, wait: float = 15.0, clock: ManualClock, question: Question | None = None) -> Diagnosis:
    with serving(*engines) as urls:
        return run(shipped(), source(urls, clock, wait=wait), question or Question())


def failure(reply: Callable[[Request], Reply] | list[Reply] | Reply, access: Access = QUICK) -> str:
    """What is said of a single server that answers so."""
    with answering(reply) as server:
        with pytest.raises(SourceError) as caught:
            run(shipped(), source([server.url], ManualClock(START), access=access), Question())
        return str(caught.value).replace(server.url, "URL")


# --- what is measured ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (15.0, [0.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0]),
        (60.0, [5.0 * index for index in range(13)]),
        (3.0, [0.0, 1.0, 2.0, 3.0]),
        (1.0, [0.0, 0.5, 1.0]),
        (0.0, [0.0]),
        (-1.0, [0.0]),
    ],
)
def test_when_a_first_question_scrapes(wait: float, expected: list[float]) -> None:
    """At both ends and at least once between, not oftener than needed."""
    assert expected == schedule(wait)


def test_rates_are_those_of_the_wait() -> None:
    """A counter with a long life gives its rate of now, exactly, and not that of its life."""
    clock = ManualClock(START)
    report = scraped(Engine(clock, per_second=37.0), clock=clock).targets[0]

    assert pytest.approx(37.0, rel=1e-6) == report.signals["generation_tokens_per_second"].value
    assert 15.0 == report.signals["generation_tokens_per_second"].window_s
    assert pytest.approx(0.05) == report.signals["ttft_mean"].value
    assert (2.0, 1.0) == (report.signals["running"].value, report.signals["up"].value)


def test_the_wait_is_kept() -> None:
    """Seven scrapes, and sleep only between them."""
    clock = ManualClock(START)
    engine = Engine(clock)
    told: list[tuple[int, int]] = []
    with serving(engine) as urls:
        ScrapeSource(
            urls,
            QUICK,
            wait=15.0,
            clock=clock,
            sleep=clock.sleep,
            progress=lambda done, total: told.append((done, total)),
        ).open(Question(), shipped())

    assert [2.5] * 6 == clock.naps
    assert 7 == engine.asked.count("/metrics")
    assert [(index, 7) for index in range(1, 8)] == told


def test_one_scrape_gives_no_rates() -> None:
    """What a counter has counted since the server began is never taken for a rate."""
    clock = ManualClock(START)
    signals = scraped(Engine(clock), clock=clock, wait=0.0).targets[0].signals

    for name in ("generation_tokens_per_second", "ttft_mean", "ttft_p99", "requests_per_second"):
        assert (None, State.ABSENT) == (signals[name].value, State(min(signals[name].state, State.ABSENT))), name
    assert (2.0, 0.5) == (signals["running"].value, signals["kv_cache_usage"].value)


def test_a_counter_reset_during_the_wait() -> None:
    """An engine that restarts counts from 0 again; nothing negative comes of it."""
    clock = ManualClock(START)
    engine = Engine(clock)
    page = engine._page
    engine._page = lambda: page() if clock() < START + 8 else page().replace(b" 100", b" 0")  # type: ignore[method-assign]
    value = scraped(engine, clock=clock).targets[0].signals["generation_tokens_per_second"].value

    assert value is not None
    assert value >= 0


def test_later_questions_add_to_the_window() -> None:
    """A source that is asked again scrapes once more, does not wait, and knows a longer past."""
    clock = ManualClock(START)
    with serving(Engine(clock)) as urls:
        asked = source(urls, clock)
        asked.open(Question(), shipped())
        clock.time += 45.0
        napped = len(clock.naps)
        asked.scrape(shipped())
        clock.time += 60.0
        opened = asked.open(Question(), shipped())
        past = asked.open(Question(at=START + 15.0), shipped())
        with pytest.raises(
            UsageError, match=r"^2027-01-15T07:00:00Z cannot be known: scraped from 2027-01-15T08:00:00Z to "
        ):
            asked.open(Question(at=START - 3600.0), shipped())
        asked.close()

    assert (120.0, napped) == (opened.longest, len(clock.naps))
    assert START + 120.0 == opened.grid.end
    assert (START + 15.0, 15.0) == (past.grid.end, past.longest)


def test_a_long_past_has_the_usual_grid() -> None:
    """After ten minutes a source like this is as good as a Prometheus."""
    clock = ManualClock(START)
    with serving(Engine(clock)) as urls:
        asked = source(urls, clock, wait=0.0)
        for _ in range(100):
            asked.scrape(shipped())
            clock.time += 15.0
        opened = asked.open(Question(), shipped())
        report = run(shipped(), asked, Question()).targets[0]

    assert grid_for(shipped(), opened.grid.end) == opened.grid
    assert pytest.approx(10.0, rel=1e-4) == report.signals["generation_tokens_per_second"].value


# --- what servers say of themselves -----------------------------------------------------------------


def test_release_and_context_are_reported() -> None:
    """``/version`` wins over what the names allow; ``/v1/models`` gives the longest context."""
    clock = ManualClock(START)
    report = scraped(Engine(clock), clock=clock).targets[0]

    assert report.version is not None
    assert ("0.26.0", "reported", ("v1",)) == (report.version.text, report.version.provenance, report.version.engines)
    assert (4096.0, "reported") == (report.facts["max_model_len"].value, report.facts["max_model_len"].provenance)


def test_what_is_given_wins_over_what_is_reported() -> None:
    clock = ManualClock(START)
    question = Question(flags={"--max-model-len": "1024"})
    fact = scraped(Engine(clock), clock=clock, question=question).targets[0].facts["max_model_len"]

    assert (1024.0, "given") == (fact.value, fact.provenance)


@pytest.mark.parametrize(
    ("version", "expected", "warnings"),
    [
        ("0.26.0+cpu", ("0.26.0", "reported"), 0),
        ("0.19.2.dev12+gabc", ("0.19.2", "reported"), 0),
        (None, ("0.9.2-0.33.0", "inferred"), 0),
        ("0.1.dev1+gabc", ("0.9.2-0.33.0", "inferred"), 0),
        ("dev", ("0.9.2-0.33.0", "inferred"), 0),
        ("0.99.0", ("0.9.2-0.33.0", "inferred"), 1),
    ],
)
def test_releases_that_help_and_that_do_not(version: str | None, expected: tuple[str, str], warnings: int) -> None:
    """A release that the catalogue does not know leaves what the names allow; a newer one is said."""
    clock = ManualClock(START)
    made = scraped(Engine(clock, version=version), clock=clock, wait=0.0)
    found = made.targets[0].version

    assert found is not None
    assert expected == (found.text, found.provenance)
    assert warnings == len(made.source.warnings)


def test_a_server_that_keeps_quiet_about_itself() -> None:
    """With an API key of its own ``/v1/models`` is closed; the metrics are open."""
    clock = ManualClock(START)
    made = scraped(Engine(clock, version=None, context=None), clock=clock)

    assert "max_model_len" not in made.targets[0].facts
    assert "ok" == made.source.state


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"data": [{"id": "m", "max_model_len": 8192}]}, 8192.0),
        ({"data": [{"id": "m", "max_model_len": 8192}, {"id": "alias", "max_model_len": 8192}]}, 8192.0),
        ({"data": [{"id": "m", "max_model_len": 8192}, {"id": "lora", "parent": "m", "max_model_len": 1}]}, 8192.0),
        ({"data": [{"id": "m", "max_model_len": 8192}, {"id": "n", "max_model_len": 1024}]}, None),
        ({"data": [{"id": "m", "max_model_len": None}]}, None),
        ({"data": [{"id": "m", "max_model_len": True}]}, None),
        ({"data": [{"id": "m", "max_model_len": -1}, 7]}, None),
        ({"data": {"id": "m"}}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_longest_context(said: object, expected: float | None) -> None:
    """Aliases agree, adapters do not count, and whatever else comes is no number."""
    assert expected == longest_context(said)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"version": "0.26.0"}, "0.26.0"),
        ({"version": "2.42.0", "goVersion": "go1.19"}, None),
        ({"version": 1}, None),
        ({"version": " "}, None),
        ("0.26.0", None),
    ],
)
def test_the_version(said: object, expected: str | None) -> None:
    """Prometheus has ``/version`` too."""
    assert expected == vllm_version(said)


@pytest.mark.parametrize(
    ("url", "base", "instance"),
    [
        ("http://host:8000", "http://host:8000", "host:8000"),
        ("http://host:8000/metrics", "http://host:8000", "host:8000"),
        ("http://host:8000/v1/", "http://host:8000", "host:8000"),
        ("https://host/llm/a", "https://host/llm/a", "host:443/llm/a"),
        ("http://user:word@[::1]", "http://[::1]", "[::1]:80"),
    ],
)
def test_addresses(url: str, base: str, instance: str) -> None:
    """The URLs that people have at hand are those of the API and of the metrics."""
    server = VllmServer(url, Access())

    assert (base, instance) == (server.url, server.instance)


def test_urls_that_are_none() -> None:
    clock = ManualClock(START)
    with pytest.raises(UsageError, match="not an HTTP URL"):
        source(["localhost:8000"], clock)
    with pytest.raises(UsageError, match="no server to scrape"):
        source([], clock)
    with serving(Engine(clock)) as urls, pytest.raises(UsageError, match="a direct scrape knows only now"):
        source(urls, clock).open(Question(at=START), shipped())


# --- several servers --------------------------------------------------------------------------------


def test_a_server_down_among_several() -> None:
    """Its ``up`` is 0, the others are judged, and the source says what is wrong."""
    clock = ManualClock(START)
    with serving(Engine(clock), Engine(clock, model="other")) as urls:
        dead = f"http://127.0.0.1:{free_port()}"
        made = run(shipped(), source([*urls, dead, urls[0]], clock), Question())

    assert 3 == len(made.targets)
    by_model = {report.target.get("model_name"): report for report in made.targets}
    assert ("unknown", 0.0) == (by_model[""].status, by_model[""].signals["up"].value)
    assert 10.0 == pytest.approx(by_model["other"].signals["generation_tokens_per_second"].value)
    assert "partial" == made.source.state
    assert f"{dead}/metrics: connection refused (is the server running, and is this its port?)" == made.source.error
    assert {"scrape"} == {report.target.get("job") for report in made.targets}


def test_a_server_that_dies_during_the_wait() -> None:
    """What it said before is judged; ``up`` says the rest."""
    clock = ManualClock(START)
    made = scraped(Engine(clock, fails=lambda passed: passed > 9), Engine(clock), clock=clock)
    ups = sorted(report.signals["up"].value or 0.0 for report in made.targets)

    assert [0.0, 1.0] == ups
    assert "HTTP 503" in (made.source.error or "")


def test_a_server_that_comes_up_during_the_wait() -> None:
    """Its rates are those of the time that it was seen."""
    clock = ManualClock(START)
    made = scraped(Engine(clock, model="late", fails=lambda passed: passed < 4), Engine(clock), clock=clock)
    late = next(report for report in made.targets if report.target.get("model_name") == "late")

    assert "ok" == made.source.state
    assert pytest.approx(10.0, rel=0.15) == late.signals["generation_tokens_per_second"].value


def test_a_hung_server_does_not_hold_the_others_up() -> None:
    """It is asked once; then the others are scraped as planned, and the last scrape is at the end of the wait."""
    over = threading.Event()

    def hang(_: Request) -> Reply:
        over.wait(5)
        return Reply(503)

    start = time.monotonic()
    engine = Engine(time.time)
    with answering(engine) as good, answering(hang) as hung:
        asked = ScrapeSource([good.url, hung.url], Access(timeout=0.7), wait=1.2, clock=time.time, sleep=time.sleep)
        opened = asked.open(Question(), shipped())
        over.set()

    assert time.monotonic() - start < 3
    assert 1 == len([one for one in hung.requests if one.path == "/metrics"])
    assert "no whole answer within 0.7 s" in (opened.describe().error or "")
    assert opened.longest == pytest.approx(1.2, abs=0.15)


def test_one_without_series_among_several() -> None:
    """A server that is up without vLLM series is a target of its own, for the rule about it."""
    clock = ManualClock(START)
    made = scraped(Engine(clock), Engine(clock, page=b"python_info 1\n"), clock=clock)
    quiet = next(report for report in made.targets if not report.target.get("model_name"))

    assert ["metrics-missing"] == [one.rule for one in quiet.findings]


def test_matchers() -> None:
    """Only what was asked for, with the labels that there are when nothing fits."""
    clock = ManualClock(START)
    engines = (Engine(clock), Engine(clock, model="other"))
    question = Question(matchers={"model_name": "other"})
    assert ["other"] == [
        report.target.get("model_name") for report in scraped(*engines, clock=clock, question=question).targets
    ]
    with pytest.raises(NoTargetsError, match=r"--match model_name=none selects nothing[^$]*model_name: m, other"):
        scraped(*engines, clock=clock, question=Question(matchers={"model_name": "none"}))


# --- servers that misbehave --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(401), "URL/metrics: HTTP 401 Unauthorized (credentials are missing or wrong: give a bearer token"),
        (Reply(403), "URL/metrics: HTTP 403 Forbidden (these credentials may not read the metrics"),
        (
            Reply(404),
            "URL/metrics: HTTP 404 Not Found (no metrics at this path: is this the port of vLLM's API",
        ),
        (
            Reply(500),
            "URL/metrics: HTTP 500 Internal Server Error (the server or a proxy before it fails: see its",
        ),
        (Reply(503), "URL/metrics: HTTP 503 Service Unavailable (the server or a proxy before it is not ready"),
        (Reply(418), "URL/metrics: HTTP 418 I'm a Teapot"),
        (Reply(302, headers={"Location": "/metrics"}), "URL/metrics: redirects in a circle"),
        (Reply(body=b"<html>log in</html>"), "URL/metrics: line 1: an HTML page instead of metrics"),
        (Reply(body=b"a 1\n", headers={"Content-Type": "text/html"}), "URL/metrics: an HTML page instead of metrics"),
        (Reply(body=b'{"status":"ok"}\n'), "URL/metrics: line 1: JSON instead of metrics"),
        (Reply(body=b""), "URL/metrics: an empty page"),
        (Reply(body=b"a 1\nb"), "URL/metrics: line 2: the page breaks off here"),
        (Reply(body=b"a 1\n", length=100), "URL/metrics: the answer broke off"),
        (
            Reply(body=b"\x1f\x8b\x08" + b"x" * 40, headers={"Content-Encoding": "gzip"}),
            "URL/metrics: the answer broke off",
        ),
        (Reply(body=b"a 1\n", headers={"Content-Encoding": "gzip"}), "URL/metrics: the answer broke off"),
        (Reply(body=b"a 1\na 2\n"), "URL/metrics: line 2: a second value of a, 2.0 after 1.0"),
    ],
)
def test_answers_that_are_no_page(reply: Reply, expected: str) -> None:
    """Each says what came, and what to do."""
    assert expected in failure(reply)


def test_a_page_that_was_packed() -> None:
    """Gzip is unpacked on the way."""
    clock = ManualClock(START)
    engine = Engine(clock)
    reply = Reply(body=gzip.compress(engine._page()), headers={"Content-Encoding": "gzip"})
    with answering(reply) as server:
        assert 1 == len(run(shipped(), source([server.url], clock, wait=0.0), Question()).targets)


def test_nobody_listens() -> None:
    """Said at once: there is nothing to wait for."""
    clock = ManualClock(START)
    urls = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(SourceError) as caught:
        run(shipped(), source(urls, clock), Question())

    assert [f"{url}/metrics: connection refused (is the server running, and is this its port?)" for url in urls] == str(
        caught.value
    ).splitlines()
    assert [] == clock.naps


def test_a_server_that_drips() -> None:
    """The deadline holds for the whole answer."""
    start = time.monotonic()

    assert "no whole answer within 0.3 s" in failure(Reply(body=b"a 1\n" * 50, drip=0.05), Access(timeout=0.3))
    assert time.monotonic() - start < 3


def test_a_page_without_end() -> None:
    """Reading stops at the largest size, packed or not."""
    body = b"# a comment\n" * 100_000
    for reply in (Reply(body=body), Reply(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})):
        text = failure(reply, Access(max_bytes=100_000))
        assert "URL/metrics: the answer has more than 100,000 bytes (is this the page of one server?)" == text


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (
            {"version": "0.26.0"},
            "vLLM 0.26.0 answers, but shows no series of its own (was it started with --disable-",
        ),
        (
            {"version": None},
            "no vLLM series (another port or server? If it is vLLM, was it started with --disable-",
        ),
    ],
)
def test_no_vllm_series(engine: Mapping[str, Any], expected: str) -> None:
    """Statistics are off, or this is something else; the version tells."""
    clock = ManualClock(START)
    with pytest.raises(NoTargetsError) as caught:
        scraped(Engine(clock, page=b"python_info 1\n", **engine), clock=clock)

    assert expected in str(caught.value)


def test_tls(tmp_path: Path) -> None:
    """A certificate that nobody vouches for is refused, its CA file or --insecure let it in."""
    pem = self_signed(tmp_path / "server.pem")
    clock = ManualClock(START)
    with answering(Engine(clock), pem=pem) as server:
        with pytest.raises(SourceError, match=r"TLS failed: .*\(check the host name, or give its CA file\)"):
            run(shipped(), source([server.url], clock), Question())
        for access in (Access(ca_file=pem.with_suffix(".crt")), Access(insecure=True)):
            assert 1 == len(run(shipped(), source([server.url], clock, wait=0.0, access=access), Question()).targets)


def test_credentials_go_to_every_question_and_into_no_message() -> None:
    """Also those of the URL."""
    with answering(Reply(401)) as server:
        url = server.url.replace("http://", "http://ana:s3cret@")
        with pytest.raises(SourceError) as caught:
            run(shipped(), source([url], ManualClock(START)), Question())

    assert "s3cret" not in str(caught.value)
    assert {"Basic YW5hOnMzY3JldA=="} == {one.headers["Authorization"] for one in server.requests}


# --- real recordings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(EXPECT))
def test_fifteen_seconds_of_a_recording_find_its_cause(name: str) -> None:
    """The page of a recording, scraped for 15 s, gives what the recording is known for."""
    expect = EXPECT[name]
    clock = ManualClock(expect["at"] - 15.0)
    with replaying(RECORDINGS / f"{name}.om.gz", expect["at"], clock=clock) as replay:
        report = run(shipped(), source([replay.url], clock), Question()).targets[0]
    loud = [one for one in report.findings if one.severity != "info"]

    if "cause" in expect:
        assert loud
        assert loud[0].cause in expect["cause"]
    else:
        assert {one.cause for one in loud} <= set(expect.get("quiet_or", []))


def test_a_replay_runs_by_itself() -> None:
    """Without a clock of the test, the recording runs at the speed that is asked for."""
    at = EXPECT["healthy"]["at"]
    with replaying(RECORDINGS / "healthy.om.gz", at - 60.0, speed=30.0) as replay:
        server = VllmServer(replay.url, QUICK)
        pages = []
        for _ in range(2):
            pages.append({(one.name, *one.labels.items()): one.value for one in server.scrape().page.samples})
            time.sleep(0.4)
        server.close()
    grown = [key for key in pages[0] if key[0] == "vllm:generation_tokens_total" and pages[1][key] > pages[0][key]]

    assert 1 == len(grown)
    assert np.isfinite(replay.now())
