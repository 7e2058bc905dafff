"""The exported alert files, as they are, in every Prometheus and in vmalert: they load, and their tests pass."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import yaml
from compat.back_ends import VICTORIA_METRICS, BackEnd, passing
from compat.conftest import Note
from compat.vmalert_tests import for_vmalert
from tests.engines import ROOT
from tests.servers import tool

ALERTS = ROOT / "alerts"
AT_EACH_STEP = ("tests/alerting/test_parity.py", "tests/alerting/test_guards.py")
"""Tests that compare alerts with the process at every step of recordings, cases and fleets."""


def run(*command: str | Path) -> None:
    """Run a command that must succeed."""
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[:8000]


def test_alerts(source: BackEnd, tmp_path: Path, note: Note) -> None:
    """Each alert fires where it must and nowhere else; with Prometheus also at the step at which palanca says so."""
    (group, *_) = yaml.safe_load((ALERTS / "prometheus.yaml").read_text(encoding="utf-8"))["groups"]
    alerts = sum("alert" in rule for rule in group["rules"])
    if source.kind == VICTORIA_METRICS:
        run(tool("vmalert"), "-dryRun", f"-rule={ALERTS}/prometheus.yaml")
        shutil.copy(ALERTS / "prometheus.yaml", tmp_path)
        (tmp_path / "tests.yaml").write_text(for_vmalert((ALERTS / "tests.yaml").read_text(encoding="utf-8")))
        run(tool("vmalert-tool"), "unittest", "--disableAlertgroupLabel", "--files", tmp_path / "tests.yaml")
        note(source, "exported alerts", f"{alerts} of {alerts} in vmalert")
        return
    run(tool("promtool"), "check", "rules", ALERTS / "prometheus.yaml")
    run(tool("promtool"), "test", "rules", ALERTS / "tests.yaml")
    passing(*AT_EACH_STEP)
    note(source, "exported alerts", f"{alerts} of {alerts}, and at each step as palanca says")
