"""Queries of a diagnosis over a Prometheus, beside the same queries sent by curl. Prints a table."""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from palanca.check import load_catalogue
from palanca.moments import parse_moment
from palanca.poll import Question, run
from palanca.resources import shipped
from palanca.signals.store import Columns
from palanca.sources.prometheus import Prometheus
from palanca.sources.server import PrometheusSource
from palanca.sources.session import Access

THREADS = 4


class Recorder(Prometheus):
    """A client that remembers what it was asked."""

    def __init__(self, url: str, access: Access | None = None) -> None:
        super().__init__(url, access)
        self.sent: list[tuple[str, dict[str, str]]] = []

    def query(self, text: str, time: float) -> Columns:
        """Ask for an instant."""
        self.sent.append(("query", {"query": text, "time": f"{time:.3f}"}))
        return super().query(text, time)

    def query_range(self, text: str, start: float, end: float, step: float) -> Columns:
        """Ask for a range."""
        parameters = {"query": text, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        self.sent.append(("query_range", parameters))
        return super().query_range(text, start, end, step)


def by_curl(url: str, asked: Sequence[tuple[str, dict[str, str]]]) -> tuple[float, int]:
    """Send the queries by curl, as many at once as palanca does: wall time and bytes."""
    curl = shutil.which("curl") or sys.exit("curl is needed")
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for index, (endpoint, parameters) in enumerate(asked):
            body = Path(folder) / f"{index}.form"
            body.write_text(urlencode(parameters), encoding="ascii")
            lines += [
                f'url = "{url}/api/v1/{endpoint}"',
                f'data = "@{body}"',
                f'output = "{folder}/{index}.json"',
                "next",
            ]
        config = Path(folder) / "config"
        config.write_text("\n".join(lines[:-1]), encoding="ascii")
        began = time.perf_counter()
        options = ["--no-progress-meter", "--fail", "--parallel", "--parallel-max", str(THREADS)]
        subprocess.run([curl, *options, "--config", str(config)], check=True)
        took = time.perf_counter() - began
        return took, sum(path.stat().st_size for path in Path(folder).glob("*.json"))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--at")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    at = None if arguments.at is None else parse_moment(arguments.at, now=time.time())
    catalogue = load_catalogue([shipped("rules")])
    ours, theirs, size, engines = [], [], 0, 0
    client = Recorder(arguments.url)
    for _ in range(arguments.runs):
        client.sent = []
        began = time.perf_counter()
        engines = len(
            run(catalogue, PrometheusSource(client, clock=time.time, threads=THREADS), Question(at=at)).targets
        )
        ours.append(time.perf_counter() - began)
        took, size = by_curl(client.url, client.sent)
        theirs.append(took)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{engines} engines, {len(client.sent)} queries, {size / 1e6:.1f} MB of answers, peak {peak:.0f} MiB")
    print(f"diagnosis  median {statistics.median(ours):.2f} s  ({min(ours):.2f}-{max(ours):.2f})")
    print(f"curl       median {statistics.median(theirs):.2f} s  ({min(theirs):.2f}-{max(theirs):.2f})")
    print(f"ratio of medians {statistics.median(ours) / statistics.median(theirs):.2f}")


if __name__ == "__main__":
    main()
