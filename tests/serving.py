"""``palanca serve`` and its like as real processes: started, asked, and ended by signals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.engines import ROOT
from tests.servers import Reply

T = TypeVar("T")

PALANCA = (sys.executable, "-m", "palanca.cli")
NOTHING = Reply(body=b'{"status":"success","data":{"resultType":"vector","result":[]}}')
"""A Prometheus that has no series."""
_ADDRESS = re.compile(r"palanca serves at (https?://\S+) ")


def until(found: Callable[[], T | None], seconds: float = 60.0, pause: float = 0.05) -> T:
    """Ask again and again until the answer is neither None nor False nor empty."""
    deadline = time.monotonic() + seconds
    while True:
        answer = found()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(pause)


@dataclass
class Answer:
    """Status and body of an answer."""

    status: int
    text: str

    @property
    def document(self) -> Any:  # noqa: ANN401  JSON is anything
        return json.loads(self.text)


@dataclass
class Running:
    """A process that serves at ``url``; ``lines`` are those of stderr so far, ``printed`` those of stdout."""

    process: subprocess.Popen[str]
    url: str = ""
    lines: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def get(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        body: bytes | None = None,
        timeout: float = 30.0,
    ) -> Answer:
        request = urllib.request.Request(self.url + path, headers=dict(headers or {}), method=method, data=body)
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=tls) as response:
                return Answer(response.status, response.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode())

    def metric(self, series: str) -> float | None:
        """The value of a series of ``/metrics``, written as there; None where there is none."""
        for line in self.get("/metrics").text.splitlines():
            name, _, value = line.rpartition(" ")
            if name == series:
                return float(value)
        return None

    def document(self, path: str = "/diagnose") -> Any:  # noqa: ANN401  JSON is anything
        answer = self.get(path)
        assert answer.status == 200, answer.text
        return answer.document

    def polled(self, source: str = "prometheus", times: int = 1, result: str = "ok", seconds: float = 20.0) -> None:
        """Wait for so many polls."""
        series = f'palanca_polls_total{{result="{result}",source="{source}"}}'
        until(lambda: (self.metric(series) or 0) >= times, seconds)

    def says(self, words: str, seconds: float = 15.0) -> str:
        """Wait for a line of stderr with these words, and return it."""
        return until(lambda: next((line for line in list(self.lines) if words in line), None), seconds)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal; exit code and seconds until the end."""
        begin = time.monotonic()
        self.send(number)
        code = self.process.wait(timeout=20)
        seconds = time.monotonic() - begin
        for reader in self.readers:
            reader.join(5)
        return code, seconds

    def connection(self) -> socket.socket:
        """A bare connection to it."""
        host, _, port = self.url.partition("//")[2].rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), timeout=10)

    def threads(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/task").iterdir())

    def files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which nothing of the user is in reach."""
    path = os.pathsep.join([str(ROOT / "service"), str(ROOT)])
    plain = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "HOME": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    return {**plain, **(more or {})}


@contextmanager
def running(command: Sequence[str | Path], folder: Path, environ: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Start a command that says where it serves; it is killed in the end if it still runs."""
    process = subprocess.Popen(
        [str(one) for one in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env=environment(folder, environ), cwd=folder,
    )  # fmt: skip
    made = Running(process)
    for pipe, lines in ((process.stderr, made.lines), (process.stdout, made.printed)):
        reader = threading.Thread(target=lambda pipe=pipe, lines=lines: lines.extend(pipe))
        reader.start()
        made.readers.append(reader)
    try:
        made.url = until(lambda: _address(made), 30, 0.01)
        yield made
    finally:
        process.kill()
        process.wait(timeout=30)
        for reader in made.readers:
            reader.join(10)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _address(made: Running) -> str | None:
    assert made.process.poll() is None, made.log
    found = _ADDRESS.search(made.log)
    return found[1] if found else None


@contextmanager
def serving(folder: Path, *arguments: str | Path, environ: Mapping[str, str] | None = None) -> Iterator[Running]:
    """``palanca serve``: on a free port, with its history in ``folder``, unless a file or the arguments say so."""
    given: list[str | Path] = [] if "--config" in arguments else ["--port", "0"]
    if not {"--config", "--database"} & set(arguments):
        given += ["--database", folder / "palanca.db"]
    with running([*PALANCA, "serve", *given, *arguments], folder, environ) as made:
        yield made


def refused(folder: Path, *arguments: str | Path) -> str:
    """What ``palanca serve`` says where it does not start; it is a usage error, and no traceback."""
    done = subprocess.run(
        [*PALANCA, "serve", *(str(one) for one in arguments)],
        check=False, capture_output=True, text=True, timeout=30, env=environment(folder), cwd=folder,
    )  # fmt: skip
    assert (2, "") == (done.returncode, done.stdout), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@contextmanager
def silent() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
