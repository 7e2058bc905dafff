"""The Prometheus client against servers that misbehave, over real sockets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import numpy as np
import pytest
import requests
from tests.servers import Canned, Reply, Request, answering, free_port, prometheus, self_signed
from urllib3.exceptions import ProtocolError

from palanca.errors import SourceError, TooMuchError, UsageError
from palanca.sources.conversation import MOST_WARNINGS, Conversation
from palanca.sources.prometheus import Prometheus
from palanca.sources.session import Access, CarefulSession, explained, split_url

QUICK = Access(timeout=5, backoff=0.01)
ROW = {"metric": {"__name__": "up", "job": "vllm"}, "value": [1_800_000_000.123, "1"]}


def answer(*rows: object, kind: str = "vector", **more: object) -> Reply:
    return Reply(body=json.dumps({"status": "success", "data": {"resultType": kind, "result": rows}, **more}).encode())


@contextmanager
def asking(
    reply: Callable[[Request], Reply] | list[Reply] | Reply, access: Access = QUICK
) -> Iterator[tuple[Canned, Prometheus]]:
    with answering(reply) as server, Prometheus(server.url, access) as client:
        yield server, client


def refusal(reply: Callable[[Request], Reply] | list[Reply] | Reply, access: Access = QUICK) -> str:
    """What a query says that fails."""
    with asking(reply, access) as (server, client):
        with pytest.raises(SourceError) as caught:
            client.query("up", 1_800_000_000)
        text = str(caught.value)
        assert text.startswith(server.url), text
        return text.removeprefix(server.url)


# --- what is asked ---------------------------------------------------------------------------------


def test_a_query_is_a_form_with_exact_times() -> None:
    """Nothing of the query is in the URL, and milliseconds survive."""
    with answering(answer(ROW)) as server, Prometheus(server.url + "/", QUICK) as client:
        (row,) = client.query('up{job="a b&c"}', 1_800_000_000.1239)
        client.query_range("up", 1_800_000_000.25, 1_800_000_060.75, 7.5)

    instant, ranged = server.requests
    assert ("POST", "/api/v1/query") == (instant.method, instant.path)
    assert {"query": ['up{job="a b&c"}'], "time": ["1800000000.124"]} == instant.form
    assert ("POST", "/api/v1/query_range") == (ranged.method, ranged.path)
    times = {"start": ["1800000000.250"], "end": ["1800000060.750"], "step": ["7.500"], "nocache": ["1"]}
    assert {"query": ["up"], **times} == ranged.form
    assert ("up", {"job": "vllm"}, [1_800_000_000_123], [1.0]) == (row.name, row.labels, [*row.times], [*row.values])


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (Access(bearer="t0ken"), {"Authorization": "Bearer t0ken"}),
        (Access(basic=("ana", "ñ:x")), {"Authorization": "Basic YW5hOsOxOng="}),
        (Access(headers={"X-Scope-OrgID": "team-a"}), {"X-Scope-OrgID": "team-a"}),
    ],
)
def test_credentials_are_sent(access: Access, expected: dict[str, str]) -> None:
    with asking(answer(), access) as (server, client):
        assert not client.query("up", 0)

    assert expected.items() <= server.requests[0].headers.items()
    assert server.requests[0].headers["User-Agent"].startswith("palanca/")


def test_credentials_in_the_url_are_used_and_not_shown() -> None:
    with answering(Reply(401)) as server:
        url = server.url.replace("http://", "http://ana:s3cret%21@")
        with Prometheus(url, QUICK) as client, pytest.raises(SourceError) as caught:
            client.query("up", 0)

    assert "s3cret" not in str(caught.value) + client.url + client.info().url + repr(Access(bearer="s3cret"))
    assert "Basic YW5hOnMzY3JldCE=" == server.requests[0].headers["Authorization"]


@pytest.mark.parametrize(
    "url", ["localhost:9090", "ftp://host/", "http://", "http://host:port", "http://host/?a=1", "http://[::1", "", "/x"]
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(UsageError, match="http"):
        Prometheus(url)


def test_urls_keep_path_and_port() -> None:
    assert "https://host:8443/mimir/prometheus" == split_url("https://host:8443/mimir/prometheus/", QUICK)[0]
    assert "http://[::1]:9090" == split_url("http://[::1]:9090/", QUICK)[0]


# --- what is answered ------------------------------------------------------------------------------


def test_numbers_that_are_none() -> None:
    """NaN and both infinities are values."""
    rows = [{"metric": {"n": text}, "value": [1, text]} for text in ("NaN", "+Inf", "-Inf", "1e3")]
    with asking(answer(*rows)) as (_server, client):
        values = [float(row.values[0]) for row in client.query("x", 1)]

    np.testing.assert_array_equal([np.nan, np.inf, -np.inf, 1000.0], values)


def test_an_empty_result_is_no_error() -> None:
    with asking(answer(kind="matrix")) as (_server, client):
        assert not client.query_range("x", 0, 60, 15)


def test_partial_answers_are_said() -> None:
    """Warnings of Thanos are kept once each, within bounds; remarks of Prometheus 3 make nothing partial."""
    remark = "PromQL info: metric might not be a counter"
    replies = [answer(ROW, infos=[remark]), answer(ROW, warnings=["store a: down", "store a: down"])]
    with asking(replies) as (_server, client):
        client.query("x", 1)
        assert ("ok", (remark,)) == (client.info().state, client.info().warnings)
        client.query("x", 1)
        client.query("x", 1)
        assert ("partial", (remark, "store a: down")) == (client.info().state, client.warnings)

    with asking(answer(warnings=[f"{at:03}" * 400 for at in range(100)])) as (_server, client):
        client.query("x", 1)
        assert MOST_WARNINGS == len(client.warnings)
        assert 300 == max(len(text) for text in client.warnings)


def test_a_connection_that_is_reset() -> None:
    """The system's own words are told, once."""
    reset = requests.exceptions.ChunkedEncodingError(
        ProtocolError(
            "Connection broken: ConnectionResetError(104, 'Connection reset by peer')",
            ConnectionResetError(104, "Connection reset by peer"),
        )
    )
    assert "u: the answer broke off: Connection reset by peer (does it restart?)" == str(explained(reset, "u"))


def test_conversations_keep_apart() -> None:
    """What the answers of one diagnosis say is no matter of another that goes on at the same time."""
    replies = {"a": answer(ROW, warnings=["store a: down"]), "b": answer(ROW), "c": answer(ROW, warnings=["late"])}
    with asking(lambda request: replies[request.form["query"][0]]) as (_server, client):
        first, second = Conversation(client), Conversation(client)
        with ThreadPoolExecutor(4) as pool:
            for _ in range(20):
                pool.submit(first.query, "a", 1)
                pool.submit(second.query, "b", 1)
        client.query("c", 1)
        assert ("partial", ("store a: down",)) == (first.info().state, first.info().warnings)
        assert ("ok", ()) == (second.info().state, second.info().warnings)
        assert ("partial", ("late",)) == (client.info().state, client.info().warnings)


@pytest.mark.parametrize(
    ("ahead", "state", "said"), [(600, "stale", "s ahead of ours"), (-600, "stale", "s behind ours"), (20, "ok", "")]
)
def test_a_clock_that_is_off(ahead: float, state: str, said: str) -> None:
    """What a server with another clock has of now cannot be told."""

    def dated(_: Request) -> Reply:
        return replace(answer(ROW), headers={"Date": formatdate(time.time() + ahead, usegmt=True)})

    with asking(dated) as (_server, client):
        client.query("x", 1)
        info = client.info()
    assert state == info.state
    assert said in (info.error or "")


@pytest.mark.parametrize(
    "date", ["soon", f"Mon, 30 Nov {'3' * 22} 11:44:39 GMT", "Mon, 30 Nov 2026 11:44:39 +99999999999"]
)
def test_a_date_that_is_none(date: str) -> None:
    """Then nothing is known of the clock. The second was found by fuzzing: a year too large for Python's integers."""
    with asking(replace(answer(ROW), headers={"Date": date})) as (_server, client):
        client.query("x", 1)
        assert client.info().state == "ok"


def test_patience_is_shorter_than_the_timeout() -> None:
    """A question of an impatient conversation ends early, and those of others do not."""
    reply = replace(answer(ROW), drip=0.02)
    with asking(reply) as (_server, client):
        begin = time.monotonic()
        with pytest.raises(SourceError, match=r"within 0\.3 s .*Poll it less often"):
            Conversation(client, 0.3).query("x", 1)
        assert time.monotonic() - begin < 1.5
        assert 1 == len(Conversation(client, 60.0).query("x", 1))


def test_version() -> None:
    body = json.dumps({"status": "success", "data": {"version": "3.1.0"}}).encode()
    with asking([Reply(body=body), Reply(404)]) as (_server, client):
        assert "3.1.0" == client.version()
        with pytest.raises(SourceError, match="404"):
            client.version()


# --- what goes wrong -------------------------------------------------------------------------------


def test_refused() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Prometheus(url, QUICK) as client, pytest.raises(SourceError) as caught:
        client.query("up", 0)

    assert f"{url}/api/v1/query: connection refused (is the server running, and is this its port?)" == str(caught.value)


def test_no_such_host() -> None:
    client = Prometheus("http://no-such-host.invalid:9090", Access(timeout=5, attempts=1))
    with client, pytest.raises(SourceError, match=r"no-such-host\.invalid:9090"):
        client.query("up", 0)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"x" * 1000, drip=0.05),
        Reply(drip=0.05, raw=True),
        Reply(body=b"3\r\nabc\r\n" * 100, drip=0.05, headers={"Transfer-Encoding": "chunked"}),
    ],
    ids=["body", "headers", "chunks"],
)
def test_a_server_that_drips(reply: Reply) -> None:
    """The deadline holds for the whole answer, not for each byte."""
    begin = time.monotonic()

    assert "no whole answer within 0.4 s" in refusal(reply, Access(timeout=0.4))
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "HTTP 401 Unauthorized (credentials are missing or wrong"),
        (403, "HTTP 403 Forbidden (these credentials may not query here"),
        (404, "HTTP 404 Not Found (no Prometheus API at this URL"),
        (413, "a proxy refuses questions of this size"),
        (418, "HTTP 418"),
        (500, "HTTP 500 Internal Server Error (the server or a proxy before it fails: see its log)"),
        (503, "HTTP 503 Service Unavailable"),
    ],
)
def test_statuses(status: int, expected: str) -> None:
    assert expected in refusal(Reply(status, b"<html>no</html>"))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(body=b"<!DOCTYPE html><title>Login</title>"), "an HTML page instead of JSON"),
        (Reply(body=b"hello", headers={"Content-Type": "text/html"}), "an HTML page instead of JSON"),
        (Reply(body=b'{"status":"success","data":{"resultType":"vec'), "cut off or damaged"),
        (Reply(body=b"[" * 100_000), "cut off or damaged"),
        (Reply(body=answer(ROW).body.replace(b"vllm", b"\xe9")), "cut off or damaged"),
        (Reply(body=b"# HELP up\n"), "no JSON in the answer"),
        (Reply(body=b""), "empty answer"),
        (Reply(body=b"{}", length=500), "the answer broke off"),
        (Reply(body=b"xx", headers={"Content-Encoding": "gzip"}), "the answer broke off"),
        (Reply(body=b"[1]"), "not of the query API"),
        (Reply(body=b'{"status":"success"}'), "not of the query API"),
        (Reply(body=b'{"status":"success","data":[]}'), "no list of results"),
        (Reply(body=b'{"status":"success","data":{"resultType":"vector","result":{}}}'), "no list of results"),
        (answer(1, "1", kind="scalar"), "the answer is a scalar"),
        (answer(kind="streams"), "the answer is a streams"),
        (answer("up"), "a result without labels"),
        (answer({"metric": [], "value": [1, "1"]}), "a result without labels"),
        (answer({"metric": {"a": 1}, "value": [1, "1"]}), "a label that is no text"),
        (answer({"metric": {}, "value": 1}), "no pair of time and number"),
        (answer({"metric": {}, "value": [1]}), "no pair of time and number"),
        (answer({"metric": {}, "value": [1, "one"]}), "no pair of time and number"),
        (answer({"metric": {}, "value": ["Infinity", "1"]}), "no pair of time and number"),
        (answer({"metric": {}, "values": None}), "no pair of time and number"),
        (answer({"metric": {}, "histogram": [1, {}]}), "no pair of time and number"),
        (answer({"metric": {}, "values": []}), "a series without a sample"),
        (answer({"metric": {}, "values": [[2, "1"], [1, "1"]]}, kind="matrix"), "a series whose times go backwards"),
        (answer(ROW, ROW), "the same series twice"),
    ],
)
def test_answers_that_are_none(reply: Reply, expected: str) -> None:
    assert expected in refusal(reply)


@pytest.mark.parametrize(
    ("status", "kind", "text", "hint"),
    [
        (400, "bad_data", "parse error: unexpected end of input", ""),
        (422, "execution", "query processing would load too many samples into memory", "narrow it down with --match"),
        (503, "timeout", "query timed out in expression evaluation", "raise the server's query timeout"),
        (200, "internal", "expanding series", ""),
        (401, "unauthorized", "no org id", "credentials are missing or wrong"),
    ],
)
def test_errors_that_the_api_tells(status: int, kind: str, text: str, hint: str) -> None:
    """The server's own words are kept; a query that timed out is not asked again."""
    body = json.dumps({"status": "error", "errorType": kind, "error": text}, separators=(",", ":")).encode()
    with asking(Reply(status, body)) as (server, client), pytest.raises(SourceError) as caught:
        client.query("up", 0)

    assert f"{kind}: {text}" in str(caught.value)
    assert hint in str(caught.value)
    assert 1 == len(server.requests)


@pytest.mark.parametrize(
    "text",
    [
        "query processing would load too many samples into memory in query execution",
        "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        "the query hit the max number of chunks limit (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)",
        "cannot select more than -search.maxSamplesPerQuery=100 samples",
    ],
)
def test_more_than_the_server_loads(text: str) -> None:
    """What a smaller question may get is told apart from other errors."""
    body = json.dumps({"status": "error", "errorType": "execution", "error": text}).encode()
    with asking(Reply(422, body)) as (_, client), pytest.raises(TooMuchError, match="execution: "):
        client.query("up", 0)


@pytest.mark.parametrize("first", [Reply(429, headers={"Retry-After": "0"}), Reply(502), Reply(503), Reply(length=9)])
def test_another_try(first: Reply) -> None:
    """What passes by itself is tried again; the answer then counts."""
    with asking([first, answer(ROW)]) as (server, client):
        assert 1 == len(client.query("up", 0))

    assert 2 == len(server.requests)


def test_retry_after_counts() -> None:
    """As long as the server says, but never beyond the deadline."""
    begin = time.monotonic()
    with asking([Reply(429, headers={"Retry-After": "1"}), answer(ROW)]) as (_server, client):
        client.query("up", 0)
    assert 1 <= time.monotonic() - begin < 3

    assert "HTTP 429" in refusal(Reply(429, headers={"Retry-After": "60"}))
    assert time.monotonic() - begin < 4


def test_an_answer_that_is_too_large() -> None:
    assert "more than 1,000 bytes (narrow it down" in refusal(Reply(body=b" " * 1001), Access(max_bytes=1000))


# --- redirects -------------------------------------------------------------------------------------


def test_a_redirect_keeps_method_and_form() -> None:
    def reply(request: Request) -> Reply:
        moved = request.path.startswith("/new")
        return answer(ROW) if moved else Reply(302, headers={"Location": "/new" + request.path})

    with answering(reply) as server, Prometheus(server.url, Access(bearer="t")) as client:
        assert 1 == len(client.query("up", 0))

    assert ["POST"] * 2 == [request.method for request in server.requests]
    assert server.requests[0].form == server.requests[1].form
    assert "Bearer t" == server.requests[1].headers["Authorization"]


def test_redirects_in_a_circle() -> None:
    assert "redirects in a circle" in refusal(lambda request: Reply(302, headers={"Location": request.path}))
    endless = iter(range(100))
    assert "redirects in a circle" in refusal(lambda _: Reply(307, headers={"Location": f"/{next(endless)}"}))


@pytest.mark.parametrize(
    "access", [Access(bearer="t"), Access(basic=("a", "b")), Access(headers={"X-Scope-OrgID": "a"})]
)
def test_credentials_go_to_no_other_host(access: Access) -> None:
    with answering(answer(ROW)) as other:
        text = refusal(Reply(302, headers={"Location": f"{other.url}/api/v1/query?token=1"}), access)

    assert f"redirects to {other.url}/api/v1/query, which will not be given the credentials" in text
    assert [] == other.requests


def test_without_credentials_a_redirect_may_leave() -> None:
    with answering(answer(ROW)) as other:
        away = Reply(307, headers={"Location": f"{other.url}/api/v1/query"})
        with asking(away) as (_server, client):
            assert 1 == len(client.query("up", 0))


def test_a_redirect_to_no_url() -> None:
    assert "not an HTTP URL" in refusal(Reply(302, headers={"Location": "ftp://host/"}))


@pytest.mark.parametrize("where", ["/\x80", "http://:x\x01[1", "http://[::1", "http://host:port/"])
def test_a_redirect_to_what_is_no_url(where: str) -> None:
    """Found by fuzzing: requests reads where an answer leads, and raises what is no error of its own."""
    text = refusal(Reply(302, headers={"Location": where}))
    assert "redirects" in text


def test_a_question_that_is_no_text() -> None:
    """A label of a server may be a lone surrogate, and be asked for again."""
    said = "/api/v1/query: cannot be asked: the question is no UTF-8 text"
    with asking(answer()) as (server, client), pytest.raises(SourceError, match=said):
        client.query('up{a="\ud800"}', 0)
    assert [] == server.requests


# --- TLS and the real thing ------------------------------------------------------------------------


def test_tls(tmp_path: Path) -> None:
    """An unknown authority is refused, unless its file is given or nothing is to be checked."""
    pem = self_signed(tmp_path / "server.pem")
    with answering(answer(ROW), pem=pem) as server:
        for access in (Access(ca_file=pem), Access(insecure=True)):
            with Prometheus(server.url, access) as client:
                assert 1 == len(client.query("up", 0))
        with Prometheus(server.url, QUICK) as client, pytest.raises(SourceError, match=r"TLS failed: .*self.signed"):
            client.query("up", 0)


def test_a_client_certificate(tmp_path: Path) -> None:
    pem = self_signed(tmp_path / "server.pem")
    with answering(answer(ROW), pem=pem, client=True) as server:
        with Prometheus(server.url, Access(ca_file=pem, client_cert=pem)) as client:
            assert 1 == len(client.query("up", 0))
        with Prometheus(server.url, Access(ca_file=pem, attempts=1)) as client, pytest.raises(SourceError):
            client.query("up", 0)


def test_the_deadline_holds_over_tls(tmp_path: Path) -> None:
    pem = self_signed(tmp_path / "server.pem")
    access = Access(ca_file=pem, timeout=0.5)
    with answering(Reply(body=b"x" * 1000, drip=0.05), pem=pem) as server, Prometheus(server.url, access) as client:
        begin = time.monotonic()
        with pytest.raises(SourceError, match="no whole answer within"):
            client.query("up", 0)

    assert time.monotonic() - begin < 2


def test_files_that_are_missing(tmp_path: Path) -> None:
    for access in (Access(ca_file=tmp_path / "ca.pem"), Access(client_cert=tmp_path / "cert.pem")):
        with Prometheus("https://127.0.0.1:1", access) as client, pytest.raises(SourceError, match=r"pem"):
            client.query("up", 0)


def test_http_where_tls_is_asked_for() -> None:
    with answering(answer()) as server:
        url = server.url.replace("http:", "https:")
        with Prometheus(url, QUICK) as client, pytest.raises(SourceError, match=r"TLS failed: .*check the host name"):
            client.query("up", 0)


def test_a_session_reads_what_is_no_api() -> None:
    """The scraper uses the session too: any status and body come back whole."""
    with answering(Reply(404, b"nothing")) as server:
        reply = CarefulSession(QUICK, server.url).request("GET", server.url + "/metrics", params={"a": "b"})

    assert (404, b"nothing", "nothing") == (reply.status_code, reply.content, reply.text)
    assert "/metrics?a=b" == server.requests[0].path


def test_a_real_prometheus(tmp_path: Path) -> None:
    """A range vector has every sample; a bad expression is told in the server's words."""
    text = tmp_path / "up.om"
    text.write_text('up{job="a"} 1 1800000000.5\nup{job="a"} 0 1800000005.75\n# EOF\n')
    with prometheus(text, tmp_path / "server") as url, Prometheus(url) as client:
        (row,) = client.query("up[1m]", 1_800_000_010)
        assert client.version().startswith(("2.", "3."))
        with pytest.raises(SourceError, match=r"bad_data: .*parse error"):
            client.query("sum(", 0)

    assert ([1_800_000_000_500, 1_800_000_005_750], [1.0, 0.0]) == ([*row.times], [*row.values])
