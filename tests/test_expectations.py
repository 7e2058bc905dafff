"""What a rule expects, what came of it, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.engines import shipped

from palanca.batches import Difference
from palanca.expectations import Bound, Came, Outcome, Verdict, bound_of, judge, outcome, overall
from palanca.model import Fact, Verify

SLO = {"slo.itl_p99": Fact(0.1, "given", "--slo")}


@dataclass(frozen=True)
class Numbers:
    difference: Difference | None
    verdict: Verdict
    note: str = "why not"


def numbers(before: float, after: float, verdict: Verdict) -> Numbers:
    return Numbers(Difference(before, after, after - before, after - before, 0.001, (6, 6)), verdict)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("<= 1", Bound("<=", 1.0)),
        ("> 0", Bound(">", 0.0)),
        ("0", Bound("==", 0.0)),
        ("0 when idle", Bound("==", 0.0)),
        (">= 0.5", Bound(">=", 0.5)),
        ("<= slo.itl_p99", Bound("<=", 0.1)),
        ("<= slo.ttft_p99", Bound("<=", None)),
        ("falls", None),
        ("falls by itself", None),
        ("better days", None),
    ],
)
def test_bounds(text: str, bound: Bound | None) -> None:
    """Numbers and objectives are bounds, directions and words are not."""
    assert bound == bound_of(text, SLO)


@pytest.mark.parametrize(
    ("expect", "made", "came"),
    [
        ("<= 1", numbers(101, 0, "helped"), "met"),
        ("<= 1", numbers(101, 20, "helped"), "better"),
        ("<= 1", numbers(101, 102, "did nothing"), "not met"),
        ("<= 1", numbers(101, 200, "made it worse"), "worse"),
        ("<= 1", numbers(0, 0.5, "did nothing"), "kept"),
        ("<= 1", numbers(0, 5, "made it worse"), "broken"),
        ("0", numbers(3, 0, "helped"), "met"),
        ("== 3", numbers(0, 3, "helped"), "met"),
        ("falls", numbers(5, 1, "helped"), "met"),
        ("falls", numbers(5, 9, "made it worse"), "worse"),
        ("rises", numbers(5, 9, "helped"), "met"),
        ("rises", numbers(5, 9, "made it worse"), "met"),
        ("rises", numbers(5, 5, "did nothing"), "not met"),
        ("<= slo.itl_p99", numbers(0.2, 0.05, "helped"), "met"),
        ("<= slo.ttft_p99", numbers(0.2, 0.05, "helped"), "cannot tell"),
        ("falls", numbers(5, 1, "cannot tell"), "cannot tell"),
        ("falls", Numbers(None, "cannot tell"), "cannot tell"),
        ("falls", None, "cannot tell"),
        ("a better life", numbers(5, 1, "helped"), "cannot tell"),
    ],
)
def test_outcomes(expect: str, made: Numbers | None, came: Came) -> None:
    """What was not so before is a goal, what was so is a guard."""
    assert came == outcome(Verify(signal="waiting", expect=expect, within=600), made, SLO).came


def outcomes(*came: Came) -> list[Outcome]:
    return [Outcome("waiting", "falls", one) for one in came]


BETTER: dict[str, tuple[Verdict, float | None]] = {"ttft_p50": ("helped", -0.5), "itl_p99": ("did nothing", 0.0)}
WORSE: dict[str, tuple[Verdict, float | None]] = {"ttft_p50": ("made it worse", 0.5)}


@pytest.mark.parametrize(
    ("came", "users", "verdict"),
    [
        (["met", "met"], {}, "helped"),
        (["better"], WORSE, "helped"),
        (["met", "broken"], {}, "helped"),
        (["met", "not met"], {}, "helped"),
        (["met", "cannot tell"], {}, "helped"),
        (["not met"], BETTER, "did nothing"),
        (["worse", "not met"], WORSE, "made it worse"),
        (["worse"], BETTER, "cannot tell"),
        (["met", "worse"], WORSE, "made it worse"),
        (["met", "worse"], BETTER, "helped"),
        (["met", "worse"], BETTER | {"itl_p99": ("made it worse", 1.0)}, "did nothing"),
        (["cannot tell"], BETTER, "cannot tell"),
        (["kept"], BETTER, "helped"),
        ([], BETTER, "helped"),
        ([], WORSE, "made it worse"),
        ([], {"itl_p99": ("did nothing", 0.0)}, "did nothing"),
        ([], {"itl_p99": ("cannot tell", None)}, "cannot tell"),
    ],
)
def test_the_verdict(came: list[Came], users: dict[str, tuple[Verdict, float | None]], verdict: Verdict) -> None:
    """The goals decide; where they disagree, or without any, what users feel."""
    assert verdict == judge(outcomes(*came), users)[0]


@pytest.mark.parametrize(
    ("engines", "verdict"),
    [
        ([], "cannot tell"),
        (["cannot tell"], "cannot tell"),
        (["cannot tell", "helped"], "helped"),
        (["did nothing", "helped"], "helped"),
        (["did nothing", "made it worse"], "made it worse"),
        (["helped", "made it worse"], "cannot tell"),
        (["did nothing", "cannot tell"], "did nothing"),
        (["did nothing", "cannot tell", "cannot tell"], "cannot tell"),
    ],
)
def test_all_engines(engines: list[Verdict], verdict: Verdict) -> None:
    """Engines that can tell decide, unless they contradict each other."""
    assert verdict == overall([(one, "") for one in engines])[0]


def test_every_shipped_expectation_can_be_read() -> None:
    """No rule expects something that cannot be checked."""
    texts = [(rule.id, one.expect) for rule in shipped().rules for one in rule.verify]
    assert [] == [
        (rule, text) for rule, text in texts if bound_of(text, {}) is None and not text.startswith(("falls", "rises"))
    ]
