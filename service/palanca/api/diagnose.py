"""``GET /diagnose``: the last finished diagnosis, a fresh one, or one of the past; whole or in part."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.answers import KINDS, Kind, accepted, answer
from palanca.api.problems import described, problem
from palanca.api.schemas import DIAGNOSIS_EXAMPLE, diagnosis_schema
from palanca.api.selection import Asked
from palanca.daemon.snapshot import Packed, packed
from palanca.render import markdown, text
from palanca.render.document import document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.api.backend import Backend
    from palanca.model import Catalogue, Diagnosis

TEXT_WIDTH = 100
KEPT_BYTES = 32 * 1024**2
"""How much of answers that were asked for before is kept until the next poll."""

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
                    "application/json": {"schema": diagnosis_schema(), "example": DIAGNOSIS_EXAMPLE},
                    "text/markdown": {"schema": {"type": "string"}},
                    "text/plain": {"schema": {"type": "string"}},
                },
                "headers": _HEADERS,
            },
            304: {"description": "Nothing has changed since the answer with that entity tag."},
            **described(400, 401, 406, 422, 503),
        },
    )
    async def diagnose(request: Request, asked: Annotated[Asked, Query()]) -> Response:
        """Answer from the last finished poll, without asking any source.

        With `time` or `fresh` the sources are asked, which takes as long as they do; only a few such questions are
        answered at once. Filters choose targets, and findings in them; `X-Total-Count` says how many targets there are
        before paging. `ETag` and `If-None-Match` save the transfer where nothing has changed.
        """
        kind = accepted(request.headers.get("accept", ""))
        if kind is None:
            return problem(406, f"this can be given as {', '.join(KINDS)}")
        return await answers.asked(request, asked, kind)

    return made


_PLAIN = frozenset({"*/*", "application/json"})
_HEADERS: dict[str, Any] = {
    "Age": {"description": "Seconds since the moment of the diagnosis.", "schema": {"type": "integer"}},
    "ETag": {"description": "Changes with the content.", "schema": {"type": "string"}},
    "X-Total-Count": {"description": "Targets that fit, on all pages.", "schema": {"type": "integer"}},
    "Link": {"description": "The next page (RFC 8288), where there is one.", "schema": {"type": "string"}},
}


class _Answers:
    """Makes answers, and keeps those of the newest snapshot."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: dict[tuple[str, str], tuple[Packed, int]] = {}
        self._number, self._size = -1, 0

    def plain(self, request: Request) -> Response:
        snapshot = self._backend.snapshot
        more = {"Age": self._age(snapshot.diagnosis), "X-Total-Count": str(len(snapshot.diagnosis.targets))}
        return answer(snapshot.json, "application/json", request.headers, more)

    async def asked(self, request: Request, asked: Asked, kind: Kind) -> Response:
        now = self._backend.now()
        if asked.fresh or asked.time is not None:
            diagnosis = await self._backend.fresh(asked.at(now))
            body, total = await run_in_threadpool(self._made, diagnosis, asked, kind)
        else:
            diagnosis = self._backend.snapshot.diagnosis
            body, total = await self._remembered(request.url.query, asked, kind)
        more = {"Age": self._age(diagnosis), "X-Total-Count": str(total), **_next(request, asked, total)}
        return answer(body, kind, request.headers, more)

    async def _remembered(self, query: str, asked: Asked, kind: Kind) -> tuple[Packed, int]:
        snapshot = self._backend.snapshot
        if snapshot.number != self._number:
            self._kept, self._number, self._size = {}, snapshot.number, 0
        known = self._kept.get((query, kind))
        if known is None:
            known = await run_in_threadpool(self._made, snapshot.diagnosis, asked, kind)
            size = len(known[0].body) + len(known[0].gzip or b"")
            if self._number == snapshot.number and self._size + size <= KEPT_BYTES:
                self._kept[query, kind] = known
                self._size += size
        return known

    def _made(self, diagnosis: Diagnosis, asked: Asked, kind: Kind) -> tuple[Packed, int]:
        reports = asked.reports(diagnosis)
        part = replace(diagnosis, targets=tuple(asked.page(reports)))
        return packed(written(part, kind, self._backend.catalogue, asked.names).encode()), len(reports)

    def _age(self, diagnosis: Diagnosis) -> str:
        return str(max(round(self._backend.now() - diagnosis.time), 0))


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


def _next(request: Request, asked: Asked, total: int) -> Mapping[str, str]:
    """Link to the next page, relative as RFC 8288 allows: behind a proxy the service does not know its address."""
    if asked.limit is None or asked.offset + asked.limit >= total:
        return {}
    url = request.url.include_query_params(offset=asked.offset + asked.limit)
    return {"Link": f'<{url.path}?{url.query}>; rel="next"'}
