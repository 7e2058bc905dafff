"""One cycle: ask a source, read the signals, judge. The clock and the source are arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from palanca import expressions
from palanca.diagnosis import diagnose
from palanca.engine import evaluate
from palanca.errors import NoTargetsError
from palanca.facts import INFERENCE_SIGNALS, add_facts
from palanca.model import SignalReadings, Truth, scope_of
from palanca.signals.leaves import Grid
from palanca.signals.readings import read, widen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from palanca.engine import Overrides
    from palanca.model import Catalogue, Diagnosis, Fact, Readings, Rule, ServerReport, SourceInfo, Target
    from palanca.signals.leaves import Reader

INTERVAL_S = 15.0
"""Spacing of the grid: Prometheus' usual evaluation interval."""
LOOKBACK_S = 600.0
"""How far back the grid reaches for ``since``: twice the longest ``for`` of the shipped rules."""


@dataclass(frozen=True)
class Question:
    """What a diagnosis is asked for. ``at`` is None for "the newest data"; ``window`` replaces those of the signals.

    ``patience`` in seconds bounds each question to a server where it is shorter than the timeout of the source.
    """

    at: float | None = None
    window: float | None = None
    matchers: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    objectives: Mapping[str, float] = field(default_factory=dict)
    settings: Callable[[Target], Mapping[str, Fact]] | None = None
    thresholds: Overrides | None = None
    patience: float | None = None


@dataclass(frozen=True)
class Opened:
    """A source made ready for one question.

    ``describe`` is asked after reading, when warnings are known. ``costly`` sources are asked for one instant first,
    and for the past only of what holds now: a range of 21 points costs a Prometheus four times an instant.
    ``longest`` in seconds is all the history that a source has, where it is short: windows are cut to it, so that a
    rate over 15 s of scrapes is exact. ``servers`` says by instance what servers report of themselves. ``unrecorded``
    is why series that the source has recorded are not read: empty where they are, None where there can be none.
    """

    reader: Reader
    grid: Grid
    describe: Callable[[], SourceInfo]
    costly: bool = False
    longest: float | None = None
    servers: Mapping[str, ServerReport] = field(default_factory=dict)
    unrecorded: str | None = None


@dataclass(frozen=True)
class Stretch:
    """Some signals over ``span`` seconds up to a moment, at ``steps`` moments; ``patience`` as of a question."""

    signals: tuple[str, ...]
    end: float
    span: float = 3600.0
    steps: int = 61
    patience: float | None = None


class Source(Protocol):
    """Where samples come from."""

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        """Get ready to read. Raises ``SourceError`` or ``UsageError``."""


def grid_for(catalogue: Catalogue, end: float, interval: float = INTERVAL_S) -> Grid:
    """Return the grid of a diagnosis at ``end``: long enough for every ``for``, and for ``since``."""
    longest = max((rule.for_ for rule in catalogue.rules), default=0.0)
    return Grid(end, math.ceil(max(LOOKBACK_S, longest) / interval) + 1, interval)


def run(catalogue: Catalogue, source: Source, question: Question) -> Diagnosis:
    """Make one diagnosis. Raises ``SourceError`` or ``UsageError``."""
    return diagnose(catalogue, readings_for(catalogue, source, question), question.thresholds)


def readings_for(catalogue: Catalogue, source: Source, question: Question) -> Readings:
    """Read what a diagnosis needs, facts included. Raises ``SourceError`` or ``UsageError``."""
    opened = source.open(question, catalogue)
    if opened.costly:
        readings = in_two_steps(catalogue, opened, question, opened.grid)
    else:
        readings = _at_once(catalogue, opened, question)
    return replace(readings, source=opened.describe())


def reading_of(
    catalogue: Catalogue, source: Source, matchers: Mapping[str, str]
) -> Callable[[Grid, float | None], Readings]:
    """Return a function that reads a source on any grid, without facts. It raises what ``Source.open`` raises."""

    def reading(grid: Grid, window: float | None = None) -> Readings:
        opened = source.open(Question(at=grid.end, window=window, matchers=matchers), catalogue)
        return read(catalogue, opened.reader.at(grid), grid, opened.describe(), window=window)

    return reading


def series(catalogue: Catalogue, source: Source, matchers: Mapping[str, str], stretch: Stretch) -> Readings:
    """Read some signals of some targets over a stretch of time, without facts.

    Raises ``SourceError`` and ``UsageError``.
    """
    grid = Grid(stretch.end, stretch.steps, stretch.span / (stretch.steps - 1))
    opened = source.open(Question(at=grid.end, matchers=matchers, patience=stretch.patience), catalogue)
    reader = opened.reader.at(grid, stretch.signals)
    made = read(catalogue, reader, grid, opened.describe(), only=stretch.signals, longest=opened.longest)
    return replace(some(made, opened), source=opened.describe())


def _at_once(catalogue: Catalogue, opened: Opened, question: Question) -> Readings:
    readings = read(
        catalogue,
        opened.reader,
        opened.grid,
        opened.describe(),
        window=question.window,
        longest=opened.longest,
        releases={instance: one.release for instance, one in opened.servers.items() if one.release},
    )
    reported = {instance: one.facts for instance, one in opened.servers.items()}
    return with_facts(catalogue, some(readings, opened), question, reported)


def in_two_steps(catalogue: Catalogue, opened: Opened, question: Question, grid: Grid) -> Readings:
    """Read all signals at the last step, and the past only of what rules that hold there depend on, facts included.

    The past of a rule that does not hold at the last step says nothing, then and ever after: whatever it was, it has
    been broken. Earlier steps of what was not read are absent. Raises ``SourceError``.
    """
    info = opened.describe()

    def past(names: Collection[str], targets: Collection[Target] | None = None) -> Readings:
        reader = opened.reader.at(grid, names, targets)
        return read(catalogue, reader, grid, info, window=question.window, only=names)

    instant = Grid(grid.end, 1, grid.interval)
    reader = opened.reader.at(instant)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="palanca-past") as beside:
        earlier = beside.submit(past, INFERENCE_SIGNALS)
        now = read(catalogue, reader, instant, info, window=question.window)
        wide = with_facts(catalogue, widen(some(now, opened), grid, earlier.result()), question)
    holding = [
        (one.rule, rows)
        for one in evaluate(catalogue.rules, replace(now, facts=wide.facts), thresholds=question.thresholds)
        if (rows := one.when[:, -1] == Truth.TRUE).any()
    ]
    # those that compare engines are few, and look at many targets
    for fleet in (False, True):
        mine = [(rule, rows) for rule, rows in holding if expressions.uses_fleet(expressions.parse(rule.when)) is fleet]
        used = {name for rule, _ in mine for name in expressions.names(expressions.parse(rule.when))}
        names = sorted(used & set(catalogue.signals))
        if names:
            rows = np.logical_or.reduce([_concerned(rule, rows, wide.targets) for rule, rows in mine])
            targets = [target for target, row in zip(wide.targets, rows, strict=True) if row]
            wide = widen_over(wide, past(names, targets), rows)
    return wide


def _concerned(rule: Rule, rows: NDArray[np.bool_], targets: Sequence[Target]) -> NDArray[np.bool_]:
    """Targets whose past says how long a rule has held at ``rows``: all of a scope where it compares engines."""
    if not expressions.uses_fleet(expressions.parse(rule.when)):
        return rows
    scopes = {scope_of(target) for target, row in zip(targets, rows, strict=True) if row}
    return np.array([scope_of(target) in scopes for target in targets], dtype=bool)


def widen_over(readings: Readings, past: Readings, rows: NDArray[np.bool_]) -> Readings:
    """Replace signals of some targets, ``rows [targets]``, by those of ``past``, on the same grid."""
    chosen = rows[:, np.newaxis]
    signals = {
        name: SignalReadings(
            np.where(chosen, one.values, readings.signals[name].values),
            np.where(chosen, one.states, readings.signals[name].states),
            np.where(chosen, one.window, readings.signals[name].window),
        )
        for name, one in past.signals.items()
    }
    return replace(readings, signals={**readings.signals, **signals})


def some(readings: Readings, opened: Opened) -> Readings:
    """Return readings that have a target. Raises ``NoTargetsError``."""
    if not readings.targets:
        message = f"{opened.describe().url} has no vLLM series for what was asked"
        raise NoTargetsError(message)
    return readings


def with_facts(
    catalogue: Catalogue,
    readings: Readings,
    question: Question,
    reported: Mapping[str, Mapping[str, Fact]] | None = None,
) -> Readings:
    """Add the facts that the question gives; ``reported`` are those of servers by instance."""
    return add_facts(
        readings,
        catalogue,
        flags=question.flags,
        objectives=question.objectives,
        servers=reported,
        settings=question.settings,
    )
