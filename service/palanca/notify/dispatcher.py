"""Sends what lies in the outbox: one message a turn and receiver, at the pace of its lane, until all is told."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from palanca.errors import HistoryError, NotifyError
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
TROUBLE_S = 10.0
EXPIRE_S = 3600.0
LONGEST_AGE_S = 3 * 86400.0
"""What is over for so long and could not be told is given up."""
STOP_S = 1.5


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

    What is wrong now goes before what came and went, and both before a digest.
    """
    nothing: dict[int, int] = {}
    for line in lines:
        if line.digest or came_and_went(line):
            continue
        step = next_step(line, updates=updates)
        if step is not None:
            return _single(line, step, now), nothing
        nothing[line.id] = line.version
    gone = [one for one in lines if came_and_went(one) and not one.digest]
    if gone:
        return _several("summary", gone, now), nothing
    batch = [one for one in lines if one.digest]
    worth = [one for one in batch if _in_digest(one)]
    nothing |= {one.id: one.version for one in batch if one not in worth}
    return (_several("digest", worth, now) if worth else None), nothing


def _in_digest(line: Line) -> bool:
    if line.told is None:
        return came_and_went(line) or not (line.notice.resolved or line.notice.explained_by)
    return bool(news(line.told, line.notice))


def _single(line: Line, step: Step, now: float) -> Action:
    # The first message of a line keeps its key whatever changes meanwhile.
    version = 1 if line.told is None else line.version
    delivery = Delivery(
        key=key_of([line], step.kind, version), kind=step.kind, notice=step.notice, news=step.news,
        place=None if step.kind == "post" else line.place, earlier=line.attempt, attempted=line.attempted, now=now,
    )  # fmt: skip
    return Action(delivery, (line,), {line.id: step.told})


def _several(kind: str, lines: Sequence[Line], now: float) -> Action:
    first = next((one for one in lines if one.attempt), lines[0])
    delivery = Delivery(
        key=key_of(lines, kind, 0), kind="summary" if kind == "summary" else "digest",
        many=tuple(one.notice for one in lines), earlier=first.attempt, attempted=first.attempted, now=now,
    )  # fmt: skip
    return Action(delivery, tuple(lines), {one.id: Told.of(one.notice) for one in lines})


def key_of(lines: Sequence[Line], kind: str, version: int) -> str:
    """Key of a message: the same whenever it is tried, and another in every other database."""
    parts = [f"{one.receiver}\n{one.notice.key}\n{one.number}\n{one.created!r}" for one in lines]
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{digest[:24]}-{version}-{kind}"


class Dispatcher:
    """``turn`` sends what can be sent now; ``start`` does that in a thread until ``stop``.

    ``clock`` gives unix seconds. The receivers may be replaced at any time.
    """

    def __init__(
        self, outbox: Outbox, mailboxes: Sequence[Mailbox], clock: Callable[[], float], reporter: Reporter
    ) -> None:
        self._outbox, self._clock, self._reporter = outbox, clock, reporter
        self._boxes = tuple(mailboxes)
        self._ready: dict[str, float] = {}
        self._paused: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._plain: set[int] = set()
        self._unsettled: list[Settlement] = []
        self._expired: float | None = None
        self._abandoned: tuple[str, ...] | None = None
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._troubled = False

    # --- turns -----------------------------------------------------------------------------------

    def turn(self) -> float:
        """Send one message to each receiver that has any and may be sent one now; seconds until the next turn.

        Raises ``HistoryError`` where the outbox cannot be used; nothing is lost then.
        """
        now, boxes = self._clock(), self._boxes
        self._keep_house(now, boxes)
        waits = [LOOK_S]
        for box in boxes:
            if self._stopping.is_set():
                break
            ready = max(self._ready.get(box.lane, now), self._paused.get(box.name, now))
            if ready > now:
                waits.append(ready - now)
                continue
            lines = self._outbox.due(box.name, now)
            if not lines:
                continue
            action, nothing = next_action(lines, updates=box.updates, now=now)
            if nothing:
                self._outbox.idle(nothing)
            if action is None:
                continue
            if not self._send(box, action, now):
                return STANDBY_S
            waits.append(0.0)
        upcoming = self._outbox.next_due(now)
        if upcoming is not None:
            waits.append(upcoming - now)
        return max(min(waits), 0.0)

    def _keep_house(self, now: float, boxes: Sequence[Mailbox]) -> None:
        while self._unsettled:  # before anything else is sent: what arrived must not be sent again
            self._outbox.settle(self._unsettled[0], now)
            self._unsettled.pop(0)
        names = tuple(box.name for box in boxes)
        if self._abandoned != names:
            self._outbox.abandon(names)
            self._abandoned = names
        if self._expired is None or now - self._expired >= EXPIRE_S:
            self._outbox.expire(now - LONGEST_AGE_S)
            self._expired = now

    def _send(self, box: Mailbox, action: Action, now: float) -> bool:
        """Send one message. False: another replica sends."""
        ids = [one.id for one in action.lines]
        delivery = replace(action.delivery, plain=any(one in self._plain for one in ids))
        if not self._outbox.begin(ids, delivery.key, now):
            return False
        try:
            sent = posted(box.receiver, delivery)
        except NotifyError as error:
            self._failed(box, action, error)
            return True
        finally:
            self._ready[box.lane] = self._clock() + box.pace_s
        self._reporter.notified(box.name, "sent")
        if self._failures.pop(box.name, 0):
            self._reporter.recovered(box.name)
        self._paused.pop(box.name, None)
        self._plain.difference_update(ids)
        self._unsettled.append(_settlement(box, action, sent))
        self._outbox.settle(self._unsettled[0], self._clock())
        self._unsettled.pop(0)
        return True

    def _failed(self, box: Mailbox, action: Action, error: NotifyError) -> None:
        now, ids = self._clock(), [one.id for one in action.lines]
        if error.about == "place":
            for one in ids:
                self._outbox.lost(one)
            return
        tries = max(one.tries for one in action.lines) + 1
        if error.about == "message":
            again = None if tries >= MOST_TRIES else now + wait_after(tries)
            self._plain.update(ids)
        else:
            count = self._failures[box.name] = self._failures.get(box.name, 0) + 1
            pause = wait_after(count)
            if error.retry_after is not None:
                pause = min(error.retry_after, LONGEST_RETRY_AFTER_S)
            again = self._paused[box.name] = now + pause
            if count == 1:
                self._reporter.failing(box.name, str(error))
        self._reporter.notified(box.name, "failed" if again is None else "retried")
        if again is None:
            self._reporter.given_up(box.name, str(error))
        self._outbox.failed(ids, str(error), again, unsure=error.unsure)

    # --- thread ----------------------------------------------------------------------------------

    def replace(self, mailboxes: Sequence[Mailbox]) -> None:
        """Send to other receivers from now on."""
        self._boxes = tuple(mailboxes)
        self._paused = {}
        self.nudge()

    def nudge(self) -> None:
        """Look at the outbox now."""
        self._wake.set()

    def start(self) -> None:
        """Send in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="palanca-notify", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, within 2 s: a message under way then is looked for, or sent again, by the next process."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                wait = self.turn()
                self._troubled = False
            except HistoryError as error:
                wait = self._trouble(str(error))
            except Exception as error:  # noqa: BLE001  a thread that ends would never be missed
                wait = self._trouble(f"a fault of palanca: {type(error).__name__}: {error}")
            self._wake.wait(wait)

    def _trouble(self, reason: str) -> float:
        if not self._troubled:
            self._reporter.trouble(reason)
        self._troubled = True
        return TROUBLE_S


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
    if sent.found:  # what it shows may be older than what is so now
        told = {id_: replace(one, shown="") for id_, one in told.items()}
    versions = {one.id: (one.version, told.get(one.id)) for one in action.lines}
    finished = frozenset(
        one.id
        for one in action.lines
        if next_step(replace(one, told=told[one.id], place=sent.place), updates=box.updates) is None
    )
    return Settlement(action.delivery.key, action.delivery.kind, box.name, versions, sent.place, finished)
