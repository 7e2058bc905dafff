"""``kill -9`` at any moment, a hundred times: a real service over a source whose truth is known."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tests.app.scripted import ENGINES, LONGEST_S, troubled
from tests.postgresql import postgresql
from tests.serving import Running, environment, running, until

from palanca.history.documents import EpisodeDocument, EventDocument
from palanca.history.reader import EpisodeQuery, EventQuery
from palanca.history.store import HistoryStore

KILLS = 100
SHORTEST_LIFE_S, LONGEST_LIFE_S = 0.1, 0.65
TTL_S = 2.0


def moment(text: str | None) -> float:
    return float("inf") if text is None else round(datetime.fromisoformat(text).timestamp(), 3)


def stored(address: str) -> tuple[list[EpisodeDocument], list[EventDocument]]:
    """All episodes and events, the oldest first."""
    store = HistoryStore(address)
    episodes, events = list[EpisodeDocument](), list[EventDocument]()
    cursor: str | None = None
    for more in range(1000):
        if cursor is None and more:
            break
        page = store.episodes(EpisodeQuery(limit=1000, cursor=cursor))
        episodes, cursor = [*episodes, *page.items], page.next
    for more in range(1000):
        if cursor is None and more:
            break
        part = store.events(EventQuery(limit=1000, cursor=cursor))
        events, cursor = [*events, *part.items], part.next
    store.close()
    return episodes[::-1], events[::-1]


def polls(journal: Path) -> tuple[list[float], list[float]]:
    """The moments of all polls, and of those that were recorded for certain.

    Polls are recorded in their order, beside the next ones: the last few may not be. The first one goes on beside those
    of the schedule.
    """
    lives: dict[str, list[float]] = defaultdict(list)
    for line in journal.read_text().splitlines():
        process, when = line.split()
        lives[process].append(float(when))
    return sorted(one for life in lives.values() for one in life), sorted(
        one for life in lives.values() for one in life[1:-3]
    )


def check(address: str, journal: Path) -> tuple[int, int]:
    """Compare what is stored with what the script says; how many episodes there are, and certain polls."""
    episodes, events = stored(address)
    every, certain = polls(journal)
    told: dict[int, Counter[str]] = defaultdict(Counter)
    when = {}
    for event in events:
        if event.episode is not None:
            told[event.episode][event.kind] += 1
            when[event.episode, event.kind] = moment(event.time)
    for engine in range(ENGINES):
        mine = [one for one in episodes if one.target["engine"] == str(engine)]
        spans = [(moment(one.began), moment(one.ended)) for one in mine]
        assert all(left[1] < right[0] for left, right in pairwise(spans)), f"engine {engine}: {spans}"
        for one, (began, ended) in zip(mine, spans, strict=True):
            assert began in every
            assert troubled(engine, began)
            assert when[one.id, "began"] == began
            assert told[one.id] == Counter({"began": 1, **({} if one.ended is None else {"resolved": 1})})
            if one.ended is not None:
                assert ended in every
                assert not troubled(engine, ended)
                assert when[one.id, "resolved"] == ended
        for poll in certain:
            open_then = [one for one, (began, ended) in zip(mine, spans, strict=True) if began <= poll < ended]
            assert len(open_then) == troubled(engine, poll), f"engine {engine} at {poll}: {spans}"
    kinds = Counter(event.kind for event in events)
    assert kinds["target-added"] == ENGINES
    assert set(kinds) <= {"target-added", "began", "resolved"}
    return len(episodes), len(certain)


def test_a_hundred_kills(tmp_path: Path) -> None:
    """Nothing is lost, doubled or half written, whenever the process dies."""
    address, journal = tmp_path / "palanca.db", tmp_path / "journal"
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    command = [sys.executable, "-m", "tests.app.scripted", str(address), str(journal), "--zygote"]
    killed = 0
    begin = time.time()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=environment(tmp_path), cwd=tmp_path,
    ) as zygote:  # fmt: skip
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        for number in range(KILLS + 1):
            zygote.stdin.write("\n")
            zygote.stdin.flush()
            pid = int(zygote.stdout.readline())
            last = number == KILLS
            time.sleep(2 * LONGEST_S if last else dice.uniform(SHORTEST_LIFE_S, LONGEST_LIFE_S))
            os.kill(pid, signal.SIGTERM if last else signal.SIGKILL)
            killed += zygote.stdout.readline() == "-9\n"
        zygote.stdin.close()
    assert killed == KILLS
    with sqlite3.connect(address) as database:
        assert [("ok",)] == database.execute("PRAGMA integrity_check").fetchall()
    database.close()
    episodes, certain = check(str(address), journal)
    assert certain > 5  # how many there are depends on the speed of the machine
    lasted = time.time() - begin
    assert episodes > ENGINES, f"seed {seed}: {episodes} in {lasted:.0f} s"  # more, the quicker the machine
    print(f"{killed} kills in {lasted:.1f} s: {episodes} episodes, {certain} certain polls")  # noqa: T201


# --- replicas ------------------------------------------------------------------------------------


def recorder(url: str) -> str | None:
    """Who holds the lease."""
    store = HistoryStore(url)
    try:
        held = store.holder("recorder", time.time())
    finally:
        store.close()
    return None if held is None else held.holder


def test_one_of_two_replicas_records(tmp_path: Path) -> None:
    """Killed, it is replaced within the lease; ended in order, at once. No episode is lost or doubled."""
    with postgresql() as server:
        url = server.database()

        def replica(name: str) -> AbstractContextManager[Running]:
            script = [sys.executable, "-m", "tests.app.scripted", url, str(tmp_path / name)]
            command = [*script, "--lease", name, f"{TTL_S:g}"]
            return running(command, tmp_path)

        def done(name: str) -> int:
            return len((tmp_path / name).read_text().splitlines())

        with replica("a") as first:
            until(lambda: recorder(url) == "a")
            with replica("b") as second:
                until(lambda: done("b") > 20)
                assert recorder(url) == "a"
                first.process.kill()
                killed = time.monotonic()
                until(lambda: recorder(url) == "b", TTL_S + 5, 0.02)
                taken = time.monotonic() - killed
                assert taken < TTL_S + 1
                with replica("c"):
                    until(lambda: done("c") > 10)
                    assert recorder(url) == "b"
                    code, seconds = second.stop()
                    until(lambda: recorder(url) == "c", 1.5, 0.02)
                    time.sleep(LONGEST_S)
        both = tmp_path / "both"
        both.write_text("".join((tmp_path / name).read_text() for name in "abc"))
        assert (0, True) == (code, seconds < 5)
        episodes, events = stored(url)
        assert len(episodes) > ENGINES
        spans = sorted((one.target["engine"], moment(one.began), moment(one.ended)) for one in episodes)
        assert all(left[0] != right[0] or left[2] < right[1] for left, right in pairwise(spans)), spans
        assert Counter(event.kind for event in events)["began"] == len(episodes)
        every, _ = polls(both)
        assert all(began in every and troubled(int(engine), began) for engine, began, _ in spans)
        print(f"taken over after {taken:.2f} s of a lease of {TTL_S:g} s")  # noqa: T201
