"""``kill -9`` at any moment loses no episode and doubles none: real processes, killed a hundred times."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.engines import ROOT
from tests.history import killed
from tests.history.looks import Opener

from palanca.history.documents import EpisodeDocument, EventDocument
from palanca.history.reader import EpisodeQuery, EventQuery
from palanca.history.store import HistoryStore

KILLS = 100


def everything(store: HistoryStore) -> tuple[list[EpisodeDocument], list[EventDocument]]:
    """All episodes and events, numbered from 1: a killed transaction may leave a number out."""
    episodes, events = list[EpisodeDocument](), list[EventDocument]()
    cursor: str | None = None
    while True:
        page = store.episodes(EpisodeQuery(limit=1000, cursor=cursor))
        episodes, cursor = [*episodes, *page.items], page.next
        if cursor is None:
            break
    while True:
        part = store.events(EventQuery(limit=1000, cursor=cursor))
        events, cursor = [*events, *part.items], part.next
        if cursor is None:
            break
    ranks = {id_: rank for rank, id_ in enumerate(sorted(one.id for one in episodes), start=1)}
    event_ranks = {id_: rank for rank, id_ in enumerate(sorted(one.id for one in events), start=1)}
    return (
        [one.model_copy(update={"id": ranks[one.id]}) for one in episodes],
        [one.model_copy(update={"id": event_ranks[one.id], "episode": ranks.get(one.episode or 0)}) for one in events],
    )


def test_a_hundred_kills(address: str, tmp_path: Path, opened: Opener) -> None:
    """What is stored in the end is what a run without kills stores."""
    seed = random.randrange(10**6)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.history.killed", address, str(KILLS), str(seed)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    looks, kills = map(int, done.stdout.split())
    assert kills == KILLS
    assert looks > KILLS / 2
    undisturbed = opened(tmp_path / "undisturbed.db")
    killed.run(undisturbed, looks)
    expected, found = everything(undisturbed), everything(opened(address))
    assert expected == found, f"seed {seed}"
    assert len(expected[0]) > looks / 10
    assert {"began", "worsened", "resolved", "acknowledged", "verified", "restarted", "source-unreachable"} < {
        event.kind for event in expected[1]
    }
