"""The first recommendation is taken as it is, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from lab.load import Load
from lab.treatment import first_advice, treat

LINE = ("vllm", "serve", "model", "--max-num-seqs", "4", "--speculative-config", '{"method": "ngram"}')
LOAD = Load(rate=1, shared=64, stamp="first", prompt=(1, 2), answer=(1, 2))


def finding(rule: str = "r", role: str = "root", *recommendations: dict[str, Any]) -> dict[str, Any]:
    return {"rule": rule, "role": role, "recommendations": list(recommendations)}


def recommended(flag: str | None, argument: str | None, lever: str = "lever") -> dict[str, Any]:
    return {"lever": lever, "direction": "set", "flag": flag, "argument": argument}


def diagnosis(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"targets": [{"findings": list(findings)}]}


def test_the_first_of_the_first_root_finding() -> None:
    """Symptoms and findings without advice are passed over, as ``palanca`` itself does."""
    one, other = recommended("--a", "--a 1"), recommended("--b", "--b 2")
    told = diagnosis(finding("s", "symptom", other), finding("empty"), finding("r", "root", one, other))
    advice = first_advice(told)
    assert advice is not None
    assert ("r", one) == (advice.finding["rule"], advice.recommendation)


def test_no_advice() -> None:
    assert first_advice(diagnosis(finding())) is None
    assert treat(LINE, LOAD, None).why_not == "there is no recommendation"


@pytest.mark.parametrize(
    ("flag", "argument", "expected"),
    [
        ("--max-num-seqs", "--max-num-seqs 48", (*LINE[:4], "48", *LINE[5:])),
        ("--speculative-config", "remove --speculative-config", LINE[:5]),
        ("--enable-prefix-caching", "--enable-prefix-caching", (*LINE, "--enable-prefix-caching")),
    ],
)
def test_a_flag(flag: str, argument: str, expected: tuple[str, ...]) -> None:
    """The value is that of the recommendation; everything else stays."""
    told = first_advice(diagnosis(finding("r", "root", recommended(flag, argument))))
    made = treat(LINE, LOAD, told)
    assert (expected, LOAD, "server", "") == (made.arguments, made.load, made.where, made.why_not)


@pytest.mark.parametrize(
    ("flag", "argument", "why"),
    [
        ("--num-gpu-blocks-override", "remove --num-gpu-blocks-override", "not among them"),
        ("--speculative-config", "--speculative-config '{\"num_speculative_tokens\": 2, ...}'", "in part"),
        ("--max-num-seqs", "--max-num-seqs 4", "set already"),
        ("--max-num-seqs", None, "without an argument"),
        (None, None, "no flag"),
    ],
)
def test_what_cannot_be_followed(flag: str | None, argument: str | None, why: str) -> None:
    """Nothing is made up in its place."""
    made = treat(LINE, LOAD, first_advice(diagnosis(finding("r", "root", recommended(flag, argument)))))
    assert (LINE, LOAD, "") == (made.arguments, made.load, made.where)
    assert why in made.why_not


def test_clients_that_can_do_something() -> None:
    told = first_advice(diagnosis(finding("r", "root", recommended(None, None, "identical_prefix"))))
    made = treat(LINE, LOAD, told)
    assert (LINE, "last", "client") == (made.arguments, made.load.stamp, made.where)
    assert "already" in treat(LINE, made.load, told).why_not
