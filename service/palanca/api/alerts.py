"""The matrix as files for Prometheus, for the settings in force."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.alerting.export import FORMATS, Format
from palanca.alerting.matrix import Matrix
from palanca.api.answers import answer
from palanca.api.problems import described
from palanca.api.selection import NoParameters
from palanca.daemon.snapshot import Packed, packed

if TYPE_CHECKING:
    from palanca.alerting.options import Options
    from palanca.model import Catalogue

    Choice = Callable[[], tuple[Catalogue, Options]]

MEDIA_TYPE, TEMPLATES_TYPE = "application/yaml", "text/plain"
_EXAMPLE = {"groups": [{"name": "palanca", "interval": "15s", "rules": []}]}
"""What the text says; an OpenAPI document describes YAML by what it says."""


class _File:
    """One file of one choice: who asks while it is being written waits for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: Packed | None = None

    def packed(self, write: Callable[[], str]) -> Packed:
        with self._lock:
            if self._made is None:
                self._made = packed(write().encode())
            return self._made


class Files:
    """The files of the newest choice, each written once, when it is first asked for; from any thread."""

    def __init__(self, choice: Choice) -> None:
        self._choice, self._lock = choice, Lock()
        self._chosen: tuple[Catalogue, Options] | None = None
        self._files: dict[str, _File] = {}

    def packed(self, one: Format) -> Packed:
        """Write a file, or give the one that was written. Raises ``UsageError``."""
        catalogue, options = self._choice()
        with self._lock:
            if self._chosen is None or self._chosen[0] is not catalogue or self._chosen[1] != options:
                self._chosen, self._files = (catalogue, options), {}
            file = self._files.setdefault(one.file, _File())
        return file.packed(lambda: one.write(Matrix(catalogue, options)))


def router(choice: Choice) -> APIRouter:
    """Make the routes; ``choice`` gives the rules in force and what the files are to be like."""
    made = APIRouter(prefix="/api/v1/alerts", tags=["rules"])
    files = Files(choice)
    for name, one in FORMATS.items():
        made.add_api_route(
            f"/{one.file}",
            _route(files, one),
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


def _route(files: Files, one: Format) -> Callable[..., object]:
    async def file(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        return answer(await run_in_threadpool(files.packed, one), _media_type(one), request.headers)

    return file


def _content(one: Format) -> dict[str, object]:
    if _media_type(one) == TEMPLATES_TYPE:
        return {TEMPLATES_TYPE: {"schema": {"type": "string"}, "example": '{{ define "palanca.title" -}}'}}
    return {MEDIA_TYPE: {"schema": {"type": "object"}, "example": _EXAMPLE}}


def _media_type(one: Format) -> str:
    return MEDIA_TYPE if one.file.endswith(".yaml") else TEMPLATES_TYPE
