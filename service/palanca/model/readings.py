"""What was read of all targets at a grid of times. Arrays are ``[targets, steps]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from palanca.model.scalars import Provenance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class State(IntEnum):
    """State of one value; from ``ABSENT`` on there is no number. ``NOT_APPLICABLE`` never leaves the process."""

    OK = 0
    LOWER_BOUND = 1
    INTERPOLATED = 2
    ABSENT = 3
    IDLE = 4
    STALE = 5
    NOT_APPLICABLE = 6

    @property
    def word(self) -> str:
        """As written in JSON."""
        return "absent" if self is State.NOT_APPLICABLE else self.name.lower()


class Truth(IntEnum):
    """Truth of a condition at one target and step."""

    FALSE = 0
    TRUE = 1
    UNKNOWN = 2
    NOT_APPLICABLE = 3


@dataclass(frozen=True)
class Target:
    """One vLLM engine: the labels that survive aggregation, sorted."""

    labels: tuple[tuple[str, str], ...]

    @cached_property
    def _hash(self) -> int:
        return hash(self.labels)

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Target:
        """Make a target of a label mapping; empty values are no labels, as in Prometheus."""
        return cls(tuple(sorted((name, value) for name, value in labels.items() if value)))

    @cached_property
    def _values(self) -> dict[str, str]:
        return dict(self.labels)

    def as_dict(self) -> dict[str, str]:
        """Labels as a new dict."""
        return dict(self._values)

    def get(self, label: str, default: str = "") -> str:
        """Value of one label."""
        return self._values.get(label, default)


SCOPE_LABELS = ("cluster", "namespace", "job", "model_name")
"""Engines with equal values of these labels share one command line: the configuration scope."""


def scope_of(target: Target) -> tuple[str, ...]:
    """The configuration scope of a target."""
    return tuple([target.get(label) for label in SCOPE_LABELS])


@dataclass(frozen=True)
class Fact:
    """One configuration value and where it comes from."""

    value: float | bool | str
    provenance: Provenance
    source: str


@dataclass(frozen=True)
class VllmVersion:
    """The releases and engines that a target can be running."""

    first: str
    last: str
    engines: tuple[str, ...]
    provenance: Literal["reported", "given", "inferred"]

    @property
    def text(self) -> str:
        """``0.26.0`` or ``0.24.0-0.33.0``."""
        return self.first if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class SignalReadings:
    """One signal: ``values [targets, steps]`` (NaN where there is no number), ``states [targets, steps]``."""

    values: NDArray[np.float64]
    states: NDArray[np.uint8]
    window: NDArray[np.float64]
    """Effective window in seconds, ``[targets, steps]``."""


@dataclass(frozen=True)
class ServerReport:
    """What a server says of itself outside of its metrics: its release (``/version``) and facts (``/v1/models``)."""

    release: str | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceInfo:
    """Where the data came from and how well that went."""

    name: str
    url: str
    state: Literal["ok", "partial", "stale", "unreachable"] = "ok"
    age_s: float | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Readings:
    """Everything that was read of all targets at a grid of times.

    ``times`` are unix seconds, evenly spaced, the last one is the moment of the diagnosis. ``covered`` says for how
    many seconds before the last step each target has samples. ``facts`` and ``versions`` hold for the last step.
    """

    targets: tuple[Target, ...]
    times: NDArray[np.float64]
    signals: Mapping[str, SignalReadings]
    covered: NDArray[np.float64]
    facts: tuple[Mapping[str, Fact], ...]
    versions: tuple[VllmVersion | None, ...]
    source: SourceInfo
    info: tuple[Mapping[str, str], ...] = ()
    """Labels of ``cache_config_info`` of each target; empty without it."""
    names: frozenset[str] = frozenset()
    """Full metric names seen in the source, for PromQL in evidence."""
