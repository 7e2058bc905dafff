"""A real service over a source that follows a script: what is wrong at any moment is known beforehand.

usage: python -m tests.app.scripted ADDRESS JOURNAL [--lease HOLDER TTL]
       python -m tests.app.scripted ADDRESS JOURNAL --zygote

The first serves until a signal. The second forks such a process for each line on stdin, prints its id, and waits for
its end: Python and all libraries are loaded already, so that a hundred starts take no minutes.
Each poll is noted in JOURNAL before it is answered: process, moment.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.engines import catalogue, rule

from palanca import logs
from palanca.api.guard import Rules, own_hosts
from palanca.app import life
from palanca.app.server import Listen
from palanca.app.service import Plan, Service, asgi
from palanca.daemon.watch import Duty, Watch
from palanca.history.facade import History
from palanca.history.leases import Lease
from palanca.history.store import HistoryStore
from palanca.model import Catalogue, SourceInfo
from palanca.poll import Opened, Question
from palanca.signals.leaves import Grid
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore, Series
from palanca.telemetry import Telemetry

ENGINES = 5
INTERVAL_S = 0.1
SHORTEST_S, LONGEST_S = 1.2, 4.0
"""How long an engine stays well, or in trouble."""


def troubled(engine: int, moment: float) -> bool:
    """Whether an engine is in trouble: of every second stretch of its own length and phase."""
    length = SHORTEST_S + (LONGEST_S - SHORTEST_S) * engine / (ENGINES - 1)
    return int((moment + engine) / length) % 2 == 1


@dataclass
class Script:
    """The source. What it says of a moment depends on nothing but the moment."""

    journal: int
    url: str = "http://script"

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        end = time.time() if question.at is None else question.at
        end = round(end, 3)
        os.write(self.journal, f"{os.getpid()} {end:.3f}\n".encode())
        grid = Grid(end, 1, INTERVAL_S)
        reader = SampleReader(SampleStore(self._series(end)), catalogue.metrics, grid)
        return Opened(reader, grid, lambda: SourceInfo("script", self.url))

    def _series(self, end: float) -> Iterator[Series]:
        times = np.array([round(end * 1000) - 15000, round(end * 1000)], dtype=np.int64)
        for number in range(ENGINES):
            labels = {"job": "vllm", "instance": "a:8000", "model_name": "m", "engine": str(number)}
            value = 0.9 if troubled(number, end) else 0.1
            yield Series("vllm:kv_cache_usage_perc", labels, times, np.array([value, value]))
            yield Series("vllm:num_requests_running", labels, times, np.array([1.0, 1.0]))

    def stop(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is open."""


def few() -> Catalogue:
    """One rule over two signals."""
    whole = catalogue(rule(when="kv_cache_usage_now > half", summary="KV usage is {kv_cache_usage_now}."))
    kept = {"kv_cache_usage_now", "running_now"}
    return Catalogue(
        whole.metrics, {name: one for name, one in whole.signals.items() if name in kept}, whole.facts, whole.levers,
        whole.rules,
    )  # fmt: skip


def serve(rules: Catalogue, address: str, journal: Path, lease: Lease | None) -> None:
    """Serve until a signal ends it."""
    with journal.open("ab", buffering=0) as file:
        history = History(HistoryStore(address, lease=lease), time.time, time.monotonic)
        life.run(plan(rules, file.fileno()), history, Listen("127.0.0.1", 0), life.Told(_say), reload=None)


def plan(rules: Catalogue, journal: int) -> Plan:
    """Poll the script."""
    duty = Duty("script", Script(journal), Question(), INTERVAL_S, windowed=False)
    watch = Watch(duty, rules, clock=time.time, timer=time.monotonic)
    return Plan(rules, [watch], Rules(hosts=own_hosts("127.0.0.1", None)))


def _say(url: str) -> None:
    sys.stderr.write(f"palanca serves at {url} \n")


def warm(rules: Catalogue) -> None:
    """Load what is loaded late, without a thread that is left."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "journal").open("ab", buffering=0) as journal:
        history = History(HistoryStore(Path(folder) / "warm.db"), time.time, time.monotonic)
        made = plan(rules, journal.fileno())
        asgi(Service(made, telemetry=Telemetry(time.time), history=history, clock=time.time))
        poll = made.watches[0].poll()
        assert poll.view.diagnosis is not None
        history.record(poll.began, "script", poll.view.diagnosis, {})
        history.close()
    assert threading.active_count() == 1


def zygote(rules: Catalogue, address: str, journal: Path) -> None:
    """Fork a serving process for each line, as long as lines come."""
    warm(rules)
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                serve(rules, address, journal, None)
            finally:
                os._exit(1)
        print(pid, flush=True)  # noqa: T201  the answer to the test
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201  the same


def main(address: str, journal: str, *more: str) -> None:
    """Do what the arguments say."""
    logs.setup("json", "info")
    rules = few()
    if more == ("--zygote",):
        zygote(rules, address, Path(journal))
        return
    lease = Lease("recorder", more[1], float(more[2])) if more else None
    serve(rules, address, Path(journal), lease)


if __name__ == "__main__":
    main(*sys.argv[1:])
