"""What the exported rules cost in a real Prometheus, beside the same alerts written by hand. Prints a table.

Made-up engines are scraped live from a server of this script; a Prometheus evaluates ``handwritten.yaml`` and the
generated files, and says itself how long each evaluation of a group took.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from palanca.alerting.group import prometheus
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options, release_range
from palanca.check import load_catalogue
from palanca.resources import shipped

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests" / "data" / "exposition" / "0.33.0-v1.txt"
HANDWRITTEN = Path(__file__).with_name("handwritten.yaml")
SCRAPE_S = 15
ENGINES_PER_MODEL = 10
IN_TROUBLE = 50
"""One engine of so many has a full KV cache and a queue."""
GAUGES = {
    "num_requests_running": (12, 64), "num_requests_waiting": (0, 80), "num_requests_waiting_by_reason": (0, 80),
    "kv_cache_usage_perc": (0.4, 0.97),
}  # fmt: skip
"""Values of a healthy engine and of one in trouble."""
_LINE = re.compile(r"^([a-zA-Z_:]+)\{(.*)\} \S+$")
_DURATION = re.compile(
    r'^prometheus_rule_group_last_duration_seconds\{rule_group="[^;]*;([^"]+)"\} (\S+)$', re.MULTILINE
)
_AT = re.compile(
    r'^prometheus_rule_group_last_evaluation_timestamp_seconds\{rule_group="[^;]*;([^"]+)"\} (\S+)$', re.MULTILINE
)


@dataclass(frozen=True)
class Line:
    """One series of the page: its text up to the value, and how its value comes about."""

    head: str
    healthy: float
    trouble: float
    counts: bool


def lines() -> list[Line]:
    """The series that alerts read, from a page of vLLM 0.33."""
    made = []
    names = _used()
    number = 0
    for text in PAGE.read_text(encoding="utf-8").splitlines():
        found = _LINE.match(text)
        if found is None or found[1] not in names:
            continue
        number += 1
        name, head = found[1].removeprefix("vllm:"), text.rpartition(" ")[0]
        if name in GAUGES:
            made.append(Line(head, *GAUGES[name], counts=False))
        elif name.endswith(("_total", "_count", "_sum", "_bucket")):
            # Buckets grow towards +Inf as they do: the later the line, the larger the count.
            slope = 2.0 if name.endswith(("_count", "_total")) else 1.0 + number / 1000
            made.append(Line(head, slope, slope * 3, counts=True))
        else:
            made.append(Line(head, 1.0, 1.0, counts=False))
    return made


def _used() -> set[str]:
    text = prometheus(Matrix(load_catalogue([shipped("rules")]), Options()))
    return set(re.findall(r"\bvllm:\w+|\bhttp_requests_total|\bprocess_start_time_seconds", text))


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
def engines() -> Iterator[int]:
    """Serve the pages of all engines; gives the port."""
    handler = type("Engines", (_Engines,), {"page": lines(), "began": time.time()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()


def config(port: int, count: int) -> str:
    """Write the configuration of the Prometheus."""
    targets = ", ".join(f'"engine-{number}:80"' for number in range(count))
    return f"""\
global: {{scrape_interval: {SCRAPE_S}s, evaluation_interval: {SCRAPE_S}s}}
rule_files: [handwritten.yaml, generated.yaml]
scrape_configs:
  - job_name: vllm
    static_configs: [{{targets: [{targets}]}}]
    relabel_configs:
      - {{source_labels: [__address__], target_label: instance}}
      - {{source_labels: [__address__], regex: "engine-(.*):80", target_label: __metrics_path__, replacement: "/$1"}}
      - {{target_label: __address__, replacement: "127.0.0.1:{port}"}}
"""


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a Prometheus on the configuration in a folder; gives its URL and process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    process = subprocess.Popen(command)
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def page(url: str) -> str:
    """The own metrics of the Prometheus; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


def measured(url: str, evaluations: int) -> dict[str, list[float]]:
    """Durations of at least so many evaluations of the groups that are compared, in seconds."""
    seen: dict[str, dict[str, float]] = {}
    while any(len(seen.get(group, ())) < evaluations + 1 for group in ("handwritten", "palanca")):
        text = page(url)
        moments = dict(_AT.findall(text))
        for group, duration in _DURATION.findall(text):
            if float(moments[group]) > 0:
                seen.setdefault(group, {}).setdefault(moments[group], float(duration))
        time.sleep(4)
    # The first one that is seen may be of the rules before.
    return {group: list(one.values())[len(one) > 1 :] for group, one in seen.items()}


def run(count: int, warm: float, evaluations: int) -> None:
    """Measure with so many engines, and print."""
    catalogue = load_catalogue([shipped("rules")])
    variants = {
        "all releases": Options(),
        "--vllm 0.33": Options(releases=release_range("0.33", catalogue.metrics)),
    }
    with tempfile.TemporaryDirectory() as name, engines() as port:
        folder = Path(name)
        (folder / "prometheus.yml").write_text(config(port, count), encoding="utf-8")
        (folder / "handwritten.yaml").write_text(HANDWRITTEN.read_text(encoding="utf-8"), encoding="utf-8")
        (folder / "generated.yaml").write_text("groups: []\n", encoding="utf-8")
        with server(folder) as (url, process):
            time.sleep(warm)
            for variant, options in variants.items():
                (folder / "generated.yaml").write_text(prometheus(Matrix(catalogue, options)), encoding="utf-8")
                os.kill(process.pid, signal.SIGHUP)
                time.sleep(2 * SCRAPE_S)
                report(count, variant, measured(url, evaluations))


def report(count: int, variant: str, found: dict[str, list[float]]) -> None:
    """Print the medians of the groups."""
    floor = statistics.median(found["handwritten"])
    for group in ("handwritten", "palanca", "palanca-slo", "palanca-guard"):
        median = statistics.median(found[group])
        share = f"{median / floor:5.2f}" if group in {"handwritten", "palanca"} else "    -"
        print(f"{count:>8} {variant:<14} {group:<14} {median * 1000:9.1f} {share}", flush=True)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--warm", type=float, default=330, help="seconds until the windows of 5 minutes are full")
    parser.add_argument("--evaluations", type=int, default=9)
    arguments = parser.parse_args()
    print(f"{'engines':>8} {'releases':<14} {'group':<14} {'median ms':>9} {'times':>5}")
    for count in arguments.engines:
        run(count, arguments.warm, arguments.evaluations)


if __name__ == "__main__":
    main()
