"""The systemd unit: its directives, and what systemd itself says of it where it is installed."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from tests.deploy.files import DEPLOY, document

UNIT = DEPLOY / "systemd" / "palanca.service"

KNOWN = {
    "Unit": {"Description", "Wants", "After"},
    "Service": {
        "AmbientCapabilities", "CapabilityBoundingSet", "ConfigurationDirectory", "DevicePolicy", "DynamicUser",
        "Environment", "ExecReload", "ExecStart", "LoadCredential", "LockPersonality", "MemoryDenyWriteExecute",
        "MemoryMax", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "PrivateUsers", "ProtectClock",
        "ProtectControlGroups", "ProtectHome", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules",
        "ProtectKernelTunables", "ProtectProc", "ProtectSystem", "RemoveIPC", "Restart", "RestartPreventExitStatus",
        "RestartSec", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
        "StateDirectory", "StateDirectoryMode", "SystemCallArchitectures", "SystemCallErrorNumber",
        "SystemCallFilter", "TasksMax", "TimeoutStopSec", "Type", "UMask",
    },
    "Install": {"WantedBy"},
}  # fmt: skip
"""Directives of systemd 247 and newer (``LoadCredential`` is the youngest)."""

MOST_EXPOSED = 1.5
"""``systemd-analyze security`` counts from 0 (nothing exposed) to 10; 1.2 when this was written."""


def directives() -> dict[tuple[str, str], list[str]]:
    """Values by section and name, in order; a name may come several times."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    section = ""
    for line in UNIT.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        name, value = line.split("=", 1)
        found[section, name].append(value)
    return found


def test_directives_are_known() -> None:
    assert {(section, name) for section, name in directives() if name not in KNOWN.get(section, set())} == set()


def test_service() -> None:
    service = {name: values for (section, name), values in directives().items() if section == "Service"}
    assert service["ExecStart"] == ["/opt/palanca/bin/palanca serve --config /etc/palanca/palanca.yaml"]
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert service["DynamicUser"] == ["yes"]
    assert service["ProtectSystem"] == ["strict"]
    assert service["StateDirectory"] == ["palanca"]
    assert "XDG_STATE_HOME=/var/lib" in service["Environment"][0].split()


def test_settings_name_the_credentials() -> None:
    settings = document(DEPLOY / "systemd" / "palanca.yaml")
    named = [value.split(":")[0] for value in directives()["Service", "LoadCredential"]]
    tokens = [Path(token["token_file"]) for token in settings["auth"]["tokens"]]
    assert {token.parent for token in tokens} == {Path("/run/credentials/palanca.service")}
    assert {token.name for token in tokens} == set(named)


@pytest.mark.deployment_tools
class TestSystemd:
    @pytest.fixture
    def unit(self, tmp_path: Path) -> Path:
        """Give the unit with a program that exists here."""
        path = tmp_path / UNIT.name
        path.write_text(UNIT.read_text().replace("/opt/palanca/bin/palanca", "/bin/true"))
        return path

    def test_verify(self, unit: Path) -> None:
        done = subprocess.run(["systemd-analyze", "verify", unit], check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")

    def test_exposure(self, unit: Path) -> None:
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
        assert level is not None, done.stderr
        assert float(level[1]) <= MOST_EXPOSED
