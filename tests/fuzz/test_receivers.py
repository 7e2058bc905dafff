"""Whatever a receiver of messages answers, the message has arrived or there is a ``NotifyError``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from tests.fuzz.profile import examples
from tests.notify.test_slack import delivery
from tests.servers import Canned, Reply, Request, answering
from tests.slack import CHANNEL, TOKEN

from palanca.errors import NotifyError
from palanca.notify.slack import Bot, IncomingWebhook, Way
from palanca.notify.webhook import Hook, Webhook
from palanca.outgoing import Place

JUNK: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("\ud800") | st.just([]) | st.just({})
)
TREES = st.recursive(
    JUNK, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)
PAYLOADS = st.fixed_dictionaries(
    {}, optional={"key": st.just("k-earlier") | JUNK, "severity": st.just("critical") | JUNK, "affected": JUNK,
                  "remarks": JUNK, "resolved": JUNK},
)  # fmt: skip
MESSAGES = st.lists(
    st.fixed_dictionaries({}, optional={
        "ts": st.just("1.2") | JUNK,
        "metadata": st.fixed_dictionaries({}, optional={"event_payload": PAYLOADS | TREES}) | TREES,
    }) | TREES, max_size=3,
)  # fmt: skip
DOCUMENTS = st.fixed_dictionaries(
    {"ok": st.sampled_from([True, True, True, False, None, "yes"])},
    optional={"channel": st.just(CHANNEL) | JUNK, "ts": st.just("1.2") | JUNK, "messages": MESSAGES | TREES,
              "error": st.sampled_from(["invalid_blocks", "ratelimited", "thread_not_found", "fatal_error"]) | TREES},
)  # fmt: skip
BODIES = (DOCUMENTS | TREES).map(lambda made: json.dumps(made).encode()) | st.binary(max_size=20) | st.just(b"ok")
HEADERS = st.fixed_dictionaries({}, optional={
    "Retry-After": st.sampled_from(["3", "-1", "soon", "9" * 400, "1e9", "Mon, 30 Nov 2026 11:44:39 GMT", "²"]),
    "Content-Type": st.sampled_from(["application/json", "application/gzip", "text/html; charset=x", "\xe9"]),
    "Content-Encoding": st.sampled_from(["gzip", "identity"]),
})  # fmt: skip
STATUSES = st.sampled_from([200] * 6 + [204, 301, 302, 400, 404, 429, 500, 503, 599])
REPLIES = st.lists(st.builds(Reply, STATUSES, BODIES, HEADERS), min_size=1, max_size=3)


class Server:
    """Gives its answers in turn."""

    def __init__(self) -> None:
        self.replies = [Reply()]
        self.at = 0

    def __call__(self, _: Request) -> Reply:
        self.at += 1
        return self.replies[min(self.at, len(self.replies)) - 1]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Server, Canned]]:
    made = Server()
    with answering(made) as canned:
        yield made, canned


def clean(error: NotifyError, url: str) -> None:
    """Check what is told of a failure: one line for a terminal and a database, without a secret."""
    text = str(error)
    assert 0 < len(text) < 1000
    assert text.isprintable()
    assert TOKEN not in text
    assert f"{url}/" not in text
    assert error.retry_after is None or error.retry_after >= 0


def test_whatever_it_answers(served: tuple[Server, Canned]) -> None:
    """Slack to a bot and to an incoming webhook, and any other webhook."""
    server, canned = served
    receivers = (
        Bot(SecretStr(TOKEN), CHANNEL, Way(f"{canned.url}/api/")),
        IncomingWebhook(SecretStr(f"{canned.url}/services/x")),
        Webhook(Hook(SecretStr(f"{canned.url}/hook"), "the hook")),
    )
    kinds: tuple[dict[str, Any], ...] = (
        {"kind": "post", "earlier": "k-earlier"},
        {"kind": "post"},
        {"kind": "update", "place": Place(CHANNEL, "1.2")},
        {"kind": "reply", "place": Place(CHANNEL, "1.2"), "news": ("Worse.",), "earlier": "k-earlier"},
    )
    outcomes = Counter[str]()

    @examples(80)
    @given(replies=REPLIES, which=st.integers(0, 2), kind=st.sampled_from(kinds))
    def one(replies: list[Reply], which: int, kind: dict[str, Any]) -> None:
        server.replies, server.at = replies, 0
        try:
            sent = receivers[which].send(delivery(**kind))
        except NotifyError as error:
            clean(error, canned.url)
            outcomes["failed"] += 1
        else:
            assert sent.place is None or isinstance(sent.place.ts, str)
            outcomes["sent"] += 1

    one()
    assert min(outcomes["failed"], outcomes["sent"]) > 0
