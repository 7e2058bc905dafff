"""A group of Alertmanager as one notice."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.render.builders import saturated, target

from palanca.model import Finding, SourceInfo, Target, scope_of
from palanca.notify.alert_groups import Accused, Alert, AlertGroup, EnrichedGroup, Explained, State
from palanca.notify.group_notices import notice_of
from palanca.notify.routing import Route
from palanca.render.notice import Places, subject

PLACES = Places("https://palanca.example.com", alertmanager="https://alerts.example.com")
NOW = 1_800_000_000.0
LABELS = {"alertname": "VllmKvCacheSaturated", "severity": "critical", "palanca_rule": "kv-cache-saturated"}


def alert(number: int = 0, status: State = "firing", **labels: str) -> Alert:
    ends = NOW - 5.0 if status == "resolved" else None
    return Alert(status, {**LABELS, **labels}, {"summary": "full"}, NOW - 600.0 + number, ends, f"f{number}")


def enriched(
    *accused: tuple[Target, Finding | None], status: State = "firing", alerts: tuple[Alert, ...] = (), left_out: int = 0
) -> EnrichedGroup:
    sent = AlertGroup(
        key="{}:{alertname}",
        status=status,
        receiver="palanca",
        group_labels={"alertname": LABELS["alertname"]},
        common_labels=LABELS,
        common_annotations={"summary": "KV cache is full", "description": "Usage 0.97."},
        external_url="http://am",
        alerts=alerts or tuple(alert(n, status) for n in range(max(len(accused), 1))),
        left_out=left_out,
    )
    explained = tuple(
        Explained(one, "kv-cache-saturated", (Accused(where, "critical", finding, finding),), 1)
        for one, (where, finding) in zip(sent.alerts, accused, strict=False)
    )
    fleets = {scope_of(where): 8 for where, _ in accused}
    rest = tuple(Explained(one, None, (), 0) for one in sent.alerts[len(accused) :])
    return EnrichedGroup(sent, (*explained, *rest), NOW, SourceInfo("eu", "http://eu"), fleets)


def test_engines_that_are_known() -> None:
    """What the diagnosis says, and where: some of the engines of the model."""
    notice = notice_of(enriched((target(0), saturated()), (target(1), saturated())), PLACES)
    finding = saturated()
    assert ("firing", "critical", finding.title) == (notice.state, notice.severity, notice.title)
    assert ("2 of 8 engines", 2, 8) == (notice.where, notice.affected, notice.total)
    assert notice.proposal is not None
    assert NOW - 600.0 == notice.since
    assert notice.links.diagnose is not None
    assert "VllmKvCacheSaturated" in str(notice.links.silence)


def test_labels_that_routes_ask_for() -> None:
    """Of the engine, and those that its alerts share."""
    notice = notice_of(enriched((target(0), saturated())), PLACES)
    assert {**LABELS, **target(0).as_dict()} == notice.labels
    assert Route(("a",), match={"alertname": LABELS["alertname"], "instance": target(0).get("instance")}).fits(notice)


def test_what_it_speaks_of() -> None:
    """The rule of its alerts and what explains it, at each of its models: what is noted there is told here."""
    group = enriched((target(0), saturated()), (target(1, model_name="other"), None))
    symptom = replace(group.alerts[0], rule="ttft-high")
    notice = notice_of(replace(group, alerts=(*group.alerts, symptom)), PLACES)
    rules = [("kv-cache-saturated", target(3)), ("kv-cache-saturated", target(0, model_name="other"))]
    assert (*(subject(*one) for one in rules), subject("ttft-high", target(5))) == notice.subjects


def test_the_same_group_is_the_same_problem() -> None:
    """Whatever its engines are now, and at its end."""
    one = notice_of(enriched((target(0), saturated())), PLACES)
    more = notice_of(enriched((target(0), saturated()), (target(1), saturated())), PLACES)
    over = notice_of(enriched((target(0), None), status="resolved"), PLACES)
    assert 1 == len({one.key, more.key, over.key})
    assert ["alertmanager", "palanca", "{}:{alertname}"] == json.loads(one.key)
    assert ("resolved", NOW - 5.0) == (over.state, over.ended)


@pytest.mark.parametrize("known", [False, True], ids=["unknown engine", "nothing found there"])
def test_alerts_without_a_finding(known: bool) -> None:
    """They are told all the same, in their own words."""
    group = enriched((target(0), None)) if known else enriched()
    notice = notice_of(group, PLACES)
    assert ("KV cache is full", "1 alert", "critical") == (notice.title, notice.where, notice.severity)
    assert "Usage 0.97." in notice.what
    assert known != ("nothing that palanca watches" in notice.what)


def test_alerts_of_others() -> None:
    """Without any of our labels: a warning, by its name."""
    foreign = Alert("firing", {"alertname": "NodeDown"}, {}, NOW, None, "f")
    group = enriched(alerts=(foreign,))
    sent = replace(group.group, common_labels={"alertname": "NodeDown"}, common_annotations={}, group_labels={})
    notice = notice_of(replace(group, group=sent), PLACES)
    assert ("NodeDown", "warning") == (notice.title, notice.severity)


def test_what_is_left_out_is_said() -> None:
    """Alertmanager can leave alerts out, and the diagnosis can be old."""
    group = enriched((target(0), saturated()), left_out=3)
    old = replace(group, source=SourceInfo("eu", "http://eu", "stale", 90.0, error="refused"))
    said = notice_of(old, PLACES).what
    assert "left out 3 more alerts" in said
    assert "The diagnosis is old (90 s): refused." in said


def test_an_alert_that_is_explained_by_a_finding() -> None:
    """The burn rate of an objective keeps its title; what palanca finds there is why."""
    group = enriched((target(0), saturated()))
    objective = replace(group.alerts[0], rule=None)
    notice = notice_of(replace(group, alerts=(objective,)), PLACES)
    assert "KV cache is full" == notice.title  # of the annotations
    assert notice.what.startswith(f"Usage 0.97. {saturated().title}: ")
    assert notice.proposal is not None
