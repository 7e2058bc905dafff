"""What palanca makes of every dialect under every load, and the table of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from tests.alerting.parity import readings
from tests.alerting.replays import Replay, joined
from tests.engines import shipped
from tests.generated import table
from tests.releases.dialects import Dialect, dialects
from tests.releases.loads import LOADS, STEPS, laid

from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options
from palanca.diagnosis import diagnose
from palanca.model import Severity, State, TargetReport
from palanca.releases import ReleaseRange

COLUMNS = ("vLLM", "signals", "rules judged", *LOADS, "alerts")


def replay(dialect: Dialect) -> Replay:
    """All loads beside each other, each a server of its own with a model of its own."""
    return joined([laid(dialect, load, name) for name, load in LOADS.items()])


@cache
def reports(dialect: Dialect) -> Mapping[str, Sequence[TargetReport]]:
    """The engines of each load."""
    made = diagnose(shipped(), readings(replay(dialect), STEPS)).targets
    return {name: [one for one in made if one.target.get("instance") == f"{name}:8000"] for name in LOADS}


@cache
def exported(dialect: Dialect, *severities: Severity) -> Matrix:
    """The alerts that are exported for exactly this release and prefix, of all severities or of some."""
    releases = ReleaseRange.parse(dialect.release)
    options = Options(releases=releases, prefixes=(dialect.prefix,), severities=severities, guards=False)
    return Matrix(shipped(), options)


def judged(report: TargetReport) -> int:
    """How many rules have a verdict."""
    return len(shipped().rules) - len(report.unknown) - len(report.not_applicable)


def missing(report: TargetReport, rule: str | None) -> list[str]:
    """Signals for want of which a rule has no verdict."""
    return [name for one in report.unknown if one.rule == rule for name, _ in one.missing]


def _found(dialect: Dialect, name: str) -> str:
    """What one load turned out to be, and what is to be changed first."""
    report, rule = reports(dialect)[name][0], LOADS[name].rule
    first = next((one for one in report.findings if one.rule == rule), None)
    if first is None:
        lacking = missing(report, rule)
        return f"not judged: no {', '.join(lacking)}" if lacking else "does not apply" if rule else report.status
    change = next(iter(first.recommendations), None)
    return f"`{rule}`: `{change.argument or change.lever}`" if change is not None else f"`{rule}`"


def text() -> str:
    """The table over all dialects."""
    rows = []
    for dialect in dialects():
        well = reports(dialect)["well"][0]
        known = sum(value.state < State.ABSENT for value in well.signals.values())
        counts = [f"{known} of {len(well.signals)}", f"{judged(well)} of {len(shipped().rules)}"]
        found = [_found(dialect, name) for name in LOADS]
        rows.append([dialect.title, *counts, *found, str(len(exported(dialect).exported))])
    return table(COLUMNS, rows)
