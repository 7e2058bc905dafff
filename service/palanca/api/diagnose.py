"""``GET /diagnose``: the last finished diagnosis, a fresh one, or one of the past; whole or in part."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
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
        """Answers what was asked before without going through parameters: dashboards ask it again and again."""

        def get_route_handler(self) -> Handler:
            whole = super().get_route_handler()

            async def handle(request: Request) -> Response:
                return answers.ready(request) or await whole(request)

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

    def ready(self, request: Request) -> Response | None:
        """Answer with the whole diagnosis, or with what was made before; None where neither is asked for."""
        if request.headers.get("accept", "*/*") not in _PLAIN:
            return None
        query = request.scope["query_string"]
        if query:
            made = self._memory.known(("application/json", query.decode("latin-1")))
            return None if made is None else self._sent(request, made, "application/json")
        snapshot = self._backend.snapshot
        diagnosis = snapshot.diagnosis
        made = Made(snapshot.json, diagnosis.time, {"X-Total-Count": str(len(diagnosis.targets))})
        return self._sent(request, made, "application/json")

    async def asked(self, request: Request, asked: Asked, kind: Kind) -> Response:
        """Answer with what is asked for, of the last diagnosis or of another."""

        def make(diagnosis: Diagnosis, catalogue: Catalogue) -> tuple[Packed, Mapping[str, str]]:
            reports = asked.reports(diagnosis)
            part = replace(diagnosis, targets=tuple(asked.page(reports)))
            body = packed(written(part, kind, catalogue, asked.names).encode())
            return body, paged(request, asked, len(reports))

        if asked.fresh or asked.time is not None:
            diagnosis = await self._backend.fresh(asked.at(self._backend.now()))
            body, headers = await run_in_threadpool(make, diagnosis, self._backend.catalogue)
            return self._sent(request, Made(body, diagnosis.time, headers), kind)
        made = await self._memory.answer((kind, request.scope["query_string"].decode("latin-1")), make)
        return self._sent(request, made, kind)

    def _sent(self, request: Request, made: Made, kind: Kind) -> Response:
        age = str(max(round(self._backend.now() - made.time), 0))
        return answer(made.packed, kind, request.headers, {"Age": age, **made.headers})


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
