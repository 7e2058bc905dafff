"""Entry points of files that people write: rules, rule files of others, settings, manifests, model configurations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml
from tests.engines import ROOT
from tests.fuzz.entry import Entry, room, told
from tests.linting.linted import vocabulary
from tests.rule_folders import SATURATED, copied

from palanca.advice.model_config import parsed, shape_of
from palanca.check import load_catalogue
from palanca.errors import Fault, RuleFileError, UsageError
from palanca.linting import lint
from palanca.manifest import find
from palanca.settings import examine, show
from palanca.settings.checkup import check_all
from palanca.sources.rule_files import read_text

DATA = ROOT / "tests" / "data"
YAML_WORDS = (
    "- ", ": ", "|\n", ">\n", "&a ", "*a", "<<: ", "!!int ", "!!timestamp ", "!!bool ", "!!binary ", "!!set ", "? ",
    "---\n", "...\n", "2024-99-99", "0x1g", "1:60", ".nan", ".inf", "{", "}", "[", "]", '"', "'", "\t", "# ", "\ufeff",
    "\0", "%YAML 9\n", "~", "1e999", "\x85", "\u2028",
)  # fmt: skip


def placed(faults: tuple[Fault, ...], path: Path, least: int = 1) -> bool:
    """Check that there are faults, and that each names its file and a place that can be. Returns False."""
    assert len(faults) >= least
    for fault in faults:
        assert str(path) in str(fault)
        assert fault.message.strip()
        assert fault.line >= 0
        assert fault.column >= 0
    return False


@cache
def _rules() -> Path:
    return copied(room("rules"))


def rule_file(text: bytes) -> bool:
    """Put a rule among sound ones, and load them all."""
    path = _rules() / SATURATED
    path.write_bytes(text)
    try:
        load_catalogue([_rules()])
    except RuleFileError as error:
        return placed(error.faults, _rules())
    return True


def rules_of_ours() -> Iterator[bytes]:
    """The rules that the small folder and the matrix have."""
    yield (DATA / "rules_minimal" / SATURATED).read_bytes()
    for path in sorted((ROOT / "rules" / "matrix").rglob("*.yaml"))[::6]:
        yield path.read_bytes()


def linted_file(text: bytes) -> bool:
    """Check anybody's rule file."""
    try:
        source = read_text("rules.yml", text)
    except RuleFileError as error:
        return placed(error.faults, Path("rules.yml"))
    lines = text.count(b"\n") + text.count(b"\r") + 1
    for one in lint([source], vocabulary()).findings:
        assert 1 <= one.line <= lines + 1
        assert one.column >= 1
    return True


def rules_of_others() -> Iterator[bytes]:
    """Rule files of all forms, in pieces."""
    yield b'groups:\n- name: g\n  rules:\n  - alert: A\n    expr: vllm:num_requests_waiting{job="x"} > 5\n    for: 5m\n'
    yield b"ALERT A IF vllm:gpu_cache_usage_perc > 0.9 FOR 5m LABELS { severity = 'page' }\n"
    yield b"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nspec:\n  groups: []\n"
    for path in sorted((DATA / "alerts").iterdir()):
        yield path.read_bytes()[:3000]


def settings_file(text: bytes) -> bool:
    """Read settings, check them as ``palanca config check`` does, and show what holds."""
    path = room("settings") / "palanca.yaml"
    path.write_bytes(text)
    made = examine(path, {})
    checked = check_all(made)
    placed((*made.faults, *checked.faults), path, 0)
    assert isinstance(yaml.safe_load(show(made)), dict)
    return not made.faults


def settings_of_ours() -> Iterator[bytes]:
    """The settings that are shipped with the deployments."""
    for path in sorted((ROOT / "deploy").rglob("palanca*.y*ml")):
        yield path.read_bytes()
    yield (
        b"sources: [{name: a, prometheus: 'http://a:1', match: {job: x}, headers: {X-A: b}}]\n"
        b"targets: [{match: {model_name: m}, slo: {ttft_p99: 0.8}, gpu: h100-sxm, serve_args: '--max-num-seqs 64'}]\n"
        b"thresholds: [{match: {}, rules: {kv-cache-saturated: {full: 0.9}}}]\nhistory: {retention: 30d}\n"
        b"notify: {slack: [{name: s, token_file: /none, channel: C1}], "
        b"routes: [{to: [s], match: {severity: critical}}]}\n"
    )


def manifest(text: bytes) -> bool:
    """Look for vLLM in a manifest."""
    path = room("manifest") / "m.yaml"
    path.write_bytes(text)
    try:
        found = find(path)
    except UsageError as error:
        return told(error, f"--manifest {path}")
    return bool(found)


def manifests() -> Iterator[bytes]:
    """Those of Kubernetes and compose."""
    for path in sorted((DATA / "manifests").iterdir()):
        yield path.read_bytes()


def model_config(text: bytes) -> bool:
    """Read a ``config.json``."""
    try:
        shape = shape_of(parsed(text, "config.json"), "config.json")
    except UsageError as error:
        return told(error, "config.json")
    assert 0 < shape.weight_bytes < float("inf")
    return True


def model_configs() -> Iterator[bytes]:
    """Those of real models."""
    for path in sorted((DATA / "models").iterdir()):
        yield path.read_bytes()


MODEL_WORDS = (
    '"num_hidden_layers"', '"num_attention_heads"', '"num_key_value_heads"', '"head_dim"', '"vocab_size"',
    '"text_config"', '"quantization_config"', '"layer_types"', '"sliding_window"', "null", "0", "-1", "1e308",
    "1e999", "NaN", "true", "[]", "{}", '""', "9" * 400, "0.5",
)  # fmt: skip
FILES = (
    Entry("rule-file", rule_file, rules_of_ours, (*YAML_WORDS, "kv_cache_usage", " > ", " and ", "for: ", "5m")),
    Entry("linted-file", linted_file, rules_of_others, (*YAML_WORDS, "expr: ", "rate(", "[5m]", "groups:", "ALERT ")),
    Entry("settings", settings_file, settings_of_ours, YAML_WORDS),
    Entry("manifest", manifest, manifests, (*YAML_WORDS, "vllm serve ", "args: ", "image: vllm/vllm-openai")),
    Entry("model-config", model_config, model_configs, MODEL_WORDS),
)
