"""Every release and front end: the same trouble is found, what is advised is legal, and the alerts exported fire."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
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
from palanca.model import Recommendation, Severity
from palanca.releases import Release

LOUD: tuple[Severity, ...] = ("critical", "warning")
UNJUDGED: Mapping[str, Collection[str]] = {
    "kv-cache-saturated": {"0.7.1 V1", "0.7.3 V1"},  # V1 counts preemptions from 0.8.0 on
    "slot-limit": {"0.7.1 V1", "0.7.3 V1"},
    "token-budget": {"0.4.3 V0", "0.5.5 V0", "0.7.1 V1"},  # tokens per step: V0 from 0.6.4 on, V1 from 0.7.3 on
    # Of drafts V0 shows a gauge from 0.5.5 to 0.9.0.1, V1 counters from 0.8.3 on. The page of 0.32.0 is of a server
    # without speculation.
    "speculation-ineffective": {"0.4.3 V0", "0.7.1 V1", "0.7.3 V1", "0.8.2 V1", "0.10.2 V0", "0.32.0 V1"},
}
"""Where a rule has no verdict, for want of what the release does not measure."""
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
        if rule is None or dialect.title in UNJUDGED[rule]:
            assert [] == loud
            assert rule is None or missing(report, rule) or rule in report.not_applicable
        else:
            assert [rule] == loud
            first = next(one for one in report.findings if one.role == "root" and one.state == "firing")
            assert (first.rule, bool(first.recommendations)) == (rule, True)


@every
def test_advice_is_legal(dialect: Dialect) -> None:
    """A flag that is recommended exists in the release that runs; its form there is told, where others are possible."""
    levers, release = shipped().levers, Release(dialect.release)
    for one in advice(dialect):
        forms = [form for form in levers[one.lever].forms if release in form.releases]
        told = {one.flag} | {form.flag for form in forms if form.flag in one.computed_from}
        assert one.flag is None or told & {form.flag for form in forms}, one


@pytest.mark.parametrize("dialect", [one for one in dialects() if one.title in FIRED], ids=lambda one: one.title)
def test_alerts_fire(dialect: Dialect, tmp_path: Path) -> None:
    assert_fires(dialect, tmp_path)


def assert_fires(dialect: Dialect, folder: Path) -> None:
    """The alerts exported for a release fire at each engine for what is wrong there, and no other loud one does."""
    alerts = {one.rule.id: one.alert.alert for one in exported(dialect, *LOUD).exported}
    firing = [
        ({"alertname": alerts[load.rule], "instance": f"{name}:8000"}, float(len(reports(dialect)[name])))
        for name, load in LOADS.items()
        if load.rule is not None and dialect.title not in UNJUDGED[load.rule]
    ]
    loud = 'ALERTS{alertstate="firing", instance!="", severity=~"critical|warning"}'
    check = expected(f"count by (alertname, instance) ({loud})", float((STEPS - 1) * INTERVAL_S), firing)
    rules = prometheus(exported(dialect, *LOUD))
    assert promtool(folder, rules, INTERVAL_S, replay(dialect).input_series(), [check]) == ""


def test_the_table_is_up_to_date() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert text() == block(page, "releases"), "python -m tests.releases writes it"
