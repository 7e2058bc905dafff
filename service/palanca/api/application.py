"""The FastAPI application out of its routers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from palanca import __version__
from palanca.api import diagnose, docs, health, lists, rules
from palanca.api.openapi import completed
from palanca.api.problems import install

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from fastapi import APIRouter

    from palanca.api.backend import Backend

DESCRIPTION = """Which vLLM flag to change, to what value, why, and whether it worked.

Reading needs a token of scope `read`, everything else one of scope `write`, where tokens are asked for at all: send
`Authorization: Bearer TOKEN`. Errors are problem documents (RFC 9457). Times are RFC 3339 in UTC.
"""


def application(
    backend: Backend,
    *,
    metrics: Callable[[], bytes],
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
    more: Sequence[APIRouter] = (),
) -> FastAPI:
    """Put the application together; ``more`` are routers of parts that the API does not know."""
    app = FastAPI(
        title="palanca",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name the address as this server knows it, not as the client does
        lifespan=lifespan,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_tags=[
            {"name": "diagnosis", "description": "What is wrong, and what to change."},
            {"name": "lists", "description": "The last diagnosis as flat lists."},
            {"name": "rules", "description": "The matrix."},
            {"name": "history", "description": "Episodes: what was wrong, when, and whether a change helped."},
            {"name": "notifications", "description": "What Alertmanager sends, on its way to people."},
            {"name": "health", "description": "The state of palanca itself."},
        ],
    )
    install(app)
    answers = diagnose.Answers(backend)
    app.add_middleware(diagnose.Ready, answers=answers)
    routers = [
        diagnose.router(backend, answers),
        lists.router(backend),
        rules.router(backend),
        health.router(backend, __version__, metrics),
        docs.router(),
        *more,
    ]
    for router in routers:
        app.include_router(router)
    _with_document(app)
    return app


def _with_document(app: FastAPI) -> None:
    original = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = completed(original())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
