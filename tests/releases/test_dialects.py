"""Every release and front end: the same trouble is found, what is advised is legal, and the alerts exported fire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.alerting.replays import promtool
from tests.engines import ROOT, shipped
from tests.generated import block
from tests.releases.dialects import Dialect, dialects
from tests.releases.judged import exported, missing, replay, reports, text
from tests.releases.loads import INTERVAL_S, LOADS, STEPS

from palanca.alerting.group import prometheus
from palanca.alerting.notation import expected
from palanca.model import Recommendation
from palanca.releases import Release

LOUD = {"critical", "warning"}
COUNTS_NO_PREEMPTIONS = {"0.7.1 V1", "0.7.3 V1"}
"""V1 counts them from 0.8.0 on: there what is full cannot be told from what is slow."""
FIRED = ("0.6.6 V0", "0.11.0 V1, several API servers, pid", "0.33.0 V1, Ray")
"""Those whose alerts are evaluated in each run of the tests; ``make compat`` does it for all."""

every = pytest.mark.parametrize("dialect", dialects(), ids=lambda one: one.title)


def advice(dialect: Dialect) -> Iterator[Recommendation]:
    for found in reports(dialect).values():
        for report in found:
            for finding in report.findings:
                yield from finding.recommendations


@every
def test_the_release_is_among_those_inferred(dialect: Dialect) -> None:
    for found in reports(dialect).values():
        for report in found:
            assert report.version is not None
            assert Release(report.version.first) <= Release(dialect.release) <= Release(report.version.last)
            assert dialect.engine in report.version.engines


@every
@pytest.mark.parametrize("name", LOADS)
def test_what_is_wrong_is_found(dialect: Dialect, name: str) -> None:
    """At every engine the first root, and nothing else is loud; where it cannot be judged, that is said."""
    engines = 2 if "data parallel" in dialect.variant else 1
    assert engines == len(reports(dialect)[name])
    rule = LOADS[name].rule
    for report in reports(dialect)[name]:
        loud = [one.rule for one in report.findings if one.severity in LOUD]
        if rule is not None and dialect.title in COUNTS_NO_PREEMPTIONS:
            assert "preemptions_per_minute" in missing(report, rule)
            assert [] == loud
        else:
            assert [rule] * (rule is not None) == loud
            roots = [one for one in report.findings if one.role == "root" and one.state == "firing"]
            assert rule is None or (roots[0].rule, bool(roots[0].recommendations)) == (rule, True)


@every
def test_advice_is_legal(dialect: Dialect) -> None:
    """A flag that is recommended exists in the release that runs, in the form that it has there."""
    levers, release = shipped().levers, Release(dialect.release)
    for one in advice(dialect):
        forms = [form for form in levers[one.lever].forms if release in form.releases]
        assert one.flag is None or one.flag in {form.flag for form in forms}, one


@pytest.mark.parametrize("dialect", [one for one in dialects() if one.title in FIRED], ids=lambda one: one.title)
def test_alerts_fire(dialect: Dialect, tmp_path: Path) -> None:
    assert_fires(dialect, tmp_path)


def assert_fires(dialect: Dialect, folder: Path) -> None:
    """The alerts exported for a release fire at each engine for what is wrong there, and no other loud one does."""
    alerts = {one.rule.id: one.alert.alert for one in exported(dialect).exported}
    firing = [
        ({"alertname": alerts[load.rule], "instance": f"{name}:8000"}, float(len(reports(dialect)[name])))
        for name, load in LOADS.items()
        if load.rule is not None and dialect.title not in COUNTS_NO_PREEMPTIONS
    ]
    loud = 'ALERTS{alertstate="firing", instance!="", severity=~"critical|warning"}'
    check = expected(f"count by (alertname, instance) ({loud})", float((STEPS - 1) * INTERVAL_S), firing)
    rules = prometheus(exported(dialect))
    assert promtool(folder, rules, INTERVAL_S, replay(dialect).input_series(), [check]) == ""


def test_the_table_is_up_to_date() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert text() == block(page, "releases"), "python -m tests.releases writes it"
