"""All that runs: engines, a real Prometheus, a real Alertmanager, palanca with its history, and a local Slack."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.engines import ROOT
from tests.programs import Programs
from tests.servers import answering, free_port, tool
from tests.slack import CHANNEL, TOKEN, FakeSlack, slack

from soak.engines import Engine

INTERVAL_S, SCRAPE_S, TIMEOUT_S = 5, 2, 5
RULE, TITLE = "soak-kv-full", "Soak: the KV cache is full"
DOWN = "Soak: an engine does not answer"
THE_RULE = f"""
id: {RULE}
title: "{TITLE}"
area: kv-cache
cause: kv-capacity
severity: critical
maturity: experimental
references: ["the soak: a rule that fires at once"]
thresholds:
  full: {{value: 0.9, unit: ratio, source: "the soak"}}
when: kv_cache_usage_now > full
for: 0s
summary: "KV cache usage is {{kv_cache_usage_now}}."
levers:
  - lever: replicas
    direction: none
    order: 1
    risk: low
    why: It is a soak.
    effect: none
    trade_off: none
    no_value: an action
"""
SETTINGS = """
interval: {interval}s
external_url: {palanca}
listen: {{port: {port}}}
sources: [{{name: soak, prometheus: '{prometheus}', timeout: {timeout}s}}]
alertmanager: {{urls: ['{alertmanager}']}}
history: {{database: {folder}/palanca.db}}
rules: {folder}/rules
log: {{format: json, level: {level}}}
notify:
  path: direct
  slack: [{{name: ops, token_file: {folder}/token, channel: {channel}, api_url: '{slack}'}}]
"""
ALERTS = f"""
groups:
  - name: soak
    interval: {SCRAPE_S}s
    rules:
      - alert: SoakEngineDown
        expr: up{{{{job="vllm"}}}} == 0
        labels: {{{{severity: warning}}}}
        annotations: {{{{summary: "{DOWN}"}}}}
"""
ROUTES = """
route:
  receiver: palanca
  group_by: [alertname, model_name]
  group_wait: 1s
  group_interval: 10s
  repeat_interval: 4h
receivers: [{{name: palanca, webhook_configs: [{{url: '{palanca}/api/v1/alertmanager'}}]}}]
"""


@dataclass
class World:
    """What runs, and where."""

    folder: Path
    engines: list[Engine]
    slack: FakeSlack
    programs: Programs
    urls: dict[str, str]
    commands: dict[str, list[str]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a program, and wait until it is ready."""
        self.programs.start(name, self.commands[name], {"PYTHONPATH": f"{ROOT / 'service'}{os.pathsep}{ROOT}"})
        self.ready(name)

    def ready(self, name: str, seconds: float = 120.0) -> None:
        """Wait until a program answers that it is ready."""
        path = {"palanca": "/readyz"}.get(name, "/-/ready")
        until(lambda: self.asked(name, path) is not None, seconds, f"{name} is ready")

    def asked(self, name: str, path: str, timeout: float = 5.0) -> Any:  # noqa: ANN401  JSON is anything
        """Ask a program; JSON, or text where it is none; None where it does not answer with 200."""
        try:
            with urllib.request.urlopen(self.urls[name] + path, timeout=timeout) as response:
                body = response.read()
        except (OSError, ValueError):
            return None
        try:
            return json.loads(body)
        except ValueError:
            return body.decode()

    def configure(self, level: str = "info") -> None:
        """Write the settings of palanca."""
        text = SETTINGS.format(
            interval=INTERVAL_S, timeout=TIMEOUT_S, port=self.urls["palanca"].rpartition(":")[2], folder=self.folder,
            channel=CHANNEL, slack=self.slack.api, level=level, **self.urls,
        )  # fmt: skip
        new = self.folder / "palanca.yaml.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self.folder / "palanca.yaml")

    def query(self, text: str, *values: str) -> list[Any]:
        """Ask the database of the history."""
        with closing(sqlite3.connect(self.folder / "palanca.db", timeout=30)) as database:
            return database.execute(text, values).fetchall()


def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait for a condition. Raises ``TimeoutError``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.2)


def build(stack: ExitStack, folder: Path, engines: int) -> World:
    """Start everything; it ends with the stack."""
    made = [Engine(f"model-{number}") for number in range(engines)]
    servers = [stack.enter_context(answering(one)) for one in made]
    fake = stack.enter_context(slack())
    urls = {name: f"http://127.0.0.1:{free_port()}" for name in ("prometheus", "alertmanager", "palanca")}
    programs = Programs(folder)
    stack.callback(programs.end)
    world = World(folder, made, fake, programs, urls)
    (folder / "token").write_text(TOKEN, encoding="utf-8")
    (folder / "token").chmod(0o600)
    rule = folder / "rules" / "matrix" / "kv-cache" / f"{RULE}.yaml"
    rule.parent.mkdir(parents=True)
    rule.write_text(THE_RULE, encoding="utf-8")
    (folder / "alerts.yml").write_text(ALERTS.format(), encoding="utf-8")
    (folder / "alertmanager.yml").write_text(ROUTES.format(**urls), encoding="utf-8")
    targets = "".join(
        f"    - {{targets: ['{server.url[7:]}'], labels: {{model_name: {one.model}}}}}\n"
        for one, server in zip(made, servers, strict=True)
    )
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {SCRAPE_S}s, scrape_timeout: {SCRAPE_S}s}}\nrule_files: [{folder}/alerts.yml]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{urls['alertmanager'][7:]}']}}]}}]}}\n"
        f"scrape_configs:\n- job_name: vllm\n  honor_labels: true\n  static_configs:\n{targets}",
        encoding="utf-8",
    )
    world.configure()
    world.commands = {
        "prometheus": [
            tool("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
            f"--web.listen-address={urls['prometheus'][7:]}", "--log.level=warn",
        ],
        "alertmanager": [
            tool("alertmanager"), f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/am",
            f"--web.listen-address={urls['alertmanager'][7:]}", "--cluster.listen-address=", "--log.level=warn",
            "--data.maintenance-interval=5s",
        ],
        "palanca": [sys.executable, "-m", "palanca.cli", "serve", "--config", str(folder / "palanca.yaml")],
    }  # fmt: skip
    for name in world.commands:
        world.start(name)
    return world
