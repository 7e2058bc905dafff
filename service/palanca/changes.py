"""When was a change made, and which stretches before and after it can be compared?

A change of flags is a restart: a new process start time, or a counter that begins anew where that time is not exposed,
or other engines in the place of the old ones. ``cache_config_info`` and the known facts then say what was changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palanca.errors import UsageError
from palanca.model import SCOPE_LABELS, scope_of
from palanca.moments import duration, rfc3339
from palanca.signals.leaves import Grid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.model import Fact, Readings
    from palanca.signals.leaves import Discovery

PERIOD_S = 600.0
"""Compared on each side: the ``within`` of most rules' ``verify`` blocks is 10 or 15 minutes."""
WARM_UP_S = 120.0
"""Left out after the process start: the slowest first request reported took 89 s (vLLM #39790, #39822), and a third."""
RESIDENCES = 3.0
"""Mean request times left out as well: an emptied queue is back at 1 - e^-3 = 95 % of its level after three."""
LONGEST_WARM_UP_S = 600.0
BATCHES = 6
"""Batches a side: one more than a test needs, so that one may be idle or unlike."""
SCRAPES_A_BATCH = 3
"""A rate needs two samples, and one scrape may be lost."""
USUAL_SCRAPE_S = 15.0
ROLLOUT_S = 900.0
"""Restarts of several engines closer than this belong to one change."""
PROFILING = 0.01
"""The KV blocks of two starts with equal flags differ by so much (measured: 30,899 and 30,851)."""
_JUMP_S = 2.0


@dataclass(frozen=True)
class Change:
    """A change from ``first`` to ``last`` (equal for one engine), unix seconds, and how it was seen."""

    first: float
    last: float
    how: str


@dataclass(frozen=True)
class Plan:
    """What to read on each side: grids whose interval is one batch, to be read with windows of that length."""

    before: Grid
    after: Grid

    @property
    def window(self) -> float:
        """Window of every signal: one batch, so that no two steps share a sample."""
        return self.before.interval


def scrape_interval(found: Discovery) -> float:
    """Seconds between two samples of the slowest target, the median; 15 s where no target has two."""
    gaps = [float(np.median(np.diff(beats))) for beats in found.heartbeat.values() if len(beats) > 1]
    return max(gaps, default=USUAL_SCRAPE_S)


def find_change(readings: Readings) -> Change | None:
    """Return the newest change within the readings; None where nothing restarted."""
    moments = sorted(_starts(readings) | _replacements(readings), key=lambda one: one[0])
    if not moments:
        return None
    last, how = moments[-1]
    first = last
    for moment, _ in reversed(moments):
        if first - moment > ROLLOUT_S:
            break
        first = moment
    return Change(first, last, how)


def _starts(readings: Readings) -> set[tuple[float, str]]:
    """Moments at which a process began within the readings, or a counter began anew."""
    found: set[tuple[float, str]] = set()
    for row in range(len(readings.targets)):
        uptime = readings.signals["uptime"].values[row] if "uptime" in readings.signals else np.full(1, np.nan)
        if np.isfinite(uptime).any():
            known = np.isfinite(uptime)
            times = readings.times[known]
            began = times - uptime[known]
            for step in 1 + _rises(began, _JUMP_S):  # not before the old one was last seen: the new one may start early
                found.add((float(max(began[step], times[step - 1])), "the process restarted"))
        elif "counter_resets" in readings.signals:
            resets = np.nan_to_num(readings.signals["counter_resets"].values[row])
            found |= {(float(readings.times[step]), "the counters began anew") for step in 1 + _rises(resets, 0.5)}
    return found


def _rises(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], least: float
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.flatnonzero(np.diff(values) > least)


def _replacements(readings: Readings) -> set[tuple[float, str]]:
    """Moments at which an engine appeared in a configuration scope of which another, older engine disappeared."""
    running = readings.signals["running_now"].values if "running_now" in readings.signals else np.empty((0, 0))
    appeared: dict[tuple[str, ...], list[int]] = {}
    gone: dict[tuple[str, ...], list[int]] = {}
    for row, values in enumerate(running):
        there = np.flatnonzero(np.isfinite(values))
        if not there.size:
            continue
        scope = scope_of(readings.targets[row])
        if there[0] > 0:
            appeared.setdefault(scope, []).append(int(there[0]))
        if there[-1] < len(values) - 1:
            gone.setdefault(scope, []).append(int(there[0]))
    return {
        (float(readings.times[step]), "the engines were replaced")
        for scope, steps in appeared.items()
        for step in steps
        if min(gone.get(scope, [step])) < step
    }


def warm_up(e2e_mean: float | None = None) -> float:
    """Seconds to leave out after a restart: the cold start, or three mean request times if that is longer."""
    residence = RESIDENCES * e2e_mean if e2e_mean is not None and math.isfinite(e2e_mean) else 0.0
    return min(max(WARM_UP_S, residence), LONGEST_WARM_UP_S)


def batch_length(period: float, scrape_interval: float) -> float:
    """Length of one batch in whole seconds: a sixth of the period, but at least three scrapes."""
    return float(max(math.floor(period / BATCHES), math.ceil(SCRAPES_A_BATCH * scrape_interval), 1))


def plan(
    change: Change,
    oldest: float,
    newest: float,
    scrape_interval: float,
    *,
    period: float = PERIOD_S,
    left_out: float = WARM_UP_S,
) -> Plan:
    """Lay out both sides of a change within one source that has data from ``oldest`` to ``newest``.

    Before: up to the change. After: from the end of the warm-up. Each as long as ``period`` or as there is data. Raises
    ``UsageError`` where a side has not even one batch.
    """
    batch = batch_length(period, scrape_interval)
    before = math.floor(min(period, change.first - oldest) / batch)
    begin = change.last + left_out
    after = math.floor(min(period, newest - begin) / batch)
    if before < 1:
        raise UsageError(
            f"there is no data before the change at {rfc3339(change.first)}: "
            f"it begins at {rfc3339(oldest)}; one batch is {duration(batch)}"
        )
    if after < 1:
        raise UsageError(
            f"there is no data yet after the change at {rfc3339(change.last)} and {duration(left_out)} of warm-up: "
            f"it ends at {rfc3339(newest)}; ask again after {rfc3339(begin + batch)}"
        )
    return Plan(Grid(change.first, before, batch), Grid(begin + after * batch, after, batch))


def plan_of_two(
    before: tuple[float, float], after: tuple[float, float], scrape_interval: float, *, period: float = PERIOD_S
) -> Plan:
    """Lay out two sources, each with data from a first to a last moment: the newest ``period`` of each."""
    period = min(period, before[1] - before[0], after[1] - after[0])
    batch = batch_length(period, scrape_interval)
    steps = math.floor(period / batch)
    if steps < 1:
        raise UsageError(f"{duration(period)} of data are less than one batch of {duration(batch)}")
    return Plan(Grid(before[1], steps, batch), Grid(after[1], steps, batch))


def differing_settings(
    before: tuple[Mapping[str, str], Mapping[str, Fact]], after: tuple[Mapping[str, str], Mapping[str, Fact]]
) -> tuple[tuple[str, str, str], ...]:
    """Return name, value before and value after of what differs: labels of ``cache_config_info``, and known facts.

    Inferred facts and those that follow from labels are left out: they are effects of load, or said already.
    """
    where = {"instance", "pod", "engine", "__name__", *SCOPE_LABELS}
    labels = tuple(
        (name, before[0][name], after[0][name])
        for name in sorted(before[0].keys() & after[0].keys() - where)
        if _differ(before[0][name], after[0][name])
    )
    facts = tuple(
        (name, str(before[1][name].value), str(after[1][name].value))
        for name in sorted(before[1].keys() & after[1].keys())
        if before[1][name].provenance == after[1][name].provenance == "given"
        and before[1][name].value != after[1][name].value
    )
    return labels + facts


def _differ(one: str, other: str) -> bool:
    """Whether two labels say something else; numbers within 1 % are what profiling finds from start to start."""
    try:
        return not math.isclose(float(one), float(other), rel_tol=PROFILING)
    except ValueError:
        return one != other
