"""Latency of `GET /diagnose` from the last diagnosis, beside a FastAPI route that returns a constant of the same size.

Both run in a process of their own, as `palanca serve` runs its server. Requests are sent at fixed moments, whether or
not earlier ones have been answered, and latency counts from the moment at which a request was due.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from fastapi import FastAPI, Response
from starlette.types import ASGIApp

from palanca.api.guard import Rules, own_hosts
from palanca.app.server import Listen, Server
from palanca.app.service import Plan, Service, asgi
from palanca.check import load_catalogue
from palanca.daemon.snapshot import Snapshot, taken
from palanca.history.disabled import NoHistory
from palanca.model import Catalogue
from palanca.poll import Question
from palanca.poll import run as diagnosis_of
from palanca.sources.recording import RecordingSource
from palanca.telemetry import Telemetry

ROOT = Path(__file__).resolve().parent.parent
RECORDING = ROOT / "tests" / "data" / "recordings" / "kv-saturated.om.gz"
CONNECTIONS = 16
WARM_S = 2.0
TURN_S = 1.0
AIM = 1.5


def snapshot(catalogue: Catalogue) -> Snapshot:
    """Diagnose a recording: one engine in trouble."""
    return taken(diagnosis_of(catalogue, RecordingSource(RECORDING), Question()), 1)


def palanca() -> ASGIApp:
    """Make the application that `palanca serve` runs, without a source."""
    catalogue = load_catalogue([ROOT / "rules"])
    rules = Rules(hosts=own_hosts("127.0.0.1", None))
    plan = Plan(catalogue=catalogue, watches=(), rules=rules)
    service = Service(plan, telemetry=Telemetry(time.time), history=NoHistory(), clock=time.time)
    service.daemon.snapshot = snapshot(catalogue)
    return asgi(service)


def floor() -> ASGIApp:
    """Make the least that FastAPI can do with a body of that size."""
    body = snapshot(load_catalogue([ROOT / "rules"])).json.body
    app = FastAPI()

    @app.get("/diagnose")
    async def constant() -> Response:
        return Response(body, media_type="application/json")

    return app


APPLICATIONS = {"palanca": palanca, "floor": floor}


@dataclass(frozen=True)
class Serving:
    """A running server: its port and process."""

    port: int
    pid: int

    def cpu(self) -> float:
        """Seconds of processor time that it has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(name: str) -> Iterator[Serving]:
    """Run one of the applications in a process of its own."""
    process = subprocess.Popen([sys.executable, __file__, "--serve", name], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError
        yield Serving(int(process.stdout.readline().rpartition(":")[2]), process.pid)
    finally:
        process.terminate()
        process.wait(timeout=10)


@dataclass(frozen=True)
class Load:
    """What a server was asked: latencies and its processor time in seconds, and how many requests failed."""

    latencies: list[float]
    errors: int
    cpu: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load([*self.latencies, *other.latencies], self.errors + other.errors, self.cpu + other.cpu)

    def quantile(self, q: float) -> float:
        """Return a quantile in milliseconds."""
        return sorted(self.latencies)[min(round(q * len(self.latencies)), len(self.latencies) - 1)] * 1000

    def figures(self) -> dict[str, float]:
        """Return what is compared, in milliseconds."""
        return {"p50": self.quantile(0.5), "p99": self.quantile(0.99), "cpu": self.cpu / len(self.latencies) * 1000}


class Client:
    """A few connections that are kept open."""

    def __init__(self, port: int, path: str) -> None:
        self._port = port
        self._request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\n\r\n".encode()
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def open(self) -> None:
        """Connect."""
        for _ in range(CONNECTIONS):
            self._free.put_nowait(await asyncio.open_connection("127.0.0.1", self._port))

    async def close(self) -> None:
        """Hang up."""
        while not self._free.empty():
            self._free.get_nowait()[1].close()

    async def ask(self) -> bool:
        """Send one request, and read the answer as a whole; whether it was 200."""
        reader, writer = connection = await self._free.get()
        try:
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            self._free.put_nowait(await asyncio.open_connection("127.0.0.1", self._port))
            return False
        self._free.put_nowait(connection)
        return head.startswith(b"HTTP/1.1 200 ")


async def round_of(servers: Mapping[str, Serving], path: str, rate: float, seconds: float) -> dict[str, Load]:
    """Ask both for so many seconds each, in short turns: what else the machine does meets both alike."""
    clients = {name: Client(server.port, path) for name, server in servers.items()}
    loads = {name: Load([], 0) for name in servers}
    for name in servers:
        await clients[name].open()
        await timed(clients[name], rate, WARM_S)
    for _ in range(round(seconds / TURN_S)):
        for name, server in servers.items():
            before = server.cpu()
            loads[name] += await timed(clients[name], rate, TURN_S)
            loads[name] += Load([], 0, server.cpu() - before)
    for client in clients.values():
        await client.close()
    return loads


async def timed(client: Client, rate: float, seconds: float) -> Load:
    """Send each request when it is due."""
    begin = time.perf_counter()
    latencies, errors = list[float](), 0

    async def one(due: float) -> None:
        nonlocal errors
        errors += not await client.ask()
        latencies.append(time.perf_counter() - due)

    async with asyncio.TaskGroup() as group:
        for number in range(round(rate * seconds)):
            due = begin + number / rate
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            group.create_task(one(due))
    return Load(latencies, errors)


def compare(path: str, rate: float, seconds: float, rounds: int) -> None:
    """Print a table: each round asks both, in turns."""
    ratios: dict[str, list[float]] = {"p50": [], "p99": [], "cpu": []}
    print(f"{path}: {rate:g} requests/s for {seconds:g} s each, {CONNECTIONS} connections kept open; milliseconds")
    print(f"{'round':6} {'':8} {'p50':>8} {'p99':>8} {'max':>8} {'cpu':>8} {'errors':>8}")
    with served("palanca") as ours, served("floor") as theirs:
        servers = {"palanca": ours, "floor": theirs}
        for number in range(rounds):
            order = list(servers) if number % 2 == 0 else list(servers)[::-1]
            loads = uvloop.run(round_of({name: servers[name] for name in order}, path, rate, seconds))
            for name in order:
                one, known = loads[name], loads[name].figures()
                figures = f"{known['p50']:8.2f} {known['p99']:8.2f} {one.quantile(1):8.2f} {known['cpu']:8.3f}"
                print(f"{number + 1:<6} {name:8} {figures} {one.errors:8}")
            for name, kept in ratios.items():
                kept.append(loads["palanca"].figures()[name] / loads["floor"].figures()[name])
    for name, kept in ratios.items():
        each = ", ".join(f"{one:.2f}" for one in kept)
        print(f"{name}: {statistics.median(kept):.2f} times the floor (median of {each}); aim {AIM:g}")


async def serve(name: str) -> None:
    """Serve one of the applications until SIGTERM."""
    server = Server(APPLICATIONS[name](), Listen("127.0.0.1", 0))
    print(server.url, flush=True)
    server.heed(reload=lambda: None, stop=lambda: None)
    await server.run_until_stopped()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", default="/diagnose", help="what is asked for, such as /diagnose?severity=critical")
    parser.add_argument("--rate", type=float, default=200, help="requests per second")
    parser.add_argument("--seconds", type=float, default=30, help="length of each round and server")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", choices=APPLICATIONS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve(given.serve))
    else:
        compare(given.path, given.rate, given.seconds, given.rounds)


if __name__ == "__main__":
    main()
