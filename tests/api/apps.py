"""The whole application over a fake of the running service, and a client that sends it any request, legal or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import Message
from tests.engines import END, ROOT, Value, readings, shipped
from tests.recorded import AT, FP8, changed, raw, read_recording

from palanca.advice.hardware import load_hardware
from palanca.alerting.options import Options
from palanca.api import alertmanager as webhook
from palanca.api import alerts as alert_routes
from palanca.api import dashboards as dashboard_routes
from palanca.api import history as history_routes
from palanca.api import verify as verify_route
from palanca.api.application import application
from palanca.api.guard import Audited, Guard, Rules, Served
from palanca.daemon.snapshot import Snapshot, taken
from palanca.dashboards.options import Options as Boards
from palanca.diagnosis import diagnose
from palanca.episodes import keep_firing
from palanca.errors import PalancaError
from palanca.history.disabled import NoHistory
from palanca.history.facade import History
from palanca.history.store import HistoryStore
from palanca.model import Catalogue, Diagnosis, Readings, SourceInfo, Target
from palanca.notify.alert_groups import EnrichedGroup, Sink
from palanca.poll import Stretch, grid_for
from palanca.settings.targets import Knowledge
from palanca.signals.leaves import Grid
from palanca.telemetry import Telemetry
from palanca.verify import Verification
from palanca.verifying import Trial
from palanca.web.pages import refuse
from palanca.web.routes import routers as page_routes

Json = Any
"""What JSON holds."""
ODD_LABELS = (
    "line\nfeed",
    'a "quoted" \\ value',
    "ünïcødé ☃ 漢字",
    "lone \ud800 surrogate",
    "x" * 10_000,
    "nul \0 inside",
)
SATURATED = "kv-saturated"
_PLAIN: dict[str, Value] = {
    "up": 1, "running": 2, "waiting": 0, "kv_cache_usage": 0.2, "ttft_p99": 0.3, "generation_tokens_per_second": 900,
    "preemptions_per_minute": 0, "preemptions_per_request": 0, "first_tokens": 100, "finished_requests": 100,
}  # fmt: skip
KINDS = (
    {**_PLAIN, "kv_cache_usage": 0.97, "preemptions_per_minute": 80, "preemptions_per_request": 1.4, "waiting": 30},
    {**_PLAIN, "ttft_p99": 9.0},
    _PLAIN,
)


@cache
def recorded(name: str = SATURATED) -> Diagnosis:
    """The diagnosis of a real recording when its load ended: one engine."""
    return diagnose(shipped(), read_recording(name, grid_for(shipped(), AT[name])))


@cache
def fleet(size: int = 7) -> Diagnosis:
    """Engines of two models: full, waiting and idle ones, with and without findings."""
    targets = [
        Target.of({"job": "vllm", "instance": f"vllm-{at}:8000", "model_name": "llama" if at % 2 else "qwen"})
        for at in range(size)
    ]
    return diagnose(shipped(), readings(*(KINDS[at % 3] for at in range(size)), targets=targets))


@cache
def odd() -> Diagnosis:
    """Engines whose labels are what no sane person writes."""
    targets = [
        Target.of({"job": "vllm", "instance": f"{at}", "model_name": text}) for at, text in enumerate(ODD_LABELS)
    ]
    return diagnose(shipped(), readings(*[KINDS[0]] * len(targets), targets=targets))


class FakeBackend:
    """Satisfies ``palanca.api.backend.Backend``; ``asked`` are the moments of which a fresh diagnosis was wanted."""

    def __init__(self, diagnosis: Diagnosis, ago: float = 12.0) -> None:
        self.catalogue: Catalogue = shipped()
        self.snapshot: Snapshot = taken(diagnosis, 1)
        self.clock = diagnosis.time + ago
        self.infos: list[SourceInfo] = [replace(diagnosis.source, state="ok", age_s=ago)]
        self.asked: list[float | None] = []
        self.verified: list[tuple[str, Target, Trial]] = []
        self.knowledge = Knowledge()
        self.hardware = load_hardware([ROOT / "rules"])
        self.stretches: list[tuple[Target, Stretch]] = []
        self.failure: Exception | None = None
        self.delay = 0.0
        self.tick = 0.0
        """By how much the clock goes on whenever it is read."""

    def sources(self) -> Sequence[SourceInfo]:
        return self.infos

    def now(self) -> float:
        self.clock += self.tick
        return self.clock

    async def fresh(self, at: float | None) -> Diagnosis:
        self.asked.append(at)
        await asyncio.sleep(self.delay)
        if self.failure is not None:
            raise self.failure
        return replace(self.snapshot.diagnosis, time=self.clock if at is None else at)

    async def verify(self, source: str, target: Target, trial: Trial) -> Verification:
        self.verified.append((source, target, trial))
        await asyncio.sleep(self.delay)
        if self.failure is not None:
            raise self.failure
        return changed(*FP8)

    async def series(self, target: Target, stretch: Stretch) -> Readings:
        """What the recording shows of a stretch that ends where its load ended, whichever engine is asked for."""
        self.stretches.append((target, stretch))
        await asyncio.sleep(self.delay)
        if self.failure is not None:
            raise self.failure
        grid = Grid(AT[SATURATED], stretch.steps, stretch.span / (stretch.steps - 1))
        found = raw(SATURATED, grid)
        return replace(found, times=found.times + (stretch.end - grid.end))


@dataclass
class FakeSink:
    """Keeps groups, each identity once; refuses as long as there are ``failures``."""

    groups: dict[str, EnrichedGroup] = field(default_factory=dict)
    tries: list[EnrichedGroup] = field(default_factory=list)
    failures: list[PalancaError] = field(default_factory=list)

    def accept(self, group: EnrichedGroup) -> None:
        self.tries.append(group)
        if self.failures:
            raise self.failures.pop(0)
        self.groups.setdefault(group.group.identity, group)


@dataclass(frozen=True)
class Answer:
    """An answer as it left the application."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def __getitem__(self, name: str) -> str:
        """The value of a header, which must be there once."""
        (value,) = [value for known, value in self.headers if known == name.lower()]
        return value

    def get(self, name: str) -> str | None:
        return dict(self.headers).get(name.lower())

    @property
    def json(self) -> Json:
        return json.loads(self.body, parse_constant=_no_constant)

    @property
    def text(self) -> str:
        return self.body.decode()


def _no_constant(text: str) -> float:
    raise AssertionError(text)


@dataclass
class World:
    """An application with everything around it."""

    app: Guard
    backend: FakeBackend
    telemetry: Telemetry
    fastapi: FastAPI
    audited: list[Audited] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)

    def send(
        self,
        method: str,
        path: str,
        query: str | bytes = "",
        *,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] = b"",
        host: str | None = "localhost:9797",
    ) -> Answer:
        """Send one request; a body in pieces comes without Content-Length."""
        return asyncio.run(sent(self.app, method, path, query, headers=headers, body=body, host=host))

    def get(self, path: str, query: str | bytes = "", **headers: str) -> Answer:
        """GET; headers as keywords, with underscores."""
        return self.send("GET", path, query, headers={name.replace("_", "-"): text for name, text in headers.items()})

    def post(self, path: str, document: object, **headers: str) -> Answer:
        """POST a document as JSON."""
        names = {"Content-Type": "application/json"} | {n.replace("_", "-"): text for n, text in headers.items()}
        return self.send("POST", path, headers=names, body=json.dumps(document).encode())


async def sent(
    app: Guard,
    method: str,
    path: str,
    query: str | bytes = "",
    *,
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    body: bytes | Sequence[bytes] = b"",
    host: str | None = "localhost:9797",
) -> Answer:
    """Send one request as a server would pass it on."""
    pairs = [*headers.items()] if isinstance(headers, Mapping) else [*headers]
    pieces = [body] if isinstance(body, bytes) else [*body]
    if isinstance(body, bytes) and (body or method in {"POST", "PUT", "PATCH"}):
        pairs = [*pairs, ("Content-Length", str(len(body)))]
    if host is not None:
        pairs = [("Host", host), *pairs]
    query_string = query if isinstance(query, bytes) else query.encode()
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query_string,
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in pairs],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 9797),
    }
    left = iter(pieces)
    count = len(pieces)
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        nonlocal count
        piece = next(left, None)
        if piece is None:
            await asyncio.Event().wait()
        count -= 1
        return {"type": "http.request", "body": piece, "more_body": count > 0}

    async def send(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start, *rest = messages
    assert "http.response.start" == start["type"]
    assert all("http.response.body" == one["type"] for one in rest)
    assert not rest[-1].get("more_body", False)
    found = tuple((name.decode("latin-1"), text.decode("latin-1")) for name, text in start["headers"])
    return Answer(start["status"], found, b"".join(one.get("body", b"") for one in rest))


def world(
    diagnosis: Diagnosis | None = None,
    *,
    rules: Rules | None = None,
    history: History | NoHistory | None = None,
    longest: float = 30.0,
    sink: Sink | None = None,
    alerts: Callable[[], Options] = Options,
    dashboards: Callable[[], Boards] = Boards,
    more: Callable[[FakeBackend], Sequence[APIRouter]] = lambda _: (),
) -> World:
    """Put an application together as ``palanca.app.service.asgi`` does."""
    backend = FakeBackend(recorded() if diagnosis is None else diagnosis)
    telemetry = Telemetry(backend.now)
    audited: list[Audited] = []
    served: list[Served] = []

    def note(one: Served) -> None:
        served.append(one)
        telemetry.served(one.method, one.path, one.status, one.seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    past = history or NoHistory()
    routers = [
        verify_route.router(backend, past),
        history_routes.router(backend, past),
        webhook.router(backend, lambda: sink),
        alert_routes.router(lambda: (backend.catalogue, alerts())),
        dashboard_routes.router(lambda: (backend.catalogue, dashboards())),
        *page_routes(backend, past, lambda: rules or Rules()),
        *more(backend),
    ]
    app = application(backend, metrics=telemetry.text, lifespan=lifespan, more=routers)
    ticks = iter(range(10**9))
    guard = Guard(
        app,
        rules=lambda: rules or Rules(),
        audit=audited.append,
        served=note,
        timer=lambda: next(ticks) / 1000,
        clock=backend.now,
        refuse=refuse,
        longest=longest,
    )
    return World(guard, backend, telemetry, app, audited, served)


def kept(folder: Path, *diagnoses: Diagnosis, source: str = "prometheus") -> History:
    """A history in SQLite with these diagnoses recorded one after another."""
    history = History(HistoryStore(folder / "palanca.db"), lambda: END, lambda: 0.0)
    for one in diagnoses:
        assert "recorded" == history.record(one.time, source, one, keep_firing(shipped())).outcome, history.state
    return history
