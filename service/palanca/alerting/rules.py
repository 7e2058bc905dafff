"""Recording rules and alerts as data, before they are written as a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RecordingRule:
    """One recorded series for each result of an expression."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AlertRule:
    """One alert for each result of an expression that lasts for ``for_`` seconds."""

    alert: str
    expr: str
    for_: float
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    keep_firing_for: float = 0.0


@dataclass(frozen=True)
class Group:
    """Rules that Prometheus evaluates one after another at the same moment, ``interval`` seconds apart."""

    name: str
    interval: float
    rules: tuple[RecordingRule | AlertRule, ...]

    @property
    def alerts(self) -> tuple[AlertRule, ...]:
        """The alerts among the rules."""
        return tuple(rule for rule in self.rules if isinstance(rule, AlertRule))
