"""Templates, and what every page has: navigation, the state of the sources, the moment that is looked at; errors."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from palanca import __version__
from palanca.api.answers import answer
from palanca.api.guard import FORMS, SIGN_IN
from palanca.api.problems import Refusal, problem, refusal
from palanca.daemon.snapshot import packed
from palanca.errors import PalancaError
from palanca.quantities import moment, rfc3339, time_span
from palanca.render.gaps import source_trouble
from palanca.render.words import printable
from palanca.web.links import link

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

    from palanca.api.backend import Backend
    from palanca.model import Diagnosis, SourceInfo

NAVIGATION = (("", "Fleet"), ("timeline", "Timeline"), ("rules", "Rules"), ("size", "Size"))
PATHS = frozenset({"/", "/engine", "/timeline", "/rules", "/size", "/docs"} | FORMS)
"""What people look at with a browser."""
REFRESH_S = 15
"""How often a page looks for news: half of the usual interval of polls."""
_KINDS = (RequestValidationError, HTTPException, PalancaError)


@dataclass(frozen=True)
class Banner:
    """Something that everybody has to know: ``level`` is critical, warning or info."""

    level: str
    lead: str
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Frame:
    """What surrounds a page.

    ``root`` leads to the first page, ``here`` is the address in the navigation, ``path`` that of this page. ``time`` is
    the moment in the past that is looked at, as text; None for now. ``kept`` are the fields of the query that the form
    of the moment carries along; None where the page knows no moment. ``age`` is the moment of the data, ``age_s``
    how many seconds ago the oldest source was read. ``user`` is who is signed in. ``refresh`` is in
    seconds, 0 for never.
    """

    title: str
    here: str
    root: str = "./"
    banners: tuple[Banner, ...] = ()
    age: str = ""
    age_s: float | None = None
    time: str | None = None
    kept: tuple[tuple[str, str], ...] | None = None
    user: str | None = None
    refresh: int = 0
    path: str = ""

    @property
    def now(self) -> str:
        """The same page, as of now."""
        return link(self.path, self.kept or ())

    @property
    def navigation(self) -> list[tuple[str, str, bool]]:
        """Address, words, and whether it is this page."""
        time = [] if self.time is None else [("time", self.time)]
        timed = {"", "timeline"}
        return [(link(to, time if to in timed else []), words, to == self.here) for to, words in NAVIGATION]


@cache
def environment() -> Environment:
    """Everything that a template writes is escaped, and shown even where it cannot be seen."""
    made = Environment(
        loader=PackageLoader("palanca.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_shown,
    )
    made.globals["version"] = __version__
    made.globals["link"] = link
    made.filters["time_span"] = time_span
    return made


def _shown(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def html(template: str, frame: Frame, **more: object) -> str:
    """Write a page. ``more`` is what its template shows."""
    return environment().get_template(template).render(frame=frame, **more)


def page(request: Request, text: str) -> Response:
    """Send a page; what a browser has need not be sent again."""
    return answer(packed(text.encode()), "text/html", request.headers, {"Cache-Control": "private, no-cache"})


def about_sources(infos: Sequence[SourceInfo]) -> tuple[Banner, ...]:
    """Say of each source that is not as it should be what is wrong."""
    banners = []
    for info in infos:
        lead, text = source_trouble(info)
        if lead:
            level = "critical" if info.state in {"unreachable", "stale"} else "warning"
            name = f"{lead.removesuffix(':')} ({printable(info.name)}):" if len(infos) > 1 else lead
            first, *lines = text.split("\\n")
            lines += ["What was well there is shown as unknown."] if info.state == "stale" else []
            banners.append(Banner(level, name, first, tuple(lines)))
    if not infos:
        banners.append(Banner("critical", "NO SOURCE:", "Nothing is watched; give sources in the settings."))
    return tuple(banners)


def past(time: float, now: float) -> Banner:
    """Say that this is not now."""
    return Banner("info", "THE PAST:", f"this is {moment(time)}, {time_span(max(now - time, 0.0))} ago.")


def frame_of(
    backend: Backend,
    diagnosis: Diagnosis,
    *,
    looked: float | None,
    title: str,
    here: str,
    **more: Any,  # noqa: ANN401
) -> Frame:
    """Surround what a diagnosis shows; ``looked`` is the moment in the past that is looked at, None for now."""
    now = backend.now()
    infos = (diagnosis.sources or (diagnosis.source,)) if looked is not None else backend.sources()
    banners = about_sources(infos)
    if looked is not None:
        return Frame(title, here, banners=(past(looked, now), *banners), time=rfc3339(looked), **more)
    age_s = max((info.age_s for info in infos if info.age_s is not None), default=None)
    age = "no data yet" if age_s is None else f"data of {moment(diagnosis.time)}"
    return Frame(title, here, banners=banners, age=age, age_s=age_s, **{"refresh": REFRESH_S, **more})


# --- errors ----------------------------------------------------------------------------------------


class PageRoute(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Answer as the route does; what is wrong with the request is told as a page."""
        original = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await original(request)
            except _KINDS as error:
                return failed(request.scope["path"], refusal(request, error))

        return handler


def failed(path: str, why: Refusal, known: Frame | None = None) -> Response:
    """Say what is wrong and how to mend it; ``known`` is what would surround the page."""
    root = "../" * max(path.count("/") - 1, 0) or "./"
    frame = Frame(why.title, "", root=root) if known is None else replace(known, title=why.title, refresh=0)
    text = html("error.html", frame, refusal=why, lines=why.detail.split("\n"))
    return HTMLResponse(text, why.status, headers=dict(why.headers))


def refuse(scope: Scope, why: Refusal) -> ASGIApp:
    """Answer in place of a route: a browser that asks for a page gets one, or is sent to sign in."""
    accepts = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    path = scope["path"]
    if b"text/html" not in accepts or not (path in PATHS or path.startswith("/rules/")):
        return problem(why)
    if why.status == 401:  # noqa: PLR2004
        depth = "../" * max(path.count("/") - 1, 0)
        query = scope["query_string"].decode("latin-1")
        to = path.removeprefix("/") + (f"?{query}" if query else "")
        return Response(status_code=303, headers={"Location": depth + link(SIGN_IN[1:], [("to", to)])})
    return failed(path, why)
