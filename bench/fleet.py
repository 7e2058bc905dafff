"""Made-up engines, scraped live by a real Prometheus: what benchmarks of many engines share."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.servers import free_port

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests" / "data" / "exposition" / "0.33.0-v1.txt"
SCRAPE_S = 15
ENGINES_PER_MODEL = 10
IN_TROUBLE = 50
"""One engine of so many has a full KV cache and a queue."""
GAUGES = {
    "num_requests_running": (12, 64), "num_requests_waiting": (0, 80), "num_requests_waiting_by_reason": (0, 80),
    "kv_cache_usage_perc": (0.4, 0.97),
}  # fmt: skip
"""Values of a healthy engine and of one in trouble."""
FAILURES = ("preemptions", "rejections", "abort", "error")
"""What only engines in trouble count."""
EVENTS_PER_S = 2.0
MEAN = 0.02
"""Mean of all histograms, whose observations are distributed exponentially."""
_LINE = re.compile(r"^([a-zA-Z_:]+)(?:\{.*\})? \S+$")
_LE = re.compile(r'le="([^"]+)"')


@dataclass(frozen=True)
class Line:
    """One series of the page: its text up to the value, and how its value comes about."""

    head: str
    healthy: float
    trouble: float
    counts: bool


def lines(names: Collection[str] | None = None) -> list[Line]:
    """Return the series of a page of vLLM 0.33: all, or those with such names."""
    made = []
    for text in [*PAGE.read_text(encoding="utf-8").splitlines(), "process_start_time_seconds 1"]:
        found = _LINE.match(text)
        if found is None or (names is not None and found[1] not in names):
            continue
        name, head = found[1].removeprefix("vllm:"), text.rpartition(" ")[0]
        if name in GAUGES:
            made.append(Line(head, *GAUGES[name], counts=False))
        elif name.endswith(("_total", "_count", "_sum", "_bucket")):
            slope = _slope(name, head)
            healthy = 0.0 if any(word in head for word in FAILURES) else slope
            made.append(Line(head, healthy, slope * 3, counts=True))
        else:
            made.append(Line(head, 1.0, 1.0, counts=False))
    return made


def _slope(name: str, head: str) -> float:
    """How much a counter grows in a second."""
    if name.endswith("_sum"):
        return EVENTS_PER_S * MEAN
    bound = _LE.search(head)
    return EVENTS_PER_S if bound is None else EVENTS_PER_S * (1 - math.exp(-float(bound[1]) / MEAN))


class _Engines(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    page: list[Line]
    began: float

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the Prometheus ends while it scrapes
            super().handle()

    def do_GET(self) -> None:
        engine = int(self.path.strip("/") or 0)
        trouble, since = engine % IN_TROUBLE == 0, time.time() - self.began + 1000
        model = f'model_name="m{engine // ENGINES_PER_MODEL}"'
        rows = []
        for one in self.page:
            value = one.trouble if trouble else one.healthy
            value = value * since * (1 + engine % 7 / 10) if one.counts else value
            head = one.head.replace('model_name="m"', model)
            rows.append(f"{head} {value:.3f}")
        body = ("\n".join(rows) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def engines(shown: Sequence[Line]) -> Iterator[int]:
    """Serve pages with these series for any number of engines; gives the port."""
    handler = type("Engines", (_Engines,), {"page": shown, "began": time.time()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()


def config(port: int, count: int, rule_files: Sequence[str]) -> str:
    """Write the configuration of a Prometheus that scrapes so many engines; files of rules lie beside it."""
    targets = ", ".join(f'"engine-{number}:80"' for number in range(count))
    return f"""\
global: {{scrape_interval: {SCRAPE_S}s, evaluation_interval: {SCRAPE_S}s}}
rule_files: [{", ".join(rule_files)}]
scrape_configs:
  - job_name: vllm
    static_configs: [{{targets: [{targets}]}}]
    relabel_configs:
      - {{source_labels: [__address__], target_label: instance}}
      - {{source_labels: [__address__], regex: "engine-(.*):80", target_label: __metrics_path__, replacement: "/$1"}}
      - {{target_label: __address__, replacement: "127.0.0.1:{port}"}}
"""


def reload(process: subprocess.Popen[bytes]) -> None:
    """Have a Prometheus read its configuration anew."""
    os.kill(process.pid, signal.SIGHUP)


def snapshot(url: str, folder: Path) -> Path:
    """Have a Prometheus write all that it has as blocks; the folder that they are in."""
    asked = urllib.request.Request(f"{url}/api/v1/admin/tsdb/snapshot", method="POST")
    with urllib.request.urlopen(asked) as answer:
        name: str = json.loads(answer.read())["data"]["name"]
    return folder / "data" / "snapshots" / name


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a Prometheus on the configuration in a folder; gives its URL and process."""
    port = free_port()
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error", "--web.enable-admin-api",
    ]  # fmt: skip
    process = subprocess.Popen(command)
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()
