"""What is noticed at a target between two diagnoses: restarts and changed configuration. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from palanca.model import Fact, State, TargetReport
from palanca.releases import Release

UPTIME = "uptime"
RESETS = "counter_resets"
RELEASE = "vllm_release"
"""Name of the release among the changes of configuration."""
TOLERANCE_S = 2.0
"""A start of the process is exact to the moment of the query; a scrape may be off by its own duration."""
SAME_RESTART_S = 300.0
"""Within Prometheus' staleness the process and its counters tell of the same restart at different moments."""

Value = float | bool | str | None


@dataclass(frozen=True)
class Change:
    """One configuration value before and after; None is not set, or not known."""

    name: str
    before: Value
    after: Value


@dataclass(frozen=True)
class Restart:
    """``started`` is the new start of the server process, None where only its counters began anew."""

    started: float | None
    by: Literal["process start", "counter reset"]


@dataclass(frozen=True)
class Observed:
    """What is known of a target: facts that are reported or given, its release, and what shows restarts.

    ``release`` is the first and last that it can be. ``started`` is the start of the process, ``resets`` how often its
    counters were reset in the signal's window, ``reset_noted`` when a restart was last told from the counters alone.
    Times are unix seconds.
    """

    facts: Mapping[str, Fact] = field(default_factory=dict)
    release: tuple[str, str] | None = None
    started: float | None = None
    resets: float | None = None
    reset_noted: float | None = None


def observed(report: TargetReport, time: float) -> Observed:
    """Take what matters out of a report of a diagnosis at ``time``."""
    uptime, version = _number(report, UPTIME), report.version
    return Observed(
        facts={name: fact for name, fact in report.facts.items() if fact.provenance in {"reported", "given"}},
        release=(version.first, version.last) if version is not None else None,
        started=None if uptime is None else time - uptime,
        resets=_number(report, RESETS),
    )


def _number(report: TargetReport, name: str) -> float | None:
    signal = report.signals.get(name)
    known = signal is not None and signal.state is State.OK and signal.value is not None
    return signal.value if known and signal is not None and math.isfinite(signal.value or 0.0) else None


def compared(before: Observed, now: Observed, time: float) -> tuple[Observed, Restart | None, tuple[Change, ...]]:
    """What to remember from now on, the restart in between, and the changes of configuration by name."""
    restart = _restart(before, now, time)
    facts, changes = _facts(before, now)
    release = now.release if now.release is not None else before.release
    if before.release is not None and release is not None and _apart(before.release, release):
        changes = (Change(RELEASE, _text(before.release), _text(release)), *changes)
    by_counter = restart is not None and restart.by == "counter reset"
    kept = Observed(
        facts=facts,
        release=release,
        started=_start(before, now),
        resets=now.resets if now.resets is not None else before.resets,
        reset_noted=time if by_counter else before.reset_noted,
    )
    if restart is not None and _told(before, restart, time):
        restart = None
        kept = replace(kept, reset_noted=None)  # one that follows is another
    return kept, restart, changes


def _apart(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two ranges share no release: an inferred one grows narrower as more metrics appear."""
    try:
        return Release(one[1]) < Release(other[0]) or Release(other[1]) < Release(one[0])
    except ValueError:
        return one != other


def _text(release: tuple[str, str]) -> str:
    first, last = release
    return first if first == last else f"{first}-{last}"


def _start(before: Observed, now: Observed) -> float | None:
    """The first value of a process stays, so that many small steps do not hide a restart."""
    return now.started if before.started is None or _newer(before, now) else before.started


def _newer(before: Observed, now: Observed) -> bool:
    return before.started is not None and now.started is not None and abs(now.started - before.started) > TOLERANCE_S


def _restart(before: Observed, now: Observed, time: float) -> Restart | None:
    if _newer(before, now):
        return Restart(now.started, "process start")
    fresh = now.started is not None and time - now.started < SAME_RESTART_S  # its counters tell of the same restart
    if before.resets is not None and now.resets is not None and now.resets > before.resets and not fresh:
        return Restart(None, "counter reset")
    return None


def _told(before: Observed, restart: Restart, time: float) -> bool:
    noted = before.reset_noted
    return restart.by == "process start" and noted is not None and time - noted < SAME_RESTART_S


def _facts(before: Observed, now: Observed) -> tuple[dict[str, Fact], tuple[Change, ...]]:
    """Merge the facts. What a source of facts does not tell while it tells nothing at all is unknown, not changed."""
    seen, readable = _origins(before.facts), _origins(now.facts)
    merged, changes = dict(before.facts), []
    for name in sorted({*before.facts, *now.facts}):
        old, new = before.facts.get(name), now.facts.get(name)
        if new is not None:
            merged[name] = new
            if (old.value != new.value) if old is not None else _origin(new) in seen:
                changes.append(Change(name, None if old is None else old.value, new.value))
        elif old is not None and _origin(old) in readable:
            del merged[name]
            changes.append(Change(name, old.value, None))
    return merged, tuple(changes)


GIVEN = "given"
"""What operators give is always readable."""


def _origin(fact: Fact) -> str:
    return GIVEN if fact.provenance == "given" else fact.source.partition(" ")[0]


def _origins(facts: Mapping[str, Fact]) -> set[str]:
    return {GIVEN, *(_origin(fact) for fact in facts.values())}
