"""``/docs``: Swagger UI with its files from here, so that no other host is asked."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from palanca.api.answers import answer
from palanca.api.guard import PAGE_POLICY
from palanca.daemon.snapshot import Packed, packed

POLICY = PAGE_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""Swagger UI writes styles into its elements."""
_FILES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
_FOLDER = Path(fastapi_offline.__file__).parent / "static"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>palanca: REST API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="data:,">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({
  url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
});
"""


def router() -> APIRouter:
    """Make the routes."""
    made = APIRouter(include_in_schema=False)

    @made.get("/docs")
    async def docs() -> Response:
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": POLICY})

    @made.get("/docs/start.js")
    async def start() -> Response:
        return Response(_START, media_type="text/javascript")

    @made.get("/docs/{name}")
    async def file(request: Request, name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(404, "no such file")
        body = await run_in_threadpool(_file, name)
        return answer(body, _FILES[name], request.headers, {"Cache-Control": "private, max-age=86400"})

    return made


@cache
def _file(name: str) -> Packed:
    return packed((_FOLDER / name).read_bytes())
