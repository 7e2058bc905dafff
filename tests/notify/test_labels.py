"""The labels of alerts, and which engines they speak of."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.api.apps import fleet, odd
from tests.engines import shipped

from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options
from palanca.model import Target
from palanca.notify.labels import Engines, alert_labels, label_name, severity_of, speaks_of, target_labels


def test_as_the_exported_alert() -> None:
    """The labels of the rule are the same, whatever the finding has become by what explains it."""
    matrix = Matrix(shipped(), Options())
    exported = {one.rule.id: one.alert for one in matrix.exported}
    report = fleet().targets[0]
    for finding in report.findings:
        if finding.rule not in exported:
            continue
        rule = shipped().rule(finding.rule)
        made = alert_labels(rule, finding, report.target, "Vllm")
        assert {**report.target.as_dict(), **exported[rule.id].labels, "alertname": exported[rule.id].alert} == made


def test_severity() -> None:
    """Of the rule; a symptom is a warning where its objective is set and nothing explains it."""
    finding = next(one for report in fleet().targets for one in report.findings if one.rule == "ttft-high")
    symptom, root = shipped().rule("ttft-high"), shipped().rule("kv-cache-saturated")
    assert "critical" == severity_of(root, replace(finding, severity="info"))
    assert "warning" == severity_of(symptom, replace(finding, severity="warning", role="root"))
    assert "info" == severity_of(symptom, replace(finding, severity="warning", role="symptom"))


def test_any_label() -> None:
    """Names that Alertmanager takes, text that UTF-8 can hold, nothing empty, and the rule's own labels on top."""
    assert ["a_b", "_1", "ok_9", "_"] == [label_name(name) for name in ("a.b", "1", "ok_9", "ö")]
    for report in odd().targets:
        labels = target_labels(report.target)
        assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) for name in labels)
        assert all(value.encode() for value in labels.values())
    assert {"a_b": "1"} == target_labels(Target.of({"a.b": "1", "a_b": "2", "c": ""}))
    finding = fleet().targets[0].findings[0]
    made = alert_labels(shipped().rule(finding.rule), finding, Target.of({"severity": "low", "alertname": "x"}), "P")
    assert "low" != made["severity"]
    assert made["alertname"].startswith("P")


def test_which_engines() -> None:
    """What one side lacks says nothing; what both have must be equal; one label they must share."""
    target = Target.of({"cluster": "eu", "job": "vllm", "instance": "a:1", "model_name": "llama", "engine": "0"})
    assert speaks_of({"instance": "a:1"}, target)
    assert speaks_of({"instance": "a:1", "engine": "0", "severity": "critical", "region": "x"}, target)
    assert not speaks_of({"instance": "a:1", "engine": "1"}, target)
    assert not speaks_of({"instance": "b:1", "job": "vllm"}, target)
    assert not speaks_of({"alertname": "x"}, target)
    assert not speaks_of({}, target)
    assert speaks_of({"model_name": "�"}, Target.of({"model_name": "\ud800"}))


def test_finding_engines() -> None:
    """By the instance, and without one by all else."""
    targets = [report.target for report in fleet().targets]
    engines = Engines([*targets, Target.of({"model_name": "bare"})])
    assert [targets[1]] == list(engines.of(targets[1].as_dict()))
    assert [one for one in targets if one.get("model_name") == "llama"] == list(engines.of({"model_name": "llama"}))
    assert () == engines.of({"instance": "gone:1", "model_name": "llama"})
    assert ["bare"] == [one.get("model_name") for one in engines.of({"instance": "x", "model_name": "bare"})]
    assert () == engines.of({"alertname": "Watchdog"})
