"""The pages that show a diagnosis: fleet and engine, of now or of a moment in the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.guard import SESSION
from palanca.model import Cause, Diagnosis
from palanca.web.asked import AskedFleet, asked
from palanca.web.fleet import fleet_view
from palanca.web.pages import Frame, PageRoute, frame_of, html, page
from palanca.web.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable

    from palanca.api.backend import Backend
    from palanca.api.guard import Rules
    from palanca.history.disabled import NoHistory
    from palanca.history.facade import History
    from palanca.model import Catalogue

CAUSES = get_args(Cause)
MOMENTS_KEPT = 4
"""Diagnoses of the past that are kept: who looks at a moment goes from page to page there."""
SETTLED_S = 300.0
"""A moment so long ago is as it will be: all that was scraped has arrived."""


class Moments:
    """The diagnosis of now, or of a moment in the past."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._recent: Recent[Diagnosis] = Recent(MOMENTS_KEPT)

    async def of(self, time: float | None) -> Diagnosis:
        """Return it. Raises ``BusyError`` and ``UsageError``."""
        if time is None:
            return self._backend.snapshot.diagnosis
        key = (round(time, 3), id(self._backend.catalogue)) if time < self._backend.now() - SETTLED_S else object()
        made = await self._recent.get(key, lambda: self._backend.fresh(time))
        if made.source.state != "ok":
            self._recent.forget(key)
        return made


def router(backend: Backend, history: History | NoHistory, rules: Callable[[], Rules]) -> APIRouter:
    """Make the routes."""
    made = APIRouter(include_in_schema=False, route_class=PageRoute)
    moments = Moments(backend)

    @made.get("/")
    async def fleet(request: Request) -> Response:
        wanted = asked(AskedFleet, request)
        time = wanted.at(backend.now())
        diagnosis = await moments.of(time)
        frame = frame_of(
            backend, diagnosis, looked=time, title="Fleet", here="", kept=kept(request), user=user(request, rules)
        )
        text = await run_in_threadpool(_fleet, frame, diagnosis, backend.catalogue, wanted, time)
        return page(request, text)

    return made


def _fleet(frame: Frame, diagnosis: Diagnosis, catalogue: Catalogue, wanted: AskedFleet, time: float | None) -> str:
    view = fleet_view(diagnosis, catalogue, wanted, time)
    return html("fleet.html", frame, view=view, wanted=wanted, causes=CAUSES)


def kept(request: Request) -> tuple[tuple[str, str], ...]:
    """What is asked for besides the moment."""
    return tuple((name, value) for name, value in request.query_params.multi_items() if name != "time" and value)


def user(request: Request, rules: Callable[[], Rules]) -> str | None:
    """Return the name of who is signed in; None where nobody needs to be."""
    if not rules().tokens or SESSION not in request.cookies:
        return None
    caller = getattr(request.state, "caller", None)
    return None if caller is None else str(caller.name)
