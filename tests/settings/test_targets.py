"""Settings of targets: what no metric shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines import ROOT, shipped
from tests.settings import files

from palanca.advice.hardware import load_hardware
from palanca.errors import RuleFileError
from palanca.model import Target
from palanca.resources import shipped as folder
from palanca.settings import Knowledge, TargetFacts, facts_for, knowledge, load_targets, matrix

MODELS = ROOT / "tests" / "data" / "models"


def loaded(place: Path, text: str) -> tuple[TargetFacts, ...]:
    path = place / "palanca.yaml"
    path.write_text(text, encoding="utf-8")
    return load_targets(path, shipped(), load_hardware([folder("rules")]))


def test_facts_of_a_target(tmp_path: Path) -> None:
    """Flags, objectives, what clients see and hardware become facts that are given."""
    text = f"""
targets:
  - match: {{model_name: llama}}
    serve_args: "--max-num-seqs 64"
    gpu: H100 SXM
    gpus: 2
    model_config: {MODELS / "qwen2.5-7b.json"}
    slo: {{ttft_p99: 0.8}}
    client: {{concurrency: 64, ttft_p99: 2.1}}
"""
    facts = facts_for(Target.of({"model_name": "llama", "job": "vllm"}), loaded(tmp_path, text))
    found = {name: fact.value for name, fact in facts.items()}

    assert {
        "max_num_seqs": 64.0,
        "speculation": False,
        "gpu": "h100-sxm",
        "gpus": 2.0,
        "gpu_bandwidth": 3.35e12,
        "slo.ttft_p99": 0.8,
        "client.concurrency": 64.0,
        "client.ttft_p99": 2.1,
    } == {name: value for name, value in found.items() if name != "weight_bytes"}
    assert pytest.approx(15.23e9, rel=0.01) == found["weight_bytes"]
    assert {"given"} == {fact.provenance for fact in facts.values()}


def test_later_entries_win(tmp_path: Path) -> None:
    """An entry for one engine follows one for the fleet."""
    text = """
targets:
  - match: {job: vllm}
    slo: {ttft_p99: 1}
  - match: {job: vllm, instance: "a:8000"}
    slo: {ttft_p99: 2}
"""
    known = loaded(tmp_path, text)
    assert 2.0 == facts_for(Target.of({"job": "vllm", "instance": "a:8000"}), known)["slo.ttft_p99"].value
    assert 1.0 == facts_for(Target.of({"job": "vllm", "instance": "b:8000"}), known)["slo.ttft_p99"].value
    assert {} == facts_for(Target.of({"job": "other"}), known)


def test_arguments_as_they_were_written(tmp_path: Path) -> None:
    """The last entry that fits and has any."""
    text = """
targets:
  - match: {job: vllm}
    serve_args: "--max-num-seqs 64  --port=1"
  - match: {job: vllm}
    slo: {ttft_p99: 2}
  - match: {job: vllm, engine: "1"}
    serve_args: "--max-num-seqs 32"
"""
    known = Knowledge(loaded(tmp_path, text))
    assert "--max-num-seqs 64  --port=1" == known.serve_args(Target.of({"job": "vllm"}))
    assert "--max-num-seqs 32" == known.serve_args(Target.of({"job": "vllm", "engine": "1"}))
    assert known.serve_args(Target.of({"job": "other"})) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("targets: [{slo: {ttft_p99: 1}}]", "key 'match' is missing"),
        ("targets: [{match: {}}]", "1:19: Dictionary should have at least 1 item"),
        ("target: []", "unknown key 'target' (did you mean targets?)"),
        ("targets: [{match: {a: b}, slo: {ttft: 1}}]", "1:33: unknown name 'ttft' (one of ttft_p99,"),
        ("targets: [{match: {a: b}, slo: {ttft_p99: -1}}]", "must be a number above 0"),
        ("targets: [{match: {a: b}, client: {x: 1}}]", "unknown name 'x' (one of ttft_p99, concurrency)"),
        ("targets: [{match: {a: b}, gpu: rtx-4091}]", "rtx-4090"),
        ("targets: [{match: {a: b}, gpus: 0}]", "greater than or equal to 1"),
        ("targets: [{match: {a: b}, model_config: none.json}]", "none.json"),
        ('targets: [{match: {a: b}, serve_args: "--max-num-seqs x"}]', "'x' is not a number"),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, text: str, message: str) -> None:
    """What cannot be meant is told with its place."""
    with pytest.raises(RuleFileError) as caught:
        loaded(tmp_path, text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'palanca.yaml'}:1:")


# --- thresholds ------------------------------------------------------------------------------------

THRESHOLDS = """
thresholds:
  - rules: {kv-cache-saturated: {full: 0.9, many: 60}}
  - match: {model_name: llama}
    rules:
      kv-cache-saturated: {full: 0.95}
      queue-waiting: {}
"""


def known(place: Path, text: str) -> Knowledge:
    return knowledge(files.loaded(place, text), shipped(), load_hardware([folder("rules")]))


def test_thresholds_of_a_target(tmp_path: Path) -> None:
    """Later entries win, threshold by threshold."""
    made = known(tmp_path, THRESHOLDS)
    assert made.thresholds is not None
    assert {"kv-cache-saturated": {"full": 0.95, "many": 60.0}, "queue-waiting": {}} == made.thresholds(
        Target.of({"model_name": "llama"})
    )
    assert {"kv-cache-saturated": {"full": 0.9, "many": 60.0}} == made.thresholds(Target.of({"model_name": "other"}))


def test_nothing_is_said_of_targets(tmp_path: Path) -> None:
    """Then a question has neither facts nor thresholds, and nothing is asked for each target."""
    made = known(tmp_path, "interval: 30s")
    assert (None, None) == (made.facts, made.thresholds)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("{kv-cache-saturate: {full: 1}}", "1:23: there is no rule 'kv-cache-saturate' (did you mean kv-cache-satur"),
        ("{nothing-like-it: {full: 1}}", "there is no rule 'nothing-like-it' (palanca rules list shows them)"),
        ("{kv-cache-saturated: {ful: 1}}", "rule kv-cache-saturated has no threshold 'ful' (did you mean full?)"),
        ("{kv-cache-saturated: {xyz: 1}}", "has no threshold 'xyz' (one of full, many, harmless"),
    ],
)
def test_faults_of_thresholds(tmp_path: Path, rules: str, message: str) -> None:
    """Unknown rules and thresholds, with the nearest known ones."""
    with pytest.raises(RuleFileError) as caught:
        known(tmp_path, f"thresholds: [{{rules: {rules}}}]")
    assert message in str(caught.value)


def test_all_faults_of_targets_are_told(tmp_path: Path) -> None:
    """Of all entries, and several of one."""
    with pytest.raises(RuleFileError) as caught:
        known(tmp_path, "targets: [{match: {a: b}, gpu: x, slo: {y: 1}}, {match: {a: b}, client: {ttft_p99: 0}}]")
    assert 3 == len(caught.value.faults)


def test_an_overlay_brings_rules_of_its_own(tmp_path: Path) -> None:
    """Its thresholds can be set as well."""
    text = (folder("rules") / "matrix" / "kv-cache" / "kv-cache-saturated.yaml").read_text(encoding="utf-8")
    files.written(tmp_path, text.replace("id: kv-cache-saturated", "id: my-rule"), "overlay/my-rule.yaml")
    made = files.loaded(tmp_path, "rules: overlay\nthresholds: [{rules: {my-rule: {full: 0.5}}}]\n")
    said = knowledge(made, *matrix(made.settings.rules))
    assert said.thresholds is not None
    assert {"my-rule": {"full": 0.5}} == said.thresholds(Target.of({}))
