"""What the linter says of faults that are published: the article's two alerts, and what others copy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from tests.engines import ROOT
from tests.linting.linted import linted, vocabulary
from tests.servers import tool

from palanca.linting import LintReport, lint
from palanca.sources.rule_files import read_text

ALERTS = ROOT / "tests" / "data" / "alerts"
ARTICLE = (ALERTS / "article.rules").read_text(encoding="utf-8")
PUBLISHED = (ALERTS / "published.yaml").read_text(encoding="utf-8")


def bad(report: LintReport) -> dict[str, set[str]]:
    """Errors and warnings by rule."""
    made: dict[str, set[str]] = {}
    for one in report.findings:
        if one.severity != "info":
            made.setdefault(one.rule, set()).add(one.check)
    return made


def test_the_article() -> None:
    """Both alerts are in the syntax of Prometheus 1, and ask for metrics that are gone; both are mended."""
    report = linted(ARTICLE)
    assert {
        "KVCacheSaturado": {"prometheus-1-syntax", "removed-name"},
        "SpecDecodeIneficiente": {"prometheus-1-syntax", "removed-name"},
    } == bad(report)
    assert {
        "KVCacheSaturado": "rate(vllm:num_preemptions_total[2m]) > 0.5\n AND vllm:kv_cache_usage_perc > 0.85",
        "SpecDecodeIneficiente": "rate(vllm:spec_decode_num_accepted_tokens_total[5m])"
        " / rate(vllm:spec_decode_num_draft_tokens_total[5m]) < 0.60",
    } == {one.rule: one.expression for one in report.corrected}
    rules = [yaml.safe_load(one.corrected or "")[0] for one in report.findings if one.check == "prometheus-1-syntax"]
    again = linted(yaml.safe_dump({"groups": [{"name": "article", "rules": rules}]}))
    assert {"SpecDecodeIneficiente": {"idle-division"}} == bad(again)
    assert ["3m", "5m"] == [rule["for"] for rule in rules]


def test_the_article_in_its_time() -> None:
    """With vLLM 0.9 the metrics are there, and only the syntax is wrong."""
    report = linted(ARTICLE, "0.9")
    assert {rule: {"prometheus-1-syntax"} for rule in ("KVCacheSaturado", "SpecDecodeIneficiente")} == bad(report)


def test_published_faults() -> None:
    """Each is found, and nothing that is not there."""
    assert {
        "RemovedName": {"removed-name"},
        "RemovedHistogram": {"removed-name"},
        "InventedName": {"unknown-name"},
        "InventedErrorCounter": {"unknown-name"},
        "MisspelledCounter": {"unknown-name"},
        "CounterWithoutTotal": {"counter-without-total"},
        "Percent": {"ratio-against-percent"},
        "PercentOfRemovedName": {"removed-name", "ratio-against-percent", "hides-replica"},
        "BucketOfAnotherSpelling": {"missing-bucket", "hides-replica", "idle-division"},
        "QuantileOfALifetime": {"lifetime-counter"},
        "LifetimePreemptions": {"lifetime-counter"},
        "LifetimeHitRate": {"lifetime-counter", "idle-division"},
        "AlwaysOn": {"always-true", "value-in-label"},
        "Milliseconds": {"milliseconds", "lost-label"},
        "AverageOverReplicas": {"hides-replica"},
        "HitRateOfTheFleet": {"hides-replica", "idle-division"},
        "OneReasonAgainstAll": {"never-matches", "idle-division"},
        "WrongLabel": {"unknown-label"},
        "RateOfAGauge": {"rate-of-gauge", "short-range", "no-for"},
    } == bad(linted(PUBLISHED))


def test_promtool_passes_them(tmp_path: Path) -> None:
    """So that somebody has to look at the metrics; and it passes what was mended."""
    report = linted(PUBLISHED)
    mended = yaml.safe_load(PUBLISHED)
    texts = {one.rule: one.expression for one in report.corrected}
    assert {"RemovedName", "Percent", "PercentOfRemovedName", "LifetimeHitRate"} <= set(texts)
    for group in mended["groups"]:
        for rule in group["rules"]:
            rule["expr"] = texts.get(rule["alert"], rule["expr"])
    after = yaml.safe_dump(mended)
    for name, text in (("before.yaml", PUBLISHED), ("after.yaml", after)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [tool("promtool"), "check", "rules", str(tmp_path / name)], check=False, capture_output=True, text=True
        )
        assert 0 == done.returncode, done.stderr
    left = {one.rule for one in linted(after).findings if one.severity == "error" and one.check != "value-in-label"}
    assert {"InventedErrorCounter", "AlwaysOn", "OneReasonAgainstAll"} == left


@pytest.mark.parametrize("releases", [None, "all"])
@pytest.mark.parametrize("name", ["prometheus.yaml", "operator.yaml"])
def test_our_own_alerts_are_clean(name: str, releases: str | None) -> None:
    """What palanca exports passes its own check, for the newest release and for all that it is made for."""
    path = ROOT / "alerts" / name
    report = lint([read_text(str(path), path.read_bytes())], vocabulary(releases))
    assert {} == bad(report)
    assert report.judged > 100
