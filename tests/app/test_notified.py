"""Real processes and a Slack that keeps its limits: killed at any moment, each problem is told once."""

from __future__ import annotations

import contextlib
import random
import socket
import sqlite3
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
from tests.postgresql import postgresql
from tests.serving import Running, running, until
from tests.slack import CHANNEL, FakeSlack, slack

TTL_S = 2.0
KILLS = 3


def service(fake: FakeSlack | str, address: str | Path, folder: Path, *more: str) -> AbstractContextManager[Running]:
    api = fake if isinstance(fake, str) else fake.api
    command = [sys.executable, "-m", "tests.app.notified", str(address), str(folder / "ill"), api, CHANNEL, *more]
    return running(command, folder)


def ill(folder: Path, *engines: int) -> None:
    """Put engines into trouble, and only these."""
    new = folder / "new"
    new.write_text(" ".join(map(str, engines)))
    new.rename(folder / "ill")


def nothing_waits(database: Path | str) -> bool:
    """Whether everything is told, and that is noted."""
    question = "SELECT count(*) FROM palanca_outbox WHERE pending"
    if isinstance(database, Path):
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return [(0,)] == connection.execute(question).fetchall()
    with psycopg.connect(database) as server:
        return [(0,)] == server.execute(question).fetchall()


def test_killed_between_begin_and_end(tmp_path: Path) -> None:
    """One message, which says in the end that it is over, with a reply in its thread."""
    ill(tmp_path, 0)
    database = tmp_path / "palanca.db"
    with slack() as fake:
        with service(fake, database, tmp_path) as made:
            until(lambda: fake.roots)
            assert 1 == until(lambda: made.metric('palanca_notifications_total{receiver="ops",result="sent"}'))
            made.process.kill()
        ill(tmp_path, 0, 1)
        with service(fake, database, tmp_path) as made:
            (root,) = fake.roots
            until(lambda: "2 of 3 engines" in root.whole)
            # The message is changed before its thread is told, and an end would be told in place of the spread.
            until(lambda: fake.replies(root) and nothing_waits(database))
            made.process.kill()
        ill(tmp_path)
        with service(fake, database, tmp_path) as made:
            until(lambda: len(fake.replies(root)) == 2)
            code, seconds = made.stop()
        assert (0, True) == (code, seconds < 5)
        assert [root] == fake.roots
        assert "Resolved: " in root.title
        spread, over = fake.replies(root)
        assert "Spread: now 2 of 3 engines." == spread
        assert over.startswith("Resolved after ")


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """While Slack takes its time, and loses answers: still one message for each problem, and one reply at its end."""
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    with slack(pace=0.0) as fake:

        def slowly(_: str) -> None:
            time.sleep(dice.uniform(0, 0.3))
            fake.lose_answer = dice.random() < 0.3

        fake.failing = slowly
        for state in ((0,), ()):
            ill(tmp_path, *state)
            for _ in range(KILLS):
                with service(fake, tmp_path / "palanca.db", tmp_path) as made:
                    time.sleep(dice.uniform(0.1, 0.8))
                    made.process.kill()
            with service(fake, tmp_path / "palanca.db", tmp_path):
                over = not state
                until(lambda: fake.roots and fake.roots[-1].title.startswith("Resolved") == over)  # noqa: B023
                until(lambda: nothing_waits(tmp_path / "palanca.db"))
        (root,) = fake.roots
        assert 1 == len(fake.replies(root)), f"seed {seed}: {fake.replies(root)}"


def test_two_replicas(tmp_path: Path) -> None:
    """On one PostgreSQL: each message is sent by one of them, also when that one is killed."""
    ill(tmp_path, 0)
    with postgresql() as server, slack() as fake:
        url = server.database()
        with service(fake, url, tmp_path, "--lease", "a", str(TTL_S)) as first:
            until(lambda: fake.roots and nothing_waits(url))
            with service(fake, url, tmp_path, "--lease", "b", str(TTL_S)) as second:
                second.polled("script", times=10)
                first.process.kill()
                ill(tmp_path)
                (root,) = fake.roots
                until(lambda: fake.replies(root) and nothing_waits(url))
                assert 0 == second.stop()[0]
        assert [1, 1] == [len(fake.roots), len(fake.replies(root))]


def test_the_end_while_slack_hangs(tmp_path: Path) -> None:
    """Nobody waits for an answer: 2 s are enough. The message is sent by the next process."""
    ill(tmp_path, 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hanging = f"http://127.0.0.1:{silent.getsockname()[1]}/api/"
        with service(hanging, tmp_path / "palanca.db", tmp_path) as made, silent.accept()[0]:
            code, seconds = made.stop()
        assert 0 == code, made.log
        assert seconds < 5
        print(f"ended after {seconds:.2f} s")  # noqa: T201
    with slack() as fake, service(fake, tmp_path / "palanca.db", tmp_path):
        until(lambda: fake.roots)


def test_an_outage_of_slack(tmp_path: Path) -> None:
    """It is said once, and what was meant for people arrives when Slack is back."""
    ill(tmp_path, 0)
    with slack() as fake:
        fake.failing = lambda _: (503, "", {})
        with service(fake, tmp_path / "palanca.db", tmp_path) as made:
            until(lambda: (made.metric('palanca_notifications_total{receiver="ops",result="retried"}') or 0) > 1)
            fake.failing = lambda _: None
            until(lambda: fake.roots)
            made.says("messages arrive again")
            assert 1 == made.log.count("messages do not arrive")
