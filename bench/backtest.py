"""What ``backtest`` of a day of 20 engines at 1 min costs over a Prometheus, beside the same queries sent by curl.

Run as ``python -m bench.backtest [--hours 24] [--engines 20]``; the data, one sample a minute, are written first. Each
engine has a full KV cache and a queue for one hour in seven.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bench import fleet
from bench.queries import THREADS, Recorder, by_curl
from tests.servers import import_text, prometheus

from palanca.backtest import Backtest, Span
from palanca.check import load_catalogue
from palanca.poll import reading_of
from palanca.resources import shipped
from palanca.sources.server import PrometheusSource

SCRAPE_S = 60
BLOCK_S = 7200
"""Blocks of Prometheus; a file for each, since the import reads a file once for every block."""
HOUR_S = 3600
PERIOD_H = 7


def texts(engines: int, start: int, end: int) -> Iterator[str]:
    """Write OpenMetrics text of the engines: one text for each block."""
    shown = fleet.lines()
    counts = np.array([line.counts for line in shown])
    levels = np.array([[line.healthy, line.trouble] for line in shown])
    heads = [[_head(line.head, engine) for line in shown] for engine in range(engines)]
    totals = np.zeros((engines, len(shown)))
    rows: list[str] = []
    for now in range(start, end, SCRAPE_S):
        for engine in range(engines):
            level = levels[:, int((now // HOUR_S + engine) % PERIOD_H == 0)]
            totals[engine] += level * SCRAPE_S
            values = np.where(counts, totals[engine], level)
            rows += [f"{head} {value:.3f} {now}\n" for head, value in zip(heads[engine], values.tolist(), strict=True)]
        if (now + SCRAPE_S) % BLOCK_S == 0 or now + SCRAPE_S >= end:
            yield "".join([*rows, "# EOF\n"])
            rows.clear()


def _head(head: str, engine: int) -> str:
    labels = f'job="vllm",instance="engine-{engine}:80"}}'
    return head.removesuffix("}") + "," + labels if head.endswith("}") else f"{head}{{{labels}"


def main() -> None:
    """Write the data, run the backtest, send its queries again, and print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--engines", type=int, default=20)
    arguments = parser.parse_args()
    end = int(time.time()) // BLOCK_S * BLOCK_S - BLOCK_S
    start = end - (arguments.hours + 1) * HOUR_S
    catalogue = load_catalogue([shipped("rules")])
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), Path(name) / "block.om"
        for block in texts(arguments.engines, start, end):
            text.write_text(block)
            import_text(text, folder / "data")
        text.unlink()
        with prometheus(None, folder) as url:
            client = Recorder(url)
            client.sent = []
            source = PrometheusSource(client, clock=time.time, threads=THREADS)
            span = Span(end - arguments.hours * HOUR_S, end - SCRAPE_S, 60)
            began, cpu = time.perf_counter(), time.process_time()
            reading = reading_of(catalogue, source, {})
            test = Backtest(catalogue, lambda grid: reading(grid, None), span)
            episodes = sum(1 for _ in test.run())
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            floor, size = by_curl(client.url, client.sent)
    print(f"{arguments.engines} engines, {arguments.hours} h, {episodes} episodes, load {os.getloadavg()[0]:.1f}")
    print(f"{len(client.sent)} queries, {size / 1e6:.0f} MB of answers")
    print(f"backtest {took:.1f} s ({cpu:.1f} s of it processor), curl {floor:.1f} s, {took / floor:.2f} times")


if __name__ == "__main__":
    main()
