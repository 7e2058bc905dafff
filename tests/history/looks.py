"""Diagnoses as they follow each other: engines, what fires at them, and what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from tests.render.builders import saturated, target

from palanca.history.leases import Lease
from palanca.history.store import HistoryStore
from palanca.model import (
    Diagnosis,
    Fact,
    Finding,
    Severity,
    SignalValue,
    SourceInfo,
    State,
    Target,
    TargetReport,
    Unjudged,
    VllmVersion,
)

START = 1_800_000_000.0
STEP = 30.0
RULE = "kv-cache-saturated"
SourceState = Literal["ok", "partial", "stale", "unreachable"]


class Opener(Protocol):
    """Makes stores that the test closes."""

    def __call__(self, address: str | Path, lease: Lease | None = None, wait_s: float = 5.0) -> HistoryStore: ...


def at(step: float) -> float:
    """Moment of a poll."""
    return START + step * STEP


def firing(rule: str = RULE, severity: Severity = "critical", usage: float = 0.97, since: float = START) -> Finding:
    """A finding that fires."""
    return saturated(usage=usage, rule=rule, severity=severity, since=since)


def pending(rule: str = RULE) -> Finding:
    """A finding that does not fire yet."""
    return saturated(rule=rule, severity="info", state="pending")


def engine(
    *findings: Finding,
    where: Target | None = None,
    facts: Mapping[str, object] | None = None,
    release: str | VllmVersion | None = None,
    uptime: float | None = None,
    resets: float | None = None,
    unknown: Iterable[str] = (),
) -> TargetReport:
    """The report of an engine. A fact that is no ``Fact`` is reported by ``cache_config_info``."""
    signals = {"uptime": uptime, "counter_resets": resets}
    made = {name: value if isinstance(value, Fact) else reported(name, value) for name, value in (facts or {}).items()}
    return TargetReport(
        target=where or target(),
        status="critical" if findings else "ok",
        version=VllmVersion(release, release, ("v1",), "reported") if isinstance(release, str) else release,
        signals={
            name: SignalValue(value, "s", State.OK if value is not None else State.ABSENT, 0.0)
            for name, value in signals.items()
        },
        facts=made,
        findings=findings,
        unknown=tuple(Unjudged(rule, ()) for rule in unknown),
        not_applicable=(),
        bottleneck={},
    )


def reported(name: str, value: object) -> Fact:
    """A fact of ``cache_config_info``."""
    return Fact(value, "reported", f"cache_config_info {name}")  # type: ignore[arg-type]


def given(value: float | bool | str) -> Fact:
    """A fact that the operator gave."""
    return Fact(value, "given", "--serve-args")


def look(step: float, *reports: TargetReport, state: SourceState = "ok", error: str | None = None) -> Diagnosis:
    """The diagnosis of a poll."""
    return Diagnosis(at(step), SourceInfo("prometheus", "http://prometheus:9090", state, error=error), reports)


def told(store: HistoryStore, looks: Sequence[Diagnosis], keep: Mapping[str, float] | None = None) -> list[str]:
    """Record diagnoses one after the other; the kinds of all events, those of targets that were added left out."""
    events = [event for one in looks for event in store.record(one.time, "main", one, keep or {}).events]
    return [event.kind for event in events if event.kind != "target-added"]
