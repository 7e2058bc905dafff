"""Did the change help? Verifies an episode's recommendation, and keeps the result with the episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.history import EpisodeId
from palanca.api.problems import described
from palanca.api.selection import Moment, NoParameters
from palanca.history.documents import OneEpisodeDocument
from palanca.model import Target
from palanca.moments import parse_moment, seconds
from palanca.render import verify as writer
from palanca.verifying import Trial

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.history.disabled import NoHistory
    from palanca.history.facade import History

LONGEST_S = 6 * 3600.0
SHORTEST_S = 30.0


def _period(text: str) -> str:
    if not SHORTEST_S <= seconds(text) <= LONGEST_S:
        message = "give a duration from 30s to 6h"
        raise ValueError(message)
    return text


class Change(BaseModel):
    """The change that is to be verified."""

    model_config = ConfigDict(extra="forbid")

    change_at: Moment | None = Field(
        default=None,
        description="When it was made: RFC 3339, unix seconds, or -30m. "
        "If not given, a restart or changed configuration in the last hour.",
        examples=["2026-11-29T20:10:00Z"],
    )
    period: Annotated[str, Field(max_length=20), AfterValidator(_period)] = Field(
        default="10m",
        description="How much to compare on each side, as a Prometheus duration, 30s to 6h.",
        examples=["10m"],
    )


def router(backend: Backend, history: History | NoHistory) -> APIRouter:
    """Make the route."""
    made = APIRouter(prefix="/api/v1/history", tags=["history"])

    @made.post("/{episode_id}/verify", response_model=OneEpisodeDocument, responses=described(400, 404, 422))
    async def verify(episode_id: EpisodeId, change: Change, _: Annotated[NoParameters, Query()]) -> Response:
        """Compare before and after a change at equal load, and keep the result with the episode.

        The episode's source is asked for both sides, which takes as long as it does.
        """
        found = await run_in_threadpool(history.episode, episode_id)
        episode = found.episode
        if episode is None:
            if found.history.enabled:
                raise HTTPException(404, f"no episode {episode_id}")
            raise HTTPException(503, f"the history cannot be read: {found.history.reason}")
        now = backend.now()
        moment = None if change.change_at is None else parse_moment(change.change_at, now=now)
        trial = Trial(moment, seconds(change.period), episode.rule)
        result = await backend.verify(episode.source, Target.of(episode.target), trial)
        await run_in_threadpool(history.attach_verification, episode_id, writer.document(result), now)
        return Response(
            (await run_in_threadpool(history.episode, episode_id)).model_dump_json(by_alias=True),
            media_type="application/json",
        )

    return made
