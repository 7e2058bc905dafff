"""Which signals are drawn, with which thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.api.apps import recorded
from tests.engines import shipped
from tests.recorded import AT, raw

from palanca.signals.leaves import Grid
from palanca.web.evidence import MOST_PLOTS, plots, plotted
from palanca.web.plots import Limit


def test_signals_of_the_evidence() -> None:
    """Those of problems first, each once, with all its thresholds."""
    found = plotted(recorded().targets[0], shipped())
    names = list(found)
    assert {"kv_cache_usage", "preemptions_per_minute"} <= set(names[:4])
    assert [Limit(">", 0.85)] == found["kv_cache_usage"]
    assert len(names) <= MOST_PLOTS


def test_they_are_drawn_as_they_were() -> None:
    """The last value is that of the evidence, and the begin of the worst finding is marked."""
    report = recorded().targets[0]
    read = raw("kv-saturated", Grid(AT["kv-saturated"], 61, 10.0))
    made = {one.title: one for one in plots(read, report, shipped())}
    assert "0.95, threshold > 0.85" == made["KV cache in use"].caption
    assert all(one.began is not None for one in made.values())
    assert made["KV cache in use"].path


def test_a_signal_that_was_not_read() -> None:
    """Is left out."""
    read = raw("kv-saturated", Grid(AT["kv-saturated"], 3, 10.0))
    assert () == plots(replace(read, signals={}, times=np.arange(3.0)), recorded().targets[0], shipped())
