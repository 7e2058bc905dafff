"""The service as a process of its own, and a client that takes the time."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.engines import ROOT

INTERVAL_S = 5.0


@dataclass(frozen=True)
class Got:
    """An answer: status, body read as JSON, and how long it took in seconds."""

    status: int
    body: Any
    seconds: float


@dataclass(frozen=True)
class Running:
    """A running service."""

    url: str
    process: subprocess.Popen[bytes]

    def get(self, path: str, timeout: float = 60.0) -> Got:
        """Ask over a connection of its own, as a dashboard does that asks now and then."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=timeout)
        try:
            begin = time.perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            return Got(answer.status, json.loads(body), time.perf_counter() - begin)
        finally:
            connection.close()

    def memory(self) -> tuple[int, int]:
        """Resident memory now and at most, in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        now, most = (int(re.findall(rf"{name}:\s+(\d+)", status)[0]) for name in ("VmRSS", "VmHWM"))
        return now, most


@contextmanager
def serving(prometheus: str, folder: Path, *options: str) -> Iterator[Running]:
    """Run ``palanca serve`` on a free port, until SIGTERM; it must then end with 0 and without a traceback."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    command = [
        sys.executable, "-m", "palanca.cli", "serve", "--prometheus", prometheus, "--port", "0",
        "--interval", f"{INTERVAL_S:g}s", "--database", f"sqlite:///{folder}/palanca.db", *options,
    ]  # fmt: skip
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "service"), "HOME": str(folder)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder)
        try:
            yield Running(_address(process, log), process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=10) == 0, log.read_text()
            assert "Traceback" not in log.read_text(), log.read_text()
        finally:
            process.kill()
            process.wait(timeout=10)


def _address(process: subprocess.Popen[bytes], log: Path, seconds: float = 60.0) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        found = re.search(r"palanca serves at (http://[0-9.:]+)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(log.read_text())
