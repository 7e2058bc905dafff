"""``POST /api/v1/alertmanager``: the webhook of Alertmanager. A group is answered 200 only when it cannot be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.api.problems import RETRY_AFTER_S, Refusal, described, problem
from palanca.api.selection import NoParameters
from palanca.errors import PalancaError
from palanca.notify.alert_groups import Alert, AlertGroup, EnrichedGroup, enriched
from palanca.render.document import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from palanca.api.backend import Backend
    from palanca.notify.alert_groups import Sink

MOST_ALERTS = 10_000
LONGEST_KEY = 100_000
NO_SINK = "palanca has no receiver to tell this to: name one in the section notify of its settings"

Labels = dict[str, str]


class _Sent(BaseModel):
    """Part of what Alertmanager sends; keys that a later release adds are no fault."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SentAlert(_Sent):
    """One alert of a group."""

    status: Literal["firing", "resolved"] = Field(description="Whether it fires or is over.")
    labels: Labels = Field(description="Its labels.")
    annotations: Labels = Field(default_factory=dict, description="Its annotations.")
    starts_at: AwareDatetime = Field(alias="startsAt", description="When it began.")
    ends_at: AwareDatetime | None = Field(
        default=None, alias="endsAt", description="When it ended; the year 1, or in the future, while it fires."
    )
    generator_url: str = Field(default="", alias="generatorURL", description="What it was computed from.")
    fingerprint: str = Field(description="A hash of its labels.", min_length=1, max_length=1000)


class Notification(_Sent):
    """What Alertmanager sends to a webhook: version 4, which is that of every release since 0.7."""

    version: Literal["4"] = Field(description="Version of this format.")
    group_key: str = Field(alias="groupKey", min_length=1, max_length=LONGEST_KEY, description="Names the group.")
    truncated_alerts: int = Field(default=0, alias="truncatedAlerts", ge=0, description="Alerts that are left out.")
    status: Literal["firing", "resolved"] = Field(description="resolved if all of its alerts are.")
    receiver: str = Field(description="Name of the receiver in the configuration of Alertmanager.")
    group_labels: Labels = Field(alias="groupLabels", description="Labels that the group is made by.")
    common_labels: Labels = Field(default_factory=dict, alias="commonLabels", description="Labels that all share.")
    common_annotations: Labels = Field(
        default_factory=dict, alias="commonAnnotations", description="Annotations that all share."
    )
    external_url: str = Field(default="", alias="externalURL", description="Address of the Alertmanager.")
    alerts: tuple[SentAlert, ...] = Field(min_length=1, max_length=MOST_ALERTS, description="The alerts.")


class Accepted(Part):
    """What has become of a group."""

    schema_: Literal["palanca.accepted/v1"] = Field(default="palanca.accepted/v1", alias="schema")
    identity: str = Field(description="Names this notification; the same for every try of it.")
    alerts: int = Field(description="Alerts that were in it.")
    unknown: int = Field(description="Alerts that speak of no engine that palanca knows; they are told all the same.")


def group_of(sent: Notification) -> AlertGroup:
    """Return the group that was sent."""
    return AlertGroup(
        key=sent.group_key,
        status=sent.status,
        receiver=sent.receiver,
        group_labels=sent.group_labels,
        common_labels=sent.common_labels,
        common_annotations=sent.common_annotations,
        external_url=sent.external_url,
        alerts=tuple(_alert(one) for one in sent.alerts),
        left_out=sent.truncated_alerts,
    )


def _alert(sent: SentAlert) -> Alert:
    over = sent.status == "resolved" and sent.ends_at is not None
    return Alert(
        status=sent.status,
        labels=sent.labels,
        annotations=sent.annotations,
        starts=sent.starts_at.timestamp(),
        ends=sent.ends_at.timestamp() if over and sent.ends_at is not None else None,
        fingerprint=sent.fingerprint,
        generator_url=sent.generator_url,
    )


def router(backend: Backend, sink: Callable[[], Sink | None]) -> APIRouter:
    """Make the route. ``sink`` gives where groups go now; None where nobody is to be told."""
    made = APIRouter(prefix="/api/v1", tags=["notifications"])

    def keep(sent: Notification, to: Sink) -> EnrichedGroup:
        group = enriched(group_of(sent), backend.snapshot.diagnosis, backend.catalogue)
        to.accept(group)
        return group

    @made.post("/alertmanager", response_model=Accepted, responses=described(400, 422, 503))
    async def alertmanager(sent: Notification, _: Annotated[NoParameters, Query()]) -> Response:
        """Take a group of alerts from Alertmanager, add the diagnosis of its engines, and pass it on to people.

        200 means that it is kept and will be told, also if palanca dies now. With 503 nothing was kept, and
        Alertmanager sends it again. The same notification may come any number of times.
        """
        to = sink()
        if to is None:
            return problem(Refusal(503, NO_SINK))
        try:
            group = await run_in_threadpool(keep, sent, to)
        except PalancaError as error:
            return problem(
                Refusal(503, f"this cannot be kept now: {error}", headers={"Retry-After": str(RETRY_AFTER_S)})
            )
        done = Accepted(identity=group.group.identity, alerts=len(group.alerts), unknown=group.unknown)
        return Response(done.model_dump_json(by_alias=True), media_type="application/json")

    return made
