"""The matrix as files for Prometheus, for the settings in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.alerting.export import FORMATS, Format
from palanca.alerting.matrix import Matrix
from palanca.api.answers import answer
from palanca.api.files import Files
from palanca.api.problems import described
from palanca.api.selection import NoParameters

if TYPE_CHECKING:
    from palanca.alerting.options import Options
    from palanca.model import Catalogue

    Choice = Callable[[], tuple[Catalogue, Options]]

MEDIA_TYPE, TEMPLATES_TYPE = "application/yaml", "text/plain"
_EXAMPLE = {"groups": [{"name": "palanca", "interval": "15s", "rules": []}]}
"""What the text says; an OpenAPI document describes YAML by what it says."""


def files(choice: Choice) -> Files[Options]:
    """The files by the names of their formats."""
    return Files(choice, lambda name, catalogue, options: FORMATS[name].write(Matrix(catalogue, options)))


def router(choice: Choice) -> APIRouter:
    """Make the routes; ``choice`` gives the rules in force and what the files are to be like."""
    made = APIRouter(prefix="/api/v1/alerts", tags=["rules"])
    written = files(choice)
    for name, one in FORMATS.items():
        made.add_api_route(
            f"/{one.file}",
            _route(written, name, one),
            name=f"alerts_{name}",
            summary=one.title.rstrip("."),
            description=f"{one.title} With the thresholds, objectives and external URL of the settings; as "
            f"`palanca alerts export --format {name}` writes it.",
            response_class=Response,
            responses={
                200: {
                    "description": "The file.",
                    "content": _content(one),
                },
                **described(400, 422),
            },
        )
    return made


def _route(written: Files[Options], name: str, one: Format) -> Callable[..., object]:
    async def file(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        return answer(await run_in_threadpool(written.packed, name), _media_type(one), request.headers)

    return file


def _content(one: Format) -> dict[str, object]:
    if _media_type(one) == TEMPLATES_TYPE:
        return {TEMPLATES_TYPE: {"schema": {"type": "string"}, "example": '{{ define "palanca.title" -}}'}}
    return {MEDIA_TYPE: {"schema": {"type": "object"}, "example": _EXAMPLE}}


def _media_type(one: Format) -> str:
    return MEDIA_TYPE if one.file.endswith(".yaml") else TEMPLATES_TYPE
