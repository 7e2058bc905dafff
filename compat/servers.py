"""VictoriaMetrics over a recording, as ``tests.servers`` has Prometheus."""

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
def victoria_metrics(text: Path, folder: Path) -> Iterator[str]:
    """Serve OpenMetrics text by a VictoriaMetrics of its own in ``folder``; yields its URL and ends it."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        tool("victoria-metrics"), f"-httpListenAddr={url.removeprefix('http://')}", f"-storageDataPath={folder / 'data'}",
        "-retentionPeriod=100y", "-memory.allowedBytes=256MB", "-loggerLevel=WARN",
    ]  # fmt: skip
    with running(command, f"{url}/health", folder):
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
