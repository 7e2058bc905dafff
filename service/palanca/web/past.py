"""The page of what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.history.reader import EpisodeQuery, EventQuery
from palanca.quantities import moment, rfc3339
from palanca.web.asked import AskedTimeline, asked
from palanca.web.links import link
from palanca.web.pages import Frame, PageRoute, frame_of, html, page
from palanca.web.timeline import MARKED, SOURCES, SPANS, timeline_view, watched
from palanca.web.visitor import kept, user

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.api.guard import Rules
    from palanca.history.disabled import NoHistory
    from palanca.history.facade import History

EPISODES_SHOWN = 300
EVENTS_SHOWN = 500


def router(backend: Backend, history: History | NoHistory, rules: Callable[[], Rules]) -> APIRouter:
    """Make the route."""
    made = APIRouter(include_in_schema=False, route_class=PageRoute)

    @made.get("/timeline")
    async def timeline(request: Request) -> Response:
        wanted = asked(AskedTimeline, request)
        time = wanted.at(backend.now())
        frame = frame_of(
            backend, backend.snapshot.diagnosis, looked=time, title="Timeline", here="timeline", path="timeline",
            kept=tuple(pair for pair in kept(request) if pair[0] != "cursor"), user=user(request, rules),
        )  # fmt: skip
        return page(request, await run_in_threadpool(_timeline, backend, history, frame, wanted, time))

    return made


def _timeline(
    backend: Backend, history: History | NoHistory, frame: Frame, wanted: AskedTimeline, time: float | None
) -> str:
    end = backend.now() if time is None else time
    begin = end - SPANS[wanted.span]
    episodes = history.episodes(
        EpisodeQuery(
            begin, end, wanted.source, wanted.rule, wanted.severity, wanted.labels, EPISODES_SHOWN, wanted.cursor,
            causes=wanted.cause,
        )
    )  # fmt: skip
    # What happened to the sources is of no engine, and no label selects it.
    kinds = MARKED if wanted.labels else (*MARKED, *SOURCES)
    events = history.events(EventQuery(begin, end, wanted.source, match=wanted.labels, limit=EVENTS_SHOWN, kinds=kinds))
    asked_for = list(frame.kept or ())
    older = [*asked_for, ("time", rfc3339(end)), ("cursor", episodes.next or "")]
    fields = [pair for pair in asked_for if pair[0] != "span"]
    when = [("time", frame.time)] if frame.time else []
    return html(
        "timeline.html",
        frame,
        view=timeline_view(episodes.episodes, events.events, (begin, end), backend.catalogue),
        span=wanted.span,
        spans=[(name, link("timeline", [("span", name), *fields, *when])) for name in SPANS],
        fields=fields,
        wanted=wanted,
        between=f"{moment(begin)} to {moment(end)}",
        older=link("timeline", older) if episodes.next else "",
        cut=events.next is not None,
        watched=watched(history.begin(), (begin, end)),
        off=episodes.history.off,
    )
