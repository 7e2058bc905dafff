"""VictoriaMetrics and vmalert, as ``tests.servers`` has Prometheus."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tests.servers import free_port, running, tool

from palanca.sources.recording import load


@contextmanager
def victoria_metrics(text: Path | None, folder: Path, config: str = "scrape_configs: []\n") -> Iterator[str]:
    """Serve OpenMetrics text, or what it scrapes, by a VictoriaMetrics of its own in ``folder``; yields its URL."""
    url, scrape = f"http://127.0.0.1:{free_port()}", folder / "scrape.yml"
    folder.mkdir(parents=True, exist_ok=True)
    scrape.write_text(config)
    command = [
        tool("victoria-metrics"), f"-httpListenAddr={url.removeprefix('http://')}",
        f"-storageDataPath={folder / 'data'}", f"-promscrape.config={scrape}",
        "-retentionPeriod=100y", "-memory.allowedBytes=2GB", "-loggerLevel=WARN",
    ]  # fmt: skip
    with running(command, f"{url}/health", folder):
        if text is not None:
            for path, body in (("/api/v1/import", b"".join(_lines(text))), ("/internal/force_flush", None)):
                with urllib.request.urlopen(url + path, data=body, timeout=60) as answer:
                    answer.read()
        yield url


def _lines(text: Path) -> Iterator[bytes]:
    """Series as VictoriaMetrics' JSON lines; a sample that is no number is left out, as its importer has none."""
    store = load(text)
    for name in sorted(store.names):
        for block in store.blocks(name):
            for labels, values in zip(block.labels, block.values, strict=True):
                there = np.isfinite(values)
                made = {
                    "metric": {"__name__": name, **labels},
                    "values": values[there].tolist(),
                    "timestamps": block.times[there].tolist(),
                }
                yield json.dumps(made).encode() + b"\n"


@contextmanager
def vmalert(rules: Path, storage: str, alertmanager: str, folder: Path) -> Iterator[None]:
    """Evaluate a rule file over a VictoriaMetrics, and send alerts to an Alertmanager."""
    address = f"127.0.0.1:{free_port()}"
    command = [
        tool("vmalert"), f"-httpListenAddr={address}", f"-rule={rules}", f"-datasource.url={storage}",
        f"-remoteWrite.url={storage}", f"-remoteRead.url={storage}", f"-notifier.url={alertmanager}",
        "-loggerLevel=WARN",
    ]  # fmt: skip
    with running(command, f"http://{address}/health", folder):
        yield
