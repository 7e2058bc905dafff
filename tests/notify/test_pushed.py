"""Findings as alerts that palanca pushes."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tests.api.apps import fleet, odd
from tests.engines import shipped

from palanca.model import Catalogue, Diagnosis
from palanca.notify.pushed import LONGEST_TEXT, PushedAlert, moved_on, pushed

RULE = "kv-cache-saturated"


def alerts(diagnosis: Diagnosis | None = None, url: str | None = "https://p.example/") -> list[PushedAlert]:
    return pushed(moved_on({}, diagnosis or fleet(), shipped(), {RULE}).values(), shipped(), url)


def fired(diagnosis: Diagnosis) -> list[PushedAlert]:
    """The alerts of one diagnosis, with links to a service of tests."""
    return alerts(diagnosis, "http://p")


def test_one_for_each_firing_finding() -> None:
    """Of the rules that are pushed, and of no others."""
    diagnosis = fleet()
    firing = [one.target.get("instance") for one in diagnosis.targets for f in one.findings if f.rule == RULE]
    assert firing == [one.labels["instance"] for one in alerts()]
    assert {"PalancaKvCacheSaturated"} == {one.labels["alertname"] for one in alerts()}
    assert {} == moved_on({}, diagnosis, shipped(), ())
    assert [] == pushed(moved_on({}, diagnosis, shipped(), {RULE}).values(), replace(shipped(), rules=()), None)
    first = diagnosis.targets[0]
    pending = replace(first, findings=tuple(replace(one, state="pending") for one in first.findings))
    assert [] == alerts(replace(diagnosis, targets=(pending,)))


def test_what_it_says() -> None:
    """Annotations as the exported alerts have, with links that are links."""
    first = alerts()[0]
    finding = next(one for one in fleet().targets[0].findings if one.rule == RULE)
    assert {
        "summary": finding.title,
        "description": finding.summary,
        "runbook_url": "https://p.example/rules/kv-cache-saturated",
        "diagnose_url": "https://p.example/engine?model=qwen&instance=vllm-0%3A8000",
    } == first.annotations
    assert first.annotations["diagnose_url"] == first.url
    bare = alerts(url=None)[0]
    assert ({"summary", "description"}, None) == (set(bare.annotations), bare.url)


def test_since_when() -> None:
    """It began when the rule had held for its time; never in the future, whatever is known."""
    diagnosis, first = fleet(), fleet().targets[0]
    for since, for_, expected in (
        (100.0, 180.0, 280.0),
        (diagnosis.time, 180.0, diagnosis.time),
        (float("nan"), 0.0, diagnosis.time),
    ):
        findings = tuple(replace(one, since=since, for_s=for_) for one in first.findings)
        made = alerts(replace(diagnosis, targets=(replace(first, findings=findings),)))
        assert [expected] == [one.starts for one in made]


def kept(seconds: float) -> Catalogue:
    """The shipped rules, of which one is kept firing."""
    rules = tuple(
        one.model_copy(update={"keep_firing_for": seconds}) if one.id == RULE else one for one in shipped().rules
    )
    return replace(shipped(), rules=rules)


def at(later: float, state: Literal["firing", "pending", "gone"]) -> Diagnosis:
    """The diagnosis so many seconds later, with that state of all findings."""
    diagnosis = fleet()
    since = diagnosis.time + later - 1.0
    targets = tuple(
        replace(
            report,
            findings=() if state == "gone" else tuple(replace(f, state=state, since=since) for f in report.findings),
        )
        for report in diagnosis.targets
    )
    return replace(diagnosis, time=diagnosis.time + later, targets=targets)


def test_keep_firing_for() -> None:
    """What lapsed fires on for so long, as the same alert; so does what holds again meanwhile, if only pending."""
    first, catalogue = alerts(), kept(90.0)
    looks: list[tuple[float, Literal["firing", "pending", "gone"], bool]] = [
        (30, "gone", True), (90, "gone", True), (100, "pending", True), (130, "gone", True), (150, "firing", True),
        (180, "gone", True), (269, "gone", True), (270, "gone", False), (300, "pending", False),
    ]  # fmt: skip
    episodes = moved_on({}, fleet(), catalogue, {RULE})
    for later, state, fires in looks:
        episodes = moved_on(episodes, at(later, state), catalogue, {RULE})
        made = pushed(episodes.values(), catalogue, "https://p.example/")
        wanted = [(one.key, one.starts) for one in first] if fires else []
        assert wanted == [(one.key, one.starts) for one in made], later


def test_without_keep_firing_for() -> None:
    """It is over with its condition."""
    episodes = moved_on({}, fleet(), shipped(), {RULE})
    assert [] == pushed(moved_on(episodes, at(30, "pending"), shipped(), {RULE}).values(), shipped(), None)
    assert {} == moved_on(episodes, at(30, "gone"), shipped(), {RULE})


def test_the_message() -> None:
    """As API v2 has it; an alert never begins after its end."""
    alert = PushedAlert({"alertname": "a"}, {"summary": "s"}, 1800000000.0)
    assert {
        "labels": {"alertname": "a"},
        "annotations": {"summary": "s"},
        "startsAt": "2027-01-15T08:00:00Z",
        "endsAt": "2027-01-15T08:04:00Z",
    } == alert.message(1800000240.0)
    assert "2027-01-15T07:59:59Z" == alert.message(1799999999.0)["startsAt"]
    assert "http://x" == replace(alert, url="http://x").message(1.0)["generatorURL"]


def test_hostile_labels() -> None:
    """All is text that can be sent, and no longer than it must be."""
    made = alerts(odd())
    assert len(odd().targets) == len(made)
    for one in made:
        assert all(len(text) <= 4 * LONGEST_TEXT for text in one.annotations.values())
        assert str(one.message(1.0)).encode()
