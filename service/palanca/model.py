"""Frozen data that every layer shares: what the YAML files say, what was read, what was found.

Three groups, in the order in which a diagnosis makes them:

* the catalogue as written in ``rules/``: ``Family``, ``Signal``, ``FactSpec``, ``Lever``, ``Rule``
* what was read at a grid of times: ``Target``, ``Fact``, ``Readings`` (arrays ``[targets, steps]``)
* what was found: ``Evidence``, ``Finding``, ``Recommendation``, ``TargetReport``, ``Diagnosis``
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from palanca.moments import seconds
from palanca.releases import ReleaseRange

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# --- scalars -------------------------------------------------------------------------------------

_IDENTIFIER = re.compile(r"^[a-z][a-z0-9_]*$")
_RULE_ID = re.compile(r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")


def _identifier(text: str) -> str:
    if not _IDENTIFIER.match(text):
        message = f"{text!r} must be lower case letters, digits and underscores"
        raise ValueError(message)
    return text


def _rule_id(text: str) -> str:
    if not _RULE_ID.match(text):
        message = f"{text!r} must be lower case words joined by hyphens"
        raise ValueError(message)
    return text


def _range(text: object) -> ReleaseRange:
    return text if isinstance(text, ReleaseRange) else ReleaseRange.parse(_quoted(text))


def _ranges(text: object) -> tuple[ReleaseRange, ...]:
    return tuple(ReleaseRange.parse(part) for part in _quoted(text).split(","))


def _quoted(text: object) -> str:
    if not isinstance(text, str):  # YAML reads a bare 0.10 as the number 0.1
        message = f"{text!r} is no text; write releases with three numbers or in quotes"
        raise ValueError(message)  # noqa: TRY004  pydantic turns only ValueError into a fault
    return text


Duration = Annotated[float, BeforeValidator(seconds)]
Identifier = Annotated[str, AfterValidator(_identifier)]
RuleId = Annotated[str, AfterValidator(_rule_id)]
Releases = Annotated[ReleaseRange, BeforeValidator(_range)]
ReleaseRanges = Annotated[tuple[ReleaseRange, ...], BeforeValidator(_ranges)]

Severity = Literal["critical", "warning", "info"]
Confidence = Literal["low", "medium", "high"]
Risk = Literal["low", "medium", "high"]
Status = Literal["critical", "warning", "unknown", "idle", "ok"]
Area = Literal["prefill", "decode", "kv-cache", "scheduling", "speculation", "fleet", "availability"]
Cause = Literal[
    "kv-capacity", "kv-overadmission", "slot-limit", "token-budget", "prefill-capacity", "long-prefill-blocking",
    "prefix-cache-miss", "speculation-ineffective", "speculation-broken", "speculation-overload", "frontend-bound",
    "upstream-or-client", "replica-imbalance", "hang", "kv-leak", "cold-start", "cuda-graph-gap", "decode-bandwidth",
    "deferred-waiting", "overload", "request-too-large", "restart-loop", "errors", "metrics-missing", "configuration",
    "unexplained",
]  # fmt: skip
Direction = Literal["raise", "lower", "set", "enable", "disable", "change", "none"]
Provenance = Literal["reported", "given", "inferred", "default"]

SEVERITY_ORDER: tuple[Severity, ...] = ("critical", "warning", "info")
CONFIDENCE_ORDER: tuple[Confidence, ...] = ("high", "medium", "low")


class Spec(BaseModel):
    """Base of everything that is read from YAML: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


# --- the catalogue -------------------------------------------------------------------------------


class MetricName(Spec):
    """One name of a family, without the live prefix, as exposed (``num_preemptions_total``), and where it exists."""

    name: str
    v0: Releases | None = None
    v1: Releases | None = None
    hidden_v0: Releases | None = None
    hidden_v1: Releases | None = None


class Family(Spec):
    """One vLLM metric with all its names through the releases.

    ``labels`` are the family's own labels, aggregated away unless selected. ``across_processes`` says how several
    API server processes (label ``pid``) add up. ``scope: server`` marks series that know no engine or model and are
    joined on job and instance. ``only_if`` names the feature without which the family is not exposed at all;
    ``needs_label`` a label without which a series is something else under the same name; ``sparse`` that the series
    of a label value appears only when it is first counted, so that none means 0.
    """

    type: Literal["counter", "gauge", "histogram", "info"]
    unit: str
    meaning: str
    names: tuple[MetricName, ...] = Field(min_length=1)
    labels: tuple[str, ...] = ()
    across_processes: Literal["sum", "max", "any"] = "max"
    scope: Literal["engine", "server"] = "engine"
    prefixed: bool = True
    only_if: str | None = None
    needs_label: str | None = None
    sparse: bool = False
    info_labels: Mapping[str, ReleaseRanges] = Field(default_factory=dict)
    note: str | None = None


class Metrics(Spec):
    """``rules/metrics.yaml``."""

    prefixes: tuple[str, ...]
    releases: tuple[str, ...]
    families: Mapping[Identifier, Family]


class Expand(Spec):
    """Makes one signal a label value: ``acceptance_pos`` over ``position`` 0..7."""

    label: str
    values: tuple[str, ...] = Field(min_length=1)


class Signal(Spec):
    """One number per target: one meaning, one unit, one window.

    Exactly one of the ``SIGNAL_KINDS`` says how it is read.
    ``per`` divides a rate by another; ``or_gauge`` is read where the family of the rate does not exist;
    ``fallback`` is another signal, read where this one has no family; ``offset`` reads the value of that long ago.
    """

    title: str
    unit: str
    window: Duration = 300.0
    avg: str | None = None
    max: str | None = None
    min: str | None = None
    now: str | None = None
    rate: str | None = None
    increase: str | None = None
    mean: str | None = None
    of: str | None = None
    quantile: float | None = Field(default=None, gt=0, lt=1)
    resets: str | None = None
    changes: str | None = None
    since: str | None = None
    present: str | None = None
    samples: str | None = None
    expr: str | None = None
    per: str | None = None
    times: float = 1.0
    where: Mapping[str, str] = Field(default_factory=dict)
    per_where: Mapping[str, str] = Field(default_factory=dict)
    offset: Duration = 0.0
    or_gauge: str | None = None
    fallback: str | None = None
    expand: Expand | None = None
    better: Literal["lower", "higher"] | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Signal:
        kinds = [kind for kind in SIGNAL_KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            message = f"exactly one of {', '.join(SIGNAL_KINDS)} is needed, found {', '.join(kinds) or 'none'}"
            raise ValueError(message)
        if (self.quantile is None) != (self.of is None):
            message = "quantile and of go together"
            raise ValueError(message)
        if (self.per or self.or_gauge) and self.rate is None:
            message = "per and or_gauge go with rate"
            raise ValueError(message)
        return self

    @property
    def kind(self) -> str:
        """How the signal is read, e.g. ``rate``."""
        return next(kind for kind in SIGNAL_KINDS if getattr(self, kind) is not None)

    @property
    def family(self) -> str | None:
        """The family that is read first; None for an expression."""
        return self.of if self.quantile is not None else None if self.expr else getattr(self, self.kind)


SIGNAL_KINDS = (
    "avg", "max", "min", "now", "rate", "increase", "mean", "quantile", "resets", "changes", "since",
    "present", "samples", "expr",
)  # fmt: skip


class ReleaseDefault(Spec):
    """What a fact is when nobody sets it, in a range of releases."""

    releases: Releases
    engine: Literal["v0", "v1"] | None = None
    value: float | bool | str


class FactSpec(Spec):
    """One fact: what it is called in vLLM's flags and in the labels of ``cache_config_info``.

    A flag with ``equals`` is true where the text is that word. A rule over an ``optional`` fact that nobody gave is not
    applicable, where otherwise it is unknown.
    """

    title: str
    type: Literal["number", "flag", "text"]
    unit: str = "ratio"
    label: str | None = None
    flag: str | None = None
    derive: str | None = None
    default: float | bool | str | None = None
    defaults: tuple[ReleaseDefault, ...] = ()
    equals: str | None = None
    optional: bool = False
    note: str | None = None


class LeverForm(Spec):
    """How a lever is spelled in a range of releases; ``argument`` is a template with ``{value}``."""

    releases: Releases
    flag: str
    argument: str
    disable: str | None = None
    note: str | None = None


class Lever(Spec):
    """Something that an operator can change: a vLLM flag in its forms by release, or an action (no forms).

    ``off`` is the number that means "not set".
    """

    title: str
    fact: str | None = None
    forms: tuple[LeverForm, ...] = ()
    unit: str = "ratio"
    minimum: float | None = None
    maximum: float | None = None
    off: float | None = None
    values: tuple[str, ...] = ()
    action: str | None = None
    references: tuple[str, ...] = ()


class Threshold(Spec):
    """A named number with unit and source."""

    value: float
    unit: str
    source: str


class Advice(Spec):
    """What a rule recommends: one lever.

    ``value`` is an expression over signals, facts and thresholds, or a quoted word for levers with words as values.
    ``order``: 1 removes the bottleneck, 2 moves it, 3 works around it. ``only_if`` / ``unless``: conditions.
    """

    lever: str
    direction: Direction
    order: Literal[1, 2, 3]
    risk: Risk
    why: str
    effect: str
    trade_off: str
    value: str | None = None
    no_value: str | None = None
    only_if: str | None = None
    unless: str | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Advice:
        if (self.value is None) and self.no_value is None:
            message = "give value, or no_value with the reason why none can be computed"
            raise ValueError(message)
        return self


class Verify(Spec):
    """What will prove that the change helped."""

    signal: str
    expect: str
    within: Duration


class Rule(Spec):
    """One row of the matrix; ``docs/design.md`` explains each key.

    ``scope: model`` compares the engines of one model (``fleet_*`` functions) and may explain rules of any kind.
    """

    id: RuleId
    title: str
    area: Area
    cause: Cause | None
    severity: Severity
    maturity: Literal["stable", "experimental"]
    scope: Literal["target", "model"] = "target"
    references: tuple[str, ...] = Field(min_length=1)
    thresholds: Mapping[Identifier, Threshold] = Field(default_factory=dict)
    when: str
    for_: Duration = Field(alias="for")
    keep_firing_for: Duration = 0.0
    summary: str
    supports: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    explains: tuple[RuleId, ...] = ()
    slo: str | None = None
    levers: tuple[Advice, ...] = ()
    verify: tuple[Verify, ...] = ()

    @property
    def symptom(self) -> bool:
        """A symptom has no cause of its own."""
        return self.cause is None


@dataclass(frozen=True)
class Catalogue:
    """Everything that ``rules/`` says, checked as a whole."""

    metrics: Metrics
    signals: Mapping[str, Signal]
    facts: Mapping[str, FactSpec]
    levers: Mapping[str, Lever]
    rules: tuple[Rule, ...]

    def rule(self, rule_id: str) -> Rule:
        """Return the rule of that id. Raises ``KeyError``."""
        return {rule.id: rule for rule in self.rules}[rule_id]


# --- what was read -------------------------------------------------------------------------------


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

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Target:
        """Make a target of a label mapping; empty values are no labels, as in Prometheus."""
        return cls(tuple(sorted((name, value) for name, value in labels.items() if value)))

    def as_dict(self) -> dict[str, str]:
        """Labels as a new dict."""
        return dict(self.labels)

    def get(self, label: str, default: str = "") -> str:
        """Value of one label."""
        return self.as_dict().get(label, default)


SCOPE_LABELS = ("cluster", "namespace", "job", "model_name")
"""Engines with equal values of these labels share one command line: the configuration scope."""


def scope_of(target: Target) -> tuple[str, ...]:
    """The configuration scope of a target."""
    labels = target.as_dict()
    return tuple(labels.get(label, "") for label in SCOPE_LABELS)


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


# --- what was found ------------------------------------------------------------------------------


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
    """One change of one lever at one target, in the words of DESIGN section 6."""

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


@dataclass(frozen=True)
class Unjudged:
    """A rule that could not be judged and the signals or facts that it lacks."""

    rule: str
    missing: tuple[tuple[str, State], ...]


@dataclass(frozen=True)
class SignalValue:
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
    """The result at one moment."""

    time: float
    source: SourceInfo
    targets: tuple[TargetReport, ...]
