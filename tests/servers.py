"""Servers that tests speak to: a real Prometheus over a recording, and one that answers whatever a test wants."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypedDict
from urllib.parse import parse_qs

ROOT = Path(__file__).parents[1]


def tool(name: str) -> str:
    """Path of promtool or prometheus: from the PATH, else as ``.ci/test-tools`` gives it."""
    found = shutil.which(name)
    if found is not None:
        return found
    listed = subprocess.run([ROOT / ".ci" / "test-tools"], check=True, capture_output=True, text=True).stdout
    return next(line for line in listed.splitlines() if line.endswith(f"/{name}"))


@cache
def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return (said.stdout + said.stderr).split("version ", 1)[1].split()[0]


class Arithmetic(TypedDict):
    left_open: bool
    threshold_first: bool


def arithmetic() -> Arithmetic:
    """How the Prometheus that is used computes, as options of ``SampleReader``."""
    major, minor = (int(part) for part in _version(tool("prometheus")).split(".")[:2])
    return {"left_open": major >= 3, "threshold_first": (major, minor) >= (2, 53)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def import_text(text: Path, data: Path) -> None:
    """Make a data folder of OpenMetrics text, plain or packed."""
    plain = text
    if text.suffix == ".gz":
        plain = data.with_suffix(".om")
        plain.write_bytes(gzip.decompress(text.read_bytes()))
    command = [tool("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(plain), str(data)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Recorded:
    """Recording rules that a Prometheus has evaluated from ``start`` to ``end`` (unix seconds)."""

    rules: Path
    start: float
    end: float


@contextmanager
def running(command: Sequence[str], ready: str, folder: Path) -> Iterator[None]:
    """Run a server of Go, with its log in ``folder``, from when ``ready`` answers until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "GOMAXPROCS": "2"})
        try:
            _wait(ready, process, log)
            yield
        finally:
            process.kill()
            process.wait(timeout=30)


@contextmanager
def prometheus(
    text: Path | None,
    folder: Path,
    config: str = "global: {}\n",
    *,
    recorded: Recorded | None = None,
    options: Sequence[str] = (),
) -> Iterator[str]:
    """Serve OpenMetrics text, or what it scrapes, by a Prometheus of its own in ``folder``; yields its URL."""
    data = folder / "data"
    folder.mkdir(parents=True, exist_ok=True)
    if text is not None:
        import_text(text, data)
    try:
        if recorded is not None:
            with _serving(data, folder, config) as url:
                _record(recorded, url, data)
        with _serving(data, folder, config, options) as url:
            yield url
    finally:
        shutil.rmtree(data, ignore_errors=True)


def _record(recorded: Recorded, url: str, data: Path) -> None:
    command = [
        tool("promtool"), "tsdb", "create-blocks-from", "rules", f"--url={url}", f"--start={recorded.start:.0f}",
        f"--end={recorded.end:.0f}", f"--output-dir={data}", str(recorded.rules),
    ]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@contextmanager
def _serving(data: Path, folder: Path, config: str, options: Sequence[str] = ()) -> Iterator[str]:
    settings, port = folder / "prometheus.yml", free_port()
    settings.write_text(config)
    command = [
        tool("prometheus"), f"--config.file={settings}", f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn", *options,
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/-/ready", folder):
        yield url


def _wait(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(log.read_text())


def self_signed(pem: Path) -> Path:
    """Make a key and a certificate of its own for 127.0.0.1, both in one file."""
    command = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=palanca-test",
        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(pem), "-out", str(pem.with_suffix(".crt")),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    pem.write_text(pem.read_text() + pem.with_suffix(".crt").read_text())
    return pem


# --- a server that answers as a test says ----------------------------------------------------------


@dataclass
class Request:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, list[str]]


@dataclass
class Reply:
    """An answer; with ``drip`` its bytes leave one by one, that many seconds apart, headers included if ``raw``."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0
    raw: bool = False
    length: int | None = None
    """A Content-Length that is not the body's own."""


@dataclass
class Canned:
    """A running server: its URL and what it was asked."""

    url: str
    requests: list[Request]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, choose: Callable[[Request], Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.choose, self.asked, self.over = choose, list[Request](), threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """A handshake that fails is the client's to tell."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.command, self.path, dict(self.headers), parse_qs(body.decode()))
        self.server.asked.append(request)
        try:
            self._answer(self.server.choose(request))
        except OSError:
            self.close_connection = True

    do_POST = do_GET  # noqa: N815  the name that http.server calls

    def _answer(self, reply: Reply) -> None:
        if reply.raw:
            self._send(b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 10_000, reply.drip)
            return
        self.send_response_only(reply.status)
        length = len(reply.body) if reply.length is None else reply.length
        for name, value in {"Content-Length": str(length), "Date": self.date_time_string(), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self._send(reply.body, reply.drip)
        self.close_connection = reply.length is not None

    def _send(self, data: bytes, drip: float) -> None:
        for piece in [data[at : at + 1] for at in range(len(data))] if drip else [data]:
            self.wfile.write(piece)
            self.wfile.flush()
            if drip and self.server.over.wait(drip):
                return

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def answering(
    reply: Callable[[Request], Reply] | Sequence[Reply] | Reply, *, pem: Path | None = None, client: bool = False
) -> Iterator[Canned]:
    """Serve replies: one for all requests, one after another (the last one stays), or as a function says.

    ``pem`` has a key and its certificate: then it is TLS; ``client`` asks for that same certificate from who calls.
    """
    if isinstance(reply, Reply):
        reply = [reply]
    order = iter(reply) if isinstance(reply, Sequence) else None
    last = reply[-1] if isinstance(reply, Sequence) else None

    def choose(request: Request) -> Reply:
        if order is None or last is None:
            assert callable(reply)
            return reply(request)
        return next(order, last)

    with _Server(choose) as server:
        if pem is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pem) if client else None)
            context.load_cert_chain(pem)
            context.verify_mode = ssl.CERT_REQUIRED if client else ssl.CERT_NONE
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield Canned(f"http{'s' if pem else ''}://127.0.0.1:{server.server_port}", server.asked)
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
