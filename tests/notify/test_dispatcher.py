"""From looks to messages: each problem told once, changes where they belong, and nothing lost or doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import time
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from tests.history.looks import RULE, START, STEP, at, firing, look
from tests.notify.rooms import Clock, Ear, Hanging, Reported, Room, mailbox
from tests.postgresql import Server, postgresql
from tests.render.builders import slow_first_token, target
from tests.serving import until

from palanca.errors import HistoryError, NotifyError
from palanca.history.leases import Lease
from palanca.model import Silenced
from palanca.notify.courier import Courier
from palanca.notify.dispatcher import LONGEST_AGE_S, Dispatcher
from palanca.notify.routing import Quiet, Route, Routing
from palanca.notify.sender import MOST_TRIES, Clocks, posted, wait_after
from palanca.notify.webhook import retry_after
from palanca.outgoing import Addressee, Delivery, Mailbox, Posting, Sent
from palanca.render.notice import Notice, Remark, subject

Rooms = Callable[..., Room]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "palanca.db")
    running: Server = request.getfixturevalue("server")
    return running.database()


@pytest.fixture
def room(address: str) -> Iterator[Rooms]:
    """Opens rooms over one database."""
    made: list[Room] = []

    def opened(*boxes: object, **options: object) -> Room:
        made.append(Room(address, boxes, **options))  # type: ignore[arg-type]
        return made[-1]

    yield opened
    for one in made:
        one.store.close()


BAD = (firing(),)
GOOD = ()


# --- from begin to end ---------------------------------------------------------------------------


def test_a_webhook_is_told_of_begin_and_end(room: Rooms) -> None:
    """Once each, however often it is polled in between."""
    ear = Ear()
    made = room(mailbox(ear))
    for step, found in enumerate([GOOD, BAD, BAD, BAD, GOOD, GOOD]):
        made.see(step, found, GOOD)
        made.run()
    assert ["firing", "resolved"] == ear.states
    first, last = (one.notice for one in ear.heard)
    assert first is not None
    assert last is not None
    assert ("critical", "1 of 2 engines", RULE, "eu") == (first.severity, first.where, first.rule, first.source)
    assert first.proposal is not None
    assert "--kv-cache-dtype auto -> fp8" == first.proposal.change
    assert (4 * STEP, first.proposal) == (last.lasted_s, last.proposal)


def test_a_bot_has_one_message(room: Rooms) -> None:
    """It is updated when something changes; news are told in its thread, each message of another key."""
    ear = Ear(places=True)
    made = room(mailbox(ear, updates=True))
    warned = (firing(severity="warning"),)
    for step, found in enumerate(
        [(warned, GOOD, GOOD), (warned, GOOD, GOOD), (BAD, GOOD, GOOD), (BAD, BAD, BAD), (GOOD,) * 3]
    ):
        made.see(step, *found)
        made.run()
    assert ["post", "update", "reply", "update", "reply", "update", "reply"] == ear.kinds
    assert [("Worse: now critical.",), ("Spread: now all 3 engines.",), ("Resolved after 2 min.",)] == [
        one.news for one in ear.heard if one.kind == "reply"
    ]
    assert {"1"} == {one.place.ts for one in ear.heard if one.place}
    assert 7 == len({one.key for one in ear.heard})


def test_one_more_engine_is_shown_but_no_news(room: Rooms) -> None:
    """A bot updates its message; a webhook, which cannot, says nothing. Twice as many are news."""
    bot, hook = Ear(places=True), Ear()
    made = room(mailbox(bot, "bot", updates=True), mailbox(hook, "hook"))
    for step, found in enumerate([(BAD, BAD, GOOD), (BAD, BAD, BAD), (BAD, GOOD, GOOD)]):
        made.see(step, *found)
        made.run()
    assert ["post", "update", "update"] == bot.kinds
    assert ["post"] == hook.kinds


def test_values_that_move_are_no_news(room: Rooms) -> None:
    """Evidence differs at each poll."""
    ear = Ear(places=True)
    made = room(mailbox(ear, updates=True))
    for step in range(6):
        made.see(step, (firing(usage=0.9 + step / 100),))
        made.run()
    assert ["post"] == ear.kinds


def test_symptoms_are_listed_and_send_nothing(room: Rooms) -> None:
    """The root names what it explains."""
    ear = Ear()
    made = room(mailbox(ear))
    made.see(0, (firing(), slow_first_token()))
    made.run()
    (one,) = ear.heard
    assert one.notice is not None
    assert ("Time to first token is above the objective",) == one.notice.symptoms


def test_a_root_that_becomes_a_symptom(room: Rooms) -> None:
    """Nobody is called again; what was told says what explains it, and ends in time."""
    ear = Ear(places=True)
    made = room(mailbox(ear, updates=True))
    alone = firing("ttft-high", "warning")
    for step, found in enumerate([(alone,), (slow_first_token(), firing()), (firing(),)]):
        made.see(step, found)
        made.run()
    by_rule = {
        rule: [one.kind for one in ear.heard if one.notice and one.notice.rule == rule] for rule in ("ttft-high", RULE)
    }
    assert {"ttft-high": ["post", "update", "update", "reply"], RULE: ["post", "update"]} == by_rule


def test_a_problem_that_comes_back_is_a_new_message(room: Rooms) -> None:
    """After its end was told."""
    ear = Ear(places=True)
    made = room(mailbox(ear, updates=True))
    for step, found in enumerate([BAD, GOOD, BAD]):
        made.see(step, found)
        made.run()
    assert ["post", "update", "reply", "post"] == ear.kinds


def test_people_add_to_it(room: Rooms) -> None:
    """A verification is told in the thread, by a webhook too; that somebody looks after it is only shown."""
    bot, hook = Ear(places=True), Ear()
    made = room(mailbox(bot, "bot", updates=True), mailbox(hook, "hook"))
    made.see(0, BAD)
    made.run()
    made.store.acknowledge(1, "ana", "on it", at(1))
    made.run()
    assert (["post", "update"], ["post"]) == (bot.kinds, hook.kinds)
    made.store.attach_verification(1, {"verdict": "helped", "why": "preemptions fell"}, at(2))
    made.store.attach_verification(1, {"verdict": "helped", "why": "preemptions fell"}, at(2))
    made.run()
    assert (["post", "update", "update", "reply"], ["post", "post"]) == (bot.kinds, hook.kinds)
    assert ("A change was verified: helped. preemptions fell",) == bot.heard[-1].news == hook.heard[-1].news


def test_people_add_to_what_alertmanager_told(room: Rooms) -> None:
    """Of an episode of any engine of its rule and model; not of other models, nor to what was over before."""
    bot, ear = Ear(places=True), Ear()
    made = room(mailbox(bot, "bot", updates=True), mailbox(ear), routes=(Route(()),))
    courier = Courier(made.store.outbox, lambda: Routing(("bot", "ops")), lambda: None)
    about, other = (subject(RULE, target(1, model_name=name)) for name in ("llama-3-8b", "other"))
    old = Notice("old", "firing", "critical", "x", subjects=(about,))
    courier.post(old, START - 600)
    courier.post(replace(old, state="resolved", ended=START - 300), START - 300)
    courier.post(Notice("other", "firing", "critical", "x", subjects=(other,)), START)
    courier.post(Notice("group", "firing", "critical", "x", subjects=("more", about)), START)
    made.see(0, BAD)
    made.run()
    told = len(bot.heard), len(ear.heard)
    made.store.acknowledge(1, "ana", "on it", at(1))
    made.run()
    assert (told[0] + 1, told[1]) == (len(bot.heard), len(ear.heard))
    assert ("update", "ana looks after it: on it") == (bot.heard[-1].kind, bot.heard[-1].notice.remarks[0].text)  # type: ignore[union-attr]
    courier.post(Notice("group", "resolved", "critical", "x", ended=at(2)), at(2))
    made.run()
    for _ in range(2):
        made.store.attach_verification(1, {"verdict": "helped", "why": "preemptions fell"}, at(3))
    made.run()
    assert ("A change was verified: helped. preemptions fell",) == bot.heard[-1].news == ear.heard[-1].news
    assert {"group"} == {one.notice.key for one in (*bot.heard[told[0] :], *ear.heard[told[1] :]) if one.notice}


def test_silenced_in_alertmanager(room: Rooms) -> None:
    """Nobody is told while all of it is silenced; what was told before shows it, and its end is told."""
    muted = (replace(firing(), silenced=Silenced(("s1",), at(100))),)
    bot, hook = Ear(places=True), Ear()
    made = room(mailbox(bot, "bot", updates=True), mailbox(hook, "hook"))
    made.see(0, muted, muted)
    made.run()
    assert [] == bot.heard == hook.heard
    made.see(1, muted, BAD)
    made.run()
    assert ["firing"] == bot.states == hook.states
    made.see(2, muted, muted)
    made.run()
    assert (["post", "update"], ["post"]) == (bot.kinds, hook.kinds)
    assert at(100) == bot.heard[1].notice.silenced  # type: ignore[union-attr]
    made.see(3, GOOD, GOOD)
    made.run()
    assert ["firing", "resolved"] == hook.states
    made.see(10, muted)
    made.run()
    made.see(11, GOOD)
    made.run()
    assert 2 == len(hook.heard)


def test_a_source_that_cannot_be_read(room: Rooms) -> None:
    """Told after five minutes; what was wrong there goes on."""
    ear = Ear()
    made = room(mailbox(ear))
    made.see(0, BAD)
    made.run()
    for step in range(1, 14):
        made.see(step, diagnosis=look(step, state="unreachable", error="refused"))
        made.run()
    assert ["firing", "firing"] == ear.states
    assert ear.heard[1].notice is not None
    assert ("source-unreadable", "refused") == (ear.heard[1].notice.rule, ear.heard[1].notice.what)
    made.see(15, BAD)
    made.run()
    assert ["firing", "firing", "resolved"] == ear.states


def test_a_source_that_is_retired(room: Rooms) -> None:
    """Its problems are over for people as well."""
    ear = Ear()
    made = room(mailbox(ear))
    made.see(0, BAD)
    made.run()
    made.store.retire((), at(1), made.tell)
    made.run()
    assert ["firing", "resolved"] == ear.states
    assert ear.heard[1].notice is not None
    assert "source removed" == ear.heard[1].notice.reason


# --- restarts ------------------------------------------------------------------------------------


def test_restarts_send_nothing_again(room: Rooms) -> None:
    """At every moment of a problem's life."""
    ear = Ear(places=True)
    made = room(mailbox(ear, updates=True))
    for step, found in enumerate([GOOD, BAD, BAD, BAD, GOOD, GOOD]):
        made.see(step, found)
        made.restart()
        made.run()
        made.restart()
        made.run()
    assert ["post", "update", "reply"] == ear.kinds


def test_killed_before_it_is_sent(room: Rooms) -> None:
    """What was recorded is told by the next process."""
    ear = Ear()
    made = room(mailbox(ear))
    made.see(0, BAD)
    made.restart()
    made.run()
    assert ["firing"] == ear.states


class Killed(BaseException):
    pass


class Dying(Ear):
    """Takes messages, and kills the process before it can note that."""

    def send(self, delivery: Delivery) -> Sent:
        super().send(delivery)
        raise Killed


class Finding(Ear):
    """Finds what had arrived before, as a bot does."""

    before: Sequence[Delivery] = ()

    def send(self, delivery: Delivery) -> Sent:
        found = next((one for one in self.before if one.key == delivery.earlier), None)
        sent = super().send(delivery)
        return sent if found is None else Sent(sent.place, found=True, told=found.told)


def test_killed_while_it_is_sent(room: Rooms) -> None:
    """The next process is told that it may have arrived, and its key."""
    dying, ear = Dying(), Ear()
    made = room(mailbox(dying))
    made.see(0, BAD)
    with pytest.raises(Killed):
        made.run()
    made.boxes = (mailbox(ear),)
    made.restart()
    made.run()
    assert dying.heard[0].key == ear.heard[0].key == ear.heard[0].earlier


@pytest.mark.parametrize(
    ("then", "news"), [((BAD, BAD), "Spread: now all 2 engines."), ((GOOD, GOOD), "Resolved after 30 s.")]
)
def test_what_changed_before_it_was_known_to_have_arrived(room: Rooms, then: tuple[Any, ...], news: str) -> None:
    """The message that is found has told what was so when it was sent: the rest is news."""
    dying, ear = Dying(places=True), Finding(places=True)
    made = room(mailbox(dying, updates=True))
    made.see(0, BAD, GOOD)
    with pytest.raises(Killed):
        made.run()
    ear.before = tuple(dying.heard)
    made.boxes = (mailbox(ear, updates=True),)
    made.restart()
    made.see(1, *then)
    made.run()
    assert ["post", "update", "reply"] == ear.kinds
    assert (news,) == ear.heard[-1].news


def test_an_end_of_what_may_have_been_told(room: Rooms) -> None:
    """It is told by itself, under a key of its own; what surely was told to nobody is summed up."""
    dying, ear = Dying(), Ear()
    made = room(mailbox(dying))
    made.see(0, (firing("a-rule"),))
    with pytest.raises(Killed):
        made.run()
    made.boxes = (mailbox(ear),)
    made.restart()
    made.see(1, (firing("b-rule"), firing("a-rule")))
    made.see(2, GOOD)
    made.run()
    assert ["resolved", "1 in summary"] == ear.states
    assert ear.heard[0].earlier == dying.heard[0].key != ear.heard[0].key


def test_killed_while_a_digest_is_sent(room: Rooms) -> None:
    """It is tried again as it was; what has come since is told in another one."""
    dying, ear = Dying(), Finding()
    routes = (Route(("ops",), digest=600.0),)
    made = room(mailbox(dying), routes=routes)
    made.see(1, (firing("a-rule"), firing("b-rule")))
    with pytest.raises(Killed):
        made.run(900)
    ear.before = tuple(dying.heard)
    made.boxes = (mailbox(ear),)
    made.restart()
    made.see(100, (firing("a-rule"), firing("b-rule"), firing("c-rule")))
    made.run(900)
    assert ["2 in digest", "1 in digest"] == ear.states
    assert dying.heard[0].key == ear.heard[0].key == ear.heard[0].earlier
    assert ["c-rule"] == [one.rule for one in ear.heard[1].many]


def test_a_database_that_fails_after_a_message_was_sent(room: Rooms) -> None:
    """That it was sent is noted later, and it is not sent again."""
    ear = Ear()
    made = room(mailbox(ear))
    made.see(0, BAD)
    settle, failures = made.store.outbox.settle, [HistoryError("full"), HistoryError("full")]

    def failing(*arguments: object) -> None:
        if failures:
            raise failures.pop()
        settle(*arguments)  # type: ignore[arg-type]

    made.store.outbox.settle = failing  # type: ignore[method-assign, assignment]
    for _ in range(2):
        with pytest.raises(HistoryError):
            made.dispatcher.turn()
    made.run()
    assert ["firing"] == ear.states


# --- outages -------------------------------------------------------------------------------------


def test_an_outage(room: Rooms) -> None:
    """What still is so is told as it is, what came and went is summed up, and what ended is told as ended."""
    ear = Ear()
    made = room(mailbox(ear))
    made.see(0, (firing("a-rule"),))
    made.run()
    ear.broken = NotifyError("down")
    for step in range(1, 200):
        found = [firing("b-rule")] if step % 10 < 5 else []
        still = [firing("c-rule", "warning" if step < 100 else "critical")]
        made.see(step, (*found, *still))
        made.run()
    assert ["firing"] == ear.states
    ear.broken = None
    made.run(600)
    assert ["firing", "resolved", "firing", "20 in summary"] == ear.states
    assert ["a-rule", "a-rule", "c-rule"] == [one.notice.rule for one in ear.heard if one.notice]
    assert {"b-rule"} == {one.rule for one in ear.heard[-1].many}
    assert ["failing: down", "recovered"] == made.reported.said
    assert ("ops", "sent") in made.reported.results
    assert 19 < ear.tries < 60


def test_retry_after_is_obeyed(room: Rooms) -> None:
    """To the second, and by all messages of that receiver."""
    ear = Ear(NotifyError("slow down", retry_after=45.0))
    made = room(mailbox(ear))
    made.see(0, (firing("a-rule"), firing("b-rule")))
    made.run(44)
    assert 1 == ear.tries
    ear.broken = None
    made.run(1.5)
    assert ["firing"] == ear.states
    made.run(1.5)
    assert ["firing", "firing"] == ear.states


def test_one_message_a_second(room: Rooms) -> None:
    """Of one lane, whatever the receivers are called."""
    ear = Ear()
    made = room(mailbox(ear), replace(mailbox(ear, "more"), lane="ops"))
    made.see(0, tuple(firing(f"{letter}-rule") for letter in "abc"))
    began = made.clock.now
    made.run(5.5)
    assert 6 == len(ear.heard)
    assert [0, 1, 2, 3, 4, 5] == [round(one.now - began) for one in ear.heard]


def test_a_message_that_is_refused_as_such(room: Rooms) -> None:
    """It is tried in plain form, holds up no other, and is given up in the end; until it changes."""

    class Picky(Ear):
        def send(self, delivery: Delivery) -> Sent:
            self.tries += 1
            if delivery.notice and delivery.notice.rule == "a-rule" and not delivery.plain:
                raise NotifyError("invalid_blocks", about="message")
            return super().send(delivery)

    picky = Picky()
    made = room(mailbox(picky))
    made.see(0, (firing("a-rule"), firing("b-rule")))
    made.run()
    assert {("b-rule", False), ("a-rule", True)} == {(one.notice.rule, one.plain) for one in picky.heard if one.notice}
    ear = Ear(NotifyError("never", about="message"))
    made.boxes = (mailbox(ear, "other"),)
    made.restart()
    made.see(1, (firing("c-rule"),))
    made.run(2000)
    assert MOST_TRIES == ear.tries
    assert "given up: never" in made.reported.said
    ear.broken = None
    made.see(100, ())
    made.run()
    assert all("summary" in one for one in ear.states)


def test_a_message_that_is_gone_is_posted_anew(room: Rooms) -> None:
    """Somebody has deleted it."""
    ear = Ear(places=True)
    made = room(mailbox(ear, updates=True))
    made.see(0, (firing(severity="warning"),))
    made.run()
    ear.broken = NotifyError("message_not_found", about="place")
    made.see(1, BAD)
    made.dispatcher.turn()
    ear.broken = None
    made.run()
    assert ["post", "post"] == ear.kinds
    assert ("Worse: now critical.",) == ear.heard[1].news


def test_too_old_to_be_told(room: Rooms) -> None:
    """What was over days ago is given up."""
    ear = Ear(NotifyError("down"))
    made = room(mailbox(ear))
    made.see(0, BAD)
    made.see(1, GOOD)
    made.run()
    made.clock.now += LONGEST_AGE_S + 7200
    ear.broken = None
    made.run()
    assert [] == ear.heard


def test_a_receiver_that_is_not_there_any_more(room: Rooms) -> None:
    """Nothing waits for it."""
    gone, ear = Ear(NotifyError("down")), Ear()
    made = room(mailbox(gone, "gone"))
    made.see(0, BAD)
    made.run()
    made.boxes = (mailbox(ear),)
    made.restart()
    made.see(1, BAD)
    made.run()
    assert ["firing"] == ear.states
    assert made.store.outbox.next_due(0.0) is None


def test_waits_grow() -> None:
    """Up to five minutes."""
    assert [1, 2, 4, 8, 256, 300, 300] == [wait_after(number) for number in (1, 2, 3, 4, 9, 10, 100)]


# --- threads -------------------------------------------------------------------------------------


def test_one_that_hangs_delays_no_other(room: Rooms) -> None:
    """Each receiver is served by itself, in whatever order they stand; the end waits for none."""
    hanging, ears = [Hanging() for _ in range(4)], [Ear(), Ear()]
    boxes = [mailbox(one, f"hanging-{index}") for index, one in enumerate(hanging)]
    made = room(*boxes[:2], mailbox(ears[0], "one"), *boxes[2:], mailbox(ears[1], "two"), timer=monotonic)
    made.see(0, BAD)
    made.dispatcher.start()
    try:
        until(lambda: all(one.heard for one in ears) and all(one.asked.is_set() for one in hanging))
        made.see(1, GOOD)
        made.dispatcher.nudge()
        until(lambda: ["firing", "resolved"] == ears[0].states == ears[1].states)
        begin = monotonic()
        made.dispatcher.stop()
        assert monotonic() - begin < 2
    finally:
        for one in hanging:
            one.answer.set()
        made.dispatcher.stop()
    assert [["firing"]] * 4 == [one.states for one in hanging]


def test_a_receiver_that_is_back_before_its_last_message_has_arrived(room: Rooms) -> None:
    """It is not sent a second time beside the first."""
    slow, other = Hanging(), Ear()
    made = room(mailbox(slow), timer=monotonic)
    made.see(0, BAD)
    made.dispatcher.start()
    try:
        assert slow.asked.wait(60)
        for boxes in ((), (mailbox(other),), (mailbox(slow),)):
            made.dispatcher.replace(boxes)
        made.see(1, (firing(), firing("b-rule")))
        made.dispatcher.replace((mailbox(other),))
        slow.answer.set()
        until(lambda: other.heard)
    finally:
        slow.answer.set()
        made.dispatcher.stop()
    assert [[RULE], ["b-rule"]] == [[one.notice.rule for one in ear.heard if one.notice] for ear in (slow, other)]


def sending() -> set[str]:
    """The threads that send, by the names of their receivers."""
    begin = "palanca-notify "
    return {one.name.removeprefix(begin) for one in threading.enumerate() if one.name.startswith(begin)}


def test_the_thread_of_a_receiver_that_is_gone_ends(room: Rooms) -> None:
    """After its last message; and when it comes back it is sent to again."""
    slow, other, back = Hanging(), Ear(), Ear()
    made = room(mailbox(slow, "slow"), mailbox(other, "other"), timer=monotonic)
    made.see(0, BAD)
    made.dispatcher.start()
    try:
        until(lambda: slow.asked.is_set() and other.heard)
        assert {"slow", "other"} == sending()
        made.boxes = ()
        made.dispatcher.replace(())
        until(lambda: sending() == {"slow"})
        slow.answer.set()
        until(lambda: not sending())
        made.boxes = (mailbox(back, "other"),)
        made.dispatcher.replace(made.boxes)
        made.see(1, (firing(), firing("b-rule")))
        made.dispatcher.nudge()
        until(lambda: "b-rule" in [one.notice.rule for one in back.heard if one.notice])
        assert {"other"} == sending()
    finally:
        slow.answer.set()
        made.dispatcher.stop()
    assert [1, 1] == [len(ear.heard) for ear in (slow, other)]


def test_receivers_that_go_while_nothing_runs(room: Rooms) -> None:
    """Turns by hand let go of them as well."""
    ears = {name: Ear() for name in "ab"}
    made = room(*(mailbox(ear, name) for name, ear in ears.items()))
    made.dispatcher.replace((mailbox(ears["b"], "b"),))
    made.see(0, BAD)
    made.run()
    assert ({"b"}, [0, 1]) == (set(made.dispatcher._senders), [len(ear.heard) for ear in ears.values()])


def test_a_receiver_that_comes_later(room: Rooms) -> None:
    """It is sent to from then on."""
    ear = Ear()
    made = room(mailbox(Ear(), "first"), timer=monotonic)
    made.dispatcher.start()
    try:
        made.boxes = (mailbox(Ear(), "first"), mailbox(ear, "second"))
        made.dispatcher.replace(made.boxes)
        made.see(0, BAD)
        made.dispatcher.nudge()
        until(lambda: ear.heard)
    finally:
        made.dispatcher.stop()


def test_what_is_written_for_a_new_receiver_is_not_given_up(room: Rooms) -> None:
    """Though the outbox was slow to give up what is for receivers that were unknown before."""
    ear, given_up, go_on = Ear(), threading.Event(), threading.Event()
    made = room(mailbox(Ear(), "first"), timer=monotonic)
    outbox = made.dispatcher._outbox
    abandon = outbox.abandon

    def slow(known: Sequence[str]) -> int:
        if not given_up.is_set():
            given_up.set()
            assert go_on.wait(60)
        return abandon(known)

    outbox.abandon = slow  # type: ignore[method-assign]
    made.boxes = (mailbox(Ear(), "first"), mailbox(ear, "second"))
    replacing = threading.Thread(target=made.dispatcher.replace, args=(made.boxes,))
    made.dispatcher.start()
    try:
        assert given_up.wait(60)
        replacing.start()
        replacing.join(0.2)
        early = not replacing.is_alive()
        if early:  # then what is written now must not be given up
            made.see(0, BAD)
        go_on.set()
        replacing.join()
        if not early:
            made.see(0, BAD)
        made.dispatcher.nudge()
        until(lambda: ear.heard)
    finally:
        go_on.set()
        made.dispatcher.stop()


def test_trouble_is_told_once() -> None:
    """Not by every receiver."""

    class Broken:
        def __getattr__(self, _: str) -> object:
            def fail(*_: object) -> object:
                raise HistoryError("the database is away")

            return fail

    reported = Reported()
    boxes = [mailbox(Ear(), name) for name in "abcd"]
    outbox: Any = Broken()
    dispatcher = Dispatcher(outbox, boxes, Clocks(Clock(), monotonic), reported)
    dispatcher.start()
    try:
        until(lambda: len(dispatcher._troubled) == 5)
    finally:
        dispatcher.stop()
    assert ["trouble: the database is away"] == reported.said


def test_a_clock_that_is_set_back(room: Rooms) -> None:
    """Waits are measured by a timer: what comes afterwards is told when the pause is over."""
    ear, timer = Ear(NotifyError("down")), Clock(0.0)
    made = room(mailbox(ear), timer=timer)
    made.see(10, BAD)
    made.dispatcher.turn()
    ear.broken = None
    made.clock.now -= 600
    assert made.store.outbox.post([Posting(Notice("x", "firing", "info", "x"), (Addressee("ops", 0.0),))], made.clock())
    assert 1.0 == made.dispatcher.turn()
    timer.now += 1
    made.dispatcher.turn()
    assert ["x"] == [one.notice.key for one in ear.heard if one.notice]


def test_a_lane(room: Rooms) -> None:
    """Receivers of one channel share its pace."""
    ears = Ear(), Ear()
    made = room(*(Mailbox(name, ear, "channel") for name, ear in zip("ab", ears, strict=True)))
    made.see(0, BAD)
    made.dispatcher.turn()
    assert [1, 0] == [len(ear.heard) for ear in ears]
    made.clock.now += 1
    made.dispatcher.turn()
    assert [1, 1] == [len(ear.heard) for ear in ears]


# --- when ----------------------------------------------------------------------------------------


def test_quiet_hours(room: Rooms) -> None:
    """In the morning: what still is so, and a summary of the rest. Critical ones pass."""
    ear = Ear()
    hour = START % 86400 / 3600  # 08:00 UTC
    assert 8 == hour
    quiet = Quiet(time(7), time(12))
    made = room(mailbox(ear), routes=(Route(("ops",), quiet=quiet),))
    made.see(0, (firing("a-rule", "warning"), firing("b-rule", "warning"), firing("c-rule", "critical")))
    made.run()
    made.see(2, (firing("b-rule", "warning"),))
    made.run()
    assert ["c-rule", "c-rule"] == [one.notice.rule for one in ear.heard if one.notice]
    made.run(4 * 3600)
    assert ["firing", "resolved", "firing", "1 in summary"] == ear.states
    made.see(600, (firing("d-rule", "warning"),))
    made.run()
    assert "d-rule" == ear.heard[-1].notice.rule  # type: ignore[union-attr]


def test_what_becomes_critical_in_quiet_hours(room: Rooms) -> None:
    """It is told at once."""
    ear = Ear()
    made = room(mailbox(ear), routes=(Route(("ops",), quiet=Quiet(time(7), time(12))),))
    made.see(0, (firing(severity="warning"),))
    made.run()
    assert [] == ear.heard
    made.see(2, BAD)
    made.run()
    assert ["firing"] == ear.states


def test_a_digest(room: Rooms) -> None:
    """Every ten minutes one message with what has changed; none where nothing has."""
    ear = Ear()
    made = room(mailbox(ear), routes=(Route(("ops",), digest=600.0),))
    made.clock.now = at(1)
    made.see(1, (firing("a-rule"), firing("b-rule")))
    made.run()
    made.see(3, (firing("b-rule"),))
    made.run(700)
    assert ["2 in digest"] == ear.states
    assert ["firing", "resolved"] == sorted(one.state for one in ear.heard[0].many)
    assert 0 == ear.heard[0].now % 600
    made.run(1800)
    made.see(100, (firing("b-rule"),))
    made.run(900)
    assert 1 == len(ear.heard)
    made.see(140, ())
    made.run(900)
    assert ["resolved"] == [one.state for one in ear.heard[1].many]


# --- replicas ------------------------------------------------------------------------------------


def test_two_replicas_send_once(server: Server) -> None:
    """The one with the lease; the other takes over where it stopped, killed or not."""
    address, clock, ears = server.database(), Clock(), (Ear(), Ear())
    rooms = [
        Room(address, [mailbox(ear)], clock=clock, lease=Lease("recorder", name, 600.0))
        for name, ear in zip("ab", ears, strict=True)
    ]
    for step, found in enumerate([GOOD, BAD, BAD]):
        assert ["recorded", "not-holder"] == [one.see(step, found) for one in rooms]
        for one in rooms:
            one.run(10)
    assert (["firing"], []) == (ears[0].states, ears[1].states)
    rooms[0].store.release(Lease("recorder", "a", 600.0))
    assert "recorded" == rooms[1].see(3, GOOD)
    for one in rooms:
        one.run(10)
    assert (["firing"], ["resolved"]) == (ears[0].states, ears[1].states)
    for one in rooms:
        one.store.close()


# --- notices of others ---------------------------------------------------------------------------


def test_a_courier(room: Rooms) -> None:
    """The same key is the same message; repeats change nothing; after its end it is a new one."""
    ear, nudges = Ear(places=True), list[int]()
    made = room(mailbox(ear, updates=True))
    courier = Courier(made.store.outbox, lambda: made.routing, lambda: nudges.append(1))
    one = Notice("group", "firing", "critical", "Alerts of Alertmanager", where="3 engines", affected=3, since=START)
    over = Notice("group", "resolved", "critical", "Alerts of Alertmanager", ended=START + 60)
    for _ in range(3):
        assert ("ops",) == courier.post(one, START)
    made.run()
    assert ["post"] == ear.kinds
    assert 1 == len(nudges)
    assert courier.remark("group", Remark(START + 5, "hello"), START + 5)
    assert not courier.remark("other", Remark(START + 5, "hello"), START + 5)
    made.run()
    courier.post(over, START + 60)
    courier.post(over, START + 60)
    made.run()
    assert ["post", "update", "reply", "update", "reply"] == ear.kinds
    assert ("Resolved after 1 min.",) == ear.heard[-1].news
    courier.post(over, START + 90)
    made.run()
    assert 5 == len(ear.heard)
    courier.post(one, START + 120, to=("ops",))
    made.run()
    assert "post" == ear.kinds[-1]
    assert ("ops",) == courier.post(Notice("x", "firing", "info", "x"), START)
    made.routes = (Route(("ops",)),)
    assert () == courier.post(Notice("y", "firing", "info", "y"), START)


def test_polls_do_not_end_what_others_told(room: Rooms) -> None:
    """A look at a source says nothing of a group of Alertmanager."""
    ear = Ear()
    made = room(mailbox(ear))
    courier = Courier(made.store.outbox, lambda: made.routing, lambda: None)
    courier.post(Notice("group", "firing", "critical", "x"), START)
    made.see(0, GOOD)
    made.run()
    assert ["firing"] == ear.states


# --- what nobody foresaw -------------------------------------------------------------------------


class Odd:
    """A receiver whose answer nobody has foreseen."""

    def send(self, _: Delivery) -> Sent:
        raise AttributeError("'list' object has no attribute 'get'")


def test_an_answer_that_nobody_foresaw() -> None:
    """It is a failure like others: it may have arrived, and no secret of a library's message is shown."""
    delivery = Delivery(key="k", kind="test", receiver="ops", now=START)
    with pytest.raises(NotifyError, match=r"not one of such a server \(AttributeError\)") as told:
        posted(Odd(), delivery)
    assert told.value.unsure


@pytest.mark.parametrize("text", ["9" * 400, "Mon, 01 Jan 99999 00:00:00 GMT", "soon", "\u0663"])
def test_odd_times_to_wait(text: str) -> None:
    """No header ends the thread that sends."""
    found = retry_after(text, START)
    assert found is None or found >= 0
