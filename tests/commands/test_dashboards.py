"""``palanca dashboards`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
import typer
from tests.engines import ROOT
from tests.settings.files import written
from tests.test_cli import palanca

from palanca.commands.dashboards import Name, app
from palanca.dashboards.export import DASHBOARDS

COMMITTED = ROOT / "dashboards"


def files(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text("utf-8") for one in folder.rglob("*") if one.is_file()}


def test_out(tmp_path: Path) -> None:
    """All files, into a folder that need not exist, equal to the committed ones."""
    folder = tmp_path / "a" / "b"
    done = palanca("dashboards", "export", "--out", folder)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert files(COMMITTED) == files(folder)


def test_list() -> None:
    """Every dashboard with its uid; the command knows the same names."""
    done = palanca("dashboards", "list")
    assert (0, "") == (done.returncode, done.stderr)
    assert [(name, spec.uid) for name, spec in DASHBOARDS.items()] == [
        tuple(line.split()[:2]) for line in done.stdout.splitlines()
    ]
    assert tuple(DASHBOARDS) == get_args(Name)


def test_options(tmp_path: Path) -> None:
    """Every option finds its way into the file."""
    path = written(tmp_path, (
        "external_url: https://p.example\n"
        "thresholds: [{match: {}, rules: {kv-cache-saturated: {full: 0.91}}}]\n"
        "targets: [{match: {model_name: b}, slo: {ttft_p99: 2.5}}]\n"
    ))  # fmt: skip
    done = palanca(
        "dashboards", "export", "--format", "five", "--config", path, "--vllm", "0.33", "--prefix", "ray_vllm_",
        "--selector", 'cluster="eu"',
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)
    made = json.loads(done.stdout)
    steps = [
        one["value"] for panel in made["panels"] for one in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    ]
    assert 0.91 in steps
    assert 2.5 not in steps
    assert 'cluster=\\"eu\\"' in done.stdout
    assert "ray_vllm_kv_cache_usage_perc{" in done.stdout
    assert "gpu_cache_usage_perc" not in done.stdout
    assert "https://p.example/rules/kv-cache-saturated" in done.stdout
    assert "palanca:kv_cache_usage:ratio{" in palanca("dashboards", "export", "--format", "five", "--recorded").stdout


def test_every_option_is_documented() -> None:
    """In docs/dashboards.md."""
    page = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    command = typer.main.get_command(app).commands["export"]  # type: ignore[attr-defined]
    for option in {option for parameter in command.params for option in parameter.opts} - {"--rules"}:
        assert f"{option} " in page or f"{option}`" in page, option


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to write to; --out DIR"),
        (("--out", "x", "--format", "five"), "exclude each other"),
        (("--format", "five", "--vllm", "new"), "--vllm: 'new' is not a vLLM release"),
        (("--format", "five", "--selector", "job=vllm"), "--selector 'job=vllm': no matcher at column 1"),
        (("--format", "five", "--prefix", "x_"), "choose from vllm:"),
        (("--format", "five", "--external-url", "https://u:p@h"), "user and password"),
        (("--out", "/dev/null/x"), "--out /dev/null/x: Not a directory; give a folder that can be written"),
    ],
)
def test_usage(arguments: tuple[str, ...], said: str) -> None:
    """Exit status 2; what is wrong and how to mend it."""
    done = palanca("dashboards", "export", *arguments)
    assert (2, "") == (done.returncode, done.stdout)
    assert said in done.stderr
