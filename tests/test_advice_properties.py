"""What no recommendation may ever be, whatever the signals and facts: all shipped rules against random engines."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engines import Value, readings, shipped, target

from palanca.advice.reconcile import reconcile
from palanca.diagnosis import diagnose, rank
from palanca.model import (
    Catalogue,
    Diagnosis,
    Direction,
    Fact,
    Finding,
    Readings,
    Recommendation,
    State,
    TargetReport,
    VllmVersion,
    scope_of,
)
from palanca.releases import Release
from palanca.render.document import to_json

FORCED = "up_avg >= up_avg"
"""A condition that holds wherever the signal has a number."""

numbers = st.one_of(
    st.sampled_from([0.0, 0.01, 0.5, 0.9, 1.0, 4.0, 30.0, 64.0, 512.0, 5000.0, 1e6, -1.0, math.inf]),
    st.floats(min_value=0, max_value=1e5),
)
values = st.one_of(numbers, numbers, numbers, st.sampled_from([State.ABSENT, State.IDLE, State.NOT_APPLICABLE]))
provenances = st.sampled_from(["given", "reported", "inferred", "default"])


@st.composite
def facts(draw: st.DrawFn) -> dict[str, object]:
    kinds = {"number": numbers.filter(math.isfinite), "flag": st.booleans(), "text": st.sampled_from(["auto", "fp8"])}
    made: dict[str, object] = {}
    for name, spec in shipped().facts.items():
        if draw(st.booleans()):
            made[name] = Fact(draw(kinds[spec.type]), draw(provenances), "random")  # type: ignore[arg-type]
    return made


@st.composite
def versions(draw: st.DrawFn) -> VllmVersion | None:
    releases = shipped().metrics.releases
    first = draw(st.integers(0, len(releases) - 1))
    last = draw(st.integers(first, len(releases) - 1))
    return draw(st.sampled_from([None, VllmVersion(releases[first], releases[last], ("v1",), "inferred")]))


@st.composite
def engines(draw: st.DrawFn) -> tuple[Catalogue, Readings]:
    """One to four engines of one or two command lines; some rules are made to hold."""
    catalogue = shipped()
    forced = draw(st.sets(st.sampled_from([rule.id for rule in catalogue.rules])))
    rules = [rule.model_copy(update={"when": FORCED}) if rule.id in forced else rule for rule in catalogue.rules]
    used = [name for name in catalogue.signals if name != "up_avg"]
    count = draw(st.integers(1, 4))
    signals: list[dict[str, Value]] = []
    for _ in range(count):
        row: dict[str, Value] = {name: draw(values) for name in used}
        signals.append(row | {"up_avg": draw(st.sampled_from([1.0, 1.0, State.ABSENT]))})
    targets = [target(str(index), model_name=draw(st.sampled_from(["m", "m", "n"]))) for index in range(count)]
    read = readings(
        *signals,
        targets=targets,
        facts=[draw(facts()) for _ in range(count)],
        versions=[draw(versions()) for _ in range(count)],
        covered=draw(st.sampled_from([0.0, 60.0, 3600.0])),
    )
    return replace(catalogue, rules=tuple(rules)), read


def recommendations(report: TargetReport) -> list[Recommendation]:
    return [one for finding in report.findings for one in finding.recommendations]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_scopes(made: Diagnosis) -> None:
    """Within a command line a lever has one direction, and one number."""
    directions: dict[tuple[object, str], set[str]] = defaultdict(set)
    proposed: dict[tuple[object, str], set[object]] = defaultdict(set)
    for report in made.targets:
        for one in recommendations(report):
            key = (scope_of(report.target), one.lever)
            directions[key].add(one.direction)
            if is_number(one.proposed):
                proposed[key].add(one.proposed)
    assert {} == {key: found for key, found in directions.items() if len(found) > 1}
    assert {} == {key: found for key, found in proposed.items() if len(found) > 1}


def check_release(catalogue: Catalogue, report: TargetReport, one: Recommendation) -> None:
    """A flag exists, under that name, in every release that the engine can be running or in an older spelling."""
    lever = catalogue.levers[one.lever]
    if lever.action is not None:
        assert one.flag is None
        return
    releases = catalogue.metrics.releases
    first, last = (report.version.first, report.version.last) if report.version else (releases[0], releases[-1])
    for release in releases:
        if Release(first) <= Release(release) <= Release(last):
            assert any(Release(release) in form.releases for form in lever.forms), (one.lever, release)
    assert one.flag in {form.flag for form in lever.forms if Release(last) in form.releases}


def check_value(catalogue: Catalogue, one: Recommendation) -> None:
    """A value that differs from the current one, in the right direction and within bounds, or a reason."""
    lever = catalogue.levers[one.lever]
    assert one.proposed is not None or one.computed_from
    assert one.proposed is None or one.current != one.proposed
    if is_number(one.proposed):
        assert isinstance(one.proposed, int | float)
        assert math.isfinite(one.proposed)
        assert lever.minimum is None or lever.minimum <= one.proposed
        assert lever.maximum is None or lever.maximum >= one.proposed
        if is_number(one.current):
            assert isinstance(one.current, int | float)
            assert ("raise" if one.proposed > one.current else "lower") == one.direction
        assert one.argument is None or f"{one.proposed:g}" in one.argument or str(int(one.proposed)) in one.argument


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(engines())
def test_no_recommendation_contradicts(world: tuple[Catalogue, Readings]) -> None:
    """One direction a lever, no flag unknown to the release, no value that is set, a value or a reason; no NaN."""
    catalogue, read = world
    made = diagnose(catalogue, read)
    check_scopes(made)
    for report in made.targets:
        for finding in report.findings:
            assert "root" == finding.role or not finding.recommendations
        for one in recommendations(report):
            check_release(catalogue, report, one)
            check_value(catalogue, one)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(to_json(made), parse_constant=refuse)


@st.composite
def claims(draw: st.DrawFn) -> Finding:
    """A finding whose recommendations for one lever are right for its own engine."""
    made = []
    for _ in range(draw(st.integers(0, 2))):
        current, proposed = (float(draw(st.integers(1, 9))) for _ in range(2))
        known = draw(st.booleans()) and current != proposed
        direction: Direction = "raise" if proposed > current else "lower"
        made.append(
            Recommendation(
                lever="max_num_seqs", direction=direction if known else draw(st.sampled_from(["raise", "lower"])),
                flag="--max-num-seqs", current=current if known else None, provenance=None,
                proposed=draw(st.sampled_from([proposed, proposed, None])), argument=f"--max-num-seqs {proposed:g}",
                computed_from="x", why="", effect="", trade_off="", verify=(), risk="low", applies_to="",
            )
        )  # fmt: skip
    return Finding(
        rule="a", title="", cause="overload", severity=draw(st.sampled_from(["critical", "warning", "info"])),
        confidence="low", role="root", state="firing", since=0.0, since_at_least=False, summary="",
        recommendations=tuple(made),
    )  # fmt: skip


@given(st.lists(st.lists(claims(), max_size=3), min_size=1, max_size=5))
def test_agreement_is_right_for_every_engine(findings: list[list[Finding]]) -> None:
    """What a command line agrees on is one direction and one number, a step in that direction for every engine."""
    targets = [target(str(index)) for index in range(len(findings))]
    made = [one for engine in reconcile(targets, findings, rank) for found in engine for one in found.recommendations]
    asked = any(found.recommendations for engine in findings for found in engine)
    assert asked == bool(made)
    assert 1 >= len({one.direction for one in made})
    assert 1 >= len({one.proposed for one in made if one.proposed is not None})
    for one in made:
        check_value(shipped(), one)
