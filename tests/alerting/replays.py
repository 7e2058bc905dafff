"""The same series for both readers: as samples in memory, and as input of ``promtool test rules``.

Everything lies on a grid from 0 on, ``interval`` seconds apart, so that promtool's notation says it exactly.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from tests.servers import tool

from palanca.model import Catalogue
from palanca.signals.store import SampleStore, Series
from palanca.sources.recording import load

BEAT = "num_requests_running"
START = "process_start_time_seconds"


@dataclass(frozen=True)
class Line:
    """One series on the grid: ``values [steps]``, and where there is a sample."""

    name: str
    labels: Mapping[str, str]
    values: NDArray[np.float64]
    there: NDArray[np.bool_]


@dataclass(frozen=True)
class Replay:
    """Series on a grid."""

    interval: int
    steps: int
    lines: tuple[Line, ...]

    def store(self) -> SampleStore:
        """The series as samples in memory."""
        times = np.arange(self.steps, dtype=np.int64) * self.interval * 1000
        return SampleStore(
            Series(one.name, one.labels, times[: len(one.values)][one.there], one.values[one.there])
            for one in self.lines
            if one.there.any()
        )

    def input_series(self) -> list[dict[str, str]]:
        """The series as promtool reads them."""
        return [{"series": selector(one.name, one.labels), "values": _values(one)} for one in self.lines]

    def joined(self, others: Iterable[Replay]) -> Replay:
        """All series together; intervals must be equal."""
        every = [self, *others]
        assert {one.interval for one in every} == {self.interval}
        return Replay(
            self.interval, max(one.steps for one in every), tuple(line for one in every for line in one.lines)
        )


def selector(name: str, labels: Mapping[str, str]) -> str:
    """A series as text."""
    inside = ",".join(f"{label}={_quoted(value)}" for label, value in sorted(labels.items()))
    return f"{name}{{{inside}}}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _values(line: Line) -> str:
    texts = []
    for value, there in zip(line.values, line.there, strict=True):
        texts.append(_number(float(value)) if there else "_")
    return " ".join(texts)


def _number(value: float) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(value)


def snapped(store: SampleStore, names: Iterable[str], interval: int, more: Mapping[str, str]) -> Replay:
    """Lay samples on a grid: at each step the newest one since the step before. ``more`` replaces labels."""
    begin, end = store.span()
    steps = int((end - begin) // interval) + 1
    return _laid(store, names, interval, steps, more, lambda times: np.ceil((times / 1000 - begin) / interval - 1e-9))


def stretched(store: SampleStore, names: Iterable[str], interval: int, more: Mapping[str, str]) -> Replay:
    """Take each scrape as one step: a short recording becomes a long one with slower rates."""
    scrapes = np.unique(np.concatenate([block.times for block in store.blocks(f"vllm:{BEAT}")]))
    return _laid(store, names, interval, len(scrapes), more, lambda times: np.searchsorted(scrapes, times - 1500))


def _laid(
    store: SampleStore, names: Iterable[str], interval: int, steps: int, more: Mapping[str, str], index_of: object
) -> Replay:
    assert callable(index_of)
    begin = store.span()[0]
    lines = []
    for name in sorted(names):
        for block in store.blocks(name):
            index = np.asarray(index_of(block.times), dtype=np.int64)
            kept = index < steps
            for labels, values in zip(block.labels, block.values, strict=True):
                laid, there = np.zeros(steps), np.zeros(steps, dtype=bool)
                shown = values - begin if name == START else values
                laid[index[kept]], there[index[kept]] = shown[kept], True
                lines.append(Line(name, {**labels, **more}, laid, there))
    return Replay(interval, steps, tuple(lines))


def exposed(names: Iterable[str]) -> set[str]:
    """Names with the suffixes of histograms."""
    return {name + suffix for name in names for suffix in ("", "_bucket", "_sum", "_count")}


def recording(path: Path) -> SampleStore:
    """Samples of a recording."""
    return load(path)


# --- promtool ----------------------------------------------------------------------------------------


def run_tests(folder: Path, rules: Sequence[Path], interval: int, tests: Sequence[Mapping[str, object]]) -> str:
    """Run promtool over tests; the text of its failure, empty where all pass."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tests.yaml"
    content = {
        "rule_files": [str(path) for path in rules],
        "evaluation_interval": f"{interval}s",
        "tests": [{"interval": f"{interval}s", **test} for test in tests],
    }
    file.write_text(
        yaml.dump(content, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, width=1e9)
    )
    done = subprocess.run([tool("promtool"), "test", "rules", str(file)], check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def signal_span(catalogue: Catalogue, name: str) -> float:
    """How many seconds back a signal reaches."""
    from palanca import expressions  # noqa: PLC0415

    signal = catalogue.signals[name]
    parts: Iterator[str] = iter(())
    if signal.expr is not None:
        parts = iter(expressions.names(expressions.parse(signal.expr)))
    elif signal.fallback is not None:
        parts = iter((signal.fallback,))
    instant = signal.expr is not None or signal.kind in {"now", "since", "present"}
    own = 0.0 if instant else signal.window + signal.offset
    return max([own, *(signal_span(catalogue, part) for part in parts)])
