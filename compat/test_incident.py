"""One incident, live, through all of them: exported alerts fire, reach Alertmanager, and mute their symptoms there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from compat.back_ends import VICTORIA_METRICS, BackEnd
from compat.conftest import ALERTMANAGERS, SOURCES, Note
from compat.servers import victoria_metrics, vmalert
from tests.alertmanagers import Running, serving
from tests.live import write_live
from tests.replay import replaying
from tests.servers import free_port, prometheus
from tests.serving import until

ALERT, RULE = "VllmKvCacheSaturated", "kv-cache-saturated"
LASTS_S = 900.0
"""How long the incident goes on: windows of 2 and 5 minutes, ``for`` of 3, and what vmalert needs more."""
FIRES_S = 540.0


@contextmanager
def watching(source: BackEnd, page: str, alerts: Path, alertmanager: str, folder: Path) -> Iterator[str]:
    """Let a source scrape a page every 5 s and evaluate the exported rules. Yields its URL."""
    scrape = f"scrape_configs: [{{job_name: vllm, static_configs: [{{targets: ['{page}']}}]}}]\n"
    every = "global: {scrape_interval: 5s}\n"
    if source.kind == VICTORIA_METRICS:
        with (
            victoria_metrics(None, folder, every + scrape) as url,
            vmalert(alerts / "prometheus.yaml", url, alertmanager, folder),
        ):
            yield url
        return
    target = alertmanager.removeprefix("http://")
    rules = (
        f"rule_files: [{alerts}/prometheus.yaml]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{target}']}}]}}]}}\n"
    )
    with prometheus(None, folder, every + rules + scrape) as url:
        yield url


def states(alertmanager: Running) -> dict[str, str]:
    """What fires, and whether it is muted, by the name of the alert."""
    return {one["labels"]["alertname"]: one["status"]["state"] for one in alertmanager.alerts()}


def muted(alertmanager: Running) -> list[str]:
    return sorted(name for name, state in states(alertmanager).items() if state == "suppressed")


def test_incident(tmp_path: Path, note: Note, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Prometheus with an Alertmanager of its own, vmalert with one more of the newest; all at once."""
    begin, alerts = time.time(), tmp_path / "alerts"
    whole = write_live(tmp_path / "incident.om", begin, {"kv-saturated": {"instance": "x"}}, ago=0, ahead=LASTS_S)
    export = ["alerts", "export", "--out", str(alerts), "--external-url", f"http://127.0.0.1:{free_port()}"]
    subprocess.run([sys.executable, "-m", "palanca.cli", *export], check=True, capture_output=True)
    pairs = [(source, ALERTMANAGERS[min(index, len(ALERTMANAGERS) - 1)]) for index, source in enumerate(SOURCES)]
    with ExitStack() as stack:
        vllm = stack.enter_context(replaying(whole, begin, clock=time.time)).url.removeprefix("http://")
        started = []
        for index, (source, alertmanager) in enumerate(pairs):
            with monkeypatch.context() as patch:
                patch.setenv("PATH", alertmanager.path)
                config = tmp_path / f"{index}.yaml"
                config.write_text((alerts / "alertmanager.yaml").read_text())
                (tmp_path / "palanca.tmpl").write_text((alerts / "palanca.tmpl").read_text())
                receiver = stack.enter_context(serving(config))
                patch.setenv("PATH", source.path)
                url = stack.enter_context(watching(source, vllm, alerts, receiver.url, tmp_path / str(index)))
            started.append((source, alertmanager, url, receiver))
        until(lambda: all(ALERT in states(receiver) for *_, receiver in started), FIRES_S, 1)
        for source, alertmanager, url, receiver in started:
            (alert,) = [one for one in receiver.alerts() if one["labels"]["alertname"] == ALERT]
            until(lambda receiver=receiver: len(muted(receiver)) > 1, 90, 1)  # type: ignore[misc]
            assert states(receiver)[ALERT] == "active"
            said = subprocess.run(
                [sys.executable, "-m", "palanca.cli", "diagnose", url, "--format", "json"],
                check=False, capture_output=True, text=True,
            )  # fmt: skip
            (report,) = json.loads(said.stdout)["targets"]
            first = report["findings"][0]
            assert (1, RULE, "firing") == (said.returncode, first["rule"], first["state"])
            took = datetime.fromisoformat(alert["startsAt"]).timestamp() - begin
            note(source, "a live incident", f"alert after {took:.0f} s, and the diagnosis")
            note(alertmanager, "a live incident", f"alert arrives and mutes {', '.join(muted(receiver))}")
