"""Episodes and events of the past, and what people add to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.answers import ETAG, UNCHANGED, answer
from palanca.api.problems import described
from palanca.api.selection import LARGEST_PAGE, MOST_VALUES, Matcher, Moment, NoParameters, Text
from palanca.daemon.snapshot import packed
from palanca.history.documents import EpisodesDocument, EventsDocument, OneEpisodeDocument
from palanca.history.entries import EventKind
from palanca.history.reader import EpisodeQuery, EventQuery
from palanca.model import Cause, Severity
from palanca.moments import parse_moment

if TYPE_CHECKING:
    from palanca.api.access import Caller
    from palanca.api.backend import Backend
    from palanca.history.disabled import NoHistory
    from palanca.history.facade import History
    from palanca.render.document import Part

RESPONSES: dict[int | str, dict[str, Any]] = {200: {"headers": ETAG}, **UNCHANGED}
LARGEST_ID = 2**53
LONGEST_NOTE = 2000


class Past(BaseModel):
    """Filters of both lists. Values of one parameter are alternatives; different parameters all hold."""

    model_config = ConfigDict(extra="forbid")

    from_: Moment | None = Field(
        default=None,
        alias="from",
        description="Not before: RFC 3339, unix seconds, or -24h before now.",
        examples=["-24h"],
    )
    to: Moment | None = Field(default=None, description="Not after; the same forms.", examples=["2026-11-29T20:09:11Z"])
    source: list[Text] = Field(
        default_factory=list, max_length=MOST_VALUES, description="Only this source.", examples=[["prometheus"]]
    )
    rule: list[Text] = Field(
        default_factory=list, max_length=MOST_VALUES, description="Only this rule.", examples=[["kv-cache-saturated"]]
    )
    severity: list[Severity] = Field(
        default_factory=list,
        max_length=MOST_VALUES,
        description="Only episodes whose worst severity is this.",
        examples=[["critical"]],
    )
    match: list[Matcher] = Field(
        default_factory=list,
        max_length=MOST_VALUES,
        description="Only targets with this label, as LABEL=VALUE.",
        examples=[["namespace=prod"]],
    )
    limit: int = Field(default=100, ge=1, le=LARGEST_PAGE, description="At most so many.", examples=[20])
    cursor: str | None = Field(
        default=None, max_length=100, description="The `next` of the page before.", examples=["1795982951.0_42"]
    )

    def begin_end(self, now: float) -> tuple[float | None, float | None]:
        """Both moments, unix seconds."""
        begin, end = (None if text is None else parse_moment(text, now=now) for text in (self.from_, self.to))
        return begin, end

    @property
    def labels(self) -> dict[str, str]:
        """Labels that a target must have."""
        return {name: value for name, _, value in (text.partition("=") for text in self.match)}


class AskedEpisodes(Past):
    """Parameters of the list of episodes."""

    cause: list[Cause] = Field(
        default_factory=list, max_length=MOST_VALUES, description="Only this cause.", examples=[["kv-capacity"]]
    )
    open: bool = Field(default=False, description="Only those that fire now.", examples=[True])


class AskedEvents(Past):
    """Parameters of the list of events."""

    kind: list[EventKind] = Field(
        default_factory=list, max_length=MOST_VALUES, description="Only this kind.", examples=[["began", "resolved"]]
    )
    episode: int | None = Field(
        default=None, ge=1, le=LARGEST_ID, description="Only those of this episode.", examples=[42]
    )


class Acknowledgement(BaseModel):
    """That somebody looks after an episode."""

    model_config = ConfigDict(extra="forbid")

    note: str = Field(
        default="", max_length=LONGEST_NOTE, description="What to tell others.", examples=["bigger pool rolling out"]
    )
    who: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Who it is; by default the name of the token.",
        examples=["ana"],
    )


EpisodeId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Number of the episode.", examples=[42])]


def router(backend: Backend, history: History | NoHistory) -> APIRouter:
    """Make the routes."""
    made = APIRouter(prefix="/api/v1/history", tags=["history"])

    async def sent(request: Request, read: Callable[[], Part]) -> Response:
        """``read`` asks the database, and may be slow to write too."""
        body = await run_in_threadpool(lambda: packed(read().model_dump_json(by_alias=True).encode()))
        return answer(body, "application/json", request.headers)

    @made.get("", response_model=EpisodesDocument, responses=RESPONSES | described(400, 422))
    async def episodes(request: Request, asked: Annotated[AskedEpisodes, Query()]) -> Response:
        """Episodes, the newest first: what was wrong, since when, how bad, and what was recommended."""
        begin, end = asked.begin_end(backend.now())
        query = EpisodeQuery(
            begin=begin,
            end=end,
            sources=asked.source,
            rules=asked.rule,
            severities=asked.severity,
            match=asked.labels,
            limit=asked.limit,
            cursor=asked.cursor,
            causes=asked.cause,
            open_only=asked.open,
        )
        return await sent(request, lambda: history.episodes(query))

    @made.get("/events", response_model=EventsDocument, responses=RESPONSES | described(400, 422))
    async def events(request: Request, asked: Annotated[AskedEvents, Query()]) -> Response:
        """What happened, the newest first: episodes, targets that came and went, restarts, changed configuration."""
        begin, end = asked.begin_end(backend.now())
        query = EventQuery(
            begin=begin,
            end=end,
            sources=asked.source,
            rules=asked.rule,
            severities=asked.severity,
            match=asked.labels,
            limit=asked.limit,
            cursor=asked.cursor,
            kinds=asked.kind,
            episode=asked.episode,
        )
        return await sent(request, lambda: history.events(query))

    @made.get("/{episode_id}", response_model=OneEpisodeDocument, responses=RESPONSES | described(404, 422))
    async def episode(request: Request, episode_id: EpisodeId, _: Annotated[NoParameters, Query()]) -> Response:
        """One episode; null where the history cannot be read now, which `history.reason` explains."""

        def read() -> OneEpisodeDocument:
            found = history.episode(episode_id)
            if found.episode is None and found.history.enabled:
                raise _unknown(episode_id)
            return found

        return await sent(request, read)

    @made.post(
        "/{episode_id}/acknowledge",
        response_model=OneEpisodeDocument,
        responses=described(400, 404, 422),
    )
    async def acknowledge(
        request: Request, episode_id: EpisodeId, said: Acknowledgement, _: Annotated[NoParameters, Query()]
    ) -> Response:
        """Say that somebody looks after an episode; another name or note takes the place of the last."""
        caller: Caller = request.state.caller
        who = said.who or caller.name
        noted = await run_in_threadpool(history.acknowledge, episode_id, who, said.note, backend.now())
        if noted is None:
            raise _unknown(episode_id)
        found = await run_in_threadpool(history.episode, episode_id)
        return Response(found.model_dump_json(by_alias=True), media_type="application/json")

    return made


def _unknown(episode_id: int) -> HTTPException:
    return HTTPException(404, f"no episode {episode_id}")
