"""What every request passes, and what every answer carries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import pytest
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse
from starlette.types import Message
from tests.api.apps import Answer, FakeBackend, World, world

from palanca.api.access import Token, Tokens
from palanca.api.guard import LARGEST_BODY, LONGEST_QUERY, SECURITY_HEADERS, Guard, Rules, own_hosts

PROBLEM = "application/problem+json"
TOKENS = Tokens([Token("grafana", "read", "reads"), Token("ops", "write", "writes")])
READ, WRITE = {"Authorization": "Bearer reads"}, {"Authorization": "Bearer writes"}
JSON = {"Content-Type": "application/json"}
ACKNOWLEDGE = "/api/v1/history/1/acknowledge"
GETS = (
    "/diagnose", "/api/v1/targets", "/api/v1/findings", "/api/v1/signals", "/api/v1/rules",
    "/api/v1/rules/kv-cache-saturated", "/api/v1/history", "/api/v1/history/events", "/api/v1/history/1", "/healthz",
    "/readyz", "/metrics", "/docs", "/docs/start.js", "/docs/swagger-ui.css", "/openapi.json",
)  # fmt: skip


def more(_: FakeBackend) -> list[APIRouter]:
    """Routes that do what no real one does."""
    made = APIRouter()

    @made.get("/slow")
    async def slow() -> None:
        await asyncio.sleep(30)

    @made.get("/broken")
    async def broken() -> None:
        raise RuntimeError("a secret of the inside")

    @made.get("/half")
    async def half() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"one"
            await asyncio.sleep(30)

        return StreamingResponse(pieces())

    @made.post("/body")
    async def body(request: Request) -> int:
        return len(await request.body())

    return [made]


@cache
def plain() -> World:
    return world(more=more)


@cache
def closed(metrics: bool = False) -> World:
    return world(rules=Rules(TOKENS, metrics=metrics))


def bare(path: str) -> dict[str, Any]:
    """The least that a server says of a request."""
    return {
        "type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "root_path": "",
        "scheme": "http", "server": None, "client": None, "http_version": "1.1", "asgi": {"spec_version": "2.4"},
    }  # fmt: skip


def problem(answer: Answer, status: int) -> str:
    """The answer is that problem, well formed; its detail."""
    document = answer.json
    assert (status, status, PROBLEM) == (answer.status, document["status"], answer["Content-Type"])
    assert {"type", "title", "status", "detail", "errors"} == set(document)
    return str(document["detail"])


def guarded(answer: Answer) -> None:
    """All security headers, each once, and none that lets other origins read."""
    for name, value in SECURITY_HEADERS.items():
        assert value == answer[name].replace(" 'unsafe-inline'", "")  # of styles, at /docs
    assert answer["Cache-Control"]
    assert not [name for name, _ in answer.headers if name.startswith("access-control")]
    assert answer.get("Server") is None


# --- headers and methods ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", GETS)
def test_head_is_get_without_body(path: str) -> None:
    """Same status, same headers, length included; this is what ``curl -I`` shows."""
    get, head = plain().send("GET", path), plain().send("HEAD", path)
    assert (200, 200, b"") == (get.status, head.status, head.body)
    assert get.body
    if path != "/metrics":  # which counts the request before
        assert get.headers == head.headers
        assert str(len(get.body)) == head["Content-Length"]
    guarded(get)
    guarded(head)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_head_of_what_is_not_there(method: str) -> None:
    """404 with the length of the problem document, and no body for HEAD."""
    answer = plain().send(method, "/nothing")
    assert (404, PROBLEM) == (answer.status, answer["Content-Type"])
    assert (method == "GET") == bool(answer.body)


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "BREW", "get"])
def test_other_methods(method: str) -> None:
    """405 as a problem, with the methods that there are; no answer to a preflight lets another origin in."""
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "GET", "Content-Length": "0"}
    answer = plain().send(method, "/diagnose", headers=headers)
    assert "GET" in problem(answer, 405)
    assert "GET, HEAD" == answer["Allow"]
    guarded(answer)


def test_post_where_there_is_only_get() -> None:
    """405 once the body is of the right type."""
    assert "GET, HEAD" == plain().post("/diagnose", {})["Allow"]


def test_methods_are_counted_under_few_names() -> None:
    """A client may invent words; each would else be a series of its own for ever."""
    one = world()
    for method in ("BREW", "A" * 1000, "GET", "HEAD"):
        one.send(method, "/diagnose")
    assert ["other", "other", "GET", "HEAD"] == [served.method for served in one.served]
    assert {"/diagnose"} == {served.path for served in one.served}


@pytest.mark.parametrize("path", ["/nothing", "/docs/../x", "/api/v1/rules/" + "x" * 500, "/diagnose/", "//diagnose"])
def test_paths_are_counted_by_their_route(path: str) -> None:
    """And not by what the client wrote."""
    one = world()
    one.get(path)
    assert one.served[0].path in {"other", "/api/v1/rules/{rule_id}", "/docs/{name}"}


def test_every_answer_is_timed() -> None:
    """With its status; the timer of the test goes on by a millisecond."""
    one = world()
    one.get("/nothing")
    assert [(404, 0.001)] == [(served.status, round(served.seconds, 6)) for served in one.served]


# --- hosts -----------------------------------------------------------------------------------------

LOCAL = Rules(hosts=own_hosts("127.0.0.1", "https://palanca.example:8443/sub"))


@cache
def local() -> World:
    return world(rules=LOCAL)


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:9797", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9797", "[::1]:9797", "palanca.example"],
)
def test_own_names(host: str) -> None:
    """Names that lead here."""
    assert 200 == local().send("GET", "/diagnose", host=host).status


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:9797", "localhost.evil.example", "127.0.0.1.evil.example", "[", "[::1",
        "evil@localhost", "localhost@evil", "localhost,evil", "localhost/x.evil", "localhost evil", "0.0.0.0", "[::2]",
        "localhost\tevil", "localhost:", "localhost:999999", "localhost?.evil", "localhost#.evil", "localhost:80:80",
    ],
)  # fmt: skip
def test_names_of_others(host: str | None) -> None:
    """A page of another site that has given its own name our address learns nothing."""
    answer = local().send("GET", "/diagnose", host=host)
    assert "external_url" in problem(answer, 421)
    guarded(answer)


def test_probes_need_no_name() -> None:
    """A kubelet asks by address."""
    assert [200, 200] == [local().send("GET", path, host="10.0.0.7:9797").status for path in ("/healthz", "/readyz")]


def test_any_name_where_tokens_are_asked_for() -> None:
    """A page that was given our address under its own name has no token."""
    one = closed()
    assert 200 == one.send("GET", "/diagnose", headers=READ, host="anything.example").status


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "localhost:99999999", "", None, "ünïcode", "x" * 5000])
@pytest.mark.parametrize("query", ["", "limit=1"])
def test_a_host_that_is_none_breaks_nothing(host: str | None, query: str) -> None:
    """No part of an answer is made of the name."""
    assert 200 == plain().send("GET", "/diagnose", query, host=host).status


# --- tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [path for path in GETS if path not in {"/healthz", "/readyz", "/metrics"}])
@pytest.mark.parametrize("header", [None, "", "Bearer wrong", "Bearer", "Basic eDp5", "Bearer reads2", "Digest x"])
def test_without_a_token(path: str, header: str | None) -> None:
    """401, with the two ways to show one; nothing of the content."""
    answer = closed().send("GET", path, headers={} if header is None else {"Authorization": header})
    assert "Authorization: Bearer TOKEN" in problem(answer, 401)
    assert answer["WWW-Authenticate"].startswith('Bearer realm="palanca", Basic realm="palanca"')
    guarded(answer)


@pytest.mark.parametrize("path", GETS)
@pytest.mark.parametrize("headers", [READ, WRITE, {"Authorization": "Basic " + "OnJlYWRz"}])
def test_with_a_token(path: str, headers: dict[str, str]) -> None:
    """Either scope reads; a browser sends the token as a password."""
    assert 200 == closed().send("GET", path, headers=headers).status


def test_a_token_of_scope_read_does_not_write() -> None:
    """403 says whose token it is, and what is needed."""
    answer = closed().post(ACKNOWLEDGE, {}, **READ)
    assert "the token grafana may read only; a token of scope write is needed" == problem(answer, 403)
    guarded(answer)


def test_a_token_of_scope_write_writes() -> None:
    """It gets as far as the history, which is switched off here."""
    assert "history" in problem(closed().post(ACKNOWLEDGE, {}, **WRITE), 503)


def test_nothing_is_told_of_a_path_without_a_token() -> None:
    """What is not there and what is forbidden look alike."""
    assert problem(closed().get("/nothing"), 401) == problem(closed().get("/diagnose"), 401)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize("metrics", [False, True])
def test_probes_are_open(path: str, metrics: bool) -> None:
    """They never need a token."""
    assert 200 == closed(metrics).get(path).status


def test_metrics_are_open_unless_asked() -> None:
    """``metrics`` decides."""
    assert [200, 401] == [closed(flag).get("/metrics").status for flag in (False, True)]
    assert 200 == closed(True).send("GET", "/metrics", headers=READ).status


@pytest.mark.parametrize(
    "path", ["/healthz/", "//healthz", "/healthz/../diagnose", "/METRICS", "/healthz%2f", "/metrics/x"]
)
def test_what_only_looks_like_an_open_path(path: str) -> None:
    """Only the exact path is open."""
    assert 401 == closed(True).get(path).status


def test_posts_to_open_paths_change_nothing() -> None:
    """There is no such method."""
    assert 405 == closed().post("/healthz", {}).status


def test_web_sockets_are_refused() -> None:
    """There is none, and no token would be asked for."""
    said: list[Any] = []

    async def send(message: Message) -> None:
        said.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    asyncio.run(plain().app({"type": "websocket", "path": "/diagnose", "headers": []}, receive, send))
    assert [{"type": "websocket.close", "code": 1008}] == said


def test_rules_are_read_anew() -> None:
    """A reload that brings tokens holds for the next request."""
    rules = [Rules()]
    one = plain()
    guard = Guard(
        one.fastapi, rules=lambda: rules[0], audit=one.audited.append, served=one.served.append, timer=lambda: 0.0,
        clock=lambda: 0.0,
    )  # fmt: skip
    turned = World(guard, one.backend, one.telemetry, one.fastapi)
    assert 200 == turned.get("/diagnose").status
    rules[0] = Rules(TOKENS)
    assert 401 == turned.get("/diagnose").status


# --- bodies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx",
        "application/merge-patch+json", "application/json, text/plain",
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [b"", b"{}"])
def test_only_json_is_taken(kind: str | None, body: bytes) -> None:
    """What a form of another site can send without being asked is not."""
    answer = plain().send("POST", "/body", headers={} if kind is None else {"Content-Type": kind}, body=body)
    assert "application/json" in problem(answer, 415)
    guarded(answer)


def test_a_body_of_another_method_must_be_json_too() -> None:
    """Though no page can send those without being asked."""
    assert 415 == plain().send("PUT", "/body", body=b"x").status
    assert 415 == plain().send("DELETE", "/body", headers={"Transfer-Encoding": "chunked"}, body=[b"x"]).status


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", " application/json ;x=y"])
def test_json_by_its_names(kind: str) -> None:
    """Case and parameters do not matter."""
    assert b"2" == plain().send("POST", "/body", headers={"Content-Type": kind}, body=b"{}").body


@pytest.mark.parametrize("size", [LARGEST_BODY, LARGEST_BODY + 1])
@pytest.mark.parametrize("pieces", [1, 7])
def test_largest_body(size: int, pieces: int) -> None:
    """The limit holds with and without Content-Length; what is too large is refused and the connection closed."""
    whole = b"x" * size
    step = -(-size // pieces)
    body = whole if pieces == 1 else [whole[at : at + step] for at in range(0, size, step)]
    answer = plain().send("POST", "/body", headers=JSON, body=body)
    if size <= LARGEST_BODY:
        assert (200, str(size)) == (answer.status, answer.text)
    else:
        assert "1,048,576" in problem(answer, 413)
        assert "close" == answer["Connection"]
        guarded(answer)


def test_a_large_body_of_json() -> None:
    """FastAPI reads it itself, and would make a 400 of most errors while it does."""
    pieces = [b'{"note": "', *[b"x" * 100_000] * 11, b'"}']
    assert "bytes" in problem(plain().send("POST", ACKNOWLEDGE, headers=JSON, body=pieces), 413)


def test_a_body_that_lies_about_its_length() -> None:
    """What comes counts."""
    answer = plain().send("POST", "/body", headers=[*JSON.items(), ("Content-Length", "2")], body=[b"x" * 10**6] * 2)
    assert 413 == answer.status


@pytest.mark.parametrize("length", ["-1", "many", "9" * 400, "²"])
def test_a_length_that_is_none(length: str) -> None:
    """No server passes it on; nothing breaks if one does."""
    answer = plain().send("POST", "/body", headers=[*JSON.items(), ("Content-Length", length)], body=[b"{}"])
    assert answer.status in {200, 413}


@pytest.mark.parametrize(("size", "status"), [(LONGEST_QUERY, 422), (LONGEST_QUERY + 1, 414), (10**6, 414)])
def test_longest_query(size: int, status: int) -> None:
    """A longer one is refused before anything reads it."""
    answer = plain().get("/diagnose", "model=" + "x" * (size - 6))
    problem(answer, status)
    guarded(answer)


# --- time and failure ------------------------------------------------------------------------------


def test_no_answer_takes_for_ever() -> None:
    """503 says so."""
    answer = world(more=more, longest=0.2).get("/slow")
    assert "no answer within 0.2 s" in problem(answer, 503)
    guarded(answer)


def test_an_answer_that_stops_half_way() -> None:
    """It has begun: nothing can be added, and it is not ended as if it were whole."""
    one = world(more=more, longest=2.0)  # long enough to begin, however slow the machine
    said: list[Any] = []

    async def send(message: Message) -> None:
        said.append(message)

    async def receive() -> Message:
        await asyncio.sleep(10)
        return {"type": "http.disconnect"}

    scope = bare("/half")
    asyncio.run(one.app(scope, receive, send))
    assert ["http.response.start", "http.response.body"] == [message["type"] for message in said]
    assert said[-1]["more_body"]


def test_a_fault_of_ours() -> None:
    """A problem without a word of the inside; the error itself goes on to the server, which logs it."""
    one = world(more=more)
    said: list[Any] = []

    async def send(message: Message) -> None:
        said.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = bare("/broken")
    with pytest.raises(RuntimeError):
        asyncio.run(one.app(scope, receive, send))
    start, body = said
    found = tuple((name.decode(), text.decode()) for name, text in start["headers"])
    answer = Answer(start["status"], found, body["body"])
    assert "palanca failed; its log says more" == problem(answer, 500)
    guarded(answer)
    assert [("/broken", 500)] == [(served.path, served.status) for served in one.served]


# --- audit -----------------------------------------------------------------------------------------


def test_writes_are_noted_however_they_end() -> None:
    """Who, from where, what, and the status; reads are not."""
    one = world(rules=Rules(TOKENS))
    one.get("/diagnose", **READ)
    one.send("HEAD", "/diagnose", headers=WRITE)
    one.post(ACKNOWLEDGE, {})
    one.post(ACKNOWLEDGE, {}, **READ)
    one.post(ACKNOWLEDGE, {}, **WRITE)
    one.send("DELETE", "/x\ny", headers=WRITE)
    assert [
        ("unknown", "POST", ACKNOWLEDGE, 401),
        ("grafana", "POST", ACKNOWLEDGE, 403),
        ("ops", "POST", ACKNOWLEDGE, 503),
        ("ops", "DELETE", "/x\ny", 404),
    ] == [(note.caller, note.method, note.path, note.status) for note in one.audited]
    assert {"127.0.0.1"} == {note.client for note in one.audited}
