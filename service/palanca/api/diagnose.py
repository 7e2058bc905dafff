"""``GET /diagnose``: the last finished diagnosis, a fresh one, or one of the past; whole or in part."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.answers import ETAG, KINDS, UNCHANGED, Kind, accepted, answer
from palanca.api.examples import MARKDOWN, TEXT
from palanca.api.memory import Made, Memory
from palanca.api.paging import HEADERS, paged
from palanca.api.problems import described, problem
from palanca.api.schemas import diagnosis_schema
from palanca.api.selection import Asked
from palanca.daemon.snapshot import Packed, packed
from palanca.render import markdown, text
from palanca.render.document import document

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.model import Catalogue, Diagnosis

TEXT_WIDTH = 100

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def router(backend: Backend) -> APIRouter:
    """Make the route."""
    answers = _Answers(backend)

    class Route(APIRoute):
        """Answers the plain question without going through parameters: dashboards ask it again and again."""

        def get_route_handler(self) -> Handler:
            whole = super().get_route_handler()

            async def handle(request: Request) -> Response:
                if not request.scope["query_string"] and request.headers.get("accept", "*/*") in _PLAIN:
                    return answers.plain(request)
                return await whole(request)

            return handle

    made = APIRouter(route_class=Route)

    @made.get(
        "/diagnose",
        summary="What is wrong with each engine, and which flag to change",
        tags=["diagnosis"],
        response_class=Response,
        responses={
            200: {
                "description": "The diagnosis: `palanca.diagnosis/v1`, Markdown, or text.",
                "content": {
                    "application/json": {"schema": diagnosis_schema()},
                    "text/markdown": {"schema": {"type": "string"}, "example": MARKDOWN},
                    "text/plain": {"schema": {"type": "string"}, "example": TEXT},
                },
                "headers": _HEADERS,
            },
            **UNCHANGED,
            **described(400, 406, 422),
        },
    )
    async def diagnose(request: Request, asked: Annotated[Asked, Query()]) -> Response:
        """Answer from the last finished poll, without asking any source.

        With `time` or `fresh` the sources are asked, which takes as long as they do; only a few such questions are
        answered at once. Filters choose targets, and findings in them; `X-Total-Count` says how many targets there are
        before paging. `ETag` and `If-None-Match` save the transfer where nothing has changed.
        """
        kind = accepted(",".join(request.headers.getlist("accept")))
        if kind is None:
            return problem(406, f"this can be given as {', '.join(KINDS)}")
        return await answers.asked(request, asked, kind)

    return made


_PLAIN = frozenset({"*/*", "application/json"})
_HEADERS: dict[str, Any] = {
    "Age": {"description": "Seconds since the moment of the diagnosis.", "schema": {"type": "integer"}, "example": 12},
    **ETAG,
    **HEADERS,
}


class _Answers:
    """Makes answers, and keeps those of the newest snapshot."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._memory = backend, Memory(backend)

    def plain(self, request: Request) -> Response:
        snapshot = self._backend.snapshot
        diagnosis = snapshot.diagnosis
        more = {"Age": self._age(diagnosis.time), "X-Total-Count": str(len(diagnosis.targets))}
        return answer(snapshot.json, "application/json", request.headers, more)

    async def asked(self, request: Request, asked: Asked, kind: Kind) -> Response:
        def make(diagnosis: Diagnosis, catalogue: Catalogue) -> tuple[Packed, int]:
            reports = asked.reports(diagnosis)
            part = replace(diagnosis, targets=tuple(asked.page(reports)))
            return packed(written(part, kind, catalogue, asked.names).encode()), len(reports)

        if asked.fresh or asked.time is not None:
            diagnosis = await self._backend.fresh(asked.at(self._backend.now()))
            body, total = await run_in_threadpool(make, diagnosis, self._backend.catalogue)
            made = Made(body, diagnosis.time, total)
        else:
            made = await self._memory.answer((kind, request.scope["query_string"].decode("latin-1")), make)
        more = {"Age": self._age(made.time), **paged(request, asked, made.total)}
        return answer(made.packed, kind, request.headers, more)

    def _age(self, moment: float) -> str:
        return str(max(round(self._backend.now() - moment), 0))


def written(diagnosis: Diagnosis, kind: Kind, catalogue: Catalogue, fields: set[str] | None = None) -> str:
    """Write a diagnosis in one of the representations; ``fields`` are the keys of a target in JSON, None for all."""
    if kind == "text/markdown":
        return markdown.render(diagnosis, catalogue)
    if kind == "text/plain":
        return text.render(diagnosis, width=TEXT_WIDTH, color=False, catalogue=catalogue)
    if fields is None:
        return document(diagnosis).model_dump_json(by_alias=True)
    whole: Any = {"schema_": True, "time": True, "source": True, "sources": True, "targets": {"__all__": fields}}
    return document(diagnosis).model_dump_json(by_alias=True, include=whole)
