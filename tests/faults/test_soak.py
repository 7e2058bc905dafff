"""Memory stays flat however many polls are made. ``bench/soak.py`` does the same for longer."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.engines import ROOT

WARM = 50
GREW_MIB = 10.0
SCRIPT = "from bench.soak import soak; done = soak(150, faulty={faulty}); print(done.failed, done.grew({warm}))"


@pytest.mark.parametrize("faulty", [False, True])
def test_polls_leave_nothing_in_memory(faulty: bool) -> None:
    """Good ones, and good ones between faults; in a process of their own, whose memory is theirs alone."""
    command = [sys.executable, "-c", SCRIPT.format(faulty=faulty, warm=WARM)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    failed, grew = done.stdout.split()[-2:]
    assert faulty == (int(failed) > 0)
    assert float(grew) < GREW_MIB
