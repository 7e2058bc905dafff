"""Made-up engines for tests: rules, and readings of a few signals and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from palanca.check import load_catalogue
from palanca.diagnosis import diagnose
from palanca.facts import complete, defaults
from palanca.model import (
    Catalogue,
    Fact,
    Finding,
    Readings,
    Rule,
    SignalReadings,
    SourceInfo,
    State,
    Target,
    TargetReport,
    VllmVersion,
)

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "data" / "recordings"
END = 1_800_000_000.0
STEPS = 41
INTERVAL = 15.0
NEWEST = VllmVersion("0.33.0", "0.33.0", ("v1",), "inferred")

Value = float | State | Sequence[float]
"""A constant, a state without a number, or the last values (before them there is no sample)."""


@cache
def shipped() -> Catalogue:
    """The shipped rules, loaded once."""
    return load_catalogue([ROOT / "rules"])


def catalogue(*rules: Rule) -> Catalogue:
    """The shipped signals, facts and levers with other rules."""
    whole = shipped()
    return Catalogue(whole.metrics, whole.signals, whole.facts, whole.levers, rules)


def rule(**changes: object) -> Rule:
    """A rule that holds where the KV cache is more than half full."""
    plain: dict[str, object] = {
        "id": "a-rule",
        "title": "A rule",
        "area": "kv-cache",
        "cause": "kv-capacity",
        "severity": "warning",
        "maturity": "stable",
        "references": ["a test"],
        "thresholds": {"half": {"value": 0.5, "unit": "ratio", "source": "a test"}},
        "when": "kv_cache_usage > half",
        "for": "0s",
        "summary": "KV usage is {kv_cache_usage}.",
    }
    return Rule.model_validate(plain | changes)


def advice(**changes: object) -> dict[str, object]:
    """What a rule recommends: more slots."""
    plain: dict[str, object] = {
        "lever": "max_num_seqs",
        "direction": "raise",
        "order": 1,
        "risk": "low",
        "why": "a test",
        "effect": "more run at once",
        "trade_off": "none",
        "value": "running_max",
    }
    return plain | changes


def target(engine: str = "0", **labels: str) -> Target:
    """An engine of one server."""
    plain = {"job": "vllm", "instance": "a:8000", "model_name": "m", "engine": engine}
    return Target.of(plain | labels)


def readings(
    *engines: Mapping[str, Value],
    targets: Sequence[Target] | None = None,
    facts: Sequence[Mapping[str, object]] | Mapping[str, object] = (),
    versions: Sequence[VllmVersion | None] | None = None,
    covered: float | Sequence[float] = 3600.0,
    info: Sequence[Mapping[str, str]] | None = None,
    windows: Mapping[str, float] | None = None,
) -> Readings:
    """Readings of engines, each given by the signals that matter; all other signals are absent.

    A fact that is no ``Fact`` is given. ``covered`` and one mapping of facts hold for every engine.
    """
    whole = shipped()
    given = [facts] * len(engines) if isinstance(facts, Mapping) else list(facts) or [{}] * len(engines)
    signals = {}
    for name, spec in whole.signals.items():
        rows = [_row(engine.get(name, State.ABSENT)) for engine in engines]
        window = np.full((len(engines), STEPS), (windows or {}).get(name, spec.window))
        signals[name] = SignalReadings(
            np.array([values for values, _ in rows]).reshape(-1, STEPS),
            np.array([states for _, states in rows], dtype=np.uint8).reshape(-1, STEPS),
            window,
        )
    return Readings(
        targets=tuple(targets or [target(str(index)) for index in range(len(engines))]),
        times=np.arange(1 - STEPS, 1, dtype=np.float64) * INTERVAL + END,
        signals=signals,
        covered=np.broadcast_to(np.asarray(covered, dtype=float), (len(engines),)),
        facts=tuple(complete(whole, defaults(whole) | _facts(one)) for one in given),
        versions=tuple(versions or [NEWEST] * len(engines)),
        source=SourceInfo("test", "test"),
        info=tuple(info or [{}] * len(engines)),
    )


def _facts(values: Mapping[str, object]) -> dict[str, Fact]:
    return {
        name: value if isinstance(value, Fact) else Fact(value, "given", "test")  # type: ignore[arg-type]
        for name, value in values.items()
    }


def _row(value: Value) -> tuple[list[float], list[State]]:
    if isinstance(value, State):
        return [float("nan")] * STEPS, [value] * STEPS
    last = [value] * STEPS if isinstance(value, int | float) else list(value)
    lacking = STEPS - len(last)
    numbers = [float("nan")] * lacking + [float(one) for one in last]
    return numbers, [State.ABSENT if np.isnan(one) else State.OK for one in numbers]


def reports(read: Readings, *rules: Rule) -> tuple[TargetReport, ...]:
    """What these rules (by default the shipped ones) say of each engine."""
    return diagnose(catalogue(*rules) if rules else shipped(), read).targets


def finding(report: TargetReport, rule_id: str = "a-rule") -> Finding:
    """The finding of one rule, which must be there."""
    return next(one for one in report.findings if one.rule == rule_id)
