"""The dashboards for Grafana, for the settings in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.answers import answer
from palanca.api.files import Files
from palanca.api.problems import described
from palanca.api.selection import NoParameters
from palanca.dashboards.export import DASHBOARDS, Exported

if TYPE_CHECKING:
    from palanca.dashboards.board import Spec
    from palanca.dashboards.options import Options
    from palanca.model import Catalogue

    Choice = Callable[[], tuple[Catalogue, Options]]

MEDIA_TYPE = "application/json"


def router(choice: Choice) -> APIRouter:
    """Make the routes; ``choice`` gives the rules in force and what the dashboards are to be like."""
    made = APIRouter(prefix="/api/v1/dashboards", tags=["rules"])
    files = Files(choice, lambda name, catalogue, options: Exported.of(catalogue, options).file(name))
    for name, spec in DASHBOARDS.items():
        made.add_api_route(
            f"/{name}.json",
            _route(files, name),
            name=f"dashboard_{name}",
            summary=f"Dashboard for Grafana: {spec.title}",
            description=f"{spec.text} With the thresholds, objectives and external URL of the settings; as "
            f"`palanca dashboards export --format {name}` writes it.",
            response_class=Response,
            responses={
                200: {"description": "The dashboard, to be imported.", "content": _content(spec)},
                **described(400, 422),
            },
        )
    return made


def _route(files: Files[Options], name: str) -> Callable[..., object]:
    async def file(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        return answer(await run_in_threadpool(files.packed, name), MEDIA_TYPE, request.headers)

    return file


def _content(spec: Spec) -> dict[str, object]:
    example = {"uid": spec.uid, "title": spec.title, "panels": [], "templating": {"list": []}}
    return {MEDIA_TYPE: {"schema": {"type": "object"}, "example": example}}
