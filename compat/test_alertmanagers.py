"""Every Alertmanager: it loads the exported configuration, takes alerts of palanca, and palanca reads its silences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compat.back_ends import BackEnd, passing
from compat.conftest import Note
from tests.servers import tool

LIVE = ("tests/notify/test_real_alertmanager.py", "tests/app/test_alertmanagers.py")


def test_configuration(alertmanager: BackEnd, tmp_path: Path, note: Note) -> None:
    """As exported by default, and for this release, where the options of that one are used."""
    release = alertmanager.version.rpartition(".")[0]
    for options in ((), ("--alertmanager", release, "--external-url", "https://palanca.example.com")):
        folder = tmp_path / ("release" if options else "default")
        export = ["-m", "palanca.cli", "alerts", "export", "--out", str(folder), *options]
        subprocess.run([sys.executable, *export], check=True, capture_output=True)
        config = folder / "alertmanager.yaml"
        said = subprocess.run([tool("amtool"), "check-config", config], check=True, capture_output=True, text=True)
        assert "SUCCESS" in said.stdout
    cases = passing("tests/alerting/test_alertmanager.py", "tests/commands/test_alert_routing.py")
    note(alertmanager, "exported configuration", f"loads, also for {release}; routes and inhibition: {cases} tests")


def test_conversation(alertmanager: BackEnd, note: Note) -> None:
    """Alerts pushed, kept alive, silenced, resolved; its webhook answered."""
    note(alertmanager, "alerts, silences, webhook", f"{passing(*LIVE)} tests")
