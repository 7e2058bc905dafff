"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from palanca.errors import BusyError, PalancaError, UsageError
from palanca.render.words import encodable

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

MEDIA_TYPE = "application/problem+json"
FAILED = "palanca failed; its log says more"
LONGEST_ECHO = 200
RETRY_AFTER_S = 5


class Fault(BaseModel):
    """One thing that is wrong with a request."""

    parameter: str = Field(description="Name of the parameter, or place in the body.")
    message: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """RFC 9457: what went wrong and how to mend it."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(default="about:blank", description="Kind of the problem; about:blank: the status says it.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What went wrong, and how to mend it.")
    errors: tuple[Fault, ...] = Field(default=(), description="Each fault of the request by itself.")


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered as it was meant, whatever form that is told in."""

    status: int
    detail: str
    errors: tuple[Fault, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The status in words."""
        if self.status in _TEXTS:
            return _TEXTS[self.status][1]
        return HTTPStatus(self.status).phrase  # which Python changes now and then


def problem(refusal: Refusal) -> Response:
    """Make a problem document of it."""
    document = Problem(
        title=refusal.title, status=refusal.status, detail=encodable(refusal.detail), errors=refusal.errors
    ).model_dump_json()
    return Response(document, refusal.status, headers=dict(refusal.headers), media_type=MEDIA_TYPE)


_TEXTS: Mapping[int, tuple[str, str, str]] = {
    400: ("A parameter cannot be meant.", "Bad Request",
          "there is no signal 'kv_cache_usag' (did you mean kv_cache_usage?)"),
    401: ("A token is needed.", "Unauthorized", "a token is needed: send Authorization: Bearer TOKEN"),
    403: ("The token does not allow this.", "Forbidden",
          "the token grafana may read only; a token of scope write is needed"),
    404: ("There is no such thing.", "Not Found", "no rule 'kv-cache' (did you mean kv-cache-saturated?)"),
    406: ("None of the accepted media types can be given.", "Not Acceptable",
          "this can be given as application/json, text/markdown, text/plain"),
    413: ("The body is too large.", "Content Too Large", "the body has more than 1,048,576 bytes"),
    414: ("The query is too long.", "URI Too Long", "the query has more than 16,384 characters"),
    415: ("The body must be application/json.", "Unsupported Media Type", "send Content-Type: application/json"),
    421: ("The name in `Host` is not that of the server, which asks for no tokens.", "Misdirected Request",
          "this name is not that of the server (palanca knows itself by external_url)"),
    422: ("A parameter or the body is not valid; `errors` has each fault.", "Unprocessable Content",
          "limit: Input should be greater than or equal to 1"),
    500: ("A fault of palanca.", "Internal Server Error", "palanca failed; its log says more"),
    503: ("Not possible at the moment; the detail says why.", "Service Unavailable",
          "10 fresh diagnoses are under way or waiting; ask again later"),
}  # fmt: skip
_UNPARSED = "There was an error parsing the body"
"""What FastAPI says, with 400, of a body that breaks its JSON parser; what is no JSON at all it answers with 422."""
_HEADERS: Mapping[int, Mapping[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "Bearer, or Basic for browsers.", "schema": {"type": "string"}}},
    503: {"Retry-After": {"description": "Seconds, where too many asked at once.", "schema": {"type": "integer"}}},
}


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that a route can answer with, for the OpenAPI document."""
    return {status: _described(status) for status in statuses if status in _TEXTS}


def _described(status: int) -> dict[str, Any]:
    text, title, detail = _TEXTS[status]
    errors = [{"parameter": "limit", "message": detail.removeprefix("limit: ")}] if status == 422 else []  # noqa: PLR2004
    example = {"type": "about:blank", "title": title, "status": status, "detail": detail, "errors": errors}
    schema = {"$ref": "#/components/schemas/Problem"}
    said: dict[str, Any] = {"description": text, "content": {MEDIA_TYPE: {"schema": schema, "example": example}}}
    return {**said, "headers": dict(_HEADERS[status])} if status in _HEADERS else said


def install(app: FastAPI) -> None:
    """Turn every error into a problem document."""
    for kind in (RequestValidationError, HTTPException, PalancaError, Exception):
        app.add_exception_handler(kind, _told)


async def _told(request: Request, error: Exception) -> Response:
    """Answer; an error that nobody expects goes on to the server, which logs it."""
    return problem(refusal(request, error))


def refusal(request: Request, error: Exception) -> Refusal:
    """Say what an error means to who asked."""
    match error:
        case RequestValidationError():
            return _invalid(error)
        case HTTPException():
            return _refused(request, error)
        case BusyError():
            return Refusal(503, str(error), headers={"Retry-After": str(RETRY_AFTER_S)})
        case PalancaError():
            return Refusal(400 if isinstance(error, UsageError) else 503, str(error))
        case _:
            return Refusal(500, FAILED)


def _invalid(error: RequestValidationError) -> Refusal:
    faults = tuple(Fault(parameter=_place(one["loc"]), message=_said(one)) for one in error.errors())
    detail = "; ".join(f"{fault.parameter}: {fault.message}" for fault in faults)
    return Refusal(422, detail or "the request is not valid", faults)


def _place(location: Sequence[object]) -> str:
    """Name the parameter: ("query", "limit") is limit, ("body", "note") is body.note."""
    parts = [str(part)[:LONGEST_ECHO] for part in location]
    return encodable(".".join(parts[1:] if parts[0] in {"query", "path", "header"} and len(parts) > 1 else parts))


def _said(one: Mapping[str, Any]) -> str:
    if one.get("type") == "extra_forbidden":
        return "there is no such parameter"
    message = str(one.get("msg", "not valid")).removeprefix("Value error, ")
    return encodable(message)


def _refused(request: Request, error: HTTPException) -> Refusal:
    if error.detail == _UNPARSED:
        said = "it cannot be read: it is not UTF-8, or nested too deeply"
        return Refusal(422, f"body: {said}", (Fault(parameter="body", message=said),))
    headers = dict(error.headers or {})
    if "Allow" in headers:  # HEAD goes where GET goes
        allowed = headers["Allow"].split(", ")
        headers["Allow"] = ", ".join(sorted({*allowed, "HEAD"} if "GET" in allowed else allowed))
    return Refusal(error.status_code, _explained(request, error, headers), headers=headers)


def _explained(request: Request, error: HTTPException, headers: Mapping[str, str]) -> str:
    """Say more than the bare words of a status that the router gives."""
    if error.detail == HTTPStatus(405).phrase:
        return f"this takes {headers.get('Allow', 'other methods')} only"
    if error.detail == HTTPStatus(404).phrase:
        return f"there is nothing at {request.scope['path'][:LONGEST_ECHO]}; /docs lists what there is"
    return str(error.detail)
