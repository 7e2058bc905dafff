"""Memory stays flat however many polls are made. ``bench/soak.py`` does the same for longer."""

from __future__ import annotations

import pytest
from bench.soak import soak

WARM = 50
GREW_MIB = 10.0


@pytest.mark.parametrize("faulty", [False, True])
def test_polls_leave_nothing_in_memory(faulty: bool) -> None:
    """Good ones, and good ones between faults."""
    done = soak(150, faulty=faulty)
    assert faulty == (done.failed > 0)
    assert done.grew(WARM) < GREW_MIB
