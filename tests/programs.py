"""Programs that run beside each other, by name: started, sent signals, and started again with the same log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Programs:
    """What runs; each writes its log into the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        """Start a program."""
        with (self._folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, "GOMAXPROCS": "1", **(environ or {})},
            )

    def pid(self, name: str) -> int:
        """Number of its process."""
        return self.running[name].pid

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal."""
        self.running[name].send_signal(number)

    def wait(self, name: str, seconds: float = 30.0) -> int:
        """Wait for its end; the exit code."""
        return self.running[name].wait(timeout=seconds)

    def kill(self, name: str) -> None:
        """End a program at once, as a machine that fails would."""
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait(timeout=10)

    def log(self, name: str) -> str:
        """All that it has written, in all of its lives."""
        path = self._folder / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def end(self) -> None:
        """End them all."""
        for process in self.running.values():
            process.kill()
            process.wait(timeout=10)
