"""Sends what lies in the outbox for one receiver: one message a turn, at the pace of its lane, until all is told."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from palanca.errors import NotifyError
from palanca.outgoing import (
    Delivery,
    Line,
    Mailbox,
    Outbox,
    Settlement,
    Step,
    Told,
    came_and_went,
    news,
    next_step,
)

if TYPE_CHECKING:
    from palanca.outgoing import Receiver, Sent

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 300.0
LONGEST_RETRY_AFTER_S = 3600.0
MOST_TRIES = 8
"""Tries of a message that the receiver refuses as such; ways to the receiver are tried for ever."""
LOOK_S = 5.0
"""How often the outbox is looked at: other replicas put into it too."""
STANDBY_S = 5.0


class Reporter(Protocol):
    """Learns how sending goes."""

    def notified(self, receiver: str, result: str) -> None:
        """One message: ``sent``, ``retried`` (it did not arrive and is tried again) or ``failed`` (given up)."""

    def failing(self, receiver: str, reason: str) -> None:
        """A receiver that worked does not."""

    def recovered(self, receiver: str) -> None:
        """It works again."""

    def given_up(self, receiver: str, reason: str) -> None:
        """A message will not be tried again."""

    def trouble(self, reason: str) -> None:
        """The outbox cannot be used now."""


@dataclass(frozen=True)
class Action:
    """One message with the lines that it is of, and what their receiver knows afterwards."""

    delivery: Delivery
    lines: tuple[Line, ...]
    told: Mapping[int, Told]


def next_action(lines: Sequence[Line], *, updates: bool, now: float) -> tuple[Action | None, dict[int, int]]:
    """Choose the next message of a receiver; and lines, with their versions, at which there is none.

    What is wrong now goes before what came and went, and both before a digest. What may have been told before it was
    over is told of by itself.
    """
    nothing: dict[int, int] = {}
    for line in lines:
        begun = _attempted(line, "post")
        if line.digest or (came_and_went(line) and not begun):
            continue
        step = next_step(line, updates=updates)
        if step is None and begun and line.told is None and line.notice.resolved:
            step = Step("post", line.notice, Told.of(line.notice))
        if step is not None:
            return _single(line, step, now), nothing
        nothing[line.id] = line.version
    gone = [one for one in lines if came_and_went(one) and not one.digest and not _attempted(one, "post")]
    if gone:
        return _several("summary", gone, now), nothing
    batch = [one for one in lines if one.digest]
    worth = [one for one in batch if _in_digest(one)]
    nothing |= {one.id: one.version for one in batch if one not in worth}
    return (_several("digest", worth, now) if worth else None), nothing


def _attempted(line: Line, kind: str) -> bool:
    """Whether a message of a kind was begun of a line, so that it may have arrived."""
    return line.attempt is not None and line.attempt.endswith(f"-{kind}")


def _in_digest(line: Line) -> bool:
    if line.told is None:
        return came_and_went(line) or not (line.notice.resolved or line.notice.quiet)
    return bool(news(line.told, line.notice))


def _single(line: Line, step: Step, now: float) -> Action:
    # The first message of a line keeps its key whatever changes meanwhile, but for the end.
    version = 1 if line.told is None and not step.notice.resolved else line.version
    delivery = Delivery(
        key=key_of([line], step.kind, version), kind=step.kind, notice=step.notice, news=step.news,
        place=None if step.kind == "post" else line.place, earlier=line.attempt, attempted=line.attempted, now=now,
        told=step.told,
    )  # fmt: skip
    return Action(delivery, (line,), {line.id: step.told})


def _several(kind: Literal["summary", "digest"], lines: Sequence[Line], now: float) -> Action:
    first = next((one for one in lines if _attempted(one, kind)), lines[0])
    if _attempted(first, kind):  # tried again as it was; what has come since is told in another message
        lines = [one for one in lines if one.attempt == first.attempt]
    key = key_of(lines, kind, 0)
    earlier = first.attempt if first.attempt == key else None
    delivery = Delivery(
        key=key,
        kind=kind,
        many=tuple(one.notice for one in lines),
        earlier=earlier,
        attempted=first.attempted,
        now=now,
    )
    return Action(delivery, tuple(lines), {one.id: Told.of(one.notice) for one in lines})


def key_of(lines: Sequence[Line], kind: str, version: int) -> str:
    """Key of a message: the same whenever it is tried, and another in every other database."""
    parts = [f"{one.receiver}\n{one.notice.key}\n{one.number}\n{one.created!r}" for one in lines]
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{digest[:24]}-{version}-{kind}"


class Pace:
    """When the next message may go to a lane, whose receivers share it. ``timer`` gives seconds that only grow."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer, self._lock = timer, threading.Lock()
        self._ready = -math.inf

    def taken(self, pause_s: float) -> float:
        """Take the right to send now; 0, or after how many seconds to ask again."""
        with self._lock:
            now = self._timer()
            if self._ready > now:
                return self._ready - now
            self._ready = now + pause_s
            return 0.0

    @property
    def wait(self) -> float:
        """Seconds until something may be sent."""
        return max(self._ready - self._timer(), 0.0)

    def rest(self, pause_s: float) -> None:
        """Send nothing for so long from now on."""
        with self._lock:
            self._ready = max(self._ready, self._timer() + pause_s)


@dataclass(frozen=True)
class Clocks:
    """``wall`` gives unix seconds, for what is stored; ``timer`` seconds that only grow, for waits of this process."""

    wall: Callable[[], float]
    timer: Callable[[], float]


class Sender:
    """Sends to one receiver; one thread at a time may use it. ``stopping`` says that no further message is begun.

    The mailbox may be replaced at any time; a message under way is finished with the one before.
    """

    def __init__(
        self, outbox: Outbox, box: Mailbox, pace: Pace, clocks: Clocks, reporter: Reporter, stopping: threading.Event
    ) -> None:
        self._outbox, self._clocks, self._reporter, self._stopping = outbox, clocks, reporter, stopping
        self._way: tuple[Mailbox, Pace] | None = (box, pace)
        self._paused = -math.inf
        self._failures = 0
        self._plain: set[int] = set()
        self._unsettled: list[Settlement] = []

    def use(self, box: Mailbox, pace: Pace) -> None:
        """Send this way from now on, and at once: what was in the way before may be mended."""
        self._way, self._paused = (box, pace), -math.inf

    def rest(self) -> None:
        """Send nothing until there is a way again."""
        self._way = None

    def turn(self) -> float:
        """Send one message, if there is any and it may be sent now; seconds until the next turn.

        Raises ``HistoryError`` where the outbox cannot be used; nothing is lost then.
        """
        now = self._clocks.wall()
        self._settle()  # before anything else is sent: what arrived must not be sent again
        way = self._way
        if way is None or self._stopping.is_set():
            return LOOK_S
        box, pace = way
        wait = max(self._paused - self._clocks.timer(), pace.wait)
        if wait > 0:
            return wait
        lines = self._outbox.due(box.name, now)
        action, nothing = next_action(lines, updates=box.updates, now=now)
        if nothing:
            self._outbox.idle(nothing)
        if action is not None:
            return pace.taken(box.pace_s) or self._sent(box, pace, action, now)
        upcoming = self._outbox.next_due(now)
        return LOOK_S if upcoming is None else max(min(upcoming - now, LOOK_S), 0.0)

    def _sent(self, box: Mailbox, pace: Pace, action: Action, now: float) -> float:
        """Send one message; seconds until the next turn."""
        ids = [one.id for one in action.lines]
        delivery = replace(action.delivery, plain=any(one in self._plain for one in ids))
        if not self._outbox.begin(ids, delivery.key, now):
            return STANDBY_S  # another replica sends
        try:
            sent = posted(box.receiver, delivery)
        except NotifyError as error:
            self._failed(box, action, error)
            return 0.0
        finally:
            pace.rest(box.pace_s)
        self._reporter.notified(box.name, "sent")
        if self._failures:
            self._reporter.recovered(box.name)
        self._failures, self._paused = 0, -math.inf
        self._plain.difference_update(ids)
        self._unsettled.append(_settlement(box, action, sent))
        self._settle()
        return 0.0

    def _settle(self) -> None:
        """Note what has arrived; what cannot be noted now is kept."""
        while self._unsettled:
            self._outbox.settle(self._unsettled[0], self._clocks.wall())
            self._unsettled.pop(0)

    def _failed(self, box: Mailbox, action: Action, error: NotifyError) -> None:
        now, ids = self._clocks.wall(), [one.id for one in action.lines]
        if error.about == "place":
            for one in ids:
                self._outbox.lost(one)
            return
        tries = max(one.tries for one in action.lines) + 1
        if error.about == "message":
            again = None if tries >= MOST_TRIES else now + wait_after(tries)
            self._plain.update(ids)
        else:
            self._failures += 1
            pause = wait_after(self._failures)
            if error.retry_after is not None:
                pause = min(error.retry_after, LONGEST_RETRY_AFTER_S)
            again, self._paused = now + pause, self._clocks.timer() + pause
            if self._failures == 1:
                self._reporter.failing(box.name, str(error))
        self._reporter.notified(box.name, "failed" if again is None else "retried")
        if again is None:
            self._reporter.given_up(box.name, str(error))
        self._outbox.failed(ids, str(error), again, unsure=error.unsure)


def posted(receiver: Receiver, delivery: Delivery) -> Sent:
    """Send. Raises ``NotifyError``, also for an answer that nobody has foreseen: it may have arrived, or not."""
    try:
        return receiver.send(delivery)
    except NotifyError:
        raise
    except Exception as error:
        message = f"its answer is not one of such a server ({type(error).__name__})"
        raise NotifyError(message, unsure=True) from error


def wait_after(failures: int) -> float:
    """1 s, 2 s, 4 s ... up to 5 minutes."""
    return float(min(FIRST_WAIT_S * 2 ** min(failures - 1, 20), LONGEST_WAIT_S))


def _settlement(box: Mailbox, action: Action, sent: Sent) -> Settlement:
    told = dict(action.told)
    if sent.found:  # what it shows, and says, may be older than what is so now
        told = {id_: replace(sent.told or one, shown="") for id_, one in told.items()}
    versions = {one.id: (one.version, told.get(one.id)) for one in action.lines}
    finished = frozenset(
        one.id
        for one in action.lines
        if next_step(replace(one, told=told[one.id], place=sent.place), updates=box.updates) is None
    )
    return Settlement(action.delivery.key, action.delivery.kind, box.name, versions, sent.place, finished)
