"""Readings to findings: order, symptoms, severity, status, evidence."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from tests.engines import END, Value, catalogue, finding, readings, reports, rule, shipped, target

from palanca.diagnosis import diagnose, rank
from palanca.model import Fact, Finding, Recommendation, State
from palanca.render.document import to_json

BUSY: dict[str, Value] = {
    "up": 1.0, "running": 4.0, "waiting": 0.0, "kv_cache_usage": 0.9, "ttft_p99": 0.1,
    "generation_tokens_per_second": 50.0, "running_max": 4.0, "waiting_max": 0.0, "requests_per_second": 2.0,
    "awake": 1.0,
}  # fmt: skip
HALF = {"value": 0.5, "unit": "ratio", "source": "a test"}
LATE = rule(id="late", cause=None, severity="info", when="ttft_p99 > slo.ttft_p99", thresholds={}, summary="late",
            slo="slo.ttft_p99")  # fmt: skip


def found(**changes: object) -> Finding:
    """A finding with what its rank depends on."""
    plain: dict[str, object] = {
        "rule": "m", "title": "t", "cause": "slot-limit", "severity": "warning", "confidence": "medium",
        "role": "root", "state": "firing", "since": END, "since_at_least": False, "summary": "s",
    }  # fmt: skip
    return Finding(**(plain | changes))  # type: ignore[arg-type]


def advice(argument: str | None) -> Recommendation:
    """A recommendation that can be followed as it stands, or cannot."""
    return Recommendation(
        lever="max_num_seqs", direction="raise", flag="--max-num-seqs", current=None, provenance=None, proposed=None,
        argument=argument, computed_from="", why="", effect="", trade_off="", verify=(), risk="low", applies_to="",
    )  # fmt: skip


# --- order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"severity": "info", "state": "pending", "rule": "z"}, {"role": "symptom", "severity": "critical"}),
        ({"severity": "info", "rule": "z"}, {"state": "pending", "severity": "critical"}),
        ({"state": "pending", "full_history": False, "severity": "critical"}, {"severity": "warning"}),
        ({"severity": "critical", "cause": "configuration"}, {"severity": "warning", "explains_count": 4}),
        ({"severity": "warning", "confidence": "low"}, {"severity": "info", "confidence": "high"}),
        ({"confidence": "low"}, {"cause": "configuration", "explains_count": 4, "confidence": "high"}),
        ({"confidence": "low"}, {"cause": "unexplained", "explains_count": 4, "confidence": "high"}),
        ({"explains_count": 2, "confidence": "low", "rule": "z"}, {"explains_count": 1, "confidence": "high"}),
        ({"explains_count": 2, "recommendations": (advice(None),)}, {"recommendations": (advice("--max-num-seqs 8"),)}),
        (
            {"recommendations": (advice("--max-num-seqs 8"), advice(None)), "confidence": "low", "rule": "z"},
            {"recommendations": (advice(None), advice("--max-num-seqs 8")), "confidence": "high"},
        ),
        ({"recommendations": (advice("--max-num-seqs 8"),), "rule": "z"}, {"recommendations": ()}),
        ({"confidence": "high", "rule": "z"}, {"confidence": "medium", "rule": "a"}),
        ({"confidence": "medium", "rule": "z"}, {"confidence": "low", "rule": "a"}),
        ({"rule": "a"}, {"rule": "b"}),
    ],
)
def test_order_of_findings(first: dict[str, object], second: dict[str, object]) -> None:
    """Each beats the next: root, firing, severity, cause other than configuration, number explained, first
    recommendation that can be followed, confidence, id."""
    assert rank(found(**first)) < rank(found(**second))


def test_findings_are_sorted() -> None:
    """The report has its findings in that order, whatever the order of the rules."""
    rules = [
        rule(id="critical", severity="critical"),
        rule(id="explaining", explains=["late"]),
        rule(id="warning"),
        rule(id="pending", severity="critical", **{"for": "1h"}),
        LATE,
    ]
    for order in permutations(rules):
        (report,) = reports(readings(BUSY | {"ttft_p99": 2.0}, covered=7200.0), *order)
        assert ["critical", "explaining", "warning", "pending", "late"] == [one.rule for one in report.findings]


# --- symptoms ------------------------------------------------------------------------------------


def test_explained_symptom() -> None:
    """A symptom that a firing root explains takes its cause and is only info, also with an objective that was given."""
    read = readings(BUSY | {"ttft_p99": 2.0}, facts={"slo.ttft_p99": 1.0})
    (report,) = reports(read, rule(explains=["late"]), rule(id="b-rule", explains=["late"], severity="critical"), LATE)
    late = finding(report, "late")
    assert ("symptom", "info", "kv-capacity") == (late.role, late.severity, late.cause)
    assert ("b-rule", "a-rule") == late.explained_by
    assert () == late.recommendations
    assert 1 == finding(report).explains_count


def test_unexplained_symptom() -> None:
    """A symptom that nothing explains is a root without cause, and info against a default objective."""
    (report,) = reports(readings(BUSY | {"ttft_p99": 2.0}), rule(), LATE)
    late = finding(report, "late")
    assert ("root", "info", "unexplained", ()) == (late.role, late.severity, late.cause, late.explained_by)
    assert 0 == finding(report).explains_count


@pytest.mark.parametrize(("provenance", "severity"), [("given", "warning"), ("default", "info")])
def test_objectives_make_symptoms_loud(provenance: str, severity: str) -> None:
    """An objective that was given and is exceeded is a warning; the status says so."""
    facts = {"slo.ttft_p99": Fact(1.0, provenance, "t")}  # type: ignore[arg-type]
    (report,) = reports(readings(BUSY | {"ttft_p99": 2.0}, facts=facts), LATE)
    assert severity == finding(report, "late").severity
    assert {"warning": "warning", "info": "ok"}[severity] == report.status


def test_symptom_without_objective() -> None:
    """A symptom that no objective belongs to is info."""
    (report,) = reports(readings(BUSY), rule(cause=None, severity="warning"))
    assert "info" == finding(report).severity


def test_what_is_pending_explains_nothing() -> None:
    """A root that does not fire yet leaves a symptom unexplained."""
    (report,) = reports(readings(BUSY | {"ttft_p99": 2.0}), rule(explains=["late"], **{"for": "30m"}), LATE)
    assert "root" == finding(report, "late").role


def test_short_history_explains() -> None:
    """A root that could not be seen long enough does explain."""
    read = readings(BUSY | {"ttft_p99": 2.0}, covered=60.0)
    (report,) = reports(read, rule(explains=["late"], **{"for": "30m"}), LATE)
    assert ("a-rule",) == finding(report, "late").explained_by


# --- pending and firing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "covered", "state", "severity", "confidence", "status"),
    [
        (13, 3600.0, "firing", "critical", "medium", "critical"),
        (12, 3600.0, "pending", "info", "medium", "ok"),
        (5, 60.0, "pending", "critical", "low", "critical"),
    ],
)
def test_pending(steps: int, covered: float, state: str, severity: str, confidence: str, status: str) -> None:
    """Pending is info and touches no status; where the history is too short it keeps its severity at low confidence."""
    read = readings(BUSY | {"kv_cache_usage": [0.9] * steps}, covered=covered)
    (report,) = reports(read, rule(severity="critical", **{"for": "3m"}))
    one = finding(report)
    assert (state, severity, confidence) == (one.state, one.severity, one.confidence)
    assert status == report.status
    assert ((steps - 1) * 15.0, 180.0) == (one.held_s, one.for_s)
    assert END - one.held_s == one.since


@pytest.mark.parametrize(
    ("supports", "contradicts", "covered", "confidence"),
    [
        ((), (), 3600.0, "medium"),
        (("running > half",), (), 3600.0, "high"),
        (("running > half", "waiting > half"), (), 3600.0, "medium"),
        (("running > half", "prefix_hit_rate > half"), (), 3600.0, "medium"),
        (("running > half",), ("ttft_p99 < half",), 3600.0, "low"),
        (("running > half",), ("prefix_hit_rate < half",), 3600.0, "high"),
        (("running > half",), (), 0.0, "low"),
    ],
)
def test_confidence(supports: tuple[str, ...], contradicts: tuple[str, ...], covered: float, confidence: str) -> None:
    """High when all that supports holds, low when something contradicts; what is unknown does neither."""
    one = rule(supports=supports, contradicts=contradicts, **{"for": "15s"})
    (report,) = reports(readings(BUSY, covered=covered), one)
    assert confidence == finding(report).confidence


# --- status --------------------------------------------------------------------------------------

IDLE: dict[str, Value] = BUSY | {
    "running": 0.0, "kv_cache_usage": 0.0, "ttft_p99": State.IDLE, "generation_tokens_per_second": 0.0,
    "running_max": 0.0, "requests_per_second": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "signals"),
    [
        ("ok", {**BUSY, "kv_cache_usage": 0.1}),
        ("warning", BUSY),
        ("warning", {**BUSY, "up": State.ABSENT}),
        ("unknown", {**BUSY, "kv_cache_usage": State.ABSENT}),
        ("unknown", {**BUSY, "kv_cache_usage": 0.1, "up": State.ABSENT}),
        ("unknown", {**BUSY, "kv_cache_usage": 0.1, "generation_tokens_per_second": State.STALE}),
        ("unknown", {**IDLE, "ttft_p99": State.STALE}),
        ("unknown", {}),
        ("idle", IDLE),
        ("ok", {**IDLE, "running_max": 1.0}),
        ("ok", {**IDLE, "waiting_max": 1.0}),
        ("ok", {**IDLE, "requests_per_second": 0.1}),
        ("ok", {**IDLE, "requests_per_second": State.STALE}),
        ("idle", {**BUSY, "kv_cache_usage": 0.1, "awake": 0.0}),
        ("unknown", {**IDLE, "awake": 0.0, "running": State.ABSENT}),
        ("ok", {**BUSY, "kv_cache_usage": 0.1, "awake": State.ABSENT}),
    ],
)
def test_status(status: str, signals: dict[str, Value]) -> None:
    """Critical, warning, unknown (a core signal lacks), idle (no traffic, or asleep), ok: the first that applies."""
    (report,) = reports(readings(signals), rule())
    assert status == report.status


def test_worst_severity_counts() -> None:
    """The status is the worst severity that fires."""
    (report,) = reports(readings(BUSY), rule(), rule(id="b-rule", severity="critical"), rule(id="c", severity="info"))
    assert "critical" == report.status


def test_info_is_no_status() -> None:
    """A finding that is only info leaves the engine ok."""
    (report,) = reports(readings(BUSY), rule(severity="info"))
    assert ("info", "ok") == (finding(report).severity, report.status)


def test_engines_are_judged_apart() -> None:
    """One bad engine of three stays visible and does not stain the others."""
    quiet = BUSY | {"kv_cache_usage": 0.1}
    made = reports(readings(quiet, BUSY, quiet), rule())
    assert ["ok", "warning", "ok"] == [report.status for report in made]
    assert [0, 1, 0] == [len(report.findings) for report in made]


def test_no_engines() -> None:
    """A diagnosis of nothing has no targets."""
    assert () == diagnose(catalogue(rule()), readings()).targets


# --- evidence ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "evidence"),
    [
        ("kv_cache_usage > half", ["kv_cache_usage > 0.5"]),
        ("kv_cache_usage > half and running > half", ["kv_cache_usage > 0.5", "running > 0.5"]),
        ("kv_cache_usage > half or waiting > half", ["kv_cache_usage > 0.5"]),
        ("waiting > half or prefix_hit_rate > half or running > half", ["running > 0.5"]),
        ("(waiting > half or running > half) and kv_cache_usage > half", ["running > 0.5", "kv_cache_usage > 0.5"]),
        ("not waiting > half", ["waiting <= 0.5"]),
        ("not (waiting > half and running > half)", ["waiting <= 0.5"]),
        ("not (waiting > half or running < half)", ["waiting <= 0.5", "running >= 0.5"]),
        ("running / kv_cache_usage > half", ["(running / kv_cache_usage) > 0.5"]),
        ("running > half and running > half", ["running > 0.5"]),
    ],
)
def test_evidence(when: str, evidence: list[str]) -> None:
    """Evidence is what makes the condition true: both sides of ``and``, only the true branches of ``or``."""
    (report,) = reports(readings(BUSY), rule(when=when))
    assert evidence == [f"{one.signal} {one.op} {one.threshold:g}" for one in finding(report).evidence]


def test_evidence_of_supports() -> None:
    """What supports is evidence too, as far as it holds."""
    one = rule(supports=["running > half", "waiting > half", "prefix_hit_rate > half or ttft_p99 < half"])
    (report,) = reports(readings(BUSY), one)
    assert ["kv_cache_usage", "running", "ttft_p99"] == [one.signal for one in finding(report).evidence]


def test_evidence_is_complete() -> None:
    """Value, threshold with its name, unit, and a PromQL expression of that engine."""
    (report,) = reports(readings(BUSY), rule())
    (one,) = finding(report).evidence
    assert (0.9, ">", 0.5, "ratio", "half") == (one.value, one.op, one.threshold, one.unit, one.note)
    assert 'model_name="m"' in one.promql


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinities_are_not_written(value: float) -> None:
    """Neither evidence nor signals nor bottlenecks put NaN or Infinity into JSON."""
    one = rule(when="running > half or running < half", summary="{running} of {kv_cache_usage}, {prefix_hit_rate}")
    made = diagnose(catalogue(one), readings(BUSY | {"running": value}))
    text = to_json(made)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(text, parse_constant=refuse)
    shown = "without bound" if value > 0 else "-"
    assert f"{shown} of 0.9, -" == finding(made.targets[0]).summary


def test_summary_is_filled_in() -> None:
    """Signals, thresholds and facts stand in the summary with their units."""
    one = rule(summary="{ttft_p99} {{x}} {half} {max_num_seqs} {kv_cache_dtype}")
    read = readings(BUSY, facts={"max_num_seqs": 64.0, "kv_cache_dtype": "auto"})
    (report,) = reports(read, one)
    assert "100 ms {x} 0.5 64 requests auto" == finding(report).summary


# --- what could not be judged --------------------------------------------------------------------


def test_unjudged_rules() -> None:
    """A rule that lacks something names it with its state; one that does not apply is listed apart."""
    rules = [
        rule(id="lacking", when="kv_cache_usage > half and ttft_p50 > half and max_num_seqs > half"),
        rule(id="silent", when="acceptance_rate > half"),
        rule(id="quiet", when="waiting > half and prefix_hit_rate > half"),
    ]
    signals = BUSY | {"ttft_p50": State.IDLE, "acceptance_rate": State.NOT_APPLICABLE}
    (report,) = reports(readings(signals), *rules)
    assert ["lacking"] == [one.rule for one in report.unknown]
    assert (("ttft_p50", State.IDLE), ("max_num_seqs", State.ABSENT)) == report.unknown[0].missing
    assert ("silent",) == report.not_applicable
    assert () == report.findings


def test_a_diagnosis_is_a_function_of_the_data() -> None:
    """The same readings give the same diagnosis."""
    read = readings(BUSY, BUSY | {"ttft_p99": 3.0}, targets=[target("0"), target("1")])
    assert diagnose(catalogue(rule(), LATE), read) == diagnose(catalogue(LATE, rule()), read)


# --- large fleets --------------------------------------------------------------------------------


class Counted(dict[str, Fact]):
    """Facts that count how often they are looked at, all engines together."""

    looks = 0

    def get(self, *arguments: Any) -> Any:  # noqa: ANN401  as the dict's own
        Counted.looks += 1
        return super().get(*arguments)


def looks_at_facts(engines: int) -> float:
    """How often a diagnosis looks at the facts of an engine, on average, where many rules lack a signal."""
    plain = readings(*[{"running": 1.0}] * engines)
    Counted.looks = 0
    diagnose(shipped(), replace(plain, facts=tuple(Counted(facts) for facts in plain.facts)))
    return Counted.looks / engines


def test_what_an_engine_costs_does_not_grow_with_the_fleet() -> None:
    """What rules lack is found out for all engines at once."""
    assert looks_at_facts(2) == pytest.approx(looks_at_facts(12))
