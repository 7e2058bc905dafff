"""Annotations: sentences become templates, which a real Prometheus fills in."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.alerting.replays import run_promtool
from tests.engines import catalogue, rule, shipped

from palanca.alerting import wording
from palanca.alerting.group import prometheus
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options

WORDY = rule(
    when="kv_cache_usage > half and waiting > few",
    summary="KV {kv_cache_usage}, {waiting} wait, mean {ttft_mean}, {generation_tokens_per_second}, "
    "{kv_share_per_request}, above {half}, objective {slo.ttft_p99}, {max_num_seqs}.",
    thresholds={
        "half": {"value": 0.5, "unit": "ratio", "source": "a test"},
        "few": {"value": 2, "unit": "requests", "source": "a test"},
    },
)
EXPECTED = "KV 0.97, 12.5 requests wait, mean 84ms, 1.24k tokens/s, (unknown), above 0.5, objective 1 s, (unknown)."


def test_prometheus_fills_in(tmp_path: Path) -> None:
    """Values of the engine that the alert is about, with their units; what is missing is said to be."""
    made = Matrix(catalogue(WORDY), Options(guards=False, external_url="https://p.example"))
    group = yaml.safe_load(prometheus(made))
    (alert,) = [one for one in group["groups"][0]["rules"] if "alert" in one]
    mine = '{instance="a:8000", job="vllm", model_name="a \\"b\\" \\\\ ü&x"}'
    other = '{instance="b:8000", job="vllm", model_name="m"}'
    values = {
        "kv_cache_usage:ratio": 0.97, "waiting:requests": 12.5, "ttft_mean:seconds": 0.084,
        "generation_tokens_per_second:tokens_per_second": 1240,
    }  # fmt: skip
    inputs = [{"series": f"palanca:{name}{mine}", "values": f"{value}+0x4"} for name, value in values.items()]
    inputs += [{"series": f"palanca:{name}{other}", "values": "0.1+0x4"} for name in values]
    case = {
        "eval_time": "30s",
        "alertname": "VllmARule",
        "exp_alerts": [
            {
                "exp_labels": {
                    **alert["labels"], "instance": "a:8000", "job": "vllm", "model_name": 'a "b" \\ ü&x',
                },
                "exp_annotations": {
                    "summary": "A rule",
                    "description": EXPECTED,
                    "runbook_url": "https://p.example/rules/a-rule",
                    "diagnose_url": "https://p.example/engine?model=a+%22b%22+%5C+%C3%BC%26x&instance=a%3A8000",
                },
            }
        ],
    }  # fmt: skip
    assert run_promtool(tmp_path, prometheus(made), 15, {"input_series": inputs, "alert_rule_test": [case]}) == ""


def test_the_value_is_used_only_where_it_is_what_is_named() -> None:
    """The first comparison under ``and``; not in an ``or``, and not where a difference is compared."""
    for when, used in (
        ("kv_cache_usage > half", True),
        ("(kv_cache_usage > half and waiting > few)", True),
        ("waiting > few and kv_cache_usage > half", False),
        ("kv_cache_usage > half or waiting > few", False),
        ("kv_cache_usage - running_steady > half", False),
    ):
        one = Matrix(catalogue(WORDY.model_copy(update={"when": when})), Options()).exported[0]
        assert used == ("KV {{ $value" in one.alert.annotations["description"]), when


def test_braces_of_a_sentence() -> None:
    """Those that the sentence means itself do not begin a template."""
    made = wording.sentence(
        WORDY.model_copy(update={"summary": "a {{{{ b }} {half}"}), shipped(), {"half": 0.5}, lambda _: None, ""
    )
    assert 'a {{ "{{" }} b } 0.5' == made
