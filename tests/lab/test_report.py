"""The report says what happened, for better or worse."""

from __future__ import annotations

import json
from typing import Any

from lab.client import Answer, Run
from lab.faults import FAULTS, Fault
from lab.figures import figures
from lab.report import cured, markdown
from lab.treatment import Advice
from lab.trial import Outcome

HEALTHY, FAULT = FAULTS[0], FAULTS[1]


def finding(rule: str = "slot-limit", severity: str = "warning") -> dict[str, Any]:
    return {
        "rule": rule, "title": "T", "cause": "slots", "severity": severity, "confidence": "low", "role": "root",
        "state": "pending", "summary": "Four run.",
    }  # fmt: skip


def outcome(fault: Fault = FAULT, verdict: str | None = None, *after: dict[str, Any], found: bool = True) -> Outcome:
    one = Outcome(fault, 1, ("vllm", "serve"))
    run = Run(0.0, 10.0, [Answer(1.0, 5, [2.0, 3.0], tokens=2)])
    one.before = figures(run, 10.0)
    if found:
        part = {
            "argument": "--max-num-seqs 48",
            "lever": "max_num_seqs",
            "current": 4,
            "computed_from": "f",
            "why": "W.",
        }
        one.findings, one.advice = [finding()], Advice(finding(), part)
    if verdict is not None:
        one.verification = {"verdict": verdict, "why": "waiting (falls): met"}
        one.findings_after, one.after = list(after), figures(run, 10.0)
    return one


def test_a_cure_helps_and_ends_the_finding() -> None:
    good, worse = outcome(FAULT, "helped"), outcome(FAULT, "did nothing")
    still = outcome(FAULT, "helped", finding())
    never = outcome(found=False)
    never.why_not = "there is no recommendation"
    assert [True, False, False, False] == [one.cured for one in (good, worse, still, never)]
    assert (1, 4) == cured([good, worse, still, never, outcome(HEALTHY, found=False)])


def test_the_table() -> None:
    never = outcome(found=False)
    never.why_not = "there is no recommendation"
    text = markdown([outcome(FAULT, "helped"), outcome(FAULT, "helped", finding()), never], "About.")
    assert "**1 of 3 faults were cured by the first recommendation.**" in text
    assert "| slots (slot-limit, low) | `--max-num-seqs 48` | helped | **yes** |" in text
    assert "helped; the finding is still there | no |" in text
    assert "no finding with a recommendation | none | not followed: there is no recommendation | no |" in text
    assert "| TTFT p50, s | 1.000 | - |" in text
    columns = {line.count("|") for line in text.splitlines() if line.startswith(("| kv", "| fault "))}
    assert {7} == columns


def test_the_control() -> None:
    assert "nothing, as it should" in markdown([outcome(HEALTHY, found=False)], "About.")
    loud = outcome(HEALTHY)
    assert "**not quiet**" in markdown([loud], "About.")
    assert "0 of 0" in markdown([loud], "About.")


def test_the_document_is_json() -> None:
    told = json.loads(json.dumps(outcome(FAULT, "helped").document(), allow_nan=False))
    assert (True, "helped", "--max-num-seqs 48") == (told["cured"], told["verdict"], told["recommendation"]["argument"])
    assert 0.1 == told["client"]["before"]["requests_per_second"]
