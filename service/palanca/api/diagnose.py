"""``GET /diagnose``: the last finished diagnosis, a fresh one, or one of the past; whole or in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response

from palanca.api.answers import ETAG, KINDS, UNCHANGED, Kind, accepted, answer
from palanca.api.examples import MARKDOWN, TEXT
from palanca.api.memory import Made, Memory
from palanca.api.paging import HEADERS, paged
from palanca.api.problems import Refusal, described, problem
from palanca.api.schemas import diagnosis_schema
from palanca.api.selection import Asked
from palanca.daemon.snapshot import Packed, packed
from palanca.render import markdown, text
from palanca.render.document import document

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from palanca.api.backend import Backend
    from palanca.model import Catalogue, Diagnosis

TEXT_WIDTH = 100

PATH = "/diagnose"


def router(backend: Backend, answers: Answers | None = None) -> APIRouter:
    """Make the route. ``answers`` are those that ``Ready`` knows too."""
    answers = answers or Answers(backend)
    made = APIRouter()

    @made.get(
        PATH,
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
            return problem(Refusal(406, f"this can be given as {', '.join(KINDS)}"))
        return await answers.asked(request, asked, kind)

    return made


_PLAIN = frozenset({"*/*", "application/json"})
_HEADERS: dict[str, Any] = {
    "Age": {"description": "Seconds since the moment of the diagnosis.", "schema": {"type": "integer"}, "example": 12},
    **ETAG,
    **HEADERS,
}


class Answers:
    """Makes answers, and keeps those of the newest snapshot."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._memory = backend, Memory(backend)

    def ready(self, scope: Scope) -> Response | None:
        """Answer with the whole diagnosis, or with what was made before; None where neither is asked for."""
        headers = Headers(scope=scope)
        if headers.get("accept", "*/*") not in _PLAIN:
            return None
        query = scope["query_string"]
        if query:
            made = self._memory.known(("application/json", query.decode("latin-1")))
            return None if made is None else self._sent(headers, made, "application/json")
        snapshot = self._backend.snapshot
        diagnosis = snapshot.diagnosis
        made = Made(snapshot.json, diagnosis.time, {"X-Total-Count": str(len(diagnosis.targets))})
        return self._sent(headers, made, "application/json")

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
            return self._sent(request.headers, Made(body, diagnosis.time, headers), kind)
        made = await self._memory.answer((kind, request.scope["query_string"].decode("latin-1")), make)
        return self._sent(request.headers, made, kind)

    def _sent(self, headers: Headers, made: Made, kind: Kind) -> Response:
        age = str(max(round(self._backend.now() - made.time), 0))
        return answer(made.packed, kind, headers, {"Age": age, **made.headers})


@dataclass(frozen=True)
class _Route:
    """What is noted of a request in place of FastAPI's route."""

    path: str = PATH


class Ready:
    """ASGI middleware that answers what is ready, past routing and parameters: dashboards ask it again and again."""

    def __init__(self, app: ASGIApp, answers: Answers) -> None:
        self._app, self._answers = app, answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        asked = scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "GET"
        response = self._answers.ready(scope) if asked else None
        if response is None:
            await self._app(scope, receive, send)
        else:
            scope["route"] = _Route()
            await response(scope, receive, send)


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
