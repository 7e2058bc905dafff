"""A real PostgreSQL of the tests' own, in a temporary folder, on a Unix socket and on 127.0.0.1."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from tests.permissions import NOBODY
from tests.servers import free_port, tool

PASSWORD = "s3cret/of the t%sts"
QUOTED = "s3cret%2Fof%20the%20t%25sts"
"""The same in a URL."""


@dataclass
class Server:
    """A running server. ``process`` may be ended and started again by a test."""

    folder: Path
    binary: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    _count: Iterator[int] = field(default_factory=itertools.count)

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "jit": "off",
            "shared_buffers": "16MB",
            "max_connections": "40",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log = (self.folder / "log").open("ab")
        with log:
            command = [str(self.binary), "-D", str(self.folder / "data"), *options]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **_as_nobody())
        deadline = time.monotonic() + 30
        while True:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """End it at once, as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=30)
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def run(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the superuser."""
        where: dict[str, Any] = {"host": str(self.folder), "port": self.port, "user": "palanca", "dbname": database}
        with psycopg.connect(**where, autocommit=True) as connection:
            connection.execute(statement.encode())

    def database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"test_{next(self._count)}"
        self.run(f"CREATE DATABASE {name}")
        return f"postgresql://palanca:{QUOTED}@127.0.0.1:{self.port}/{name}"


@contextmanager
def postgresql() -> Iterator[Server]:
    """Make a data folder and run a server over it; PostgreSQL refuses to run as root, and then runs as nobody."""
    with tempfile.TemporaryDirectory(prefix="palanca-postgresql.") as name:
        folder = Path(name)
        binary = _reachable(Path(tool("postgres")).resolve(), folder)
        (folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (folder, folder / "password"):
                os.chown(path, NOBODY, NOBODY)
        command = [
            str(binary.with_name("initdb")), "-D", str(folder / "data"), "-U", "palanca", "-E", "UTF8", "--locale=C",
            "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync",
        ]  # fmt: skip
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, **_as_nobody())
        assert done.returncode == 0, done.stderr
        server = Server(folder, binary, free_port())
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _as_nobody() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _reachable(binary: Path, folder: Path) -> Path:
    """The server itself, or a copy of what was unpacked, where nobody may not pass the folders above it."""
    if os.geteuid() != 0 or all(above.stat().st_mode & 0o001 for above in binary.parents):
        return binary
    copy = folder / "unpacked"
    shutil.copytree(binary.parents[1], copy, symlinks=True)
    return copy / binary.relative_to(binary.parents[1])
