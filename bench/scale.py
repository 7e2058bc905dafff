"""What a diagnosis and a poll of many engines cost over a Prometheus, with and without the recorded series.

Run as ``python -m bench.scale [--engines 10 100 1000]``; about 10 minutes a size. Engines are scraped live until the
windows are full; then nothing is scraped any more, so that what is measured has the machine for itself. Every
measurement is made by a fresh process, so that its peak memory is its own. The floor is the same queries sent by curl
with equal concurrency, in turns with the diagnosis.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml
from bench import fleet
from bench.queries import THREADS, Recorder, by_curl
from tests.servers import Recorded, prometheus

from palanca.alerting.group import documents
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options
from palanca.check import load_catalogue
from palanca.diagnosis import diagnose
from palanca.poll import Question, run
from palanca.resources import shipped
from palanca.sources.server import PrometheusSource
from palanca.sources.session import Access
from palanca.window import Window

INTERVAL_S = 60.0
"""Between polls; no question of a poll may take longer."""
SPAN_S = 300.0
"""How long the rules had been recording."""


@dataclass(frozen=True)
class Cost:
    """Medians of several runs: wall times and processor time in seconds, bytes of the answers in MB, peak in MiB."""

    engines: int
    queries: int
    megabytes: float
    diagnosis: float
    floor: float
    cpu: float
    polled: float
    poll_cpu: float
    peak: float


def measure(url: str, end: float, runs: int) -> Cost:
    """Diagnose, send the same queries by curl, and poll, in turns."""
    catalogue = load_catalogue([shipped("rules")])
    client = Recorder(url, Access(timeout=300))
    source = PrometheusSource(client, clock=lambda: end, threads=THREADS)
    seen: dict[str, list[float]] = {name: [] for name in ("diagnosis", "floor", "cpu", "polled", "poll_cpu", "bytes")}
    engines = queries = 0
    window = Window(catalogue, source, INTERVAL_S)
    window.poll(Question(), end - runs * INTERVAL_S)
    gc.collect()
    gc.freeze()  # as the service does
    for turn in range(runs):
        client.sent = []
        wall, cpu = time.perf_counter(), time.process_time()
        engines = len(run(catalogue, source, Question()).targets)
        seen["diagnosis"].append(time.perf_counter() - wall)
        seen["cpu"].append(time.process_time() - cpu)
        took, size = by_curl(client.url, client.sent)
        seen["floor"].append(took)
        seen["bytes"].append(size / 1e6)
        queries = len(client.sent)
        wall, cpu = time.perf_counter(), time.process_time()
        diagnose(catalogue, window.poll(Question(), end - (runs - turn - 1) * INTERVAL_S))
        seen["polled"].append(time.perf_counter() - wall)
        seen["poll_cpu"].append(time.process_time() - cpu)
    middle = {name: statistics.median(values) for name, values in seen.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(engines, queries, middle.pop("bytes"), peak=peak, **middle)


def measured(url: str, end: float, runs: int) -> Cost:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "bench.scale", "--measure", url, "--at", str(end), "--runs", str(runs)]
    return Cost(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


def scraped(folder: Path, count: int, warm: float) -> tuple[Path, float]:
    """Scrape so many engines for ``warm`` seconds; the folder of the blocks, and when they end."""
    with fleet.engines(fleet.lines()) as port:
        (folder / "prometheus.yml").write_text(fleet.config(port, count, []))
        with fleet.server(folder) as (url, _):
            time.sleep(warm)
            return fleet.snapshot(url, folder), time.time() - fleet.SCRAPE_S


def recording_rules(path: Path, interval: float) -> None:
    """Write the exported recording rules that read metrics and not each other: promtool evaluates each by itself."""
    rules = [
        rule
        for group in documents(Matrix(load_catalogue([shipped("rules")]), Options(interval=interval)))
        for rule in group["rules"]  # type: ignore[attr-defined]
        if "record" in rule and "palanca:" not in rule["expr"]
    ]
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "interval": f"{interval:g}s", "rules": rules}]}))


def compare(data: Path, end: float, runs: int, interval: float) -> tuple[Cost, Cost]:
    """Measure without the recording rules and with them, and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(data, folder / "raw" / "data")
        with prometheus(None, folder / "raw") as url:
            raw = measured(url, end, runs)
        show("raw", raw)
        shutil.copytree(data, folder / "recorded" / "data")
        recording_rules(folder / "rules.yaml", interval)
        began = time.perf_counter()
        with prometheus(None, folder / "recorded", recorded=Recorded(folder / "rules.yaml", end - SPAN_S, end)) as url:
            took = (time.perf_counter() - began) / (SPAN_S / interval)
            recorded = measured(url, end, runs)
        show("recorded", recorded)
    ratio = raw.diagnosis / recorded.diagnosis
    print(f"{raw.engines:>8} raw / recorded: {ratio:.1f}; recording takes {took:.1f} s each time", flush=True)
    return raw, recorded


def show(variant: str, cost: Cost) -> None:
    """Print one line of the table."""
    print(
        f"{cost.engines:>8} {variant:<9} {cost.queries:>7} {cost.megabytes:>6.1f} {cost.diagnosis:>10.2f} "
        f"{cost.floor:>6.2f} {cost.diagnosis / cost.floor:>6.2f} {cost.cpu:>6.2f} {cost.polled:>6.2f} "
        f"{cost.poll_cpu:>8.2f} {cost.peak:>9.0f}   load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def main() -> None:
    """Read the arguments, measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--warm", type=float, default=400, help="seconds until the windows of 5 minutes are full")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--interval", type=float, default=60, help="seconds between evaluations of the rules")
    parser.add_argument("--measure", metavar="URL", help="measure a running Prometheus, print JSON, and no more")
    parser.add_argument("--at", type=float, help="with --measure: when the data end")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(asdict(measure(arguments.measure, arguments.at or time.time(), arguments.runs))))
        return
    print(" engines            queries     MB  diagnosis  floor  times    cpu   poll poll cpu  peak MiB")
    found = {}
    for count in sorted(arguments.engines):
        with tempfile.TemporaryDirectory() as name:
            data, end = scraped(Path(name), count, arguments.warm)
            found[count] = compare(data, end, arguments.runs, arguments.interval)
    for small, large in itertools.pairwise(sorted(found)):
        grown = [found[large][one].diagnosis / found[small][one].diagnosis for one in (0, 1)]
        print(f"{large} against {small} engines: raw {grown[0]:.1f} times, recorded {grown[1]:.1f}")


if __name__ == "__main__":
    main()
