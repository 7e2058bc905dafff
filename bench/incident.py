"""One incident through everything that is real: an alert fires, mutes its symptoms, is told once, and is resolved.

A recorded incident is replayed as a live vLLM page; a real Prometheus scrapes it with the exported rules unchanged, a
real Alertmanager has the exported configuration unchanged, palanca is its webhook, and a local Slack that keeps Slack's
limits takes the message. In between palanca is killed (SIGKILL) and started again. Takes some 12 minutes, since rules
hold for minutes; prints what happened when, and ends with exit code 1 where something did not.

    python -m bench.incident
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.programs import Programs
from tests.replay import replaying
from tests.servers import free_port, tool
from tests.slack import CHANNEL, TOKEN, FakeSlack, slack

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "examples" / "kv-saturated.om.gz"
BEGIN, LAST = 1_795_982_600.0, 1_795_982_961.0
"""The load in the recording, unix seconds; after it the server stays as it was at the end."""
SCRAPE_S = 5
FIRES_S, RESOLVES_S = 420.0, 600.0


class Clock:
    """The moment of the recording that is shown now."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def __call__(self) -> float:
        """Unix seconds in the recording."""
        return min(BEGIN + time.monotonic() - self.start, LAST)


def asked(url: str) -> Any:  # noqa: ANN401  JSON
    """Ask a server for JSON."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def until(condition: Callable[[], object], seconds: float, what: str) -> float:
    """Wait for something, and say how long that took."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        try:
            if condition():
                took = time.monotonic() - begin
                print(f"{time.strftime('%H:%M:%S')}  {what} (after {took:.0f} s)", flush=True)
                return took
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(1)
    sys.exit(f"{time.strftime('%H:%M:%S')}  not within {seconds:.0f} s: {what}")


def main() -> None:
    """Run the incident."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palanca-incident-")))
        fake = stack.enter_context(slack())
        vllm = stack.enter_context(replaying(RECORDING, BEGIN, clock=Clock()))
        ports = {name: free_port() for name in ("prometheus", "alertmanager", "palanca")}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        write(folder, urls, vllm.url, fake)
        programs = Programs(folder)
        stack.callback(programs.end)
        programs.start(
            "alertmanager",
            [
                tool("alertmanager"), f"--config.file={folder}/alerts/alertmanager.yaml",
                f"--storage.path={folder}/am", f"--web.listen-address=127.0.0.1:{ports['alertmanager']}",
                "--cluster.listen-address=",
            ],
        )  # fmt: skip
        programs.start(
            "prometheus",
            [
                tool("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                f"--web.listen-address=127.0.0.1:{ports['prometheus']}", "--log.level=warn",
            ],
        )  # fmt: skip
        serve = [sys.executable, "-m", "palanca.cli", "serve", "--config", str(folder / "palanca.yaml")]
        programs.start("palanca", serve)
        follow(programs, serve, urls, fake)


def write(folder: Path, urls: dict[str, str], vllm: str, fake: FakeSlack) -> None:
    """Write the settings of all programs; the alert files are exported and stay as they are."""
    export = [
        sys.executable, "-m", "palanca.cli", "alerts", "export", "--out", str(folder / "alerts"), "--external-url",
        urls["palanca"], "--credentials-file", "", "--group-wait", "10s", "--group-interval", "30s",
    ]  # fmt: skip
    subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
    target = vllm.removeprefix("http://")
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {SCRAPE_S}s}}\n"
        f"rule_files: [{folder}/alerts/prometheus.yaml]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{urls['alertmanager'][7:]}']}}]}}]}}\n"
        f"scrape_configs:\n  - {{job_name: vllm, static_configs: [{{targets: ['{target}']}}]}}\n"
        f"  - {{job_name: palanca, static_configs: [{{targets: ['{urls['palanca'][7:]}']}}]}}\n"
    )
    (folder / "token").write_text(TOKEN)
    (folder / "palanca.yaml").write_text(
        f"interval: 10s\nexternal_url: {urls['palanca']}\n"
        f"listen: {{port: {urls['palanca'].rpartition(':')[2]}}}\n"
        f"sources: [{{name: lab, prometheus: '{urls['prometheus']}'}}]\n"
        "history: {database: palanca.db}\n"
        f"notify:\n  slack: [{{name: ops, token_file: token, channel: {CHANNEL}, api_url: '{fake.api}'}}]\n"
    )


def follow(programs: Programs, serve: list[str], urls: dict[str, str], fake: FakeSlack) -> None:
    """Watch the incident, and check each step."""

    def alerts() -> dict[str, str]:
        found = asked(f"{urls['alertmanager']}/api/v2/alerts")
        return {one["labels"]["alertname"]: one["status"]["state"] for one in found}

    def told() -> list[Any]:
        return [one for one in fake.roots if "KV cache is full" in one.title]

    until(lambda: asked(f"{urls['palanca']}/readyz")["ready"], 90, "palanca is ready")
    until(lambda: alerts().get("VllmKvCacheSaturated") == "active", FIRES_S, "VllmKvCacheSaturated fires")
    until(
        lambda: [name for name, state in alerts().items() if state == "suppressed" and name != "VllmKvCacheSaturated"],
        120,
        "its symptoms are muted",
    )
    muted = sorted(name for name, state in alerts().items() if state == "suppressed")
    print(f"          muted: {', '.join(muted)}; not: {', '.join(sorted(set(alerts()) - set(muted)))}", flush=True)
    until(told, 120, "one message has arrived in Slack")
    programs.kill("palanca")
    programs.start("palanca", serve)
    until(lambda: asked(f"{urls['palanca']}/readyz")["ready"], 90, "palanca was killed and is ready again")
    time.sleep(75)  # two group intervals: Alertmanager has told it again if it wanted to
    check(len(told()) == 1, f"there is still one message: {[one.title for one in fake.roots]}")
    message = told()[0]
    check("num-gpu-blocks-override" in message.whole, "the message has the recommendation")
    until(lambda: "esolved" in told()[0].title, RESOLVES_S, "the message says resolved")
    print(f"          {json.dumps(told()[0].body, ensure_ascii=False)[:1500]}")
    check(len(told()) == 1, "there is one message in all")
    check(not fake.problems, f"Slack had nothing to refuse: {fake.problems}")
    print(f"          titles in the channel: {[one.title for one in fake.roots]}")


def check(holds: bool, what: str) -> None:  # noqa: FBT001  a fact and its words
    """Say a fact, or end where it is none."""
    if not holds:
        sys.exit(f"{time.strftime('%H:%M:%S')}  wrong: {what}")
    print(f"{time.strftime('%H:%M:%S')}  {what}", flush=True)


if __name__ == "__main__":
    main()
