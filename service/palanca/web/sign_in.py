"""Signing in: a form for a token, which a browser then shows as a signed cookie; and out again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import HTMLResponse, Response

from palanca.api.guard import SESSION, SIGN_IN, SIGN_OUT
from palanca.web.asked import AskedNothing, AskedSignIn, asked, of_pairs
from palanca.web.attempts import Attempts
from palanca.web.pages import Frame, PageRoute, html

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.api.guard import Rules

LASTS_S = 7 * 86400
"""A week on call."""
ATTEMPTS, ATTEMPT_S = 10, 6.0
LONGEST_FORM = 32 * 1024
_LOCAL = re.compile(r"(?:[a-z][a-z-]*(?:/[A-Za-z0-9_.-]+)?)?(?:\?[^\s\\#]*)?")
"""A page of this server, relative to the first one: it names no other host and no other scheme."""


def router(backend: Backend, rules: Callable[[], Rules]) -> APIRouter:
    """Make the routes."""
    made = APIRouter(include_in_schema=False, route_class=PageRoute)
    attempts = Attempts(ATTEMPTS, ATTEMPT_S)

    @made.get(SIGN_IN)
    async def form(request: Request) -> Response:
        to = local(asked(AskedSignIn, request).to)
        if request.state.caller is not None:
            return _leave(to)
        # Who follows a link of another site, such as one in a message, comes without the cookie the first time.
        return _form(to, again=request.headers.get("sec-fetch-site") == "cross-site")

    @made.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        said = dict(parse_qsl((await _body(request)).decode("utf-8", "replace"), keep_blank_values=True))
        to = local(of_pairs(AskedSignIn, [("to", said.get("to", ""))]).to)
        address = request.client.host if request.client is not None else ""
        now = backend.now()
        wait = attempts.wait(address, now)
        if wait > 0:
            raise HTTPException(
                429, f"too many tokens were tried; the next one in {math.ceil(wait)} s",
                {"Retry-After": str(math.ceil(wait))},
            )  # fmt: skip
        session = rules().tokens.session(said.get("token", "").strip(), now + LASTS_S)
        if session is None:
            attempts.failed(address, now)
            return _form(to, "This token is not known.", status=401)
        attempts.succeeded(address)
        request.state.caller = rules().tokens.visitor(session, now)
        response = _leave(to)
        safe = _secure(request)
        response.set_cookie(SESSION, session, max_age=LASTS_S, httponly=True, samesite="strict", secure=safe)
        return response

    @made.post(SIGN_OUT)
    async def sign_out(request: Request) -> Response:
        asked(AskedNothing, request)
        response = _leave(SIGN_IN[1:])
        response.delete_cookie(SESSION, httponly=True, samesite="strict", secure=_secure(request))
        return response

    return made


def local(to: str) -> str:
    """Return an address of this server's own pages; the first page for anything else."""
    return to if _LOCAL.fullmatch(to) else ""


def _leave(to: str) -> Response:
    return Response(status_code=303, headers={"Location": f"./{to}"})


def _form(to: str, fault: str = "", status: int = 200, *, again: bool = False) -> Response:
    return HTMLResponse(html("sign_in.html", Frame("Sign in", "-"), to=to, fault=fault, again=again), status)


def _secure(request: Request) -> bool:
    """Whether the browser came over TLS, be it to a proxy: who says so falsely harms only their own cookie."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in {request.url.scheme, forwarded}


async def _body(request: Request) -> bytes:
    body = await request.body()
    if len(body) > LONGEST_FORM:
        raise HTTPException(413, f"the form has more than {LONGEST_FORM:,} bytes")
    return body
