"""Sources and listeners for tests of the daemon."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Literal

from tests.engines import catalogue, rule
from tests.recorded import AT, store

from palanca.daemon.snapshot import Snapshot
from palanca.daemon.watch import Duty, Poll, Watch
from palanca.errors import SourceError
from palanca.model import Catalogue, SourceInfo
from palanca.poll import Opened, Question, grid_for
from palanca.signals.samples import SampleReader

KV = "kv-saturated"


class Clock:
    """Unix seconds that move only when a test says so."""

    def __init__(self, now: float = AT[KV] - 30.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class Recorded:
    """A recording as a server; it can be broken, empty, or hang until it is stopped."""

    clock: Clock
    url: str = "http://recorded"
    failure: Exception | None = None
    hang: bool = False
    name: str = KV
    state: Literal["ok", "partial"] = "ok"
    questions: list[Question] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    closed: bool = False

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        self.questions.append(question)
        if self.hang:
            assert self.stopped.wait(20), "nobody has stopped it"
        if self.stopped.is_set():
            raise SourceError("stopped")
        if self.failure is not None:
            raise self.failure
        end = self.clock() if question.at is None else question.at
        grid = grid_for(catalogue, end)
        reader = SampleReader(store(self.name), catalogue.metrics, grid, matchers=question.matchers)
        return Opened(reader, grid, lambda: SourceInfo("recorded", self.url, self.state), costly=True)

    def stop(self) -> None:
        self.stopped.set()

    def close(self) -> None:
        self.closed = True


@dataclass
class Ear:
    """Hears everything."""

    polls: list[tuple[str, Poll]] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    def polled(self, watch: Watch, poll: Poll) -> None:
        self.polls.append((watch.name, poll))

    def skipped(self, name: str) -> None:
        self.skips.append(name)

    def published(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)


def few() -> Catalogue:
    """One rule that holds under load, so that a poll is quick."""
    whole = catalogue(rule(when="kv_cache_usage > half", **{"for": "1m"}))
    used = {"kv_cache_usage", "up", "running", "waiting", "running_now", "waiting_now", "ttft_p99"}
    return replace(whole, signals={name: one for name, one in whole.signals.items() if name in used})


def watching(source: Recorded, *, name: str = "eu", interval: float = 30.0, **labels: str) -> Watch:
    duty = Duty(name, source, Question(), interval, windowed=True, labels=labels)
    return Watch(duty, few(), clock=source.clock, timer=source.clock)
