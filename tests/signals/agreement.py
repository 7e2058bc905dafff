"""Reads the same data with both readers and compares everything that they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tests.servers import arithmetic

from palanca.model import Catalogue, Readings, SourceInfo
from palanca.signals.asking import Queries
from palanca.signals.leaves import Grid
from palanca.signals.queries import PromQLReader
from palanca.signals.readings import read
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore, Series

TOLERANCE = 1e-6
NOTHING = 1e-9
"""Absolute: differences of equal numbers."""
INFO = SourceInfo("test", "")


@dataclass
class Counted:
    """Passes queries on and keeps their texts."""

    queries: Queries
    texts: list[str] = field(default_factory=list)

    def query(self, text: str, time: float) -> Sequence[Series]:
        self.texts.append(text)
        return self.queries.query(text, time)

    def query_range(self, text: str, start: float, end: float, step: float) -> Sequence[Series]:
        self.texts.append(text)
        return self.queries.query_range(text, start, end, step)


def both(
    catalogue: Catalogue,
    queries: Queries,
    store: SampleStore,
    grid: Grid,
    *,
    window: float | None = None,
    matchers: Mapping[str, str] | None = None,
) -> tuple[Readings, Readings]:
    """Readings through PromQL and from samples."""
    asked = PromQLReader(queries, catalogue, grid, window=window, matchers=matchers)
    computed = SampleReader(store, catalogue.metrics, grid, matchers=matchers, **arithmetic())
    return (
        read(catalogue, asked, grid, INFO, window=window),
        read(catalogue, computed, grid, INFO, window=window),
    )


def differences(asked: Readings, computed: Readings) -> tuple[list[str], float]:
    """Return what differs, in words, and the largest relative difference of values."""
    if asked.targets != computed.targets:
        return [f"targets: {set(asked.targets) ^ set(computed.targets)}"], np.inf
    words = [f"versions: {asked.versions} {computed.versions}"] * (asked.versions != computed.versions)
    words += [f"info: {asked.info} {computed.info}"] * (asked.info != computed.info)
    words += ["covered"] * (not np.allclose(np.minimum(asked.covered, 3600), np.minimum(computed.covered, 3600)))
    worst = 0.0
    for name, one in asked.signals.items():
        other = computed.signals[name]
        places = np.argwhere(one.states != other.states)
        words += [f"{name}: states {one.states[tuple(at)]} {other.states[tuple(at)]} at {at}" for at in places[:2]]
        if not np.allclose(one.window, other.window):
            words.append(f"{name}: windows")
        same = (np.isnan(one.values) & np.isnan(other.values)) | (np.isinf(one.values) & (one.values == other.values))
        a, b = one.values[~same], other.values[~same]
        infinite = np.isinf(a) | np.isinf(b)  # on one side only, or of the other sign
        off = np.abs(np.where(infinite, np.inf, a) - np.where(infinite, 0.0, b))
        wrong = infinite | ~(off <= np.maximum(TOLERANCE * np.abs(b), NOTHING))
        words += [f"{name}: {x!r} {y!r}" for x, y in list(zip(a[wrong], b[wrong], strict=True))[:2]]
        sizable = (np.abs(b) > NOTHING) & ~infinite
        worst = max(worst, float(np.max(off[sizable] / np.abs(b[sizable]), initial=0.0)))
    return words, worst
