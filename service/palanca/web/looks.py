"""The pages that show a diagnosis: fleet and engine, of now or of a moment in the past."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, get_args

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.problems import Refusal
from palanca.errors import PalancaError
from palanca.history.reader import EpisodeQuery
from palanca.model import Cause, Diagnosis, Readings
from palanca.poll import Stretch
from palanca.render.notice import NAME_WIDTH
from palanca.render.words import clip, target_names, without_credentials
from palanca.web.asked import AskedEngine, AskedFleet, asked
from palanca.web.engine import engine_view
from palanca.web.evidence import plots, plotted
from palanca.web.fleet import fleet_view
from palanca.web.links import at, engine_link, link, of_target
from palanca.web.pages import Frame, PageRoute, failed, frame_of, html, page
from palanca.web.plots import Plot
from palanca.web.recent import Recent
from palanca.web.ruled_out import considered
from palanca.web.timeline import EpisodeRow, Watched, episode_row, watched
from palanca.web.visitor import kept, user

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.api.guard import Rules
    from palanca.history.disabled import NoHistory
    from palanca.history.facade import History
    from palanca.model import Catalogue, TargetReport

CAUSES = get_args(Cause)
DAY_S = 86400.0
EPISODES_SHOWN = 20
CHOICES_SHOWN = 200
PLOTS_KEPT = 64
PATIENCE_S = 6.0
"""A page does not wait longer for a source: what is known is shown without plots."""
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


class Look:
    """What a page of an engine asks for besides the diagnosis: plots, and what happened."""

    def __init__(self, backend: Backend, history: History | NoHistory, patience: float = PATIENCE_S) -> None:
        self._backend, self._history, self._patience = backend, history, patience
        self._recent: Recent[Readings] = Recent(PLOTS_KEPT)

    async def plots(self, diagnosis: Diagnosis, report: TargetReport) -> tuple[tuple[Plot, ...], str]:
        """Draw the evidence of the last hour; the reason in words where it cannot be read."""
        catalogue = self._backend.catalogue
        names = tuple(plotted(report, catalogue))
        if not names:
            return (), ""
        stretch = Stretch(names, diagnosis.time, patience=self._patience)
        try:
            async with asyncio.timeout(self._patience):
                key = (report.target, stretch)
                read = await self._recent.get(key, lambda: self._backend.series(report.target, stretch))
        except TimeoutError:
            return (), f"The source has not told the last hour within {self._patience:g} s; reload to ask again."
        except PalancaError as error:
            return (), f"The last hour cannot be shown: {without_credentials(str(error))}"
        return await run_in_threadpool(plots, read, report, catalogue), ""

    async def episodes(self, report: TargetReport, end: float) -> tuple[tuple[EpisodeRow, ...], Watched, str]:
        """What happened at the engine in the last day, whether it was watched; why the history cannot be read."""
        query = EpisodeQuery(begin=end - DAY_S, end=end, match=report.target.as_dict(), limit=EPISODES_SHOWN)
        found = await run_in_threadpool(self._history.episodes, query)
        rows = tuple(episode_row(one, end, self._backend.catalogue) for one in found.episodes)
        seen = watched(await run_in_threadpool(self._history.begin), (end - DAY_S, end))
        return rows, seen, found.history.off


def router(backend: Backend, history: History | NoHistory, rules: Callable[[], Rules]) -> APIRouter:
    """Make the routes."""
    made = APIRouter(include_in_schema=False, route_class=PageRoute)
    moments, look = Moments(backend), Look(backend, history)

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

    @made.get("/engine")
    async def engine(request: Request) -> Response:
        wanted = asked(AskedEngine, request)
        time = wanted.at(backend.now())
        diagnosis = await moments.of(time)
        fitting = meant(wanted, diagnosis)
        names = target_names([one.target for one in diagnosis.targets])
        title = clip(names[fitting[0].target], NAME_WIDTH) if len(fitting) == 1 else "Engines"
        frame = frame_of(
            backend, diagnosis, looked=time, title=title, here="", path="engine", kept=kept(request),
            user=user(request, rules),
        )  # fmt: skip
        if not fitting:
            return failed(request.scope["path"], Refusal(404, _gone(diagnosis)), frame)
        if len(fitting) > 1:
            rows = [(one.status, clip(names[one.target], NAME_WIDTH), engine_link(one.target, time))
                    for one in fitting[:CHOICES_SHOWN]]  # fmt: skip
            more = max(len(fitting) - CHOICES_SHOWN, 0)
            return page(request, await run_in_threadpool(html, "choose.html", frame, rows=rows, more=more))
        (report,) = fitting
        (drawn, missing), (rows_, seen, off) = await asyncio.gather(
            look.plots(diagnosis, report), look.episodes(report, diagnosis.time)
        )
        more_ = {"plots": drawn, "plots_missing": missing, "episodes": rows_, "watched": seen, "history_off": off}
        text = await run_in_threadpool(_engine, backend, frame, diagnosis, report, time, more_)
        return page(request, text)

    return made


def meant(wanted: AskedEngine, diagnosis: Diagnosis) -> list[TargetReport]:
    """Return the engines that are asked for, with all their findings: one where its labels are exactly those."""
    wanted_ones = {one.target for one in wanted.reports(diagnosis)}
    fitting = [one for one in diagnosis.targets if one.target in wanted_ones]
    named = sorted(wanted.match)
    exactly = [one for one in fitting if sorted(text for _, text in of_target(one.target)) == named]
    return exactly or fitting


def _gone(diagnosis: Diagnosis) -> str:
    """Why no engine fits; a source in trouble says nothing of engines."""
    if any(one.state in {"unreachable", "partial"} for one in diagnosis.sources or (diagnosis.source,)):
        return "no engine fits in what is known, and a source could not tell what it knows: it may be there or not"
    return "no engine fits these labels at that moment; it may be gone: the timeline has what was known of it"


def _fleet(frame: Frame, diagnosis: Diagnosis, catalogue: Catalogue, wanted: AskedFleet, time: float | None) -> str:
    view = fleet_view(diagnosis, catalogue, wanted, time)
    return html("fleet.html", frame, view=view, wanted=wanted, causes=CAUSES)


def _engine(
    backend: Backend,
    frame: Frame,
    diagnosis: Diagnosis,
    report: TargetReport,
    time: float | None,
    more: Mapping[str, object],
) -> str:
    catalogue, known = backend.catalogue, backend.knowledge
    return html(
        "engine.html",
        frame,
        name=frame.title,
        view=engine_view(diagnosis, report, catalogue, known.serve_args(report.target)),
        considered=considered(diagnosis, report, catalogue, known.thresholds),
        timeline=link("timeline", [*of_target(report.target), *at(time)]),
        **more,
    )
