"""``palanca serve`` over what it is made for, and ``palanca demo``: real processes, real recordings."""

from __future__ import annotations

import gzip
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engines import RECORDINGS
from tests.recorded import AT
from tests.replay import page
from tests.servers import Canned, Reply, Request, answering, prometheus
from tests.serving import PALANCA, Running, running, serving, until

from palanca.sources.recording import load

TIME = re.compile(r"(?m) ([0-9]{10}(?:\.[0-9]+)?)$")


def firing(made: Running, path: str = "/diagnose") -> dict[str, set[str]]:
    """Rules that fire as roots and are no hint, by cluster."""
    return {
        one["target"].get("cluster", ""): {
            finding["rule"]
            for finding in one["findings"]
            if finding["severity"] != "info" and finding["role"] == "root"
        }
        for one in made.document(path)["targets"]
    }


def sources(made: Running) -> dict[str, str]:
    found: list[dict[str, Any]] = made.get("/readyz").document["sources"]
    return {one["name"]: one["state"] for one in found}


# --- scraping ------------------------------------------------------------------------------------


@contextmanager
def vllm(recording: str, back: float) -> Iterator[tuple[Canned, threading.Event]]:
    """A vLLM server as it was so many seconds before the end of the load; while the event is set it is gone."""
    store, begin, gone = load(RECORDINGS / f"{recording}.om.gz"), time.monotonic(), threading.Event()

    def choose(request: Request) -> Reply:
        if gone.is_set():
            raise ConnectionResetError
        if request.path == "/metrics":
            text = page(store, AT[recording] - back + time.monotonic() - begin)
            return Reply(body=text.encode(), headers={"Content-Type": "text/plain; version=1.0.0"})
        return Reply(404, b"{}")

    with answering(choose) as server:
        yield server, gone


def test_scraping_a_server(tmp_path: Path) -> None:
    """The first diagnosis comes after 15 s of scrapes; the server goes, and comes back."""
    begin = time.monotonic()
    with (
        vllm("kv-saturated", 90) as (server, gone),
        serving(tmp_path, "--scrape", server.url, "--interval", "5s", "--print") as made,
    ):
        assert 503 == made.get("/readyz").status
        until(lambda: made.printed, 30)
        assert time.monotonic() - begin < 25
        assert {"": {"kv-cache-saturated"}} == firing(made)
        assert "KV cache is full" in "".join(made.printed), made.printed
        assert 200 == made.get("/readyz").status
        gone.set()
        until(lambda: sources(made) == {"scrape": "stale"}, 15)
        assert 503 == made.get("/readyz").status
        assert {"": {"kv-cache-saturated"}} == firing(made)
        gone.clear()
        until(lambda: sources(made) == {"scrape": "ok"}, 15)
        made.says("source has recovered")
        gone.set()
        assert 0 == made.stop()[0]


# --- several Prometheus servers ------------------------------------------------------------------


def shifted(recording: str, folder: Path, ahead: float) -> Path:
    """A recording as if it happened now: the load ends so many seconds from now."""
    text = gzip.decompress((RECORDINGS / f"{recording}.om.gz").read_bytes()).decode()
    by = round(time.time() + ahead - AT[recording])
    made = folder / f"{recording}.om"
    lines = (
        re.sub(r" (\S+) (\S+)$", lambda found: f" {float(found[1]) + by} {found[2]}", line)
        if line.startswith("process_start_time_seconds{")
        else line
        for line in TIME.sub(lambda found: f" {float(found[1]) + by:.3f}", text).splitlines()
    )
    made.write_text("\n".join(lines) + "\n")
    return made


def test_several_clusters(tmp_path: Path) -> None:
    """The same engine in two clusters stays two; one server dies, and what is known of the other stays current."""
    with ExitStack() as held, ExitStack() as dying:
        eu = held.enter_context(prometheus(shifted("kv-saturated", tmp_path, 20), tmp_path / "eu"))
        us = dying.enter_context(prometheus(shifted("healthy", tmp_path, 20), tmp_path / "us"))
        arguments = ["--prometheus", f"eu={eu}", "--prometheus", f"us={us}", "--interval", "5s"]
        with serving(tmp_path, *arguments) as made:
            until(lambda: sources(made) == {"eu": "ok", "us": "ok"}, 30)
            until(lambda: firing(made) == {"eu": {"kv-cache-saturated"}, "us": set()})
            assert {"eu": {"kv-cache-saturated"}} == firing(made, "/diagnose?match=cluster%3Deu")
            dying.close()
            until(lambda: sources(made) == {"eu": "ok", "us": "stale"}, 20)
            assert 200 == made.get("/readyz").status
            polls = made.metric('palanca_polls_total{result="ok",source="eu"}') or 0
            made.polled("eu", int(polls) + 2)
            document = made.document()
            status = {one["target"]["cluster"]: one["status"] for one in document["targets"]}
            assert {"eu": "critical", "us": "unknown"} == status
            ages = {one["name"]: one["age_s"] for one in document["sources"]}
            assert ages["eu"] < 10 < ages["us"]
            episodes = made.document("/api/v1/history")["episodes"]
            assert {"eu"} == {one["target"]["cluster"] for one in episodes if one["severity"] == "critical"}
            assert (made.metric('palanca_source_queries_total{source="eu"}') or 0) > 10
            assert 1 == made.metric('palanca_source_state{source="us",state="stale"}')
            assert 0 == made.stop()[0]
        with sqlite3.connect(tmp_path / "palanca.db") as database:
            assert [("ok",)] == database.execute("PRAGMA integrity_check").fetchall()
        database.close()


# --- demo ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_demo(tmp_path: Path, number: signal.Signals) -> None:
    """The address and the first diagnosis within seconds; API and history answer; it leaves nothing behind."""
    begin = time.monotonic()
    environ = {"TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    with running([*PALANCA, "demo", "--port", "0"], tmp_path, environ) as made:
        until(lambda: any("CRITICAL: KV cache is full" in line for line in list(made.printed)))
        seconds = time.monotonic() - begin
        assert seconds < 15
        assert {"": {"kv-cache-saturated"}} == firing(made)
        assert {"": {"kv-cache-saturated"}} == firing(made, "/diagnose?fresh=true")
        assert {"": set()} == firing(made, f"/diagnose?time={time.time() - 700 - 60:.0f}")
        assert 400 <= made.get(f"/diagnose?time={time.time() + 3600:.0f}").status < 500
        assert 200 == made.get("/docs").status
        assert "kv-cache-saturated" in {one["rule"] for one in made.document("/api/v1/history")["episodes"]}
        made.send(signal.SIGHUP)
        assert 0 == made.stop(number)[0]
        assert "Traceback" not in made.log
    assert [] == list((tmp_path / "tmp").iterdir())
    assert not (tmp_path / ".local").exists()
    print(f"first diagnosis after {seconds:.1f} s")  # noqa: T201
