"""The dashboards for Grafana, for the settings in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.answers import answer
from palanca.api.problems import described
from palanca.api.selection import NoParameters
from palanca.daemon.snapshot import Packed, packed
from palanca.dashboards.export import DASHBOARDS, Exported

if TYPE_CHECKING:
    from palanca.dashboards.board import Spec
    from palanca.dashboards.options import Options
    from palanca.model import Catalogue

    Choice = Callable[[], tuple[Catalogue, Options]]

MEDIA_TYPE = "application/json"


class _Files:
    """The dashboards of the newest choice, each written when it is first asked for."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._chosen: tuple[Catalogue, Options] | None = None
        self._made: dict[str, Packed] = {}

    def packed(self, name: str) -> Packed:
        """Write a dashboard, or give the one that was written. Raises ``UsageError``."""
        catalogue, options = self._choice()
        made = self._made
        if self._chosen is None or self._chosen[0] is not catalogue or self._chosen[1] != options:
            made = {}
            self._chosen, self._made = (catalogue, options), made
        if name not in made:
            made[name] = packed(Exported.of(catalogue, options).file(name).encode())
        return made[name]


def router(choice: Choice) -> APIRouter:
    """Make the routes; ``choice`` gives the rules in force and what the dashboards are to be like."""
    made = APIRouter(prefix="/api/v1/dashboards", tags=["rules"])
    files = _Files(choice)
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


def _route(files: _Files, name: str) -> Callable[..., object]:
    async def file(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        return answer(await run_in_threadpool(files.packed, name), MEDIA_TYPE, request.headers)

    return file


def _content(spec: Spec) -> dict[str, object]:
    example = {"uid": spec.uid, "title": spec.title, "panels": [], "templating": {"list": []}}
    return {MEDIA_TYPE: {"schema": {"type": "object"}, "example": example}}
