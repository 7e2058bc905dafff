"""A test of the recorded series: from raw metrics to values, as ``signals.samples`` computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palanca.alerting.notation import PLAIN, constant, expected, fitting, line, rising
from palanca.model import SourceInfo, State
from palanca.moments import duration
from palanca.signals.leaves import Grid
from palanca.signals.readings import read
from palanca.signals.samples import HEARTBEAT, SampleReader
from palanca.signals.store import SampleStore, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from palanca.alerting.matrix import Matrix
    from palanca.model import Family

_SCRAPE_S = 13
"""Seconds; no window begins or ends with a sample, so that Prometheus 2 and 3 take the same ones."""
_SHORTEST_S = 2400
_BOUNDS = ("0.5", "1.0", "2.0", "+Inf")
_DIGITS = 6


def tests(matrix: Matrix) -> list[dict[str, object]]:
    """One engine whose gauges stand still and whose counters grow evenly; none where the selector fits no labels."""
    labels = fitting(matrix.options.selector, {**PLAIN, "engine": "0"})
    catalogue, recorder = matrix.catalogue, matrix.recorder
    signals = recorder.ordered(name for one in matrix.exported for name in one.signals)
    if labels is None or not signals:
        return []
    moment = _moment(matrix, signals)
    steps = int(moment // _SCRAPE_S) + 1
    lines = [one for name in _families(matrix, signals) for one in _series(name, matrix, labels, signals)]
    times = np.arange(steps + 1, dtype=np.int64) * _SCRAPE_S * 1000
    store = SampleStore(
        Series(name, own, times, start + slope * np.arange(steps + 1, dtype=np.float64))
        for name, own, start, slope in lines
    )
    grid = Grid(moment, 1, matrix.options.interval)
    readings = read(catalogue, SampleReader(store, catalogue.metrics, grid), grid, SourceInfo("test", ""), only=signals)
    checks = []
    for name in signals:
        one = readings.signals[name]
        value = float(np.floor(one.values[0, 0] * 10**_DIGITS + 0.5) / 10**_DIGITS)
        samples = [(labels, value)] if one.states[0, 0] < State.ABSENT else []
        checks.append(expected(f"round({recorder.series(name)}, 1e-{_DIGITS})", moment, samples))
    return [
        {
            "name": "recorded series",
            "interval": duration(_SCRAPE_S),
            "input_series": [
                line(name, own, rising(slope, steps) if slope else constant(start, steps))
                for name, own, start, slope in lines
            ],
            "promql_expr_test": checks,
        }
    ]


def _moment(matrix: Matrix, signals: tuple[str, ...]) -> float:
    """An evaluation at which no window begins or ends with a sample."""
    specs = [matrix.catalogue.signals[name] for name in signals]
    back = {0.0} | {one.offset + window for one in specs for window in (0.0, one.window)}
    moment = np.ceil(_SHORTEST_S / matrix.options.interval) * matrix.options.interval
    while any((moment - one) % _SCRAPE_S == 0 for one in back):
        moment += matrix.options.interval
    return float(moment)


def _families(matrix: Matrix, signals: tuple[str, ...]) -> list[str]:
    """Families that the signals read, in the catalogue's order; the one that makes a target first."""
    used = {HEARTBEAT}
    for name in signals:
        signal = matrix.catalogue.signals[name]
        used |= {one for one in (signal.family, signal.per) if one is not None}
    return [name for name in matrix.catalogue.metrics.families if name in used]


def _series(
    name: str, matrix: Matrix, labels: Mapping[str, str], signals: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, str], float, float]]:
    """Name, labels, first value and growth of each series of a family; newest name and first prefix."""
    family = matrix.catalogue.metrics.families[name]
    metric = matrix.recorder.preferred(name)
    if metric is None:
        return
    size = 2.0 + sorted(matrix.catalogue.metrics.families).index(name) % 7
    place = dict(labels) if family.scope == "engine" else _server(labels, family)
    for number, own in enumerate(_own_labels(name, matrix, signals)):
        whole, much = {**place, **own}, size + number
        match family.type:
            case "histogram":
                for index, bound in enumerate(_BOUNDS, 1):
                    yield f"{metric}_bucket", {**whole, "le": bound}, 0.0, much * index
                yield f"{metric}_count", whole, 0.0, much * len(_BOUNDS)
                yield f"{metric}_sum", whole, 0.0, much * len(_BOUNDS) * 0.75
            case "counter":
                yield metric, whole, 0.0, much
            case _:
                yield metric, whole, (0.125 * much if family.unit == "ratio" else much), 0.0


def _server(labels: Mapping[str, str], family: Family) -> dict[str, str]:
    """Labels of a server-wide series: no engine, and the model only in vLLM's own."""
    return {
        label: value
        for label, value in labels.items()
        if label != "engine" and (family.prefixed or label != "model_name")
    }


def _own_labels(name: str, matrix: Matrix, signals: tuple[str, ...]) -> list[dict[str, str]]:
    """The family's own labels: those that some signal asks for, and others."""
    family = matrix.catalogue.metrics.families[name]
    others = dict.fromkeys(family.labels, "other")
    made = [others]
    for signal in (matrix.catalogue.signals[one] for one in signals):
        for used, where in ((signal.family, signal.where), (signal.per, signal.per_where)):
            if used == name and where:
                made.append({**others, **where})
    return [dict(one) for one in dict.fromkeys(tuple(sorted(own.items())) for own in made)]
