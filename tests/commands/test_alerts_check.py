"""``palanca alerts check`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engines import ROOT
from tests.linting.linted import file_of
from tests.servers import Reply, Request, answering, free_port
from tests.test_cli import palanca

DEAD = file_of({"expr": "vllm:gpu_cache_usage_perc > 0.9"})
CLEAN = file_of({"expr": "vllm:kv_cache_usage_perc > 0.9"})
WARNED = file_of({"expr": "vllm:kv_cache_usage_perc > 0.9", "for": None})


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        (CLEAN, (), 0),
        (DEAD, (), 1),
        (DEAD, ("--vllm", "0.10"), 0),
        (DEAD, ("--vllm", "0.10", "--fail-on", "info"), 1),
        (DEAD, ("--fail-on", "never"), 0),
        (WARNED, (), 1),
        (WARNED, ("--fail-on", "error"), 0),
        (CLEAN, ("--scrape-interval", "1m"), 0),
        ("a: b\n", (), 2),
        (CLEAN, ("--vllm", "9.9"), 2),
        (CLEAN, ("--vllm", "new"), 2),
        (CLEAN, ("--scrape-interval", "0s"), 2),
    ],
)
def test_exit_codes(tmp_path: Path, text: str, arguments: tuple[str, ...], code: int) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(text)
    done = palanca("alerts", "check", file, *arguments)
    assert code == done.returncode, done.stdout + done.stderr


def test_what_can_be_read_is_checked_beside_what_cannot(tmp_path: Path) -> None:
    """The findings on stdout, the faults on stderr, exit code 2."""
    for name, text in (("a.yml", DEAD), ("b.yml", "x: [")):
        (tmp_path / name).write_text(text)
    done = palanca("alerts", "check", tmp_path)
    assert 2 == done.returncode
    assert f"{tmp_path}/a.yml:10:11: error: Case: vllm:gpu_cache_usage_perc was removed in 0.12.0" in done.stdout
    assert f"{tmp_path}/b.yml:1:5: not YAML" in done.stderr
    document = json.loads(palanca("alerts", "check", tmp_path, "--format", "json").stdout)
    assert [f"{tmp_path}/b.yml"] == [one["file"] for one in document["unreadable"]]


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    """A file in a folder that cannot be read fails the check, however good the others are."""
    (tmp_path / "a.yml").write_text(CLEAN)
    (tmp_path / "b.yml").symlink_to("gone.yml")
    done = palanca("alerts", "check", tmp_path)
    assert 2 == done.returncode
    assert f"palanca: {tmp_path}/b.yml: cannot be read: No such file or directory\n" == done.stderr


def test_an_empty_file_is_told_and_is_no_fault(tmp_path: Path) -> None:
    """As promtool has it; in a folder and by its name."""
    (tmp_path / "a.yml").write_text(CLEAN)
    (tmp_path / "b.yml").write_text("")
    for path in (tmp_path, tmp_path / "b.yml"):
        done = palanca("alerts", "check", path)
        assert (0, "") == (done.returncode, done.stderr)
        assert f"{tmp_path}/b.yml:1:1: info: the file is empty: Prometheus loads it" in done.stdout
    github = palanca("alerts", "check", tmp_path, "--format", "github")
    assert f"::notice file={tmp_path}/b.yml,line=1,col=1,title=empty-file::the file is empty" in github.stdout
    assert 1 == palanca("alerts", "check", tmp_path, "--fail-on", "info").returncode


def test_errors_come_before_what_was_found(tmp_path: Path) -> None:
    """As both are read in one terminal; where nothing could be read, nothing is said of findings."""
    (tmp_path / "a.yml").write_text(CLEAN)
    done = subprocess.run(
        [sys.executable, "-m", "palanca.cli", "alerts", "check", str(tmp_path / "a.yml"), str(tmp_path / "gone.yml")],
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
        env={"PYTHONPATH": str(ROOT / "service"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert 2 == done.returncode
    assert [
        f"palanca: {tmp_path}/gone.yml: cannot be read: No such file or directory",
        "2 rules, 2 about vLLM, checked for 0.33.0: nothing found; 1 file could not be read",
    ] == done.stdout.splitlines()
    alone = palanca("alerts", "check", tmp_path / "gone.yml")
    assert (2, "", 1) == (alone.returncode, alone.stdout, len(alone.stderr.splitlines()))
    github = palanca("alerts", "check", tmp_path / "gone.yml", "--format", "github")
    assert (2, True) == (github.returncode, github.stdout.startswith(f"::error file={tmp_path}/gone.yml,line=1,"))


def test_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "palanca.cli", "alerts", "check", "-", "--format", "github"],
        input=DEAD, check=False, capture_output=True, text=True, timeout=60,
        env={"PYTHONPATH": str(ROOT / "service"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert 1 == done.returncode
    assert done.stdout.startswith("::error file=-,line=10,col=11,title=removed-name::Case: ")


def test_nothing_to_check() -> None:
    done = palanca("alerts", "check")
    assert (2, True) == (done.returncode, "give FILE... or --prometheus URL" in done.stderr)


def test_rules_of_a_prometheus() -> None:
    """Without a file its own rules are checked; places count in the expression."""
    rule = {"name": "Full", "type": "alerting", "query": "max(vllm:gpu_cache_usage_perc) > 0.9", "duration": 300}

    def answer(request: Request) -> Reply:
        data: object = {"groups": [{"name": "g", "file": "/etc/a.yml", "rules": [rule]}]}
        if "query" in request.path:
            data = {"resultType": "vector", "result": []}
        return Reply(body=json.dumps({"status": "success", "data": data}).encode())

    with answering(answer) as server:
        done = palanca("alerts", "check", "--prometheus", server.url)
    assert 1 == done.returncode
    assert "/etc/a.yml: g/Full: expression 1:5: error: Full: vllm:gpu_cache_usage_perc was removed" in done.stdout
    assert "expression 1:5: warning: Full: vllm:gpu_cache_usage_perc found no series in the last hour" in done.stdout


def test_a_prometheus_that_is_down() -> None:
    done = palanca("alerts", "check", "--prometheus", f"http://127.0.0.1:{free_port()}")
    assert (3, True) == (done.returncode, "refused" in done.stderr)
