"""Options of ``palanca alerts export`` for Alertmanager."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from tests.servers import tool
from tests.test_cli import palanca


def test_all_options(tmp_path: Path) -> None:
    """Each has its place in the file, and a real Alertmanager takes it."""
    done = palanca(
        "alerts", "export", "--out", tmp_path, "--alertmanager", "0.28", "--receiver-url", "https://p.example/hook",
        "--credentials-file", "", "--group-wait", "0s", "--group-interval", "1m", "--repeat-interval", "2h",
        "--deadman-url", "https://dead.example/x", "--identity", "pod", "--identity", "region",
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    text = (tmp_path / "alertmanager.yaml").read_text(encoding="utf-8")
    made = yaml.safe_load(text)
    assert ("0s", "1m", "2h") == tuple(
        made["route"][name] for name in ("group_wait", "group_interval", "repeat_interval")
    )
    palanca_, _, watchdog = made["receivers"]
    assert {"url": "https://p.example/hook", "send_resolved": True, "max_alerts": 100} == palanca_["webhook_configs"][0]
    assert "https://dead.example/x" == watchdog["webhook_configs"][0]["url"]
    assert {"pod", "region"} <= set(made["inhibit_rules"][0]["equal"])
    assert "# msteamsv2_configs:" in text
    checked = subprocess.run(
        [tool("amtool"), "check-config", tmp_path / "alertmanager.yaml"], check=False, capture_output=True, text=True
    )
    assert 0 == checked.returncode, checked.stderr


def test_the_address_for_people() -> None:
    """Is where the webhook is."""
    done = palanca("alerts", "export", "--format", "alertmanager", "--external-url", "https://p.example/vllm/")
    assert "url: https://p.example/vllm/api/v1/alertmanager\n" in done.stdout


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--alertmanager", "0.24", "--alertmanager 0.24: 0.25 is the oldest release"),
        ("--alertmanager", "latest", "--alertmanager 'latest' is no release"),
        ("--group-wait", "soon", "--group-wait: 'soon' is not a duration"),
        ("--repeat-interval", "1m", "is shorter than --group-interval 5m"),
        ("--receiver-url", "palanca", "--receiver-url 'palanca'"),
    ],
)
def test_faults(option: str, value: str, words: str) -> None:
    """Name the option."""
    done = palanca("alerts", "export", "--format", "alertmanager", option, value)
    assert (2, "") == (done.returncode, done.stdout)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
