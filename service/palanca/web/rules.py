"""The pages of the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

from fastapi import APIRouter, HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.rules import LONGEST_ID
from palanca.expressions import nearest
from palanca.model import SEVERITY_ORDER, Area
from palanca.web.asked import AskedNothing, AskedRules, asked
from palanca.web.matrix import rule_rows, rule_view
from palanca.web.pages import PageRoute, frame_of, html, page
from palanca.web.visitor import user

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.api.guard import Rules


def router(backend: Backend, rules: Callable[[], Rules]) -> APIRouter:
    """Make the routes."""
    made = APIRouter(include_in_schema=False, route_class=PageRoute)

    @made.get("/rules")
    async def matrix(request: Request) -> Response:
        wanted = asked(AskedRules, request)
        diagnosis = backend.snapshot.diagnosis
        frame = frame_of(
            backend, diagnosis, looked=None, title="Rules", here="rules", path="rules", user=user(request, rules)
        )
        rows = await run_in_threadpool(rule_rows, diagnosis, backend.catalogue, wanted)
        more = {"rows": rows, "wanted": wanted, "areas": get_args(Area), "severities": SEVERITY_ORDER,
                "total": len(backend.catalogue.rules)}  # fmt: skip
        return page(request, await run_in_threadpool(html, "rules.html", frame, **more))

    @made.get("/rules/{rule_id}")
    async def rule(request: Request, rule_id: str) -> Response:
        asked(AskedNothing, request)
        known = {one.id: one for one in backend.catalogue.rules}
        if rule_id not in known:
            shown = rule_id[:LONGEST_ID]
            near = nearest(shown, known)
            raise HTTPException(404, f"no rule {shown!r}" + (f" ({near})" if near else "; the list has them all"))
        diagnosis = backend.snapshot.diagnosis
        frame = frame_of(
            backend, diagnosis, looked=None, title=known[rule_id].title, here="rules", path=f"rules/{rule_id}",
            root="../", user=user(request, rules),
        )  # fmt: skip
        view = await run_in_threadpool(rule_view, known[rule_id], diagnosis, backend.catalogue, backend.knowledge)
        return page(request, await run_in_threadpool(html, "rule.html", frame, view=view))

    return made
