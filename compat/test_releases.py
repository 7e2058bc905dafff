"""All releases and front ends of vLLM at once in every query API: a fleet in the middle of every upgrade there was."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from compat.back_ends import BackEnd
from compat.conftest import SOURCES, Note
from compat.said import said
from tests.engines import shipped
from tests.live import lines
from tests.releases.dialects import Dialect, dialects
from tests.releases.loads import INTERVAL_S, LOADS, STEPS, laid
from tests.releases.test_dialects import assert_fires

from palanca.poll import Question, Source, run
from palanca.render.document import to_json
from palanca.signals.store import Series
from palanca.sources.prometheus import Prometheus
from palanca.sources.recording import RecordingSource
from palanca.sources.server import PrometheusSource

BEGIN = 1_790_000_000
"""Unix seconds."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every load in every dialect as OpenMetrics text, each a server and a model of its own."""
    path = tmp_path_factory.mktemp("fleet") / "fleet.om"
    times = (BEGIN + np.arange(STEPS, dtype=np.int64) * INTERVAL_S) * 1000
    whole = [
        Series(line.name, line.labels, times, line.values)
        for dialect in dialects()
        for name, load in LOADS.items()
        for line in laid(dialect, load, f"{dialect.title}, {name}").lines
    ]
    with path.open("w", encoding="utf-8") as out:
        for one in sorted(whole, key=lambda series: series.name):
            out.writelines(lines(one, one.labels))
        out.write("# EOF\n")
    return path


def diagnosis(source: Source) -> list[object]:
    """What is said of each engine at the end."""
    made = run(shipped(), source, Question(at=float(BEGIN + (STEPS - 1) * INTERVAL_S)))
    return [said(report) for report in json.loads(to_json(made))["targets"]]


@pytest.fixture(scope="module")
def from_file(fleet: Path) -> list[object]:
    return diagnosis(RecordingSource(fleet))


def test_fleet(source: BackEnd, fleet: Path, from_file: list[object], tmp_path: Path, note: Note) -> None:
    """Each engine is judged as from the file, whatever the others are."""
    with source.serving(fleet, tmp_path / "server") as url, Prometheus(url) as client:
        found = diagnosis(PrometheusSource(client, clock=time.time))
    assert from_file == found
    assert len(found) > len(dialects()) * len(LOADS)
    note(source, "all releases at once", f"{len(found)} engines in {len(dialects())} dialects")


@pytest.mark.parametrize("dialect", dialects(), ids=lambda one: one.title)
def test_exported_alerts_fire(dialect: Dialect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those exported for exactly this release and prefix, in the newest Prometheus."""
    monkeypatch.setenv("PATH", SOURCES[-2].path)
    assert_fires(dialect, tmp_path)
