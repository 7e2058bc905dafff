"""Entry points of what servers answer: pages of metrics, recordings, the query API, vLLM's documents, Alertmanager."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import requests
import urllib3
from requests.adapters import HTTPAdapter
from tests.api.apps import fleet
from tests.engines import END, RECORDINGS, shipped
from tests.fuzz.entry import Entry, room, told
from tests.linting.linted import vocabulary
from tests.notify.wires import FakeWire

from palanca.errors import RecordingError, RuleFileError, SourceError
from palanca.linting import lint
from palanca.notify.alertmanager import Alertmanager, Reply
from palanca.notify.silences import Marker
from palanca.signals.store import Series
from palanca.sources import openmetrics, recording
from palanca.sources.exposition import ExpositionParser, Page
from palanca.sources.prometheus import Prometheus
from palanca.sources.rule_files import read_loaded
from palanca.sources.session import Access
from palanca.sources.vllm import VllmServer

URL = "http://prometheus:9090"
HEADER = re.compile(r"[A-Za-z-]+")
EXPOSITION = RECORDINGS.parent / "exposition"
TEXT_WORDS = (
    "vllm:num_requests_running", "_bucket", 'le="+Inf"', "# TYPE ", "# EOF", "# HELP ", " # {", "NaN", "+Inf", "-Inf",
    "1e999", "0x1p3", "1_0", "\\n", '\\"', "\\\\", "{", "}", "\r\n", "\0", "\t", "{}", '{"vllm:x"}', "counter",
    "histogram", "1e11", "-1", "\u2028", "_created",
)  # fmt: skip


# --- the page of one scrape --------------------------------------------------------------------------


def rows(page: Page) -> list[tuple[str, tuple[tuple[str, str], ...], str]]:
    """What a page holds, to be compared: NaN is equal to itself."""
    return [(one.name, tuple(sorted(one.labels.items())), repr(one.value)) for one in page.samples]


def exposition(body: bytes) -> bool:
    """Read a page twice with one parser, which remembers its series, and once with another."""
    parser = ExpositionParser()
    try:
        page = parser.parse(body)
    except SourceError as error:
        return told(error, "/metrics: ")
    assert rows(page) == rows(parser.parse(body)) == rows(ExpositionParser(lambda _: True).parse(body))
    assert () == ExpositionParser(lambda _: False).parse(body).samples
    identities = [row[:2] for row in rows(page)]
    assert len(identities) == len(set(identities))
    return True


def pages() -> Iterator[bytes]:
    """Pages of real releases, the shorter ones."""
    for path in sorted(EXPOSITION.rglob("*.txt")):
        yield path.read_bytes()[:6_000].rpartition(b"\n")[0] + b"\n"


# --- recordings --------------------------------------------------------------------------------------


def ascending(found: list[Series]) -> bool:
    """Check the shape of series: as many times as values, and times that go on."""
    for one in found:
        assert one.times.shape == one.values.shape
        assert one.times.size > 0
        assert (np.diff(one.times) > 0).all()
        assert all(one.labels.values())
    return True


def recorded(text: bytes) -> bool:
    """Read OpenMetrics text as lines, and the same as a file."""
    path = room("recording") / "r.om"
    try:
        accepted = ascending(openmetrics.parse(io.BytesIO(text), path="r"))
    except RecordingError as error:
        accepted = told(error, "r")
    path.write_bytes(text)
    try:
        recording.load(path)
    except RecordingError as error:
        return told(error, str(path))
    assert accepted
    return True


def packed(raw: bytes) -> bool:
    """Read a packed file, whole or not."""
    path = room("recording") / "r.om.gz"
    path.write_bytes(raw)
    try:
        recording.load(path, max_bytes=1_000_000)
    except RecordingError as error:
        return told(error, str(path))
    return True


def recordings() -> Iterator[bytes]:
    """The begin of each recording, with its end."""
    for path in sorted(RECORDINGS.glob("*.om.gz")):
        text = gzip.decompress(path.read_bytes())
        yield text[:4_000].rpartition(b"\n")[0] + b"\n# EOF\n"


# --- the query API -----------------------------------------------------------------------------------


class Wire(HTTPAdapter):
    """Answers every request alike, without a network. ``headers`` as they would arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.status, self.body = 200, b""
        self.headers: dict[str, str] = {}

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        raw = urllib3.HTTPResponse(
            io.BytesIO(self.body), self.headers, self.status, preload_content=False, enforce_content_length=False
        )
        made: requests.Response = self.build_response(request, raw)
        return made


@cache
def client() -> tuple[Prometheus, Wire]:
    """Return a client of the query API whose answers are those of the wire."""
    made, wire = Prometheus(URL, Access(attempts=1, max_bytes=10_000_000)), Wire()
    _wired(made._session, wire, URL)
    return made, wire


def _wired(session: requests.Session, wire: Wire, url: str) -> None:
    """Let nothing out, wherever an answer redirects to."""
    for prefix in ("http://", "https://", url):
        session.mount(prefix, wire)


def query_api(body: bytes) -> bool:
    """Read an answer as that to each question."""
    asks, wire = client()
    wire.body = body
    accepted = False
    for ask in (lambda: asks.query("up", END), lambda: asks.query_range("up", END - 60, END, 15)):
        try:
            found = ask()  # type: ignore[no-untyped-call]
        except SourceError as error:
            told(error, URL)
            continue
        accepted = True
        for one in found:
            assert one.times.dtype == np.int64
            assert one.times.shape == one.values.shape
            assert all(isinstance(text, str) for text in (one.name, *one.labels, *one.labels.values()))
            assert (np.diff(one.times) >= 0).all()
    try:
        assert isinstance(asks.version(), str)
        asks.rules()
        for fault in lint(read_loaded(asks), vocabulary()).findings:
            assert fault.message
    except SourceError as error:
        told(error, URL)
    except RuleFileError as error:
        told(error, "")
    else:
        accepted = True
    return accepted


def query_answers() -> Iterator[bytes]:
    """Good and bad answers."""
    good = {"metric": {"__name__": "up", "job": "vllm"}, "value": [END, "1"]}
    ranged = {"metric": {"job": "vllm"}, "values": [[END - 15, "1"], [END, "NaN"]]}
    rule = {"name": "A", "query": "vllm:x > 1", "type": "alerting", "duration": 60, "labels": {}, "annotations": {}}
    data: list[object] = [
        {"resultType": "vector", "result": [good]},
        {"resultType": "matrix", "result": [ranged, {**ranged, "metric": {"job": "b"}}]},
        {"resultType": "scalar", "result": [END, "1"]},
        {"version": "2.53.0", "goVersion": "go1.22"},
        {"groups": [{"name": "g", "file": "f", "interval": 15, "rules": [rule, {**rule, "type": "recording"}]}]},
        ["__name__", "job"],
        {"activeTargets": [], "droppedTargets": []},
    ]
    for one in data:
        yield json.dumps({"status": "success", "data": one, "warnings": ["w"], "infos": ["i"]}).encode()
    yield b'{"status":"error","errorType":"timeout","error":"query timed out"}'
    yield b"<html><title>Sign in</title></html>"


def answer_headers(text: bytes) -> bool:
    """Take ``name: value`` lines as the headers of an answer, after a line with the status."""
    asks, wire = client()
    first, *lines = text.decode("latin-1").split("\n")
    pairs = (line.partition(": ") for line in lines)
    wire.status = int(first) if first.isascii() and first.isdecimal() and 200 <= int(first) < 600 else 200
    wire.headers = {name: value for name, _, value in pairs if HEADER.fullmatch(name)}
    wire.body = b'{"status":"success","data":{"resultType":"vector","result":[]}}'
    try:
        asks.query("up", END)
    except SourceError as error:
        return told(error, "http")
    finally:
        wire.status, wire.headers = 200, {}
    assert asks.info().url == URL
    return True


def header_lines() -> Iterator[bytes]:
    """Headers that answers have."""
    yield b"200\nDate: Mon, 30 Nov 2026 11:44:39 GMT\nContent-Type: application/json"
    yield b"429\nRetry-After: 3\nContent-Type: text/plain"
    yield b"503\nRetry-After: Mon, 30 Nov 2026 11:44:39 GMT"
    yield b"302\nLocation: http://prometheus:9090/login?next=/api"
    yield b"307\nLocation: //other/"
    yield b"200\nContent-Encoding: gzip\nDate: Mon, 30 Nov 99999 11:44:39 +9999"


# --- what a vLLM server says of itself -----------------------------------------------------------------


@cache
def vllm() -> tuple[VllmServer, Wire]:
    """Return a vLLM server whose answers are those of the wire."""
    made, wire = VllmServer("http://vllm:8000", Access(attempts=1)), Wire()
    _wired(made._session, wire, "http://vllm:8000")
    return made, wire


def server_report(body: bytes) -> bool:
    """Read a document as that of ``/version`` and of ``/v1/models``."""
    server, wire = vllm()
    wire.body = body
    report = server.report()
    assert report.release is None or report.release.strip()
    for fact in report.facts.values():
        assert isinstance(fact.value, float)
        assert 0 < fact.value < math.inf
    return bool(report.release or report.facts)


def server_documents() -> Iterator[bytes]:
    """Return what real servers answer."""
    yield b'{"version":"0.26.0"}'
    yield b'{"object":"list","data":[{"id":"m","max_model_len":4096,"parent":null},{"id":"l","parent":"m"}]}'
    yield b'{"version":"2.53.0","goVersion":"go1.22"}'


# --- Alertmanager --------------------------------------------------------------------------------------


def silences(body: bytes) -> bool:
    """Read an answer as silences and as alerts, and mark a diagnosis with them."""
    try:
        muting = Alertmanager(FakeWire(lambda _method, _path: Reply(200, body))).muting()
    except SourceError as error:
        return told(error, "")
    diagnosis = fleet()
    marked = Marker(shipped().rules, (), muting, END).marked(diagnosis)
    assert len(diagnosis.targets) == len(marked.targets)
    return True


def silence_answers() -> Iterator[bytes]:
    """Return silences, and an alert, as API v2 has them."""
    matcher = {"name": "palanca_rule", "value": "kv.*", "isRegex": True, "isEqual": True}
    silence = {
        "id": "1", "status": {"state": "active"}, "startsAt": "2020-01-01T00:00:00.000Z", "comment": "c",
        "endsAt": "2099-01-01T00:00:00.000Z", "matchers": [matcher], "createdBy": "a", "updatedAt": "",
    }  # fmt: skip
    alert = {"labels": {"palanca_rule": "kv-cache-saturated"}, "status": {"state": "suppressed", "silencedBy": ["1"]}}
    yield json.dumps([{**silence, **alert}, {**silence, "labels": {}}]).encode()
    yield b"[]"


JSON_WORDS = (
    "null", "true", "1e999", "NaN", "Infinity", "-1", "[]", "{}", '""', '"\\ud800"', "9" * 400, '"status"', '"data"',
    '"success"', '"result"', '"resultType"', '"vector"', '"matrix"', '"metric"', '"value"', '"values"', '"groups"',
    '"rules"', '"version"', '"max_model_len"', '"matchers"', '"isRegex"', '"0001-01-01T00:00:00"',
)  # fmt: skip
SOURCES = (
    Entry("exposition", exposition, pages, TEXT_WORDS),
    Entry("recording", recorded, recordings, TEXT_WORDS),
    Entry("packed-recording", packed, lambda: [gzip.compress(one) for one in recordings()]),
    Entry("query-api", query_api, query_answers, JSON_WORDS),
    Entry("answer-headers", answer_headers, header_lines, ("Date: ", "Retry-After: ", "Location: ", "GMT", "-0000")),
    Entry("server-report", server_report, server_documents, JSON_WORDS),
    Entry("silences", silences, silence_answers, JSON_WORDS),
)
