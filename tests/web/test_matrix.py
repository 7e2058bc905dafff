"""The rules as pages show them."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from tests.api.apps import fleet, recorded, world
from tests.engines import shipped

from palanca.settings.targets import Knowledge, TargetThresholds
from palanca.web.asked import AskedRules, of_pairs
from palanca.web.matrix import RuleView, rule_rows, rule_view

OVERRIDES = Knowledge(overrides=(TargetThresholds({"model_name": "llama"}, {"kv-cache-saturated": {"full": 0.92}}),))


def rows(query: str = "") -> list[str]:
    return [row.id for row in rule_rows(fleet(), shipped(), of_pairs(AskedRules, parse_qsl(query)))]


def view(rule_id: str, known: Knowledge = OVERRIDES) -> RuleView:
    return rule_view(shipped().rule(rule_id), fleet(), shipped(), known)


def test_all_rules_those_that_fire_first() -> None:
    """With how each stands."""
    assert {rule.id for rule in shipped().rules} == set(rows())
    first = rule_rows(fleet(), shipped(), AskedRules())[0]
    standing = dict(first.standing)
    assert standing["firing"] > 0
    assert len(fleet().targets) == sum(standing.values())


@pytest.mark.parametrize(
    ("query", "there", "not_there"),
    [("area=decode", "decode-slow", "kv-leak"), ("severity=critical", "kv-cache-saturated", "ttft-high"),
     ("q=PREEMPT+cache", "kv-cache-saturated", "cold-start"), ("q=kv-leak", "kv-leak", "ttft-high")],
)  # fmt: skip
def test_filters(query: str, there: str, not_there: str) -> None:
    """By area, severity and words."""
    assert there in rows(query)
    assert not_there not in rows(query)


def test_thresholds_in_force() -> None:
    """The rule's own, and beside it what the settings say."""
    full = next(one for one in view("kv-cache-saturated").thresholds if one.name == "full")
    assert ("0.85", (("model_name=llama", "0.92"),)) == (full.value, full.others)
    assert "seed article" in full.source
    plain = next(one for one in view("kv-cache-saturated", Knowledge()).thresholds if one.name == "full")
    assert () == plain.others


def test_expression_and_verdicts() -> None:
    """Condition, PromQL of its signals, and each engine where it is not quiet."""
    made = view("kv-cache-saturated")
    assert made.row.when.startswith("kv_cache_usage > full")
    assert any("avg_over_time(vllm:kv_cache_usage_perc[5m])" in promql for *_, promql in made.signals)
    firing = [one for one in made.verdicts if one.standing == "firing"]
    assert dict(made.row.standing)["firing"] == len(firing)
    assert "KV cache usage is 0.97" in firing[0].words
    unknown = view("metrics-missing").verdicts
    assert {"unknown"} == {one.standing for one in unknown}
    assert "lacks vllm_series (absent)" == unknown[0].words


@pytest.mark.parametrize("rule", shipped().rules, ids=lambda rule: rule.id)
def test_every_rule_has_its_page(rule: object) -> None:
    """With its runbook as HTML, its headings below those of the page."""
    rule_id = rule.id  # type: ignore[attr-defined]
    made = rule_view(shipped().rule(rule_id), recorded(), shipped(), Knowledge())
    assert made.runbook is not None
    assert "<h3>Meaning</h3>" in made.runbook
    assert "<h1" not in made.runbook
    assert "<script" not in made.runbook
    answer = world(fleet(1)).get(f"/rules/{rule_id}")
    assert 200 == answer.status
    assert shipped().rule(rule_id).title in answer.text
