"""What the diagnosis says of a group of alerts."""

from __future__ import annotations

from dataclasses import replace

from tests.api.apps import fleet
from tests.engines import shipped

from palanca.model import SourceInfo
from palanca.notify.alert_groups import MOST_ENGINES, Alert, AlertGroup, EnrichedGroup, enriched

RULE = "kv-cache-saturated"


def alert(status: str = "firing", **labels: str) -> Alert:
    return Alert(status, labels, {}, 100.0, None, "-".join(sorted(labels.values())))  # type: ignore[arg-type]


def group(*alerts: Alert, left_out: int = 0) -> AlertGroup:
    return AlertGroup("{}:{}", "firing", "palanca", {}, {}, {}, "http://am", alerts, left_out)


def made(*alerts: Alert, left_out: int = 0) -> EnrichedGroup:
    return enriched(group(*alerts, left_out=left_out), fleet(), shipped())


def test_an_engine() -> None:
    """Its finding of the alert's rule with the recommendations, and how many engines its model has."""
    found = made(alert(palanca_rule=RULE, instance="vllm-0:8000", model_name="qwen", job="vllm"))
    (one,) = found.alerts
    (accused,) = one.accused
    assert (RULE, 1, "critical") == (one.rule, one.engines, accused.status)
    assert accused.finding is accused.root
    assert accused.finding is not None
    assert RULE == accused.finding.rule
    assert accused.finding.recommendations == accused.recommendations != ()
    assert {("", "", "vllm", "qwen"): 4} == found.fleets
    assert (0, "") == (found.unknown, found.remark)
    assert (fleet().time, fleet().source) == (found.time, found.source)


def test_by_the_name_of_the_alert() -> None:
    """Where the label of the rule has been dropped on the way; a rule that there is not is none."""
    here = {"instance": "vllm-0:8000"}
    rules = [
        made(alert(**here, **labels)).alerts[0].rule
        for labels in ({"alertname": "VllmKvCacheSaturated"}, {"palanca_rule": "gone"}, {"alertname": "Mine"})
    ]
    assert [RULE, None, None] == rules


def test_a_symptom() -> None:
    """What explains it is what there is to be done about."""
    diagnosis = fleet()
    report = next(one for one in diagnosis.targets if any(each.rule == RULE for each in one.findings))
    symptom = replace(report.findings[0], rule="ttft-high", role="symptom", explained_by=("not-there", RULE))
    findings = (*report.findings, symptom)
    reports = tuple(replace(one, findings=findings) if one is report else one for one in diagnosis.targets)
    one = alert(palanca_rule="ttft-high", instance=report.target.get("instance"))
    (accused,) = enriched(group(one), replace(diagnosis, targets=reports), shipped()).alerts[0].accused
    assert accused.finding is symptom
    assert accused.root is not None
    assert RULE == accused.root.rule


def test_what_it_does_not_find() -> None:
    """The engine is known, and nothing is said of it that is not so; alerts of others get its first finding."""
    (ours,) = made(alert(palanca_rule="restart-loop", instance="vllm-0:8000")).alerts[0].accused
    assert (None, None, ()) == (ours.finding, ours.root, ours.recommendations)
    (theirs,) = made(alert(alertname="NodeDown", instance="vllm-0:8000")).alerts[0].accused
    assert theirs.finding is None
    assert theirs.root is fleet().targets[0].findings[0]
    (well,) = made(alert(alertname="NodeDown", instance="vllm-2:8000")).alerts[0].accused
    assert () == well.recommendations


def test_a_model() -> None:
    """All its engines, those first that have it."""
    (one,) = made(alert(palanca_rule=RULE, model_name="qwen")).alerts
    assert 4 == one.engines
    assert [True, True, False, False] == [each.finding is not None for each in one.accused]
    many = fleet(2 * MOST_ENGINES + 20)
    (one,) = enriched(group(alert(palanca_rule=RULE, job="vllm")), many, shipped()).alerts
    assert (len(many.targets), MOST_ENGINES) == (one.engines, len(one.accused))


def test_what_is_unknown_goes_out_too() -> None:
    """And it is said so; so is what Alertmanager left out, and that a diagnosis is old."""
    found = made(alert(instance="gone:1"), alert(instance="vllm-0:8000"), left_out=3)
    assert (2, 1) == (len(found.alerts), found.unknown)
    assert "1 of 2 alerts are of nothing that palanca watches now" in found.remark
    assert "left out 3 more alerts" in found.remark
    old = replace(fleet(), source=SourceInfo("eu", "http://p", "stale", 400.0, error="connection refused"))
    assert "The diagnosis is old (400 s): connection refused." == enriched(group(), old, shipped()).remark
    assert made(alert(instance="gone:1")).remark.startswith("The alert is of nothing")


def test_identity() -> None:
    """The same for every try; another one for any news, also when an alert is back."""
    first = group(alert(instance="a"), alert(instance="b"))
    back = replace(first.alerts[0], starts=200.0)
    over = replace(first.alerts[0], status="resolved", ends=150.0)
    others = (
        replace(first, status="resolved"), replace(first, key="x"), replace(first, alerts=first.alerts[:1]),
        replace(first, alerts=(back, first.alerts[1])), replace(first, alerts=(over, first.alerts[1])),
    )  # fmt: skip
    assert first.identity == replace(first, alerts=first.alerts[::-1], receiver="other").identity
    assert len(others) + 1 == len({first.identity, *(one.identity for one in others)})
