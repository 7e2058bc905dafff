"""Settings become receivers and routes, and what is told goes into logs and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, time
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4
from zoneinfo import ZoneInfo

from pydantic import SecretStr

from palanca.errors import NotifyError, UsageError
from palanca.logs import logger
from palanca.notify.notices import postings
from palanca.notify.routing import Quiet, Route, Routing
from palanca.notify.sender import posted
from palanca.notify.slack import API, Bot, IncomingWebhook, Way
from palanca.notify.webhook import Hook, Webhook
from palanca.outgoing import Delivery, Mailbox
from palanca.render.notice import Places
from palanca.settings import read_secrets

if TYPE_CHECKING:
    from palanca.model import Catalogue
    from palanca.outgoing import Tell
    from palanca.settings import (
        Effective,
        NotifyRoute,
        QuietHours,
        ReceiverSecrets,
        Secrets,
        Settings,
        SlackReceiver,
        WebhookReceiver,
    )
    from palanca.telemetry import Telemetry

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SLACK_PACE_S = 1.0
"""Slack takes one message a second and channel."""
WEBHOOK_PACE_S = 0.1
TRIED_AT_ONCE = 16
"""Receivers that get a test message at the same time: some that do not answer cost one time-out, not each its own."""


@dataclass(frozen=True)
class Telling:
    """What can be reloaded: who is told what, and how. ``tell`` is None where Alertmanager decides."""

    mailboxes: Sequence[Mailbox] = ()
    routing: Routing = field(default_factory=Routing)
    places: Places = field(default_factory=Places)
    tell: Tell | None = None


def telling(settings: Settings, secrets: Secrets, catalogue: Catalogue) -> Telling:
    """Make what the settings say. Raises ``UsageError`` for certificates that cannot be read."""
    notify = settings.notify
    routing = Routing(notify.names, tuple(_route(one) for one in notify.routes))
    places = _places(settings)
    boxes = mailboxes(settings, secrets)
    tell = None
    if notify.path == "direct":
        tell = partial(postings, routing=routing, places=places, catalogue=catalogue)
    return Telling(boxes, routing, places, tell)


def mailboxes(settings: Settings, secrets: Secrets) -> tuple[Mailbox, ...]:
    """Make the receivers of the settings. Raises ``UsageError`` for certificates that cannot be read."""
    notify = settings.notify
    try:
        return (
            *(_slack(one, secrets.receivers[one.name]) for one in notify.slack),
            *(_webhook(one, secrets.receivers[one.name]) for one in notify.webhooks),
        )
    except OSError as error:  # every error of ssl is one
        raise UsageError(f"notify: a ca_file cannot be used: {error.strerror or error}") from None


def _places(settings: Settings) -> Places:
    links, known = settings.notify.links, settings.alertmanager
    mutes = settings.notify.path == "alertmanager" or bool(known.urls and known.silences)
    return Places(
        external=None if settings.external_url is None else str(settings.external_url),
        dashboard=links.dashboard,
        prometheus=None if links.prometheus is None else str(links.prometheus),
        alertmanager=None if links.alertmanager is None or not mutes else str(links.alertmanager),
        runbooks=None if links.runbooks is None else str(links.runbooks),
    )


def _route(one: NotifyRoute) -> Route:
    return Route(
        to=one.to,
        match=dict(one.match),
        sources=frozenset(one.source),
        severities=frozenset(one.severity),
        causes=frozenset(one.cause),
        rules=frozenset(one.rule),
        quiet=None if one.quiet_hours is None else _quiet(one.quiet_hours),
        digest=one.digest,
        go_on=one.go_on,
    )


def _quiet(one: QuietHours) -> Quiet:
    return Quiet(
        begin=time.fromisoformat(one.begin),
        end=time.fromisoformat(one.end),
        zone=UTC if one.zone == "UTC" else ZoneInfo(one.zone),
        days=frozenset(DAYS.index(day) for day in one.days),
        passes=frozenset(one.passes),
    )


def _slack(one: SlackReceiver, secrets: ReceiverSecrets) -> Mailbox:
    api = API if one.api_url is None else one.api_url.full.get_secret_value().rstrip("/") + "/"
    way = Way(api, one.ca_file)
    if secrets.token is not None and one.channel is not None:
        return Mailbox(
            one.name,
            Bot(secrets.token, one.channel, way),
            f"slack {api} {one.channel}",
            updates=True,
            pace_s=SLACK_PACE_S,
        )
    return Mailbox(one.name, IncomingWebhook(_needed(secrets.url), way), f"slack {one.name}", pace_s=SLACK_PACE_S)


def _webhook(one: WebhookReceiver, secrets: ReceiverSecrets) -> Mailbox:
    hook = Hook(
        url=_needed(secrets.url),
        shown=f"the webhook {one.name}",
        template=one.template,
        headers=secrets.headers,
        secret=secrets.signing,
        ca_file=one.ca_file,
        timeout=one.timeout,
    )
    return Mailbox(one.name, Webhook(hook), f"webhook {one.name}", pace_s=WEBHOOK_PACE_S)


def _needed(url: SecretStr | None) -> SecretStr:
    return url or SecretStr("")


@dataclass(frozen=True)
class Tried:
    """What became of a test message: where it stands, if that is known, or why it did not arrive."""

    receiver: str
    where: str = ""
    error: str | None = None


def trial(made: Effective, names: Sequence[str], now: float) -> Iterator[Tried]:
    """Send a test message to the receivers of these names, or to all, at once; what became of it in their order.

    Raises ``RuleFileError`` and ``UsageError``.
    """
    notify = made.settings.notify
    if not notify.names:
        raise UsageError("there is nobody to be told; add receivers under notify.slack or notify.webhooks")
    for name in names:
        if name not in notify.names:
            raise UsageError(f"there is no receiver {name!r}; one of {', '.join(notify.names)}")
    boxes = mailboxes(made.settings, read_secrets(made))
    chosen = [box for box in boxes if not names or box.name in names]
    pool = ThreadPoolExecutor(min(len(chosen), TRIED_AT_ONCE), thread_name_prefix="palanca-test")
    try:
        yield from pool.map(partial(_tried, now=now), chosen)
    finally:
        pool.shutdown(cancel_futures=True)


def _tried(box: Mailbox, now: float) -> Tried:
    try:
        sent = posted(box.receiver, Delivery(key=f"test-{uuid4().hex}", kind="test", receiver=box.name, now=now))
    except NotifyError as error:
        return Tried(box.name, error=str(error))
    return Tried(box.name, "" if sent.place is None else f"channel {sent.place.channel}, ts {sent.place.ts}")


class Reports:
    """Tells logs and metrics how sending goes; satisfies ``palanca.notify.sender.Reporter``."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry, self._log = telemetry, logger("notify")

    def notified(self, receiver: str, result: str) -> None:
        """Count a message."""
        self._telemetry.notified(receiver, result)

    def failing(self, receiver: str, reason: str) -> None:
        """Say that a receiver does not work."""
        self._log.error("messages do not arrive; they are kept and tried again", receiver=receiver, reason=reason)

    def recovered(self, receiver: str) -> None:
        """Say that it works again."""
        self._log.info("messages arrive again", receiver=receiver)

    def given_up(self, receiver: str, reason: str) -> None:
        """Say that a message is lost."""
        self._log.error("a message is given up: the receiver refuses it", receiver=receiver, reason=reason)

    def trouble(self, reason: str) -> None:
        """Say that nothing can be sent now."""
        self._log.error("nothing is sent while the database cannot be used", reason=reason)
