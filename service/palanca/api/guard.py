"""What every request passes before a route sees it: host, token, size and time; and what every answer is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from palanca.api.access import ANYBODY, Caller, Tokens
from palanca.api.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = frozenset({"/healthz", "/readyz"})
METRICS = "/metrics"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
LARGEST_BODY = 1024**2
"""Bytes: a thousand times a note, and ten times what Alertmanager sends."""
LONGEST_QUERY = 16 * 1024
LONGEST_S = 90.0
"""A fresh diagnosis waits for others and then for a server; no answer takes longer than three of its time-outs."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_ASK_WHO = {"WWW-Authenticate": 'Bearer realm="palanca", Basic realm="palanca", charset="UTF-8"'}


@dataclass(frozen=True)
class Audited:
    """A request that was to change something, and how it ended."""

    caller: str
    client: str
    method: str
    path: str
    status: int


@dataclass(frozen=True)
class Rules:
    """What is asked of requests. Replaced as a whole when the settings change.

    Without ``tokens`` anybody may do everything; ``hosts`` are then the only names that a request may use for the
    server (a page of another site could else give itself a name that leads here); None for any.
    """

    tokens: Tokens = field(default_factory=lambda: Tokens(()))
    metrics: bool = False
    hosts: frozenset[str] | None = None


@dataclass(frozen=True)
class Served:
    """A request that was answered: its route's path, and how long it took in seconds."""

    method: str
    path: str
    status: int
    seconds: float


class Guard:
    """ASGI middleware. ``rules`` gives those in force; ``audit`` is told of writes, ``served`` of every answer."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        rules: Callable[[], Rules],
        audit: Callable[[Audited], None],
        served: Callable[[Served], None],
        timer: Callable[[], float],
        longest: float = LONGEST_S,
    ) -> None:
        self._app, self._rules, self._audit, self._served = app, rules, audit, served
        self._timer, self._longest = timer, longest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = self._timer()
        exchange = _Exchange(receive, send)
        caller, refusal = self._admitted(scope)
        try:
            if refusal is not None:
                await refusal(scope, receive, exchange.send)
            else:
                scope.setdefault("state", {})["caller"] = caller
                await self._run(scope, exchange)
        finally:
            status = exchange.status or HTTPStatus.INTERNAL_SERVER_ERROR
            route = getattr(scope.get("route"), "path", "") or "other"
            self._served(Served(scope["method"], route, status, self._timer() - begin))
            if scope["method"] not in READING:
                client = scope.get("client")
                name = caller.name if caller else "unknown"
                self._audit(Audited(name, client[0] if client else "", scope["method"], scope["path"], status))

    async def _run(self, scope: Scope, exchange: _Exchange) -> None:
        try:
            async with asyncio.timeout(self._longest):
                await self._app(scope, exchange.receive, exchange.send)
        except _TooLargeError:
            await exchange.instead(scope, 413, f"the body has more than {LARGEST_BODY:,} bytes")
        except TimeoutError:
            await exchange.instead(scope, 503, f"no answer within {self._longest:g} s; the server is overloaded")
        except Exception:
            await exchange.instead(scope, 500, "palanca failed; its log says more")
            raise

    def _admitted(self, scope: Scope) -> tuple[Caller | None, ASGIApp | None]:
        """Return who asks, and the refusal if there is one."""
        rules, headers, path = self._rules(), Headers(scope=scope), scope["path"]
        if rules.hosts is not None and _host(headers.get("host", "")) not in rules.hosts and path not in OPEN:
            return None, problem(421, "this name is not that of the server (palanca knows itself by external_url)")
        caller: Caller | None = ANYBODY
        if rules.tokens and path not in OPEN and (rules.metrics or path != METRICS):
            caller = rules.tokens.caller(headers.get("authorization", ""))
            if caller is None:
                return None, problem(401, "a token is needed: send Authorization: Bearer TOKEN", headers=_ASK_WHO)
            if caller.scope != "write" and scope["method"] not in READING:
                return caller, problem(403, f"the token {caller.name} may read only; a token of scope write is needed")
        return caller, _malformed(scope, headers)


def _malformed(scope: Scope, headers: Headers) -> ASGIApp | None:
    if len(scope["query_string"]) > LONGEST_QUERY:
        return problem(414, f"the query has more than {LONGEST_QUERY:,} characters")
    if scope["method"] in READING:
        return None
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > LARGEST_BODY:
        return problem(413, f"the body has more than {LARGEST_BODY:,} bytes")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # which a page of another site cannot send without being asked first
        return problem(415, "send Content-Type: application/json")
    return None


def _host(header: str) -> str:
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def own_hosts(host: str, external_url: str | None) -> frozenset[str]:
    """Names that lead to a server bound to the loopback address ``host``."""
    names = {"localhost", "127.0.0.1", "::1", host.lower()}
    return frozenset(names | ({urlsplit(external_url).hostname or ""} if external_url else set()))


class _TooLargeError(Exception):
    """More of a body has come than is read."""


class _Exchange:
    """One request and its answer: counts what comes in, and adds the headers that every answer has."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._size = 0
        self.status: int | None = None

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > LARGEST_BODY:
            raise _TooLargeError
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)

    async def instead(self, scope: Scope, status: int, detail: str) -> None:
        """Answer with a problem, unless an answer has begun."""
        if self.status is None:
            await problem(status, detail)(scope, self.receive, self.send)
