"""Is the process alive, is it ready, and what does it measure of itself?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import JSONResponse, Response

from palanca.render.document import Part, SourceDocument, source_document

if TYPE_CHECKING:
    from palanca.api.backend import Backend

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Alive(Part):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str = Field(description="Version of palanca.")


class Ready(Part):
    """Whether diagnoses are up to date."""

    ready: bool = Field(description="True when at least one source is up to date.")
    sources: tuple[SourceDocument, ...] = Field(description="Each source by itself.")


def router(backend: Backend, version: str, metrics: Callable[[], bytes]) -> APIRouter:
    """Make the routes; ``metrics`` gives the text of ``/metrics``."""
    made = APIRouter(tags=["health"])

    @made.get("/healthz", response_model=Alive)
    async def healthz() -> Response:
        """Answer as long as the process runs; for liveness probes."""
        return JSONResponse(Alive(version=version).model_dump())

    @made.get("/readyz", response_model=Ready, responses={503: {"model": Ready, "description": "Not ready."}})
    async def readyz() -> Response:
        """Say whether diagnoses are up to date; for readiness probes. One dead source of several is no reason."""
        infos = backend.sources()
        ready = any(info.state in {"ok", "partial"} for info in infos)
        document = Ready(ready=ready, sources=tuple(source_document(info) for info in infos))
        return JSONResponse(document.model_dump(), status_code=200 if ready else 503)

    @made.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {
                "description": "Metrics.",
                "content": {
                    "text/plain": {"schema": {"type": "string"}, "example": 'palanca_targets{status="ok"} 3.0\n'}
                },
            }
        },
    )
    async def exposition() -> Response:
        """Give what palanca measures of itself, in the text format of Prometheus."""
        return Response(metrics(), headers={"Content-Type": METRICS_TYPE})

    return made
