"""Servers are ended with all that they started, and say why when they do not come up."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from lab.processes import StartError, _running
from tests.servers import free_port

SERVER = """
import http.server, pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path("child").write_text(str(child.pid))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_the_whole_group_is_ended(error: type[BaseException] | None, tmp_path: Path) -> None:
    """After the block and after Ctrl-C in it."""
    port = free_port()
    command = [sys.executable, "-c", SERVER, str(port)]
    child = 0
    try:
        with _running(command, f"http://127.0.0.1:{port}/", tmp_path / "log", {}, tmp_path):
            child = int((tmp_path / "child").read_text())
            assert alive(child)
            assert os.getpgid(child) != os.getpgrp()
            if error is not None:
                raise error
    except KeyboardInterrupt:
        assert error is KeyboardInterrupt
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def test_a_server_that_does_not_come_up(tmp_path: Path) -> None:
    """The end of its log is what is told."""
    command = [sys.executable, "-c", "raise SystemExit('no memory')"]
    with (
        pytest.raises(StartError, match="no memory"),
        _running(command, f"http://127.0.0.1:{free_port()}/", tmp_path / "log", {}, tmp_path),
    ):
        pass
