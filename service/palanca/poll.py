"""One cycle: ask a source, read the signals, judge. The clock and the source are arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from palanca.diagnosis import diagnose
from palanca.errors import NoTargetsError
from palanca.facts import add_facts
from palanca.signals.leaves import Grid
from palanca.signals.readings import read

if TYPE_CHECKING:
    from palanca.model import Catalogue, Diagnosis, SourceInfo
    from palanca.signals.leaves import Reader

INTERVAL_S = 15.0
"""Spacing of the grid: Prometheus' usual evaluation interval."""
LOOKBACK_S = 600.0
"""How far back the grid reaches for ``since``: twice the longest ``for`` of the shipped rules."""


@dataclass(frozen=True)
class Question:
    """What a diagnosis is asked for. ``at`` is None for "the newest data"; ``window`` replaces those of the signals."""

    at: float | None = None
    window: float | None = None
    matchers: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    objectives: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Opened:
    """A source made ready for one question."""

    reader: Reader
    grid: Grid
    info: SourceInfo


class Source(Protocol):
    """Where samples come from."""

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        """Get ready to read. Raises ``SourceError`` or ``UsageError``."""


def grid_for(catalogue: Catalogue, end: float) -> Grid:
    """Return the grid of a diagnosis at ``end``: long enough for every ``for``, and for ``since``."""
    longest = max((rule.for_ for rule in catalogue.rules), default=0.0)
    return Grid(end, math.ceil(max(LOOKBACK_S, longest) / INTERVAL_S) + 1, INTERVAL_S)


def run(catalogue: Catalogue, source: Source, question: Question) -> Diagnosis:
    """Make one diagnosis. Raises ``SourceError`` or ``UsageError``."""
    opened = source.open(question, catalogue)
    readings = read(catalogue, opened.reader, opened.grid, opened.info, window=question.window)
    if not readings.targets:
        message = f"{opened.info.url} has no vLLM series for what was asked"
        raise NoTargetsError(message)
    readings = add_facts(readings, catalogue, flags=question.flags, objectives=question.objectives)
    return diagnose(catalogue, readings)
