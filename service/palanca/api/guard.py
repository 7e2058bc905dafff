"""What every request passes before a route sees it: host, token, size and time; and what every answer is given."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser

from palanca.api.access import ANYBODY, Caller, Tokens
from palanca.api.problems import FAILED, Refusal, problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = frozenset({"/healthz", "/readyz"})
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
FORMS = frozenset({SIGN_IN, SIGN_OUT})
"""Open to everybody, and what they are sent is a form."""
STATIC = "/static/"
"""Files of the pages, which hold nothing that is anybody's."""
SESSION = "palanca_session"
"""Cookie that a browser shows in place of a token."""
METRICS = "/metrics"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = READING | {"POST", "PUT", "PATCH", "DELETE"}
"""Those that are counted by name: a client may send any word."""
LARGEST_BODY = 1024**2
"""Bytes: a thousand times a note, and ten times what Alertmanager sends."""
LONGEST_QUERY = 16 * 1024
LONGEST_S = 90.0
"""A fresh diagnosis waits for others and then for a server; no answer takes longer than three of its time-outs."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_ALWAYS: tuple[tuple[bytes, bytes], ...] = tuple(
    (name.lower().encode(), value.encode()) for name, value in {**SECURITY_HEADERS, "Cache-Control": "no-store"}.items()
)
ASK_WHO = {"WWW-Authenticate": 'Bearer realm="palanca", Basic realm="palanca", charset="UTF-8"'}


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


def _problem(_: Scope, refusal: Refusal) -> ASGIApp:
    return problem(refusal)


class Guard:
    """ASGI middleware. ``rules`` gives those in force; ``audit`` is told of writes, ``served`` of every answer.

    ``refuse`` writes what is answered in place of a route. ``timer`` gives seconds of any origin, ``clock`` unix ones.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        rules: Callable[[], Rules],
        audit: Callable[[Audited], None],
        served: Callable[[Served], None],
        timer: Callable[[], float],
        clock: Callable[[], float],
        longest: float = LONGEST_S,
        refuse: Callable[[Scope, Refusal], ASGIApp] = _problem,
    ) -> None:
        self._app, self._rules, self._audit, self._served = app, rules, audit, served
        self._timer, self._clock, self._longest, self._refuse = timer, clock, longest, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it with a problem."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":  # there is none, and nobody would ask for a token
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin, method = self._timer(), scope["method"]
        exchange = _Exchange(receive, send, bare=method == "HEAD")
        if exchange.bare:
            scope = {**scope, "method": "GET"}  # RFC 9110, 9.3.2: the same answer, its body left out
        caller, refusal = self._admitted(scope)
        try:
            if refusal is not None:
                await self._refuse(scope, refusal)(scope, receive, exchange.send)
            else:
                scope.setdefault("state", {})["caller"] = caller
                await self._run(scope, exchange)
        finally:
            status = exchange.status or HTTPStatus.INTERNAL_SERVER_ERROR
            route = getattr(scope.get("route"), "path", "") or "other"
            counted = method if method in METHODS else "other"
            self._served(Served(counted, route, status, self._timer() - begin))
            if method not in READING:
                client = scope.get("client")
                caller = scope.get("state", {}).get("caller", caller)  # who has signed in just now
                name = caller.name if caller else "unknown"
                self._audit(Audited(name, client[0] if client else "", method, scope["path"], status))

    async def _run(self, scope: Scope, exchange: _Exchange) -> None:
        try:
            async with asyncio.timeout(self._longest):
                await self._app(scope, exchange.receive, exchange.send)
        except TimeoutError:
            late = Refusal(503, f"no answer within {self._longest:g} s; the server is overloaded")
            await exchange.instead(scope, self._refuse(scope, late))
        except Exception:
            await exchange.instead(scope, self._refuse(scope, Refusal(500, FAILED)))
            raise

    def _admitted(self, scope: Scope) -> tuple[Caller | None, Refusal | None]:
        """Return who asks, and the refusal if there is one."""
        rules, headers, path = self._rules(), Headers(scope=scope), scope["path"]
        if rules.hosts is not None and _host(headers.get("host", "")) not in rules.hosts and path not in OPEN:
            return None, Refusal(421, "this name is not that of the server (palanca knows itself by external_url)")
        caller: Caller | None = ANYBODY
        if rules.tokens and path not in OPEN and (rules.metrics or path != METRICS):
            caller = self._caller(rules.tokens, scope, headers)
            if path in FORMS or path.startswith(STATIC):
                return caller, _malformed(scope, headers)
            if caller is None:
                return None, Refusal(401, "a token is needed: send Authorization: Bearer TOKEN", headers=ASK_WHO)
            if caller.scope != "write" and scope["method"] not in READING:
                return caller, Refusal(403, f"the token {caller.name} may read only; a token of scope write is needed")
        return caller, _malformed(scope, headers)

    def _caller(self, tokens: Tokens, scope: Scope, headers: Headers) -> Caller | None:
        """Return who asks. A browser sends its cookie with whatever any page asks for: it is good for reading only."""
        caller = tokens.caller(headers.get("authorization", ""))  # which a proxy may have sent for itself
        if caller is not None or scope["method"] not in READING:
            return caller
        return tokens.visitor(cookie_parser(headers.get("cookie", "")).get(SESSION, ""), self._clock())


def _malformed(scope: Scope, headers: Headers) -> Refusal | None:
    if len(scope["query_string"]) > LONGEST_QUERY:
        return Refusal(414, f"the query has more than {LONGEST_QUERY:,} characters")
    if scope["method"] in READING:
        return None
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > LARGEST_BODY:
        return Refusal(413, _TOO_LARGE, headers=_HANG_UP)
    has_body = length not in {"", "0"} or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if scope["path"] in FORMS:
        return None if _from_here(headers) else Refusal(403, "this form is not one of this server's own pages")
    # A page of another site can send POST with any other type without asking first, and no other method.
    if kind != "application/json" and (has_body or scope["method"] == "POST"):
        return Refusal(415, "send Content-Type: application/json")
    return None


def _from_here(headers: Headers) -> bool:
    """Whether a form was sent by a page of this server, or by no page at all: browsers say so in one way or another."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    # A proxy may ask for another host; no form can add a header.
    hosts = {headers.get(name, "").lower() for name in ("host", "x-forwarded-host")}
    return origin is None or origin.partition("://")[2].lower() in hosts - {""}


_TOO_LARGE = f"the body has more than {LARGEST_BODY:,} bytes"
_HANG_UP = {"Connection": "close"}
"""What is left of the body would have to be read before the next request."""


_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s/?#@:,\[\]]+))(?::[0-9]{1,5})?")


def _host(header: str) -> str:
    """Name or address without the port; empty for what is no host."""
    found = _HOST.fullmatch(header.lower())
    return (found[1] or found[2]) if found else ""


def own_hosts(host: str, external_url: str | None) -> frozenset[str]:
    """Names that lead to a server bound to the loopback address ``host``."""
    names = {"localhost", "127.0.0.1", "::1", host.lower()}
    return frozenset(names | ({urlsplit(external_url).hostname or ""} if external_url else set()))


class _Exchange:
    """One request and its answer: counts what comes in, and adds the headers that every answer has.

    ``bare``: the answer's body is left out.
    """

    def __init__(self, receive: Receive, send: Send, *, bare: bool) -> None:
        self._receive, self._send, self.bare = receive, send, bare
        self._size = 0
        self.status: int | None = None

    async def receive(self) -> Message:
        """Return the next piece. Raises ``HTTPException``, which every layer of the application lets through."""
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > LARGEST_BODY:
            raise HTTPException(413, _TOO_LARGE, _HANG_UP)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message.get("headers", ())
            given = {name for name, _ in headers}
            message = {**message, "headers": [*headers, *(one for one in _ALWAYS if one[0] not in given)]}
        elif self.bare and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)

    async def instead(self, scope: Scope, refusal: ASGIApp) -> None:
        """Answer with a refusal, unless an answer has begun."""
        if self.status is None:
            await refusal(scope, self.receive, self.send)
