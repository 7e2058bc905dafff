"""What the tests of notifications share: a history with looks, a clock that a test moves, receivers that listen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.history.looks import START, at, engine, look
from tests.render.builders import target

from palanca.errors import NotifyError
from palanca.history.leases import Lease
from palanca.history.store import HistoryStore
from palanca.model import Diagnosis, Finding
from palanca.notify.dispatcher import Dispatcher
from palanca.notify.notices import postings
from palanca.notify.routing import Route, Routing
from palanca.notify.sender import Clocks
from palanca.outgoing import Delivery, Look, Mailbox, Place, Posting, Sent
from palanca.render.notice import Notice, Places

PLACES = Places("https://palanca.example.com")


class Clock:
    """Unix seconds that move when a test says so."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class Ear:
    """A receiver that listens; ``broken`` is raised instead, if it is set."""

    broken: NotifyError | None = None
    places: bool = False
    heard: list[Delivery] = field(default_factory=list)
    tries: int = 0

    def send(self, delivery: Delivery) -> Sent:
        self.tries += 1
        if self.broken is not None:
            raise self.broken
        self.heard.append(delivery)
        return Sent(Place("C1", str(len(self.heard)))) if self.places else Sent()

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.heard]

    @property
    def states(self) -> list[str]:
        return [one.notice.state if one.notice else f"{len(one.many)} in {one.kind}" for one in self.heard]


@dataclass
class Hanging(Ear):
    """A receiver that answers when a test says so."""

    asked: threading.Event = field(default_factory=threading.Event)
    answer: threading.Event = field(default_factory=threading.Event)

    def send(self, delivery: Delivery) -> Sent:
        self.asked.set()
        self.answer.wait(60)
        return super().send(delivery)


@dataclass
class Reported:
    """Keeps what it is told."""

    results: list[tuple[str, str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def notified(self, receiver: str, result: str) -> None:
        self.results.append((receiver, result))

    def failing(self, receiver: str, reason: str) -> None:
        self.said.append(f"failing: {reason}")

    def recovered(self, receiver: str) -> None:
        self.said.append("recovered")

    def given_up(self, receiver: str, reason: str) -> None:
        self.said.append(f"given up: {reason}")

    def trouble(self, reason: str) -> None:
        self.said.append(f"trouble: {reason}")


@dataclass
class Room:
    """A history, and a dispatcher that sends what lies in its outbox."""

    address: str | Path
    boxes: Sequence[Mailbox]
    routes: tuple[Route, ...] = ()
    clock: Clock = field(default_factory=Clock)
    timer: Callable[[], float] | None = None
    """That of the waits; the clock where nothing else is given."""
    lease: Lease | None = None
    reported: Reported = field(default_factory=Reported)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin as a process does: nothing is known but what is stored."""
        self.store = HistoryStore(self.address, lease=self.lease)
        clocks = Clocks(self.clock, self.timer or self.clock)
        self.dispatcher = Dispatcher(self.store.outbox, self.boxes, clocks, self.reported)

    def restart(self) -> None:
        self.store.close()
        self.start()

    @property
    def routing(self) -> Routing:
        return Routing(tuple(one.name for one in self.boxes), self.routes)

    def tell(self, shown: Look) -> Sequence[Posting]:
        return postings(shown, self.routing, PLACES)

    def see(self, step: float, *findings: Sequence[Finding], diagnosis: Diagnosis | None = None) -> str:
        """Record a poll: the findings of each engine."""
        reports = [engine(*found, where=target(index)) for index, found in enumerate(findings)]
        made = diagnosis or look(step, *reports)
        self.clock.now = max(self.clock.now, at(step))
        return self.store.record(at(step), "eu", made, {}, tell=self.tell).outcome

    def run(self, seconds: float = 30.0) -> None:
        """Take turns until nothing is left to be sent within so many seconds of the clock."""
        end = self.clock.now + seconds
        for _ in range(10_000):
            wait = self.dispatcher.turn()
            if self.clock.now + wait > end:
                break
            self.clock.now += wait
        self.clock.now = end


def mailbox(receiver: Ear, name: str = "ops", *, updates: bool = False) -> Mailbox:
    return Mailbox(name, receiver, name, updates=updates)


Make = Callable[..., Notice]
