"""What a Prometheus has of a job, as OpenMetrics text with a timestamp on every sample."""

from __future__ import annotations

import gzip
import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode


def record(url: str, span: tuple[float, float], path: Path) -> int:
    """Write all samples of the job from a moment to another (unix seconds), packed; gives the number of samples."""
    begin, end = span
    query = urlencode({"query": f'{{job="vllm"}}[{round(end - begin) + 1}s]', "time": f"{end:.3f}"})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=60) as answer:  # noqa: S310  our own server
        found = json.load(answer)["data"]["result"]
    lines = text(found)
    with path.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        packed.write("".join(lines).encode())
    return len(lines) - 1


def text(found: list[Mapping[str, Any]]) -> list[str]:
    """Lines of the result of a range selector, series by series."""
    lines = []
    for series in sorted(found, key=lambda one: sorted(one["metric"].items())):
        labels = dict(series["metric"])
        name = labels.pop("__name__")
        inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in sorted(labels.items()))
        lines += [f"{name}{{{inside}}} {value} {time:.3f}\n" for time, value in series["values"]]
    return [*lines, "# EOF\n"]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
