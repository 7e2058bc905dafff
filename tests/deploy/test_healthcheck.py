"""The health check of the image, run as the image runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.engines import ROOT
from tests.servers import Reply, answering, free_port, self_signed


def run(url_or_port: str | int, **environment: str) -> subprocess.CompletedProcess[str]:
    port = str(url_or_port).rsplit(":", 1)[-1]
    command = [sys.executable, "-I", str(ROOT / "deploy" / "container" / "healthcheck.py")]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env={"PALANCA_LISTEN__PORT": port, **environment}
    )


def test_healthy() -> None:
    with answering(Reply(body=b"{}")) as server:
        assert run(server.url).returncode == 0
    assert [request.path for request in server.requests] == ["/healthz"]


def test_healthy_over_tls(tmp_path: Path) -> None:
    """The certificate need not be one that anybody trusts."""
    with answering(Reply(body=b"{}"), pem=self_signed(tmp_path / "server.pem")) as server:
        assert run(server.url).returncode == 0


def test_not_through_a_proxy() -> None:
    with answering(Reply(body=b"{}")) as server:
        assert run(server.url, http_proxy="http://127.0.0.1:1", https_proxy="http://127.0.0.1:1").returncode == 0


def test_unhealthy() -> None:
    with answering(Reply(status=503)) as server:
        done = run(server.url)
    assert done.returncode == 1
    assert "503" in done.stderr


def test_nobody_listens() -> None:
    done = run(free_port())
    assert done.returncode == 1
    assert "refused" in done.stderr


def test_ends_in_time() -> None:
    """A service that hangs is found within the time that the Dockerfile gives; the script itself sees to it."""
    with answering(Reply(raw=True, drip=1.0)) as server:
        done = run(server.url)
    assert done.returncode == 1
    found = re.search(r"no answer within (\d+) s", done.stderr)
    given = re.search(r"^HEALTHCHECK .*--timeout=(\d+)s", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None
    assert given is not None
    assert int(found[1]) < int(given[1])
