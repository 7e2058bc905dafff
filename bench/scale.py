"""What a diagnosis and a poll of many engines cost, over a live Prometheus with and without the recording rules.

Run as ``python -m bench.scale [--engines 10 100 1000]``; about 9 minutes a size. Every measurement is made by a fresh
process, so that its peak memory is its own, and pages are served by another one. The floor is the same queries sent
by curl with equal concurrency, in turns with the diagnosis.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import fleet
from bench.queries import THREADS, Recorder, by_curl

from palanca.alerting.group import prometheus
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


def measure(url: str, runs: int) -> Cost:
    """Diagnose, send the same queries by curl, and poll, in turns."""
    catalogue = load_catalogue([shipped("rules")])
    client = Recorder(url, Access(timeout=300))
    source = PrometheusSource(client, clock=time.time, threads=THREADS)
    seen: dict[str, list[float]] = {name: [] for name in ("diagnosis", "floor", "cpu", "polled", "poll_cpu", "bytes")}
    engines = queries = 0
    window = Window(catalogue, source, INTERVAL_S)
    window.poll(Question(), time.time() - runs * INTERVAL_S)
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
        diagnose(catalogue, window.poll(Question(), time.time() - (runs - turn - 1) * INTERVAL_S))
        seen["polled"].append(time.perf_counter() - wall)
        seen["poll_cpu"].append(time.process_time() - cpu)
    middle = {name: statistics.median(values) for name, values in seen.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(engines, queries, middle.pop("bytes"), peak=peak, **middle)


def measured(url: str, runs: int) -> Cost:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "bench.scale", "--measure", url, "--runs", str(runs)]
    return Cost(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def compare(count: int, warm: float, runs: int, interval: float) -> tuple[Cost, Cost]:
    """Measure with so many engines, without the recording rules and with them, and print."""
    with tempfile.TemporaryDirectory() as name, fleet.engines(fleet.lines()) as port:
        folder = Path(name)
        rules = folder / "generated.yaml"
        (folder / "prometheus.yml").write_text(fleet.config(port, count, [rules.name]))
        rules.write_text("groups: []\n")
        with fleet.server(folder) as (url, process):
            time.sleep(warm)
            raw = measured(url, runs)
            show("raw", raw)
            options = Options(interval=interval)
            rules.write_text(prometheus(Matrix(load_catalogue([shipped("rules")]), options)))
            fleet.reload(process)
            time.sleep(3 * interval + (runs + 1) * INTERVAL_S)
            recorded = measured(url, runs)
            show("recorded", recorded)
    print(f"{count:>8} without recording rules / with them: {raw.diagnosis / recorded.diagnosis:.1f}", flush=True)
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
    parser.add_argument("--warm", type=float, default=360, help="seconds until the windows of 5 minutes are full")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--interval", type=float, default=60, help="seconds between evaluations of the rules")
    parser.add_argument("--measure", metavar="URL", help="measure a running Prometheus, print JSON, and no more")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(asdict(measure(arguments.measure, arguments.runs))))
        return
    print(" engines            queries     MB  diagnosis  floor  times    cpu   poll poll cpu  peak MiB")
    found = {}
    for count in sorted(arguments.engines):
        found[count] = compare(count, arguments.warm, arguments.runs, arguments.interval)
    sizes = sorted(found)
    for small, large in itertools.pairwise(sizes):
        grown = [found[large][one].diagnosis / found[small][one].diagnosis for one in (0, 1)]
        print(f"{large} against {small} engines: raw {grown[0]:.1f} times, recorded {grown[1]:.1f}")


if __name__ == "__main__":
    main()
