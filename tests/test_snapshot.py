"""What is said of signals at the last step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.engines import readings

from palanca.model import SignalReadings, SignalValue, State
from palanca.snapshot import Snapshot


def test_the_last_step_of_each_target() -> None:
    """Values with unit, state and window; no number where there is none, and x/0 is "more than can be said"."""
    one = SignalReadings(
        np.array([[9.0, 0.5], [9.0, np.nan], [9.0, np.inf]]),
        np.array([[0, State.OK], [0, State.IDLE], [0, State.OK]], dtype=np.uint8),
        np.array([[0.0, 300.0], [0.0, 120.0], [0.0, 0.0]]),
    )
    snapshot = Snapshot(replace(readings(), signals={"x": one}), {"x": "ratio"})
    assert SignalValue(0.5, "ratio", State.OK, 300.0) == snapshot.of(0)["x"]
    assert SignalValue(None, "ratio", State.IDLE, 120.0) == snapshot.of(1)["x"]
    assert SignalValue(None, "ratio", State.LOWER_BOUND, 0.0) == snapshot.of(2)["x"]


def test_it_is_a_mapping() -> None:
    """By the names of the signals, equal to a dict of the same values."""
    whole = readings({"running": 3.0})
    row = Snapshot(whole, dict.fromkeys(whole.signals, "requests")).of(0)
    assert [*whole.signals] == [*row]
    assert len(whole.signals) == len(row)
    assert "nothing" not in row
    assert row.get("nothing") is None
    with pytest.raises(KeyError):
        row["nothing"]
    assert dict(row) == row


def test_readings_are_not_kept() -> None:
    """Later changes of the arrays change nothing."""
    whole = readings({"running": 3.0})
    name, one = "running", whole.signals["running"]
    row = Snapshot(whole, dict.fromkeys(whole.signals, "requests")).of(0)
    expected = one.values[0, -1]
    one.values[:] = -5.0
    assert expected == row[name].value
