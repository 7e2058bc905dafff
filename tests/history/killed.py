"""A recorder to be killed: forks a child that records look after look, kills it, and forks the next, which goes on.

usage: python -m tests.history.killed DATABASE KILLS SEED

The child finds out from the database where it stands. At the end one child may finish, and the number of looks is
printed, with that of children that were killed while they recorded.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.history.looks import START, STEP, SourceState, at, engine, firing, look
from tests.render.builders import target

from palanca.history.reader import EpisodeQuery
from palanca.history.store import HistoryStore
from palanca.model import Diagnosis, Severity, TargetReport

KEEP = {"b-rule": 2.5 * STEP}
RECORDING = 0.8
"""Share of the children that are killed while they record; the others may be while they open the database."""
MORE = 10
"""Looks of the last child."""


def scene(step: int) -> Diagnosis:
    """What is seen at a step: engines come and go, rules fire and worsen, processes restart, the source fails."""
    dice = random.Random(step)
    state: SourceState = "unreachable" if step % 23 in {7, 8} else "partial" if step % 19 == 5 else "ok"
    if state == "unreachable":
        return look(step, state=state, error="refused")
    return look(step, *(_engine(index, step, dice) for index in range(4) if dice.random() < 0.95), state=state)


def _engine(index: int, step: int, dice: random.Random) -> TargetReport:
    phase, severities = step // 5, ("info", "warning", "critical")
    names = [
        name for number, name in enumerate(("a-rule", "b-rule", "c-rule")) if (phase * 7 + index + number) % 3 == 0
    ]
    worse: Severity = severities[min(step % 5, 2)]  # type: ignore[assignment]
    found = [firing(name, worse, dice.random()) for name in names if dice.random() < 0.9]
    facts = {"block_size": 16.0 * (1 + step // 40 % 2)}
    return engine(*found, where=target(index), facts=facts, uptime=(step % 31) * STEP, release="0.26.0")


def run(store: HistoryStore, looks: int | None, tick: Callable[[], object] = lambda: None) -> None:
    """Go on from where the database stands up to a number of looks, and acknowledge what a person would."""
    done = store.recorded("main")
    step = 0 if done is None else round((done - START) / STEP) + 1
    while looks is None or step <= looks:
        tick()
        if step % 6 == 0:  # again after a kill, which must not double it
            for one in store.episodes(EpisodeQuery(open_only=True, limit=2)).items:
                store.acknowledge(one.id, f"shift {step}", "", at(step - 0.5))
                store.attach_verification(one.id, {"verdict": "helped", "shift": step}, at(step - 0.5))
        if looks is not None and step == looks:
            return
        store.record(at(step), "main", scene(step), KEEP)
        step += 1


def _child(address: str, looks: int | None) -> tuple[int, int]:
    """Fork a recorder; its process id, and a pipe with a byte for each look that it begins."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    status = 1
    try:
        store = HistoryStore(address)
        run(store, looks, lambda: os.write(write, b"."))
        store.close()
        status = 0
    finally:
        os._exit(status)


def _life() -> float:
    """Seconds for half a dozen looks on this machine; what Python loads late is there when children are made."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (HistoryStore(Path(folder) / name) for name in ("cold.db", "warm.db"))
        run(cold, 6)
        began = time.monotonic()
        run(warm, 6)
        life = time.monotonic() - began
        cold.close()
        warm.close()
    return life


def main(address: str, kills: int, seed: int) -> None:
    """Kill that many children, and let a last one finish."""
    longest = _life()
    dice = random.Random(seed)
    killed = 0
    for _number in range(kills):
        pid, pipe = _child(address, None)
        if dice.random() < RECORDING:
            for _ in range(dice.randrange(1, 5)):  # so that it gets on, however slow the machine is
                os.read(pipe, 1)
        time.sleep(dice.random() * longest / 3)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        killed += os.WIFSIGNALED(status)
        os.close(pipe)
    store = HistoryStore(address)
    done = store.recorded("main")
    store.close()
    looks = MORE + (0 if done is None else round((done - START) / STEP) + 1)
    pid, _ = _child(address, looks)
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit("the last child failed")
    print(looks, killed)  # noqa: T201  the answer to the test


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
