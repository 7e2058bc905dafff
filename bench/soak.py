"""Polls at full speed against a real Prometheus, and what they leave in memory. Prints a table.

Run as ``python -m bench.soak [--polls 1000] [--faults]``. A poll is all that the service does for one: it reads,
judges, writes the snapshot as JSON, its own metrics, and the history in SQLite. With ``--faults`` every other stretch
of polls meets one.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.faults import faults
from tests.faults.proxy import Fault, Proxy, proxying
from tests.live import write_live
from tests.servers import prometheus

from palanca import logs
from palanca.app.recorder import Keeping, Recorder
from palanca.check import load_catalogue
from palanca.daemon.fleet import merged
from palanca.daemon.snapshot import taken
from palanca.daemon.watch import Duty, Watch
from palanca.history.facade import History
from palanca.history.store import HistoryStore
from palanca.poll import Question
from palanca.resources import shipped
from palanca.sources.prometheus import Prometheus
from palanca.sources.server import PrometheusSource
from palanca.sources.session import Access
from palanca.telemetry import Telemetry

INTERVAL_S = 2.5
SPAN_S = 3600.0
"""What the data cover: so many intervals of it are polled, and then the clock is set back."""
STRETCH = 5
TURNS: Sequence[Fault] = (
    faults.answering(500, b"oops"),
    faults.html,
    faults.truncated,
    faults.warnings,
    faults.object_values,
    faults.partly,
    faults.reset,
    faults.clock_off(-600),
    faults.duplicates,
    faults.nothing,
)


@dataclass
class Soak:
    """Resident memory in MiB after every poll, seconds that each took, and how many failed."""

    memory: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def grew(self, warm: int) -> float:
        """MiB between the polls just after the first ``warm`` ones and the last, medians of a few."""
        few = max(len(self.memory) // 20, 1)
        return float(np.median(self.memory[-few:]) - np.median(self.memory[warm : warm + few]))

    def slope(self, warm: int) -> float:
        """MiB a thousand polls, by least squares over those after the first ``warm`` ones."""
        late = self.memory[warm:]
        return float(np.polyfit(np.arange(len(late)), late, 1)[0] * 1000)


class Clock:
    """Goes on by an interval at each poll, and back to the begin at the end of the data."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end, self.now = begin, end, begin

    def __call__(self) -> float:
        """Unix seconds."""
        return self.now

    def tick(self) -> None:
        """Go on."""
        self.now += INTERVAL_S
        if self.now >= self.end:
            self.now = self.begin


def resident() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def soak(polls: int, *, faulty: bool) -> Soak:
    """Poll so often."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        end = time.time()
        text = write_live(folder / "live.om", end, ago=SPAN_S, ahead=0.0)
        proxy = stack.enter_context(proxying(stack.enter_context(prometheus(text, folder / "server"))))
        text.unlink()
        client = stack.enter_context(Prometheus(proxy.url, Access(timeout=5, backoff=0.01)))
        history = History(HistoryStore(folder / "palanca.db"), time.time, time.monotonic)
        stack.callback(history.close)
        clock = Clock(end - SPAN_S + 900.0, end)
        gc.collect()
        return _polled(polls, client, history, clock, _turns(proxy) if faulty else None)


def _turns(proxy: Proxy) -> Iterator[None]:
    """Break and mend the proxy, one fault after another, every ``STRETCH`` polls."""
    while True:
        for fault in TURNS:
            for one in (None, fault):
                with ExitStack() as stack:
                    if one is not None:
                        stack.enter_context(proxy.broken(one))
                    for _ in range(STRETCH):
                        yield


def _polled(polls: int, client: Prometheus, history: History, clock: Clock, turns: Iterator[None] | None) -> Soak:
    catalogue = load_catalogue([shipped("rules")])
    duty = Duty("eu", PrometheusSource(client, clock=clock), Question(), INTERVAL_S, windowed=True)
    watch = Watch(duty, catalogue, clock=clock, timer=time.monotonic)
    telemetry = Telemetry(clock)
    recorder = Recorder(history, telemetry, lambda: Keeping(catalogue, ["eu"], 3600.0))
    history.open()
    done = Soak()
    for number in range(polls):
        if turns is not None:
            next(turns)
        poll = watch.poll()
        snapshot = taken(merged([watch.view], clock()), number)
        telemetry.polled(watch, poll)
        telemetry.published(snapshot)
        recorder.polled(watch, poll)
        telemetry.text()
        done.failed += poll.result == "error"
        done.seconds.append(poll.seconds)
        done.memory.append(resident())
        clock.tick()
    return done


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--polls", type=int, default=1000)
    parser.add_argument("--faults", action="store_true")
    arguments = parser.parse_args()
    logs.setup("console", "error")
    done = soak(arguments.polls, faulty=arguments.faults)
    warm = arguments.polls // 10
    print(f"{arguments.polls} polls, {done.failed} failed; median {np.median(done.seconds) * 1000:.0f} ms a poll")
    for share in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0):
        number = min(int(share * arguments.polls), arguments.polls - 1)
        print(f"after {number + 1:6} polls {done.memory[number]:8.1f} MiB")
    print(f"peak {max(done.memory):.1f} MiB; from poll {warm} on: grew {done.grew(warm):+.1f} MiB, ", end="")
    print(f"slope {done.slope(warm):+.2f} MiB per 1,000 polls")


if __name__ == "__main__":
    main()
