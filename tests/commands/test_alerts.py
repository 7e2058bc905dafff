"""``palanca alerts export`` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
import yaml
from tests.engines import ROOT
from tests.settings.files import written
from tests.test_cli import palanca

from palanca.alerting.export import FORMATS
from palanca.commands.alerts import app


def test_out(tmp_path: Path) -> None:
    """All files, into a folder that need not exist, equal to the committed ones; what is left out goes to stderr."""
    folder = tmp_path / "a" / "b"
    done = palanca("alerts", "export", "--out", folder)
    assert (0, "") == (done.returncode, done.stdout)
    assert {one.file for one in FORMATS.values()} == {path.name for path in folder.iterdir()}
    for path in folder.iterdir():
        assert (ROOT / "alerts" / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
    assert "left out: budget-unfillable: no series shows max_num_seqs (" in done.stderr


@pytest.mark.parametrize("name", ["alertmanager", "templates"])
def test_format_for_alertmanager(name: str) -> None:
    """Prints the file as it is written."""
    done = palanca("alerts", "export", "--format", name)
    assert (0, "") == (done.returncode, done.stderr)
    kept = {"alertmanager": "alertmanager.yaml", "templates": "palanca.tmpl"}[name]
    assert (ROOT / "alerts" / kept).read_text(encoding="utf-8").rstrip("\n") == done.stdout.rstrip("\n")


@pytest.mark.parametrize("name", ["prometheus", "operator", "tests"])
def test_format(name: str) -> None:
    """Prints one file."""
    done = palanca("alerts", "export", "--format", name, "--rule", "kv-cache-sat*", "--no-guards")
    assert (0, "") == (done.returncode, done.stderr)
    assert yaml.safe_load(done.stdout)
    assert "VllmKvCacheSaturated" in done.stdout
    assert "VllmKvLeak" not in done.stdout


def test_options(tmp_path: Path) -> None:
    """Every option finds its way into the file."""
    path = written(tmp_path, (
        "external_url: https://p.example\n"
        "thresholds: [{match: {model_name: a}, rules: {kv-cache-saturated: {full: 0.91}}}]\n"
        "targets: [{match: {model_name: b}, slo: {ttft_p99: 2.5}}]\n"
    ))  # fmt: skip
    done = palanca(
        "alerts", "export", "--format", "prometheus", "--config", path, "--vllm", "0.33", "--prefix", "ray_vllm_",
        "--selector", 'job="vllm"', "--severity", "critical", "--severity", "warning", "--alert-prefix", "Llm",
        "--label", "team=ml", "--interval", "30s", "--dashboard-url", "https://g.example/d/1", "--palanca-job", "p",
    )  # fmt: skip
    assert 0 == done.returncode
    assert all(one.startswith("left out: ") for one in done.stderr.splitlines())
    for said in (
        'palanca:kv_cache_usage:ratio{model_name="a"} > 0.91', 'palanca:ttft_p99:seconds{model_name="b"} > 2.5',
        'ray_vllm_kv_cache_usage_perc{job="vllm"}', "alert: LlmKvCacheSaturated", "team: ml", "interval: 30s",
        "https://p.example/engine?model=", "https://g.example/d/1?var-job=", 'or\n          absent(up{job="p"})',
    ):  # fmt: skip
        assert said in done.stdout, said
    assert "gpu_cache_usage_perc" not in done.stdout
    assert "severity: info" not in done.stdout


def test_what_is_not_in_it_is_said(tmp_path: Path) -> None:
    """On stderr and in the header: rules, parts of rules, objectives and releases without a bucket."""
    path = written(tmp_path, "targets: [{match: {model_name: a}, slo: {ttft_p99: 0.0001, itl_p99: 100}}]\n")
    done = palanca("alerts", "export", "--out", tmp_path / "old", "--config", path, "--vllm", "0.8.3-0.10.2")
    assert 0 == done.returncode
    header = (tmp_path / "old" / "prometheus.yaml").read_text(encoding="utf-8").partition("groups:")[0]
    for word, said in (
        ("left out", "kv-pool-small: only a label shows"),
        ("in part", "errors-high: no chosen release has error_share; the rest of the condition counts"),
        ("not judged", 'VllmTtftBudgetBurn (model_name="a"): the objective of 0.0001 s is below 0.001 s'),
        (
            "not judged",
            'VllmItlBudgetBurn (model_name="a"): judged at 80 s, a bucket that these releases lack: 0.4.0-0.8.3',
        ),
    ):
        assert f"{word}: {said}" in done.stderr
        assert f"#   {said}" in header


def test_every_option_is_documented() -> None:
    """In docs/alerts.md, or in docs/alertmanager.md; --out and --format in its examples."""
    page = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("alerts.md", "alertmanager.md"))
    command = typer.main.get_command(app).commands["export"]  # type: ignore[attr-defined]
    options = [option for parameter in command.params for option in parameter.opts]
    assert "--selector" in options
    for option in {*options} - {"--guards", "--rules"}:
        assert f"{option} " in page or f"{option}`" in page, option
    assert "`--no-guards`" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to write to; --out DIR"),
        (("--out", "x", "--format", "tests"), "exclude each other"),
        (("--format", "tests", "--vllm", "new"), "--vllm: 'new' is not a vLLM release"),
        (("--format", "tests", "--selector", "job=vllm"), "--selector 'job=vllm': no matcher at column 1"),
        (("--format", "tests", "--rule", "kv-leek"), "no rule fits 'kv-leek'; did you mean kv-leak"),
        (("--format", "tests", "--severity", "high"), "--severity 'high' is not a severity; critical, warning or info"),
        (("--format", "tests", "--label", "team"), "--label 'team' is not NAME=VALUE"),
        (("--format", "tests", "--label", "severity=x"), "set by the rules themselves"),
        (("--format", "tests", "--interval", "2h"), "not from 1s to 1m"),
        (("--format", "tests", "--prefix", "x_"), "choose from vllm:"),
        (("--out", "/dev/null/x"), "--out /dev/null/x: Not a directory; give a folder that can be written"),
    ],
)
def test_usage(arguments: tuple[str, ...], said: str) -> None:
    """Exit status 2; what is wrong and how to mend it."""
    done = palanca("alerts", "export", *arguments)
    assert (2, "") == (done.returncode, done.stdout)
    assert said in done.stderr
