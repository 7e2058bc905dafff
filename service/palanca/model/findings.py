"""What a diagnosis found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from palanca.model.readings import Fact, SourceInfo, State, Target, VllmVersion
from palanca.model.scalars import Confidence, Direction, Provenance, Risk, Severity, Status
from palanca.model.specs import Verify


@dataclass(frozen=True)
class Evidence:
    """One comparison that held: value, operator, threshold."""

    signal: str
    value: float
    op: str
    threshold: float
    unit: str
    promql: str
    note: str = ""


@dataclass(frozen=True)
class Recommendation:
    """One change of one lever at one target, in the words of docs/design.md."""

    lever: str
    direction: Direction
    flag: str | None
    current: float | bool | str | None
    provenance: Provenance | None
    proposed: float | bool | str | None
    argument: str | None
    computed_from: str
    why: str
    effect: str
    trade_off: str
    verify: tuple[Verify, ...]
    risk: Risk
    applies_to: str
    order: int = 1


@dataclass(frozen=True)
class Silenced:
    """Silences of Alertmanager that mute the alert of a finding, by their ids, and when the last of them ends."""

    by: tuple[str, ...]
    until: float


@dataclass(frozen=True)
class Finding:
    """A rule that holds at a target."""

    rule: str
    title: str
    cause: str
    severity: Severity
    confidence: Confidence
    role: Literal["root", "symptom"]
    state: Literal["pending", "firing"]
    since: float
    since_at_least: bool
    summary: str
    evidence: tuple[Evidence, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    explained_by: tuple[str, ...] = ()
    scope: Literal["target", "model"] = "target"
    group: Mapping[str, str] | None = None
    full_history: bool = True
    """False where the source covers less than ``for``."""
    explains_count: int = 0
    """How many of the symptoms that hold here it explains."""
    held_s: float = 0.0
    for_s: float = 0.0
    silenced: Silenced | None = None

    @property
    def problem(self) -> bool:
        """Whether it is a problem by itself: no symptom of another, and more than information."""
        return self.role == "root" and self.severity != "info"


@dataclass(frozen=True)
class Unjudged:
    """A rule that could not be judged and the signals or facts that it lacks."""

    rule: str
    missing: tuple[tuple[str, State], ...]


class SignalValue(NamedTuple):
    """One signal of one target at the moment of the diagnosis."""

    value: float | None
    unit: str
    state: State
    window_s: float


@dataclass(frozen=True)
class TargetReport:
    """All that a diagnosis says of one target."""

    target: Target
    status: Status
    version: VllmVersion | None
    signals: Mapping[str, SignalValue]
    facts: Mapping[str, Fact]
    findings: tuple[Finding, ...]
    unknown: tuple[Unjudged, ...]
    not_applicable: tuple[str, ...]
    bottleneck: Mapping[str, float | None]


@dataclass(frozen=True)
class Diagnosis:
    """The result at one moment. ``sources`` are those that it was put together from, where there are several."""

    time: float
    source: SourceInfo
    targets: tuple[TargetReport, ...]
    sources: tuple[SourceInfo, ...] = ()
