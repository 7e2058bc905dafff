"""The Slack receivers, against a Slack that keeps its limits."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr
from tests.notify.rooms import Clock
from tests.render.test_slack import notice
from tests.servers import free_port
from tests.slack import CHANNEL, HOOK, TOKEN, FakeSlack, slack

from palanca.errors import NotifyError
from palanca.notify.slack import Bot, IncomingWebhook, Way
from palanca.outgoing import Delivery, Place, Receiver, Told

NOW = 1_800_000_000.0
Maker = Callable[[FakeSlack], Receiver]


@pytest.fixture
def fake() -> Iterator[FakeSlack]:
    with slack(clock=Clock(), pace=0.0) as made:
        yield made


def bot(fake: FakeSlack, channel: str = CHANNEL, token: str = TOKEN) -> Bot:
    return Bot(SecretStr(token), channel, Way(fake.api))


def hook(fake: FakeSlack, name: str = HOOK) -> IncomingWebhook:
    return IncomingWebhook(SecretStr(f"{fake.url}/services/{name}"))


def delivery(kind: str = "post", **changes: Any) -> Delivery:  # noqa: ANN401  fields of a delivery
    plain: dict[str, Any] = {"key": f"k-{kind}", "kind": kind, "notice": notice(), "now": NOW}
    return Delivery(**{**plain, **changes})


def test_a_bot_posts_updates_and_replies(fake: FakeSlack) -> None:
    """One message, changed in place, with a thread."""
    made = bot(fake)
    place = made.send(delivery()).place
    assert place is not None
    assert place == made.send(delivery("update", notice=notice(severity="warning"), place=place)).place
    made.send(delivery("reply", place=place, news=("Worse: now critical.",)))
    (root,) = fake.roots
    assert ("Warning", 1) == (root.title.partition(":")[0], root.edits)
    assert ["Worse: now critical."] == fake.replies(root)


@pytest.mark.parametrize("kind", ["post", "digest", "summary", "test"])
def test_every_kind_of_message(fake: FakeSlack, kind: str) -> None:
    """By both ways; and in plain form."""
    one = delivery(kind, many=(notice(), notice()), receiver="ops")
    for made in (bot(fake), hook(fake)):
        made.send(one)
        made.send(delivery(kind, many=(notice(), notice()), plain=True))
    assert 4 == len(fake.messages)
    assert "blocks" not in fake.messages[1].body


def test_an_incoming_webhook_gives_no_place(fake: FakeSlack) -> None:
    """Slack answers ``ok`` and nothing else."""
    assert hook(fake).send(delivery()).place is None
    assert ["Critical"] == [one.partition(":")[0] for one in fake.titles]


@pytest.mark.parametrize(
    ("token", "channel", "said"),
    [
        ("xoxb-wrong", CHANNEL, "invalid_auth (check the file with the token)"),
        (TOKEN, "C999", "channel_not_found (give the ID of the channel, and invite the app to it)"),
    ],
)
def test_errors_of_the_way(fake: FakeSlack, token: str, channel: str, said: str) -> None:
    """They concern all messages, and say how to mend them; never with the token."""
    with pytest.raises(NotifyError) as found:
        bot(fake, channel, token).send(delivery())
    assert (f"Slack refuses it: {said}", "receiver", False) == (
        str(found.value), found.value.about, found.value.unsure
    )  # fmt: skip


def test_a_webhook_that_was_removed(fake: FakeSlack) -> None:
    """With what to do, and without its address."""
    with pytest.raises(NotifyError, match=r"no_service \(the webhook was removed: make a new one\)") as found:
        hook(fake, "gone-secret").send(delivery())
    assert "receiver" == found.value.about
    assert "gone-secret" not in str(found.value)


def test_errors_of_the_message(fake: FakeSlack) -> None:
    """They concern this one only, or the place that is gone."""
    with pytest.raises(NotifyError) as found:
        bot(fake).send(delivery("update", place=Place(CHANNEL, "1.0")))
    assert "place" == found.value.about
    fake.failing = lambda _: (200, '{"ok": false, "error": "invalid_blocks"}', {})
    with pytest.raises(NotifyError) as refused:
        bot(fake).send(delivery())
    assert "message" == refused.value.about
    fake.failing = lambda _: (400, "invalid_payload", {})
    with pytest.raises(NotifyError) as invalid:
        hook(fake).send(delivery())
    assert "message" == invalid.value.about


@pytest.mark.parametrize("made", [bot, hook])
def test_too_many(fake: FakeSlack, made: Maker) -> None:
    """The time that Slack names is told."""
    fake.pace = 1.0
    made(fake).send(delivery())
    with pytest.raises(NotifyError) as found:
        made(fake).send(delivery())
    assert 1.0 == found.value.retry_after
    fake.failing = lambda _: (429, "", {"Retry-After": "37"})
    with pytest.raises(NotifyError) as found:
        made(fake).send(delivery())
    assert (37.0, "receiver") == (found.value.retry_after, found.value.about)


@pytest.mark.parametrize("made", [bot, hook])
@pytest.mark.parametrize("answer", [(503, "oh no", {}), (200, "<html>", {}), (500, "", {})])
def test_a_slack_in_trouble(fake: FakeSlack, made: Maker, answer: tuple[int, str, dict[str, str]]) -> None:
    """Every answer that is none is an error of the way."""
    fake.failing = lambda _: answer
    with pytest.raises(NotifyError) as found:
        made(fake).send(delivery())
    assert "receiver" == found.value.about


@pytest.mark.parametrize("made", [bot, hook])
def test_nobody_listens(made: Maker) -> None:
    """Nothing can have arrived."""
    with pytest.raises(NotifyError, match="Slack cannot be reached: Connection refused") as found:
        made(FakeSlack(url=f"http://127.0.0.1:{free_port()}")).send(delivery())
    assert not found.value.unsure


def test_no_answer() -> None:
    """It may have arrived."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NotifyError) as found:
            Bot(SecretStr(TOKEN), CHANNEL, Way(url + "/api/", timeout=1)).send(delivery())
    assert found.value.unsure


@pytest.mark.parametrize("kind", ["post", "reply"])
def test_what_may_have_arrived_is_looked_for(fake: FakeSlack, kind: str) -> None:
    """It is found by its key and not sent again; where it did not arrive, or may not be looked for, it is sent."""
    made = bot(fake)
    place = made.send(delivery()).place if kind == "reply" else None
    fake.lose_answer = True
    told = Told("shown", False, "critical", 3, 0)
    one = delivery(kind, place=place, news=("news",), told=told)
    with pytest.raises(NotifyError) as found:
        made.send(one)
    assert found.value.unsure
    before = len(fake.messages)
    again = delivery(kind, place=place, news=("news",), earlier=one.key, attempted=NOW)
    sent = made.send(again)
    assert (before, True) == (len(fake.messages), sent.found)
    assert sent.place is not None
    assert fake.messages[-1].ts == sent.place.ts
    assert replace(told, shown="") == sent.told
    lost = made.send(delivery(kind, key="k2", place=place, news=("news",), earlier="other", attempted=NOW))
    assert (before + 1, False) == (len(fake.messages), lost.found)
    fake.history = False
    made.send(again)
    assert before + 2 == len(fake.messages)


def test_nothing_of_a_secret_is_logged(fake: FakeSlack, caplog: pytest.LogCaptureFixture) -> None:
    """The library would write the address of a webhook."""
    caplog.set_level(1)
    hook(fake).send(delivery())
    fake.failing = lambda _: (500, "", {})
    for made in (bot(fake), hook(fake)):
        with pytest.raises(NotifyError):
            made.send(delivery())
    assert HOOK not in caplog.text
    assert TOKEN not in caplog.text
