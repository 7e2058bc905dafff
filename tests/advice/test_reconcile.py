"""One command line, one set of flags."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.engines import END, target

from palanca.advice.reconcile import reconcile
from palanca.diagnosis import rank
from palanca.model import Direction, Finding, Recommendation, Severity, scope_of


def advised(
    direction: Direction = "raise",
    proposed: float | bool | str | None = 64.0,
    current: float | None = None,
    lever: str = "max_num_seqs",
) -> Recommendation:
    return Recommendation(
        lever=lever, direction=direction, flag="--max-num-seqs", current=current, provenance=None, proposed=proposed,
        argument=None if proposed is None else f"--max-num-seqs {proposed:g}" if isinstance(proposed, float) else "x",
        computed_from="running_max", why="", effect="", trade_off="", verify=(), risk="low", applies_to="this engine",
    )  # fmt: skip


def finding(*recommendations: Recommendation, severity: Severity = "warning", rule: str = "a") -> Finding:
    return Finding(
        rule=rule, title="t", cause="slot-limit", severity=severity, confidence="medium", role="root", state="firing",
        since=END, since_at_least=False, summary="s", recommendations=recommendations,
    )  # fmt: skip


def agreed(*engines: list[Finding], **labels: str) -> list[list[Recommendation]]:
    """The recommendations of each engine of one command line."""
    targets = [target(str(index), instance=f"{index}:8000", **labels) for index in range(len(engines))]
    return [[one for found in made for one in found.recommendations] for made in reconcile(targets, engines, rank)]


@pytest.mark.parametrize(
    ("labels", "same"),
    [
        ({"instance": "b:8000"}, True),
        ({"engine": "7"}, True),
        ({"pod": "x"}, True),
        ({"model_name": "n"}, False),
        ({"job": "other"}, False),
        ({"namespace": "n"}, False),
        ({"cluster": "c"}, False),
    ],
)
def test_scope(labels: dict[str, str], same: bool) -> None:
    """Engines share a command line when cluster, namespace, job and model are equal."""
    assert same == (scope_of(target()) == scope_of(target(**{"engine": "0", **labels})))


def test_one_engine_keeps_its_advice() -> None:
    """Alone, and without contradiction, nothing changes."""
    one = advised(current=32.0)
    assert [[one]] == agreed([finding(one)])


@pytest.mark.parametrize(
    ("first", "second"), [("raise", "lower"), ("lower", "raise"), ("enable", "disable"), ("set", "raise")]
)
def test_one_direction_in_one_engine(first: Direction, second: Direction) -> None:
    """Of two findings the one that ranks first decides the direction of a lever."""
    critical = finding(advised(first), severity="critical", rule="z")
    assert [[advised(first)]] == agreed([finding(advised(second)), critical])


def test_one_direction_in_a_scope() -> None:
    """The worst finding of any engine decides for all that share its command line."""
    made = agreed([finding(advised("raise"))], [finding(advised("lower", 8.0), severity="critical")], [])
    expected = replace(advised("lower", 8.0), applies_to="1 of 3 engines of this command line")
    assert [[], [expected], []] == made


def test_other_levers_stay() -> None:
    """A contradiction about one lever leaves the others alone."""
    other = advised("raise", 0.95, lever="gpu_memory_utilization")
    made = agreed([finding(advised("lower"), severity="critical"), finding(advised("raise"), other)])
    assert [[advised("lower"), other]] == made


@pytest.mark.parametrize(("direction", "safest"), [("raise", 48.0), ("lower", 48.0), ("set", 48.0)])
def test_safest_value(direction: Direction, safest: float) -> None:
    """Three of eight engines ask: all get the smallest value, and the sentence says how many ask."""
    asking = [[finding(advised(direction, value))] for value in (96.0, 48.0, 64.0)]
    made = agreed(*asking, *[[]] * 5)
    flat = [one for engine in made for one in engine]
    assert [1, 1, 1, 0, 0, 0, 0, 0] == [len(engine) for engine in made]
    assert {safest} == {one.proposed for one in flat}
    assert {"--max-num-seqs 48"} == {one.argument for one in flat}
    assert {"3 of 8 engines of this command line"} == {one.applies_to for one in flat}
    assert [
        "the safest of the values of 3 engines; of this one: running_max",
        "running_max",
        "the safest of the values of 3 engines; of this one: running_max",
    ] == [one.computed_from for one in flat]


def test_the_safest_value_is_no_step_back() -> None:
    """Where inferred current values differ, no engine is told to raise to less than it has."""
    made = agreed([finding(advised("raise", 72.0, current=64.0))], [finding(advised("raise", 200.0, current=100.0))])
    assert [[200.0], [200.0]] == [[one.proposed for one in engine] for engine in made]
    made = agreed([finding(advised("lower", 72.0, current=80.0))], [finding(advised("lower", 30.0, current=40.0))])
    assert [[30.0], [30.0]] == [[one.proposed for one in engine] for engine in made]


def test_unknown_values_and_words() -> None:
    """Without a number, and with a word, an engine keeps what it says."""
    made = agreed([finding(advised("raise", None))], [finding(advised("raise", 64.0))])
    assert [[None], [64.0]] == [[one.proposed for one in engine] for engine in made]
    made = agreed([finding(advised("set", "fp8"))], [finding(advised("set", "fp8"))])
    assert [["fp8"], ["fp8"]] == [[one.proposed for one in engine] for engine in made]


def test_other_command_lines_do_not_mix() -> None:
    """Engines of another job have their own direction and value."""
    targets = [target("0"), target("0", job="other")]
    findings = [[finding(advised("raise"))], [finding(advised("lower", 8.0), severity="critical")]]
    made = reconcile(targets, findings, rank)
    assert [(advised("raise"),), (advised("lower", 8.0),)] == [one[0].recommendations for one in made]


def test_nothing_to_reconcile() -> None:
    """No targets, and targets without findings."""
    assert [] == reconcile([], [], rank)
    assert [()] == reconcile([target()], [[]], rank)
