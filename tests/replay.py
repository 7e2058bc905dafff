"""A recording replayed as a live ``/metrics`` page on 127.0.0.1, in accelerated time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.servers import Canned, Reply, Request, answering

from palanca.signals.store import SampleStore
from palanca.sources.recording import load

LIVE_LABELS = ("job", "instance")
"""Labels that Prometheus adds; a page has none of them."""


def page(store: SampleStore, moment: float) -> str:
    """The text that the server would have shown at a moment: the newest sample of each series of the last minute."""
    lines = []
    for name in sorted(store.names - {"up"} - {n for n in store.names if n.startswith(("scrape_", "ALERTS"))}):
        for block in store.blocks(name):
            index = int(np.searchsorted(block.times, round(moment * 1000), side="right")) - 1
            if index < 0 or block.times[index] < (moment - 60) * 1000:
                continue
            for labels, value in zip(block.labels, block.values[:, index], strict=True):
                pairs = ",".join(f'{k}="{v}"' for k, v in labels.items() if k not in LIVE_LABELS)
                lines.append(f"{name}{{{pairs}}} {_number(float(value))}\n")
    return "".join(lines)


def _number(value: float) -> str:
    return "NaN" if np.isnan(value) else "+Inf" if np.isposinf(value) else repr(value)


@dataclass
class Replay:
    """A running replay. ``now`` is the moment in the recording; the clock of a test can go with it."""

    url: str
    canned: Canned
    now: Callable[[], float]


class ManualClock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self, start: float) -> None:
        self.time = start
        self.naps: list[float] = []

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.time += seconds


@contextmanager
def replaying(
    recording: Path,
    start: float,
    *,
    clock: Callable[[], float] | None = None,
    speed: float = 1.0,
    version: str | None = "0.32.0",
    models: Mapping[str, object] | None = None,
) -> Iterator[Replay]:
    """Serve a recording from ``start`` (unix seconds in it) on, ``speed`` times as quick, or by a clock of the test.

    Also answers ``/version`` and ``/v1/models``, as vLLM does.
    """
    store = load(recording)
    begin = time.monotonic()

    def now() -> float:
        return clock() if clock is not None else start + (time.monotonic() - begin) * speed

    def choose(request: Request) -> Reply:
        if request.path == "/metrics":
            return Reply(body=page(store, now()).encode(), headers={"Content-Type": "text/plain; version=1.0.0"})
        if request.path == "/version" and version is not None:
            return Reply(body=json.dumps({"version": version}).encode())
        if request.path == "/v1/models" and models is not None:
            return Reply(body=json.dumps(models).encode())
        return Reply(404, b'{"detail":"Not Found"}')

    with answering(choose) as server:
        yield Replay(server.url, server, now)
