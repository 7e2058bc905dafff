"""Looks at palanca and at Slack while things go wrong: memory, files, threads, what it says, and what people see."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from soak.faults import OF_PROMETHEUS, Log
from soak.world import INTERVAL_S, TIMEOUT_S, World

LOOK_S = 1.0
HONEST_S = 2 * INTERVAL_S + 2 * TIMEOUT_S
"""How long palanca may take to notice that its source is away: a poll that has begun, and the next one."""


@dataclass(frozen=True)
class Usage:
    """What a process uses at a moment (unix seconds): resident memory in MiB, open files, threads."""

    pid: int
    time: float
    memory: float
    files: int
    threads: int


@dataclass
class Shown:
    """A message of Slack that stands by itself: when it came, when it first said that it is over (unix seconds)."""

    ts: str
    title: str
    came: float
    over: float | None = None


@dataclass
class Seen:
    """All that was looked at."""

    usage: list[Usage] = field(default_factory=list)
    messages: dict[str, Shown] = field(default_factory=dict)
    summaries: list[str] = field(default_factory=list)
    dishonest: list[str] = field(default_factory=list)
    answers: int = 0
    away: int = 0
    """Answers while Prometheus was away for longer than palanca may take to notice."""


def usage_of(pid: int) -> Usage | None:
    """Look at a process; None where there is none."""
    place = Path(f"/proc/{pid}")
    try:
        pages = int((place / "statm").read_text(encoding="ascii").split()[1])
        files, threads = (sum(1 for _ in (place / name).iterdir()) for name in ("fd", "task"))
    except (OSError, IndexError):
        return None
    return Usage(pid, time.time(), pages * 4096 / 2**20, files, threads)


def plain(title: str) -> str:
    """A title without what it says of its state: ``Critical: Full (m)`` and ``Resolved: Full (m)`` are one problem."""
    return title.partition(": ")[2]


def look(world: World, log: Log, seen: Seen) -> None:
    """Look once."""
    found = usage_of(world.programs.pid("palanca"))
    if found is not None and world.programs.running["palanca"].poll() is None:
        seen.usage.append(found)
    now = time.time()
    for one in list(world.slack.roots):
        if one.title.startswith(("Resolved: ", "Critical: ", "Warning: ", "Info: ", "Now ")):
            shown = seen.messages.setdefault(one.ts, Shown(one.ts, plain(one.title), now))
            if one.title.startswith("Resolved: "):
                shown.over = shown.over or now
        elif one.whole not in seen.summaries:
            seen.summaries.append(one.whole)
    honest(world, log, seen)


def honest(world: World, log: Log, seen: Seen) -> None:
    """Ask palanca, and note where it says that something is well though nobody can know."""
    began = time.time()
    away = log.now in OF_PROMETHEUS and began - log.since > HONEST_S
    kind, since = log.now, log.since
    document = world.asked("palanca", "/diagnose?fields=target,status", timeout=2.0)
    text = world.asked("palanca", "/metrics", timeout=2.0)
    if not isinstance(document, dict) or not isinstance(text, str):
        return
    seen.answers += 1
    if not away or (log.now, log.since) != (kind, since):
        return
    seen.away += 1
    well = [one["target"] for one in document["targets"] if one["status"] in {"ok", "idle"}]
    state = document["source"]["state"]
    if well or state not in {"stale", "unreachable"}:
        seen.dishonest.append(f"{kind} for {began - since:.0f} s: source {state}, well: {well}")
    if 'palanca_source_state{source="soak",state="ok"} 0.0' not in text:
        seen.dishonest.append(f"{kind} for {began - since:.0f} s: /metrics says that the source is ok")


def watch(world: World, log: Log, seen: Seen, over: threading.Event) -> None:
    """Look again and again until it is over."""
    while not over.wait(LOOK_S):
        look(world, log, seen)


def longest_life(usage: Iterable[Usage]) -> list[Usage]:
    """What the process used that lived longest."""
    lives: dict[int, list[Usage]] = {}
    for one in usage:
        lives.setdefault(one.pid, []).append(one)
    return max(lives.values(), key=lambda life: life[-1].time - life[0].time, default=[])
