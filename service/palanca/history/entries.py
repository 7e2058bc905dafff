"""What is recorded: events of the history, and the result of recording a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from palanca.episodes import Episode
from palanca.history.observed import Change
from palanca.model import Severity, Target

EventKind = Literal[
    "began", "worsened", "resolved", "acknowledged", "verified", "target-added", "target-removed", "restarted",
    "configuration-changed", "source-unreachable", "source-recovered", "recording-resumed",
]  # fmt: skip
Outcome = Literal["recorded", "unreadable", "late", "not-holder", "off"]


@dataclass(frozen=True)
class Detail:
    """What an event says beyond its kind; each kind uses some of it. Times are unix seconds.

    ``reason``: why an episode was resolved, what shows a restart, why a source or the history could not be used, the
    verdict of a verification. ``since``: start of the new process, or the beginning of what is over now.
    """

    reason: str | None = None
    since: float | None = None
    changes: tuple[Change, ...] = ()
    who: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class HistoryEvent:
    """One event as it was just recorded. ``episode`` is the episode after it, where it is one of an episode."""

    id: int
    kind: EventKind
    time: float
    source: str
    target: Target | None
    episode_id: int | None
    rule: str | None
    severity: Severity | None
    detail: Detail = field(default_factory=Detail)
    episode: Episode | None = None


@dataclass(frozen=True)
class Recorded:
    """What became of a diagnosis.

    ``recorded``; ``unreadable``: its source was, and nothing was resolved; ``late``: the history is already
    ``behind_s`` seconds further, and nothing was changed; ``not-holder``: another replica records; ``off``: the
    database cannot be used now.
    """

    outcome: Outcome
    events: tuple[HistoryEvent, ...] = ()
    behind_s: float = 0.0


@dataclass(frozen=True)
class Gap:
    """A stretch of time, from ``since`` on (unix seconds), in which nothing could be recorded, and why."""

    since: float
    reason: str
