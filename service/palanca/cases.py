"""Cases of a rule: what it must say of given signals and facts. ``palanca rules test`` runs them.

A case gives constant values for the signals that matter; expressions over them are computed, everything else is
absent. ``held_for`` lets the values begin only that long before the end; ``covered`` is how far the source reaches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from palanca import expressions
from palanca.advice.recommend import word
from palanca.diagnosis import diagnose
from palanca.errors import Fault, RuleFileError
from palanca.facts import complete, defaults
from palanca.loader import build, read
from palanca.model import (
    Catalogue,
    Duration,
    Fact,
    Readings,
    Rule,
    RuleId,
    SignalReadings,
    SourceInfo,
    Spec,
    State,
    Target,
    VllmVersion,
)
from palanca.poll import grid_for
from palanca.releases import ReleaseRange

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    from palanca.loader import Document
    from palanca.model import Recommendation, TargetReport

    Steps = np.ndarray[tuple[int], np.dtype[np.bool_]]
    Configured = Mapping[str, float | bool | str]

_STATES = {"absent": State.ABSENT, "idle": State.IDLE, "stale": State.STALE, "not applicable": State.NOT_APPLICABLE}
KINDS = ("firing", "quiet", "unknown")
"""Every rule needs a case of each kind."""
_END = 1_800_000_000.0


class Expect(Spec):
    """What the rule must say; recommendations in order, as ``lever:direction`` or ``lever:direction=value``.

    A value is a number, a word (``fp8``), or ``none`` where none can be computed.
    """

    state: Literal["firing", "pending", "quiet", "unknown", "not applicable"]
    severity: Literal["critical", "warning", "info"] | None = None
    confidence: Literal["low", "medium", "high"] | None = None
    recommendations: tuple[str, ...] | None = None
    missing: tuple[str, ...] | None = None


class Case(Spec):
    """One case. ``others`` are further engines of the same model: signals and facts that differ from the first."""

    name: str
    signals: Mapping[str, float | str]
    facts: Mapping[str, float | bool | str] = {}
    others: tuple[Mapping[str, float | bool | str], ...] = ()
    vllm: str = "0.32.0"
    held_for: Duration | None = None
    covered: Duration = 3600.0
    expect: Expect


class CaseFile(Spec):
    """``tests/rules/<area>/<id>.yaml``."""

    rule: RuleId
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Outcome:
    """How one case went; ``fault`` is None when it passed."""

    path: Path
    rule: str
    case: str
    fault: Fault | None


def run_cases(catalogue: Catalogue, paths: Sequence[Path]) -> Iterator[Outcome]:
    """Run every case of the files; a file that cannot be used is one failed outcome for each fault."""
    for path in paths:
        try:
            document = read(path)
            cases = build(CaseFile, document)
        except RuleFileError as error:
            for fault in error.faults:
                yield Outcome(path, path.stem, "(the file)", fault)
            continue
        rule = next((rule for rule in catalogue.rules if rule.id == cases.rule), None)
        if rule is None:
            fault = document.fault(("rule",), f"there is no rule {cases.rule!r}")
            yield Outcome(path, cases.rule, "(the file)", fault)
            continue
        for index, case in enumerate(cases.cases):
            yield Outcome(path, rule.id, case.name, _run(catalogue, rule, case, document, index))


def lacking_kinds(cases: CaseFile) -> list[str]:
    """Kinds of cases that the file does not have; "not applicable" counts as missing data."""
    given = {"unknown" if case.expect.state == "not applicable" else case.expect.state for case in cases.cases}
    return [kind for kind in KINDS if kind not in given]


def _run(catalogue: Catalogue, rule: Rule, case: Case, document: Document, index: int) -> Fault | None:
    unknown = [name for name in case.signals if name not in catalogue.signals]
    if unknown:
        hint = expressions.nearest(unknown[0], catalogue.signals)
        return document.fault(
            ("cases", index, "signals", unknown[0], "key"), f"there is no signal {unknown[0]!r}", hint
        )
    unknown = [name for name in case.facts if name not in catalogue.facts]
    if unknown:
        hint = expressions.nearest(unknown[0], catalogue.facts)
        return document.fault(("cases", index, "facts", unknown[0], "key"), f"there is no fact {unknown[0]!r}", hint)
    for place, other in enumerate(case.others):
        unknown = [name for name in other if name not in catalogue.signals and name not in catalogue.facts]
        if unknown:
            hint = expressions.nearest(unknown[0], {**catalogue.signals, **catalogue.facts})
            where = ("cases", index, "others", place, unknown[0], "key")
            return document.fault(where, f"there is no signal or fact {unknown[0]!r}", hint)
    for name, value in case.signals.items():
        if isinstance(value, str) and value not in _STATES:
            message = f"{value!r} is neither a number nor one of {', '.join(_STATES)}"
            return document.fault(("cases", index, "signals", name), message)
    try:
        ReleaseRange.parse(case.vllm)
    except ValueError as error:
        return document.fault(("cases", index, "vllm"), str(error))
    alone = Catalogue(catalogue.metrics, catalogue.signals, catalogue.facts, catalogue.levers, (rule,))
    report = diagnose(alone, readings_of(alone, case)).targets[0]
    wrong = _difference(rule.id, case.expect, report)
    return document.fault(("cases", index), f"{rule.id}: {case.name}: {wrong}") if wrong else None


def _difference(rule: str, expect: Expect, report: TargetReport) -> str:
    """Say how the report differs from what was expected; empty when it does not."""
    finding = next((one for one in report.findings if one.rule == rule), None)
    unjudged = next((one for one in report.unknown if one.rule == rule), None)
    state = (
        finding.state
        if finding is not None
        else "unknown"
        if unjudged is not None
        else "not applicable"
        if rule in report.not_applicable
        else "quiet"
    )
    if state != expect.state:
        return f"expected {expect.state}, is {state}"
    if expect.missing is not None and unjudged is not None:
        names = tuple(name for name, _ in unjudged.missing)
        if names != expect.missing:
            return f"expected missing {', '.join(expect.missing)}, is {', '.join(names)}"
    if finding is None:
        details = (expect.severity, expect.confidence, expect.recommendations)
        return "" if details == (None, None, None) else "details are expected of a rule that does not hold"
    for key in ("severity", "confidence"):
        wanted, got = getattr(expect, key), getattr(finding, key)
        if wanted is not None and wanted != got:
            return f"expected {key} {wanted}, is {got}"
    if expect.recommendations is not None:
        made = tuple(_written(one) for one in finding.recommendations)
        short = tuple(
            a if "=" in b else a.partition("=")[0] for a, b in zip(made, expect.recommendations, strict=False)
        )
        if short != expect.recommendations or len(made) != len(expect.recommendations):
            return f"expected recommendations {', '.join(expect.recommendations) or 'none'}, are {', '.join(made)}"
    return ""


def _written(one: Recommendation) -> str:
    """``max_num_seqs:raise=96``, ``kv_cache_dtype:set=fp8``, ``replicas:raise=none``."""
    return f"{one.lever}:{one.direction}={'none' if one.proposed is None else word(one.proposed)}"


def readings_of(catalogue: Catalogue, case: Case) -> Readings:
    """Make readings of the constants of a case: the engine that is judged first, then the others."""
    grid = grid_for(catalogue, _END)
    begins = -np.inf if case.held_for is None else _END - case.held_for
    there = grid.times >= begins
    engines = [case.signals, *({**case.signals, **_within(other, catalogue.signals)} for other in case.others)]
    rows = [_signals(catalogue, given, there) for given in engines]
    configured = [case.facts, *({**case.facts, **_within(other, catalogue.facts)} for other in case.others)]
    first, _, last = case.vllm.partition("-")
    version = VllmVersion(first, last or first, ("v1",), "given")
    count = len(engines)
    return Readings(
        targets=tuple(Target.of({"job": "vllm", "instance": f"{n}:8000", "model_name": "m"}) for n in range(count)),
        times=grid.times,
        signals={name: _stack([row[name] for row in rows]) for name in catalogue.signals},
        covered=np.full(count, case.covered),
        facts=tuple(complete(catalogue, defaults(catalogue, version) | _facts(given)) for given in configured),
        versions=(version,) * count,
        source=SourceInfo("case", "case"),
    )


def _within(other: Configured, known: Container[str]) -> Configured:
    return {name: value for name, value in other.items() if name in known}


def _facts(given: Configured) -> dict[str, Fact]:
    return {name: Fact(value, "given", "case") for name, value in given.items()}


def _stack(rows: Sequence[SignalReadings]) -> SignalReadings:
    return SignalReadings(
        np.vstack([row.values for row in rows]),
        np.vstack([row.states for row in rows]),
        np.vstack([row.window for row in rows]),
    )


def _signals(catalogue: Catalogue, given: Mapping[str, float | str], there: Steps) -> dict[str, SignalReadings]:
    """Every signal of one engine, each ``[1, steps]``: given, computed from given ones, or absent."""
    done: dict[str, SignalReadings] = {}
    for name in catalogue.signals:
        _signal(catalogue, given, name, there, done)
    return done


def _signal(
    catalogue: Catalogue, given: Mapping[str, float | str], name: str, there: Steps, done: dict[str, SignalReadings]
) -> SignalReadings:
    if name in done:
        return done[name]
    spec, constant = catalogue.signals[name], given.get(name)
    value, state = np.nan, State.ABSENT
    if isinstance(constant, str):
        state = _STATES.get(constant, State.ABSENT)
    elif constant is not None:
        value, state = float(constant), State.OK
    elif spec.fallback is not None:
        done[name] = _signal(catalogue, given, spec.fallback, there, done)
        return done[name]
    elif spec.expr is not None:
        node = expressions.parse(spec.expr)
        parts = [_signal(catalogue, given, part, there, done) for part in expressions.names(node)]
        state = State(max(int(part.states[0, -1]) for part in parts))
        value = float(np.ravel(expressions.number(node, _Given(done)))[-1]) if state < State.ABSENT else np.nan
        state = State.IDLE if state < State.ABSENT and np.isnan(value) else state
    values = np.where(there, value, np.nan)[None, :]
    states = np.where(there, np.uint8(state), np.uint8(max(state, State.ABSENT)))[None, :]
    done[name] = SignalReadings(values, states.astype(np.uint8), np.full_like(values, spec.window))
    return done[name]


class _Given:
    """Lets an expression read the signals made so far."""

    def __init__(self, signals: Mapping[str, SignalReadings]) -> None:
        self._signals = signals

    def number(self, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return self._signals[name].values

    def fleet(
        self, function: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        raise KeyError(f"{function} of {values.shape} values")

    def flag(self, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        raise KeyError(name)

    def not_applicable(self, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        return np.equal(self._signals[name].states, State.NOT_APPLICABLE)
