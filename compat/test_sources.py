"""The same recordings through every query API: the same diagnosis, and values as far as its arithmetic allows."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from compat.back_ends import PROMETHEUS, VICTORIA_METRICS, BackEnd, back_ends, passing
from compat.conftest import Note
from compat.said import said
from tests.engines import RECORDINGS, ROOT, shipped
from tests.signals.agreement import TOLERANCE, both, differences
from tests.test_real_recordings import EXPECT

from palanca.model import Readings, State
from palanca.signals.leaves import Grid
from palanca.sources.prometheus import Prometheus
from palanca.sources.recording import load

BENCHMARK = sorted((ROOT / "tests" / "data" / "benchmark").glob("*.om.gz"))
KNOWN = {State.OK, State.LOWER_BOUND, State.INTERPOLATED}
LACKING = {State.ABSENT, State.STALE, State.NOT_APPLICABLE}
BORN = {"process_restarts", "restarts"}
"""VictoriaMetrics counts the first value of a series as a change."""


@dataclass(frozen=True)
class Asked:
    """A recording and the moment that it is asked for."""

    path: Path
    at: float
    window: Sequence[str] = ()


def asked() -> Iterator[Asked]:
    """The real recordings at the moments that they are expected at, and the cases of the benchmark at their end."""
    for name, expect in EXPECT.items():
        window = ("--window", expect["window"]) if "window" in expect else ()
        yield Asked(RECORDINGS / f"{name}.om.gz", expect["at"], window)
    for path in BENCHMARK:
        yield Asked(path, load(path).span()[1])


def diagnosis(one: Asked, *where: str) -> list[object]:
    """What the command says, save for values of signals, which are compared by themselves."""
    command = ["-m", "palanca.cli", "diagnose", *where, "--at", f"{one.at:.3f}", *one.window, "--format", "json"]
    done = subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode in {0, 1}, done.stderr
    return [said(report) for report in json.loads(done.stdout)["targets"]]


def test_diagnoses(source: BackEnd, tmp_path: Path, note: Note) -> None:
    """Findings, recommendations and their values, what is unknown and what does not apply: as from the file."""
    every = list(asked())
    for index, one in enumerate(every):
        with source.serving(one.path, tmp_path / str(index)) as url:
            assert diagnosis(one, "--recording", str(one.path)) == diagnosis(one, url), one.path.name
    note(source, "diagnoses as from the file", f"{len(every)} of {len(every)}")


def test_values(source: BackEnd, tmp_path: Path, note: Note) -> None:
    """Every signal of the real recordings: Prometheus to 1e-6; VictoriaMetrics has an arithmetic of its own."""
    if source.kind != VICTORIA_METRICS:
        passing("tests/signals/test_readers_agree.py")
    words, worst, off, lacking = [], 0.0, [], []
    for index, one in enumerate(asked()):
        with source.serving(one.path, tmp_path / str(index)) as url, Prometheus(url) as client:
            pair = both(shipped(), client, load(one.path), Grid(one.at, 20, 15))
        said, far = differences(*pair)
        words += said
        worst = max(worst, far)
        off += list(_relative(*pair))
        lacking += [f"{one.path.name}: {name}" for name in _lacking(*pair)]
    if source.kind != VICTORIA_METRICS:
        assert ([], True) == (words, worst <= TOLERANCE)
        note(source, "values of signals", f"equal to {worst:.0e}")
        return
    assert [] == lacking
    half, most = np.quantile(off, [0.5, 0.95])
    assert (half, most) < (0.01, 0.1)
    note(source, "values of signals", f"half of them within {half:.1%}, 95 % within {most:.1%}")


@pytest.mark.parametrize("source", back_ends(PROMETHEUS), indirect=True, ids=lambda one: one.title)
def test_bounds_that_an_upgrade_writes_otherwise(source: BackEnd, tmp_path: Path) -> None:
    """Prometheus 3 writes ``1.0`` where an older one wrote ``1``: with both in a window the quantiles are the same."""
    path, at = tmp_path / "upgraded.om", EXPECT["kv-saturated"]["at"]
    lines = gzip.decompress((RECORDINGS / "kv-saturated.om.gz").read_bytes()).decode().splitlines(keepends=True)
    whole = re.compile(r'le="(\d+)\.0"')
    old = (whole.sub(r'le="\1"', line) if float(line.split()[-1]) < at - 120 else line for line in lines[:-1])
    path.write_text("".join([*old, lines[-1]]))
    with source.serving(path, tmp_path / "server") as url, Prometheus(url) as client:
        read, computed = both(shipped(), client, load(path), Grid(at, 20, 15))
    off = [*_relative(read, computed)]
    assert len(off) > 1000
    assert max(off) <= TOLERANCE


def _lacking(read: Readings, computed: Readings) -> Iterator[str]:
    """Signals that one side has and the other lacks. Idle is no lack: a rate that sees one sample more is not 0."""
    for name in computed.signals.keys() - BORN:
        one, other = (np.isin(side.signals[name].states, list(LACKING)) for side in (read, computed))
        if not np.array_equal(one, other):
            yield f"{name} at {np.argwhere(one != other)[0]}"


def _relative(read: Readings, computed: Readings) -> Iterator[float]:
    """How far apart numbers are that both know, relative to the size of the second."""
    for name in computed.signals.keys() - BORN:
        one, other = read.signals[name], computed.signals[name]
        known = np.isin(one.states, list(KNOWN)) & np.isin(other.states, list(KNOWN))
        usable = known & np.isfinite(one.values) & np.isfinite(other.values) & (np.abs(other.values) > 1e-9)
        yield from (np.abs(one.values[usable] - other.values[usable]) / np.abs(other.values[usable])).tolist()
