"""The same series for both readers: as samples in memory, and as input of ``promtool test rules``.

Everything lies on a grid from 0 on, ``interval`` seconds apart, so that promtool's notation says it exactly.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from tests.engines import shipped
from tests.servers import tool

from palanca import expressions
from palanca.alerting.conditions import literal
from palanca.alerting.notation import selector
from palanca.model import Target
from palanca.moments import seconds
from palanca.signals.store import SampleStore, Series

BEAT = "num_requests_running"
START = "process_start_time_seconds"
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SAMPLE = re.compile(r'\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\} ([-+0-9.EeINnaf]+)')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


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
        """The series as promtool reads them; where there is no sample there is a gap."""
        return [
            {
                "series": selector(one.name, one.labels),
                "values": " ".join(
                    literal(float(value)) if there else "_" for value, there in zip(one.values, one.there, strict=True)
                ),
            }
            for one in self.lines
        ]


def joined(replays: Sequence[Replay]) -> Replay:
    """All series together; intervals must be equal."""
    (interval,) = {one.interval for one in replays}
    return Replay(interval, max(one.steps for one in replays), tuple(line for one in replays for line in one.lines))


def snapped(store: SampleStore, names: Iterable[str], interval: int, more: Mapping[str, str]) -> Replay:
    """Lay samples on a grid: at each step the newest one since the step before. ``more`` replaces labels."""
    begin, end = store.span()
    steps = int((end - begin) // interval) + 1
    return _laid(store, names, interval, steps, more, lambda times: np.ceil((times / 1000 - begin) / interval - 1e-9))


def stretched(store: SampleStore, names: Iterable[str], interval: int, more: Mapping[str, str]) -> Replay:
    """Take each scrape as one step: a recording of minutes becomes one of a quarter of an hour, with slower rates."""
    scrapes = np.unique(np.concatenate([block.times for block in store.blocks(f"vllm:{BEAT}")]))
    return _laid(store, names, interval, len(scrapes), more, lambda times: np.searchsorted(scrapes, times - 1500))


def _laid(
    store: SampleStore,
    names: Iterable[str],
    interval: int,
    steps: int,
    more: Mapping[str, str],
    index_of: Callable[[NDArray[np.int64]], NDArray[np.generic]],
) -> Replay:
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


def exposed(names: Iterable[str]) -> frozenset[str]:
    """Names with the suffixes of histograms."""
    return frozenset(name + suffix for name in names for suffix in ("", "_bucket", "_sum", "_count"))


@cache
def reach(name: str) -> float:
    """How many seconds back a signal looks."""
    signal = shipped().signals[name]
    if signal.expr is not None:
        return max(reach(part) for part in expressions.names(expressions.parse(signal.expr)))
    instant = signal.kind in {"now", "since", "present"}
    own = 0.0 if instant else signal.window + signal.offset
    return max(own, reach(signal.fallback)) if signal.fallback is not None else own


# --- promtool ----------------------------------------------------------------------------------------


def promtool(
    folder: Path, rules: str, interval: int, inputs: Sequence[Mapping[str, str]], checks: Sequence[Mapping[str, object]]
) -> str:
    """Let promtool evaluate a rule file over series and compare; the text of its failure, empty where all is equal."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.yaml").write_text(rules, encoding="utf-8")
    content = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{interval}s",
        "tests": [{"interval": f"{interval}s", "input_series": list(inputs), "promql_expr_test": list(checks)}],
    }
    file = folder / "tests.yaml"
    file.write_text(
        yaml.dump(content, Dumper=_DUMPER, sort_keys=False, width=1e9, allow_unicode=True), encoding="utf-8"
    )
    done = subprocess.run([tool("promtool"), "test", "rules", str(file)], check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def answers(failure: str) -> dict[float, dict[tuple[str, Target], float]]:
    """What promtool got for checks that expected nothing: by time, name and labels."""
    times = re.findall(r"time: (\S+),", failure)
    texts = re.findall(r"got: (.*)", failure)
    found: dict[float, dict[tuple[str, Target], float]] = {}
    for time, text in zip(times, texts, strict=True):
        mine = found.setdefault(seconds(time), {})
        for inside, value in _SAMPLE.findall(text):
            labels = {name: _plain(quoted) for name, quoted in _LABEL.findall(inside)}
            name = labels.pop("__name__", "")
            mine[name, Target.of(labels)] = float(value.replace("Inf", "inf"))
    return found


def _plain(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda one: "\n" if one[1] == "n" else one[1], quoted)
