"""What the files in ``rules/`` say: families, signals, facts, levers, rules. Frozen; unknown keys are errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import Field, model_validator

from palanca.model.scalars import (
    Area,
    Cause,
    Direction,
    Duration,
    Identifier,
    ReleaseRanges,
    Releases,
    Risk,
    RuleId,
    Severity,
    Spec,
)


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
    of a label value appears only when it is first counted, so that none means 0. ``label_values`` are values of labels
    that only some releases have.
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
    label_values: Mapping[str, Mapping[str, ReleaseRanges]] = Field(default_factory=dict)
    info_labels: Mapping[str, ReleaseRanges] = Field(default_factory=dict)
    note: str | None = None


class Metrics(Spec):
    """``rules/metrics.yaml``."""

    prefixes: tuple[str, ...]
    releases: tuple[str, ...]
    families: Mapping[Identifier, Family]

    def __hash__(self) -> int:
        """Let what is made of the metrics be kept; a mapping has no hash of its own."""
        return hash((self.prefixes, self.releases, tuple(self.families)))


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

    @cached_property
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
    ``effect_computed`` and ``trade_off_computed`` are added where all expressions in their braces have numbers;
    ``proposed`` is the value that is recommended.
    """

    lever: str
    direction: Direction
    order: Literal[1, 2, 3]
    risk: Risk
    why: str
    effect: str
    trade_off: str
    effect_computed: str | None = None
    trade_off_computed: str | None = None
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
    ``needs_history`` holds the severity back until the data cover ``for``; other rules speak up with low confidence.
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
    needs_history: bool = False
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

    @property
    def gates(self) -> frozenset[str]:
        """Thresholds that say how many observations it takes: ``enough``, and ``enough_...``."""
        return frozenset(name for name in self.thresholds if name.partition("_")[0] == "enough")


@dataclass(frozen=True)
class Catalogue:
    """Everything that ``rules/`` says, checked as a whole."""

    metrics: Metrics
    signals: Mapping[str, Signal]
    facts: Mapping[str, FactSpec]
    levers: Mapping[str, Lever]
    rules: tuple[Rule, ...]

    @property
    def optional_facts(self) -> frozenset[str]:
        """Facts without which a rule does not apply, in place of being unknown."""
        return frozenset(name for name, fact in self.facts.items() if fact.optional)

    def rule(self, rule_id: str) -> Rule:
        """Return the rule of that id. Raises ``KeyError``."""
        return {rule.id: rule for rule in self.rules}[rule_id]
