"""The back ends that ``.ci/back-ends`` gives, and how each is used by what the tests have."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from compat.servers import victoria_metrics
from tests.engines import ROOT
from tests.servers import prometheus

PROMETHEUS, ALERTMANAGER, VICTORIA_METRICS = "prometheus", "alertmanager", "victoria-metrics"
TITLES = {PROMETHEUS: "Prometheus", ALERTMANAGER: "Alertmanager", VICTORIA_METRICS: "VictoriaMetrics"}


@dataclass(frozen=True)
class BackEnd:
    """One release of a server; its commands lie in ``folder``."""

    kind: str
    version: str
    folder: Path

    @property
    def title(self) -> str:
        """As in the documentation: ``Prometheus 2.42.0``."""
        return f"{TITLES[self.kind]} {self.version}"

    @property
    def path(self) -> str:
        """A ``PATH`` on which its commands come first."""
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    @contextmanager
    def serving(self, text: Path, folder: Path) -> Iterator[str]:
        """Serve OpenMetrics text; its commands must be on the ``PATH``. Yields the URL."""
        with (victoria_metrics if self.kind == VICTORIA_METRICS else prometheus)(text, folder) as url:
            yield url


@cache
def back_ends(*kinds: str) -> tuple[BackEnd, ...]:
    """Those of some kinds, fetched where they are not there yet."""
    command = [ROOT / ".ci" / "back-ends"]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = [line.split(" ", 2) for line in listed.splitlines()]
    return tuple(BackEnd(kind, version, Path(folder)) for kind, version, folder in made if kind in kinds)


def passing(*arguments: str) -> int:
    """Run tests of the suite with the commands that are on the ``PATH``; returns how many there are, all passing."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=dict(os.environ))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return int(done.stdout.rsplit(" passed", 1)[0].rsplit(maxsplit=1)[-1])
