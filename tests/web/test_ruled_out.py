"""What it is not, by the numbers of the engine and the thresholds in force."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.api.apps import recorded
from tests.engines import catalogue, finding, readings, rule, shipped, target
from tests.web.served import engines

from palanca.diagnosis import diagnose
from palanca.engine import evaluate
from palanca.model import Diagnosis, State, Status, Truth
from palanca.web.ruled_out import Considered, considered, last_step

FULL = {"full": {"value": 0.9, "unit": "ratio", "source": "a test"}}
ONE = {"one": {"value": 1, "unit": "requests", "source": "a test"}}


def busy(diagnosis: Diagnosis) -> Diagnosis:
    """With all engines as if they lacked no core signal."""
    return replace(diagnosis, targets=tuple(replace(one, status="ok") for one in diagnosis.targets))


def by_cause(*rules: object, signals: dict[str, object], overrides: object = None) -> dict[str, Considered]:
    whole = catalogue(*rules)  # type: ignore[arg-type]
    made = busy(diagnose(whole, readings(signals)))  # type: ignore[arg-type]
    return {one.cause: one for one in considered(made, made.targets[0], whole, overrides)}  # type: ignore[arg-type]


def test_a_real_incident() -> None:
    """What holds is not there; each cause is once, those that cannot be judged first."""
    made = considered(recorded(), recorded().targets[0], shipped())
    causes = [one.cause for one in made]
    assert len(causes) == len(set(causes))
    assert "kv-capacity" not in causes
    standings = [one.standing for one in made]
    assert standings == sorted(standings, key=["unknown", "not judged", "ruled out", "not applicable"].index)
    reasons = {one.rule: one.why for cause in made for one in cause.rules}
    assert "KV cache in use 0.95, not < 0.7" in reasons["prefill-capacity"]
    assert "lacks" in reasons["max-model-len-large"]


def test_every_reason_is_true() -> None:
    """No rule that is said to be false holds, at any recording's engine."""
    diagnosis = recorded()
    whole = last_step(diagnosis, diagnosis.targets)
    verdicts = {one.rule.id: Truth(int(one.when[0, -1])) for one in evaluate(shipped().rules, whole)}
    for cause in considered(diagnosis, diagnosis.targets[0], shipped()):
        for one in cause.rules:
            assert (Truth.UNKNOWN if one.why.startswith("lacks") else Truth.FALSE) == verdicts[one.rule], one


def test_only_the_parts_that_are_false() -> None:
    """Of an ``and`` what does not hold, of an ``or`` all of it."""
    both = rule(id="both", when="kv_cache_usage > full and running > one", thresholds=FULL | ONE)
    either = rule(id="either", cause="overload", when="kv_cache_usage > full or running > one", thresholds=FULL | ONE)
    found = by_cause(both, either, signals={"kv_cache_usage": 0.95, "running": 0.5})
    assert "Requests running 0.5 requests, not > 1 request" == found["kv-capacity"].rules[0].why
    found = by_cause(both, either, signals={"kv_cache_usage": 0.5, "running": 0.5})
    assert found["overload"].rules[0].why == (
        "KV cache in use 0.5, not > 0.9; Requests running 0.5 requests, not > 1 request"
    )


def test_thresholds_in_force() -> None:
    """Those of the settings, not those of the rule."""
    one = rule(when="kv_cache_usage > full", thresholds=FULL)
    found = by_cause(one, signals={"kv_cache_usage": 0.95}, overrides=lambda _: {"a-rule": {"full": 0.99}})
    assert {} == found  # it was found with the rule's own
    found = by_cause(one, signals={"kv_cache_usage": 0.8}, overrides=lambda _: {"a-rule": {"full": 0.85}})
    assert "KV cache in use 0.8, not > 0.85" == found["kv-capacity"].rules[0].why


def test_unknown_wins() -> None:
    """A cause with a rule that cannot be judged is not ruled out."""
    known = rule(id="known", when="kv_cache_usage > full", thresholds=FULL)
    unknown = rule(id="unknown", when="running > one", thresholds=ONE)
    found = by_cause(known, unknown, signals={"kv_cache_usage": 0.1})["kv-capacity"]
    assert "unknown" == found.standing
    assert ["unknown", "known"] == [one.rule for one in found.rules]
    assert "lacks Requests running (absent)" == found.rules[0].why


def test_too_few_observations_rule_nothing_out() -> None:
    """Only what would be false with enough of them is."""
    gate = {"enough_first": {"value": 20, "unit": "requests", "source": "a test"}}
    gated = rule(when="kv_cache_usage > full and first_tokens > enough_first", thresholds=FULL | gate)
    found = by_cause(gated, signals={"kv_cache_usage": 0.95, "first_tokens": 3})["kv-capacity"]
    assert "not judged" == found.standing
    assert "too few observations: First tokens in the window 3 requests, not > 20 requests" == found.rules[0].why
    found = by_cause(gated, signals={"kv_cache_usage": 0.5, "first_tokens": 3})["kv-capacity"]
    assert "ruled out" == found.standing
    assert found.rules[0].why.startswith("KV cache in use 0.5, not > 0.9")
    found = by_cause(gated, signals={"kv_cache_usage": State.IDLE, "first_tokens": 0})["kv-capacity"]
    assert "ruled out" != found.standing


@pytest.mark.parametrize(
    ("status", "why"), [("idle", "no traffic to judge it by"), ("unknown", "the engine cannot be judged")]
)
def test_engines_that_are_not_judged(status: Status, why: str) -> None:
    """Nothing is ruled out there."""
    plain = recorded()
    report = replace(plain.targets[0], status=status)
    made = considered(replace(plain, targets=(report,)), report, shipped())
    assert "ruled out" not in {one.standing for one in made}
    reasons = {rule.why for one in made if one.standing == "not judged" for rule in one.rules}
    assert {why} == reasons


def test_flags() -> None:
    """Conditions without a number."""
    one = rule(when="prefix_caching and kv_cache_usage > full", thresholds=FULL)
    whole = catalogue(one)
    made = busy(diagnose(whole, readings({"kv_cache_usage": 0.95}, facts={"prefix_caching": False})))
    (found,) = considered(made, made.targets[0], whole)
    assert "not so: prefix_caching" == found.rules[0].why


def test_not_applicable() -> None:
    """No evidence, and no claim."""
    one = rule(when="client.ttft_p99 > full", thresholds={"full": {"value": 1, "unit": "s", "source": "a test"}})
    found = by_cause(one, signals={"kv_cache_usage": 0.1})["kv-capacity"]
    assert ("not applicable", ()) == (found.standing, found.rules)


def test_fleets_are_compared_within_their_scope() -> None:
    """With all engines of the model, and no other."""
    one = rule(scope="model", when="kv_cache_usage > fleet_mean(kv_cache_usage)", thresholds={})
    whole = catalogue(one)
    targets = [target("0"), target("1"), target("0", model_name="other")]
    looks = [{"kv_cache_usage": share} for share in (0.2, 0.8, 0.1)]
    made = busy(diagnose(whole, readings(*looks, targets=targets)))
    (found,) = considered(made, made.targets[0], whole)
    assert "KV cache in use 0.2, not > 0.5" == found.rules[0].why
    assert "a-rule" == finding(made.targets[1]).rule


def test_a_ratio_over_nothing() -> None:
    """Is beyond all bounds, in both directions of the way."""
    made = engines({"preemptions_per_request": float("inf"), "running": State.STALE})
    back = last_step(made, made.targets)
    assert float("inf") == back.signals["preemptions_per_request"].values[0, -1]
    assert State.STALE == back.signals["running"].states[0, -1]
    assert (1, 1) == back.signals["running"].values.shape
    assert replace(back, targets=()).targets == ()
