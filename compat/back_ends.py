"""The back ends that ``.ci/back-ends`` gives, and how each is used by what the tests have."""

from __future__ import annotations

import os
import subprocess
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
    def left_open(self) -> bool:
        """Whether a range leaves out a sample at its very start: Prometheus from 3.0 on."""
        return self.kind == PROMETHEUS and int(self.version.partition(".")[0]) >= 3  # noqa: PLR2004

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
