"""Style, script and icon of the pages."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response

from palanca.api.answers import answer
from palanca.daemon.snapshot import Packed, packed

KINDS = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


def router() -> APIRouter:
    """Make the route."""
    made = APIRouter(include_in_schema=False)

    @made.get("/static/{name}")
    async def file(request: Request, name: str) -> Response:
        if name not in KINDS:
            raise HTTPException(404, "no such file")
        return answer(read(name), KINDS[name], request.headers, {"Cache-Control": "no-cache"})

    return made


@cache
def read(name: str) -> Packed:
    """Read a file of the package, once."""
    return packed((files("palanca.web") / "static" / name).read_bytes())
