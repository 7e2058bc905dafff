"""A real Alertmanager for tests, and what it is asked."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.servers import free_port, tool
from tests.serving import until

from palanca.alerting.alertmanager import alertmanager
from palanca.alerting.routing import Routing
from palanca.alerting.templates import templates
from palanca.model import Catalogue

Labels = Mapping[str, str]


@dataclass
class Running:
    """A running Alertmanager."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, path: str, document: object = None, method: str | None = None) -> Any:  # noqa: ANN401  JSON is anything
        body = None if document is None else json.dumps(document).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(error.read().decode()) from None

    def post(self, *alerts: Labels, seconds: float = 300.0) -> None:
        """Let alerts fire for so long."""
        ends = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        self.ask("/api/v2/alerts", [{"labels": dict(labels), "endsAt": ends} for labels in alerts])

    def alerts(self) -> list[Any]:
        """What fires, silenced or not."""
        found: list[Any] = self.ask("/api/v2/alerts")
        return found

    def state(self, labels: Labels) -> str:
        """``active``, or ``suppressed``; the alert with exactly these labels must be there."""
        (one,) = [one for one in self.alerts() if labels == one["labels"]]
        state: str = one["status"]["state"]
        return state

    def muted(self, labels: Labels) -> bool:
        """Whether an alert is suppressed soon: alerts reach what inhibits a moment after they are taken."""
        return until(lambda: self.state(labels) == "suppressed", 10)

    def silence(self, *matchers: tuple[str, str, bool, bool], seconds: float = 600.0) -> str:
        """Silence alerts: name, value, whether it is a regular expression, whether it must match. Returns the id."""
        now = datetime.now(UTC)
        made = self.ask(
            "/api/v2/silences",
            {
                "matchers": [
                    {"name": name, "value": value, "isRegex": regex, "isEqual": equal}
                    for name, value, regex, equal in matchers
                ],
                "startsAt": now.isoformat(),
                "endsAt": (now + timedelta(seconds=seconds)).isoformat(),
                "createdBy": "a test",
                "comment": "a test",
            },
        )
        found: str = made["silenceID"]
        return found

    def end(self, silence: str) -> None:
        """End a silence."""
        self.ask(f"/api/v2/silence/{silence}", method="DELETE")


def written(folder: Path, catalogue: Catalogue, routing: Routing) -> Path:
    """The exported files in a folder; returns the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "palanca.tmpl").write_text(templates(), encoding="utf-8")
    path = folder / "alertmanager.yaml"
    path.write_text(alertmanager(catalogue, routing), encoding="utf-8")
    return path


@contextmanager
def serving(config: Path, port: int | None = None) -> Iterator[Running]:
    """An Alertmanager of its own over a configuration; it is killed in the end."""
    port = port or free_port()
    log = config.with_suffix(f".{port}.log")
    command = [
        tool("alertmanager"), f"--config.file={config}", f"--storage.path={config.parent / str(port)}",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=", "--log.level=debug",
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "GOMAXPROCS": "2"})
    made = Running(f"http://127.0.0.1:{port}", process, log)
    try:
        until(lambda: _ready(made), 30)
        yield made
    finally:
        process.kill()
        process.wait(timeout=30)


def _ready(made: Running) -> bool:
    assert made.process.poll() is None, made.log.read_text()
    try:
        with urllib.request.urlopen(made.url + "/-/ready", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False
