"""Slack: an incoming webhook, which only posts, or a bot, which also changes its messages and answers in threads."""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import SecretStr
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.client import WebClient
from slack_sdk.webhook.client import WebhookClient

from palanca import __version__
from palanca.errors import NotifyError
from palanca.model import SEVERITY_ORDER
from palanca.notify.webhook import retry_after
from palanca.outgoing import Place, Sent, Told
from palanca.render import slack
from palanca.render.words import printable

if TYPE_CHECKING:
    from palanca.outgoing import Delivery
    from palanca.render.slack import Payload

TIMEOUT_S = 10
API = "https://slack.com/api/"
EVENT = "palanca_notice"
"""Type of the metadata in which each message of a bot bears its key."""
LOOK_BACK_S = 60.0
FOUND_AMONG = 100

_MESSAGE: Final = frozenset({
    "invalid_blocks", "invalid_blocks_format", "invalid_attachments", "msg_too_long", "msg_blocks_too_long", "no_text",
    "too_many_attachments", "invalid_payload", "invalid_arguments", "invalid_metadata_format", "metadata_too_large",
    "markdown_text_conflict",
})  # fmt: skip
"""Errors that say that this message is wrong, and not the way to the channel."""
_PLACE: Final = frozenset({
    "message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found", "cannot_reply_to_message",
    "thread_locked", "update_failed",
})  # fmt: skip
_HINTS: Final[Mapping[str, str]] = {
    "invalid_auth": "check the file with the token",
    "not_authed": "check the file with the token",
    "token_revoked": "install the app again, and put its new token into the file",
    "account_inactive": "the app was removed: install it again",
    "missing_scope": "the app needs the scope chat:write",
    "not_in_channel": "invite the app to the channel (/invite @app), or give it chat:write.public",
    "channel_not_found": "give the ID of the channel, and invite the app to it",
    "is_archived": "the channel is archived: name another",
    "channel_is_archived": "the channel is archived: make a webhook for another",
    "no_service": "the webhook was removed: make a new one",
    "invalid_token": "the webhook was removed: make a new one",
    "no_team": "the webhook was removed: make a new one",
    "action_prohibited": "the workspace forbids posts to this channel",
    "restricted_action": "the workspace forbids posts to this channel",
}
_TOO_MANY, _SERVER, _OK, _REQUEST = 429, 500, 200, 400

# The library writes addresses into its logs, and that of a webhook is a secret.
_SILENT = logging.getLogger("palanca.slack_sdk")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_SILENT.setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True)
class Way:
    """How Slack is reached: its API, and authorities (PEM) in place of the system's."""

    api: str = API
    ca_file: Path | None = None
    timeout: int = TIMEOUT_S

    @property
    def tls(self) -> ssl.SSLContext:
        """How its certificate is checked."""
        return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))


class IncomingWebhook:
    """Posts to the one channel that its address stands for. Slack gives no time stamp back: nothing can be changed."""

    def __init__(self, url: SecretStr, way: Way | None = None) -> None:
        way = way or Way()
        self._client = WebhookClient(
            url.get_secret_value(), timeout=way.timeout, ssl=way.tls, logger=_SILENT, retry_handlers=[],
            user_agent_suffix=f"palanca/{__version__}",
        )  # fmt: skip

    def send(self, delivery: Delivery) -> Sent:
        """Post one message. Raises ``NotifyError``."""
        answer = _asked(lambda: self._client.send_dict(_payload(delivery)))
        if answer.status_code != _OK or answer.body != "ok":
            raise _error(answer.status_code, answer.body, answer.headers, delivery.now)
        return Sent()


class Bot:
    """Posts to a channel as an app, updates its messages, and tells changes in their threads.

    Where it is not certain that a message arrived, it is looked for in the channel: that needs the scope
    ``channels:history`` (``groups:history`` for a private channel) and the ID of the channel; without them it is sent
    again.
    """

    def __init__(self, token: SecretStr, channel: str, way: Way | None = None) -> None:
        way = way or Way()
        self._channel = channel
        self._client = WebClient(
            token.get_secret_value(), base_url=way.api, timeout=way.timeout, ssl=way.tls, logger=_SILENT,
            retry_handlers=[], user_agent_suffix=f"palanca/{__version__}",
        )  # fmt: skip

    def send(self, delivery: Delivery) -> Sent:
        """Send one message, unless it has arrived already. Raises ``NotifyError``."""
        found = self._found(delivery)
        if found is not None:
            return found
        body = _payload(delivery)
        common = {"metadata": {"event_type": EVENT, "event_payload": {"key": delivery.key, **_noted(delivery.told)}}}
        if delivery.place is not None and delivery.kind == "update":
            ask = {"channel": delivery.place.channel, "ts": delivery.place.ts}
            answer = self._call("chat.update", {**ask, **common, "attachments": [], "blocks": [], **body}, delivery.now)
        else:
            thread = {} if delivery.place is None else {"thread_ts": delivery.place.ts}
            channel = self._channel if delivery.place is None else delivery.place.channel
            more: dict[str, Any] = {"channel": channel, **thread, "unfurl_links": False, "unfurl_media": False}
            answer = self._call("chat.postMessage", {**more, **common, **body}, delivery.now)
        where, ts = answer.get("channel"), answer.get("ts")
        if not isinstance(where, str) or not isinstance(ts, str):
            raise NotifyError("Slack took the message and did not say where it stands", unsure=True)
        return Sent(Place(where, ts))

    def _found(self, delivery: Delivery) -> Sent | None:
        """Look for a message that was sent before, and of which nobody knows whether it arrived."""
        if delivery.earlier is None or delivery.kind == "update":
            return None
        since = (delivery.attempted or delivery.now) - LOOK_BACK_S
        place = delivery.place
        channel = self._channel if place is None else place.channel
        ask: dict[str, Any] = {"channel": channel, "limit": FOUND_AMONG, "include_all_metadata": "true"}
        ask |= {"oldest": f"{since:.6f}"} | ({} if place is None else {"ts": place.ts})
        method = "conversations.history" if place is None else "conversations.replies"
        try:
            answer = self._call(method, ask, delivery.now)
        except NotifyError as error:
            if error.retry_after is not None or error.unsure:
                raise
            return None  # it may not look: better told twice than never
        for payload, ts in _messages(answer):
            if payload.get("key") in (delivery.earlier, delivery.key):
                return Sent(Place(channel, ts), found=True, told=_told(payload))
        return None

    def _call(self, method: str, ask: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        def call() -> Mapping[str, Any]:
            # Lists and mappings must come as JSON; reading methods know forms only.
            way = {"params": ask} if method.startswith("conversations.") else {"json": ask}
            data = self._client.api_call(method, **way).data  # type: ignore[arg-type]
            return data if isinstance(data, dict) else {}

        try:
            made: Mapping[str, Any] = _asked(call)
        except SlackApiError as error:
            answer: Any = error.response
            data = answer.data
            code = data.get("error") if isinstance(data, dict) else None
            raise _error(answer.status_code, str(code or "no reason given"), answer.headers, now) from None
        return made


def _messages(answer: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """What messages of a channel bear in their metadata, and their time stamps; those of others have none."""
    messages = answer.get("messages")
    for one in messages if isinstance(messages, list) else ():
        metadata = one.get("metadata") if isinstance(one, dict) else None
        payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
        if isinstance(payload, dict) and isinstance(one.get("ts"), str):
            yield payload, one["ts"]


def _noted(told: Told | None) -> dict[str, Any]:
    """What a message tells, to be read again where it is found."""
    if told is None:
        return {}
    return {"severity": told.severity, "affected": told.affected, "remarks": told.remarks, "resolved": told.resolved}


def _told(payload: Mapping[str, Any]) -> Told | None:
    """What a message that was found has told; None where it does not say so."""
    severity, affected, remarks = (payload.get(name) for name in ("severity", "affected", "remarks"))
    if severity not in SEVERITY_ORDER or not isinstance(affected, int) or not isinstance(remarks, int):
        return None
    return Told("", payload.get("resolved") is True, severity, affected, remarks)


def _payload(delivery: Delivery) -> Payload:
    """Write a delivery."""
    match delivery.kind:
        case "test":
            made = slack.trial(delivery.receiver, delivery.now)
        case "digest":
            made = slack.digest(delivery.many)
        case "summary":
            made = slack.summary(delivery.many)
        case _ if delivery.notice is None:
            raise NotifyError("there is nothing to send", about="message")
        case "reply":
            made = slack.reply(delivery.notice, delivery.news)
        case _:
            made = slack.message(delivery.notice, delivery.news)
            if delivery.plain:
                return slack.bare(slack.plain(delivery.notice, delivery.news))
    return {"text": made["text"]} if delivery.plain else made


def _asked(call: Callable[[], Any]) -> Any:  # noqa: ANN401  what the call gives
    """Call the library; what went wrong on the way becomes ``NotifyError``."""
    try:
        return call()
    except SlackApiError:
        raise
    except TimeoutError:
        raise NotifyError("Slack did not answer in time", unsure=True) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        late = isinstance(reason, TimeoutError) or not isinstance(reason, ConnectionRefusedError)
        text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise NotifyError(f"Slack cannot be reached: {text}", unsure=late) from None
    except (SlackClientError, ValueError, LookupError, TypeError, AttributeError) as error:
        # The library takes an answer apart as if it were Slack's: a charset that does not exist, a list in its place.
        raise NotifyError(f"Slack gave no answer that can be read: {type(error).__name__}", unsure=True) from None


def _error(status: int, code: str, headers: Any, now: float) -> NotifyError:  # noqa: ANN401  of either client
    plain = printable(" ".join(code.split())[:200])
    wait = None
    if status == _TOO_MANY or plain in {"ratelimited", "rate_limited"}:
        wait = retry_after(_header(headers, "retry-after"), now) or 1.0
    about: Literal["receiver", "message", "place"] = "receiver"
    if plain in _MESSAGE or (status == _REQUEST and plain not in _HINTS):
        about = "message"
    elif plain in _PLACE:
        about = "place"
    hint = f" ({_HINTS[plain]})" if plain in _HINTS else ""
    said = f"Slack answers {status}" if status >= _SERVER else "Slack refuses it"
    return NotifyError(f"{said}: {plain}{hint}", about=about, retry_after=wait)


def _header(headers: Any, name: str) -> str | None:  # noqa: ANN401  of either client
    return next((str(value) for key, value in dict(headers).items() if key.lower() == name), None)
