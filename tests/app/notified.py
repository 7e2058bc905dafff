"""A real service that tells a Slack what it finds; whether its engines are in trouble stands in a file.

usage: python -m tests.app.notified ADDRESS FILE API CHANNEL [--lease HOLDER TTL]

FILE holds the numbers of the engines that are in trouble.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import SecretStr
from tests.app.scripted import INTERVAL_S, Script, _say, few
from tests.slack import TOKEN

from palanca import logs
from palanca.api.guard import Rules, own_hosts
from palanca.app import life
from palanca.app.server import Listen
from palanca.app.service import Plan
from palanca.app.telling import Telling
from palanca.daemon.watch import Duty, Watch
from palanca.history.facade import History
from palanca.history.leases import Lease
from palanca.history.store import HistoryStore
from palanca.model import Catalogue
from palanca.notify.notices import postings
from palanca.notify.routing import Routing
from palanca.notify.slack import Bot, Way
from palanca.outgoing import Mailbox
from palanca.poll import Question
from palanca.render.notice import Places
from palanca.signals.store import Series

ENGINES = 3


@dataclass
class Switched(Script):
    """Engines that are in trouble when a file says so."""

    file: Path = Path()

    def _series(self, end: float) -> Iterator[Series]:
        times = np.array([round(end * 1000) - 15000, round(end * 1000)], dtype=np.int64)
        ill = self.file.read_text().split()
        for number in map(str, range(ENGINES)):
            labels = {"job": "vllm", "instance": "a:8000", "model_name": "m", "engine": number}
            value = 0.9 if number in ill else 0.1
            yield Series("vllm:kv_cache_usage_perc", labels, times, np.array([value, value]))
            yield Series("vllm:num_requests_running", labels, times, np.array([1.0, 1.0]))


def plan(rules: Catalogue, file: Path, journal: int, api: str, channel: str) -> Plan:
    """Poll the file ten times a second, and tell a channel."""
    duty = Duty("script", Switched(journal, file=file), Question(), INTERVAL_S, windowed=False)
    watch = Watch(duty, rules, clock=time.time, timer=time.monotonic)
    bot = Bot(SecretStr(TOKEN), channel, Way(api))
    box = Mailbox("ops", bot, "ops", updates=True, pace_s=1.0)
    routing, places = Routing(("ops",)), Places()
    told = Telling((box,), routing, places, partial(postings, routing=routing, places=places, catalogue=rules))
    return replace(Plan(rules, [watch], Rules(hosts=own_hosts("127.0.0.1", None))), telling=told)


def main(address: str, file: str, api: str, channel: str, *more: str) -> None:
    """Serve until a signal ends it."""
    logs.setup("json", "info")
    lease = Lease("recorder", more[1], float(more[2])) if more else None
    with Path(f"{file}.journal").open("ab", buffering=0) as journal:
        history = History(HistoryStore(address, lease=lease), time.time, time.monotonic)
        made = plan(few(), Path(file), journal.fileno(), api, channel)
        life.run(made, history, Listen("127.0.0.1", 0), life.Told(_say), reload=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
