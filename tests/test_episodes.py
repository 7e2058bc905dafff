"""Episodes over a sequence of moments: states, events, and what ``keep_firing_for`` joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines import END, INTERVAL, catalogue, reports, rule, target
from tests.engines import readings as made_readings

from palanca.diagnosis import diagnose
from palanca.episodes import Episode, Event, Tally, advance, keep_firing, keys_of, peaks
from palanca.model import Evidence, Finding, Severity, Target

PLAIN: Finding = reports(made_readings({"kv_cache_usage": 0.9}), rule())[0].findings[0]
KEY = (target(), "a-rule")
Look = tuple[str, Severity] | None
"""State and severity of the finding at one moment; None where the rule does not hold."""
FIRING: Look = ("firing", "warning")
PENDING: Look = ("pending", "info")


def seen(look: Look, value: float = 0.9) -> dict[tuple[Target, str], Finding]:
    if look is None:
        return {}
    state, severity = look
    evidence = tuple(replace(one, value=value) for one in PLAIN.evidence)
    return {KEY: replace(PLAIN, state=state, severity=severity, evidence=evidence)}  # type: ignore[arg-type]


def events(looks: Sequence[Look], keep: float = 0.0) -> list[Event]:
    """Events of one rule at one target, looked at every 15 s from 0 on."""
    episodes: dict[tuple[Target, str], Episode] = {}
    told: list[Event] = []
    for index, look in enumerate(looks):
        step = advance(episodes, seen(look), index * INTERVAL, {"a-rule": keep})
        episodes = dict(step.open)
        told += step.events
    return told


def kinds(looks: Sequence[Look], keep: float = 0.0) -> list[tuple[str, float]]:
    return [(event.kind, event.time) for event in events(looks, keep)]


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([None, None], []),
        ([PENDING, PENDING, None], []),
        ([PENDING, FIRING, FIRING], [("began", 15.0)]),
        ([PENDING, FIRING, None], [("began", 15.0), ("resolved", 30.0)]),
        ([FIRING, PENDING, FIRING], [("began", 0.0), ("resolved", 15.0), ("began", 30.0)]),
    ],
)
def test_an_episode(looks: list[Look], told: list[tuple[str, float]]) -> None:
    """It begins when the rule fires and ends at the first moment at which it does not."""
    assert told == kinds(looks)


def test_worsened() -> None:
    """Only a severity above all that the episode had is worth telling."""
    looks: list[Look] = [("firing", one) for one in ("info", "warning", "info", "warning", "critical")]
    told = events(looks)
    assert [("began", 0.0), ("worsened", 15.0), ("worsened", 60.0)] == [(one.kind, one.time) for one in told]
    assert ((15.0, "warning"), (60.0, "critical")) == told[-1].episode.worsened
    assert "critical" == told[-1].episode.worst


@pytest.mark.parametrize(
    ("gap", "told"),
    [
        ([None], [("began", 0.0)]),
        ([None, None], [("began", 0.0)]),
        ([None, PENDING], [("began", 0.0)]),
        ([None, None, None], [("began", 0.0), ("resolved", 45.0), ("began", 60.0)]),
        ([None, PENDING, None, None], [("began", 0.0)]),
    ],
)
def test_keep_firing_for(gap: list[Look], told: list[tuple[str, float]]) -> None:
    """A rule that holds again before 30 s are over goes on with the same episode; the time counts from each lapse."""
    assert told == kinds([FIRING, *gap, FIRING], keep=30.0)


def test_an_episode_that_is_kept_ends_when_that_time_is_over() -> None:
    """It is resolved at the first moment that is ``keep_firing_for`` after the lapse."""
    (began, ended) = events([FIRING, None, None, None, None], keep=45.0)
    assert ("began", 0.0) == (began.kind, began.time)
    assert ("resolved", 60.0, 60.0) == (ended.kind, ended.time, ended.episode.lasted(1e9))


def test_peak() -> None:
    """The most extreme value of each comparison while firing is kept, also after it has fallen."""
    episodes: dict[tuple[Target, str], Episode] = {}
    for index, value in enumerate((0.7, 0.95, 0.6)):
        step = advance(episodes, seen(FIRING, value), index * INTERVAL, {})
        episodes = dict(step.open)
    assert [0.95] == [one.value for one in episodes[KEY].peak]
    assert 0.7 == episodes[KEY].first.evidence[0].value
    assert 0.6 == episodes[KEY].latest.evidence[0].value


def test_the_peak_of_what_is_low() -> None:
    """For ``<`` the lowest value is the peak, and comparisons with other limits stay apart."""
    low = Evidence("acceptance_rate", 0.4, "<", 0.6, "ratio", "", "bad")
    assert (replace(low, value=0.1),) == peaks([low], [replace(low, value=0.1), replace(low, value=0.3)])
    assert 2 == len(peaks([low], [replace(low, note="worse")]))


def test_from_a_diagnosis() -> None:
    """Keys are target and rule, and durations come from the rules."""
    rules = catalogue(rule(keep_firing_for="2m"))
    found = keys_of(diagnose(rules, made_readings({"kv_cache_usage": 0.9}, {"kv_cache_usage": 0.1})))
    assert [(target("0"), "a-rule")] == list(found)
    assert {"a-rule": 120.0} == keep_firing(rules)
    step = advance({}, found, END, keep_firing(rules))
    assert [("began", True)] == [(one.kind, one.episode.since_at_least) for one in step.events]


def test_events_come_in_order_of_rule_and_target() -> None:
    """The order does not depend on that of the findings."""
    keys = [(target("1"), "b"), (target("0"), "b"), (target("1"), "a")]
    step = advance({}, dict.fromkeys(keys, PLAIN), END, {})
    assert [(target("1"), "a"), (target("0"), "b"), (target("1"), "b")] == [
        (one.episode.target, one.episode.rule) for one in step.events
    ]


looks_at = st.lists(
    st.none() | st.tuples(st.sampled_from(["pending", "firing"]), st.sampled_from(["info", "warning", "critical"])),
    max_size=40,
)


@given(looks_at, st.sampled_from([0.0, 15.0, 60.0]))
def test_events_alternate(looks: list[Look], keep: float) -> None:
    """What begins is resolved before it begins anew, worsens only while open, and every run tells the same."""
    told = kinds(looks, keep)
    assert told == kinds(looks, keep)
    edges = [kind for kind, _ in told if kind != "worsened"]
    assert edges == (["began", "resolved"] * len(edges))[: len(edges)]
    assert [time for _, time in told] == sorted(time for _, time in told)
    assert all(later == "worsened" or later != earlier for (earlier, _), (later, _) in pairwise(told))


@given(looks_at, st.sampled_from([15.0, 60.0]))
def test_keeping_only_joins(looks: list[Look], keep: float) -> None:
    """``keep_firing_for`` never makes more episodes, and never begins one earlier."""
    plain = [time for kind, time in kinds(looks) if kind == "began"]
    kept = [time for kind, time in kinds(looks, keep) if kind == "began"]
    assert set(kept) <= set(plain)


def test_a_tally() -> None:
    """A summary adds up how long episodes lasted, and the share that was not known."""
    tally = Tally(rule())
    tally.looks, tally.unknown, tally.not_applicable = 10, 2, 2
    for ended in (60.0, None):
        tally.add(Episode("a-rule", target(), "firing", 0.0, False, PLAIN, PLAIN, "warning", 30.0, ended), 100.0)
    made = tally.summary()
    assert (2, 100.0, 70.0, 0.25) == (made.episodes, made.firing_s, made.longest_s, made.unknown_share)
    assert 0.0 == Tally(rule()).summary().unknown_share
