"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
_LONGEST_ECHO = 200
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


def problem(
    status: int, detail: str, *, errors: Sequence[Fault] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Make a response that says what went wrong."""
    document = Problem(
        title=HTTPStatus(status).phrase, status=status, detail=encodable(detail), errors=tuple(errors)
    ).model_dump_json()
    return Response(document, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that a route can answer with, for the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/Problem"}
    texts = {
        400: "A parameter cannot be meant.",
        401: "A token is needed.",
        403: "The token does not allow this.",
        404: "There is no such thing.",
        406: "None of the accepted media types can be given.",
        409: "That was done already.",
        413: "The body is too large.",
        415: "The body must be application/json.",
        422: "A parameter or the body is not valid.",
        503: "Not possible at the moment; the detail says why.",
    }
    return {status: {"description": texts[status], "content": {MEDIA_TYPE: {"schema": schema}}} for status in statuses}


def install(app: FastAPI) -> None:
    """Turn every error into a problem document."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(PalancaError, _ours)


async def _invalid(_: Request, error: Exception) -> Response:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    faults = [Fault(parameter=_place(one["loc"]), message=_said(one)) for one in found]
    detail = "; ".join(f"{fault.parameter}: {fault.message}" for fault in faults)
    return problem(422, detail or "the request is not valid", errors=faults)


def _place(location: Sequence[object]) -> str:
    """Name the parameter: ("query", "limit") is limit, ("body", "note") is body.note."""
    parts = [str(part)[:_LONGEST_ECHO] for part in location]
    return encodable(".".join(parts[1:] if parts[0] in {"query", "path", "header"} and len(parts) > 1 else parts))


def _said(one: Mapping[str, Any]) -> str:
    if one.get("type") == "extra_forbidden":
        return "there is no such parameter"
    message = str(one.get("msg", "not valid")).removeprefix("Value error, ")
    return encodable(message)


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return problem(error.status_code, str(error.detail), headers=error.headers)


async def _ours(_: Request, error: Exception) -> Response:
    if isinstance(error, BusyError):
        return problem(503, str(error), headers={"Retry-After": str(RETRY_AFTER_S)})
    return problem(400 if isinstance(error, UsageError) else 503, str(error))
