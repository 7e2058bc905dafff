"""The real recordings as readings on any grid, as the command line reads them."""

from __future__ import annotations

from functools import cache

from tests.engines import RECORDINGS, shipped

from palanca.changes import plan_of_two
from palanca.facts import add_facts
from palanca.model import Readings, SourceInfo
from palanca.signals.leaves import Grid
from palanca.signals.readings import read
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore
from palanca.sources.recording import known_names, load
from palanca.verify import Verification, verify


@cache
def store(name: str) -> SampleStore:
    """The samples of a recording, loaded once."""
    return load(RECORDINGS / f"{name}.om.gz", keep=known_names(shipped().metrics))


def raw(name: str, grid: Grid, window: float | None = None) -> Readings:
    """Readings without facts."""
    reader = SampleReader(store(name), shipped().metrics, grid)
    return read(shipped(), reader, grid, SourceInfo("recording", name), window=window)


def read_recording(name: str, grid: Grid, window: float | None = None) -> Readings:
    """Readings with facts."""
    return add_facts(raw(name, grid, window), shipped())


AT = {
    "h200-A_kv_saturated": 1795984922.772,
    "h200-A2_kv_fp8": 1795985086.296,
    "h200-C_budget512_open": 1795985822.401,
    "h200-C2_budget8192_open": 1795985940.334,
    "healthy": 1795982002.595,
    "kv-saturated": 1795982951.17,
    "token-budget-bound": 1795983748.105,
}
"""When the load ended (expect.json)."""
FP8 = ("h200-A_kv_saturated", "h200-A2_kv_fp8", "kv-cache-saturated")
BUDGET = ("h200-C_budget512_open", "h200-C2_budget8192_open", "token-budget")


@cache
def changed(
    before: str, after: str, rule_id: str | None, period: float = 60.0, back: float = 0.0, scrape: float = 2.0
) -> Verification:
    """Compare the ends of the load of two recordings; ``back`` ends the first one earlier."""
    first, last = AT[before] - back, AT[after]
    laid = plan_of_two((first - period, first), (last - period, last), scrape, period=period)
    sides = [read_recording(name, grid, laid.window) for name, grid in ((before, laid.before), (after, laid.after))]
    return verify(shipped(), *sides, rule=shipped().rule(rule_id) if rule_id else None)
