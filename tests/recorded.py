"""The real recordings as readings on any grid, as the command line reads them."""

from __future__ import annotations

from functools import cache

from tests.engines import RECORDINGS, shipped

from palanca.facts import add_facts
from palanca.model import Readings, SourceInfo
from palanca.signals.leaves import Grid
from palanca.signals.readings import read
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore
from palanca.sources.recording import known_names, load


@cache
def store(name: str) -> SampleStore:
    """The samples of a recording, loaded once."""
    return load(RECORDINGS / f"{name}.om.gz", keep=known_names(shipped().metrics))


def raw(name: str, grid: Grid, window: float | None = None) -> Readings:
    """Readings without facts."""
    reader = SampleReader(store(name), shipped().metrics, grid)
    return read(shipped(), reader, grid, SourceInfo("recording", name), window=window)


def read_recording(name: str, grid: Grid, window: float | None = None) -> Readings:
    """Readings with facts."""
    return add_facts(raw(name, grid, window), shipped())
