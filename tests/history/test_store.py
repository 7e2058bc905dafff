"""Recording and reading, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from sqlalchemy import update
from tests.history.looks import RULE, START, at, engine, firing, given, look, pending, told
from tests.render.builders import target

from palanca.errors import HistoryError, UsageError
from palanca.history.entries import Gap
from palanca.history.reader import EpisodeQuery, EventQuery
from palanca.history.store import HistoryStore
from palanca.history.tables import episodes
from palanca.model import Target, VllmVersion

NOTHING = engine()


def test_an_episode(store: HistoryStore) -> None:
    """It begins, worsens and ends; evidence and recommendations of its beginning stay."""
    looks = [
        look(0, engine(pending())),
        look(1, engine(firing(severity="warning", usage=0.9))),
        look(2, engine(firing(usage=0.99))),
        look(3, engine(firing(usage=0.95))),
        look(4, NOTHING),
    ]
    assert ["began", "worsened", "resolved"] == told(store, looks)
    (one,) = store.episodes().items
    assert ("main", target().as_dict(), RULE, "kv-capacity") == (one.source, one.target, one.rule, one.cause)
    assert ("resolved", "critical", 90.0) == (one.state, one.severity, one.lasted_s)
    assert (None, None) == (one.reason, one.lapsed)
    assert [("2027-01-15T08:01:00Z", "critical")] == [(step.time, step.severity) for step in one.worsened]
    assert (0.9, 0.95, 0.99) == tuple(part[0].value for part in (one.first.evidence, one.latest.evidence, one.peak))
    assert ["kv_cache_dtype", "max_num_seqs"] == [advice.lever for advice in one.first.recommendations]
    assert [("resolved", "critical"), ("worsened", "critical"), ("began", "warning"), ("target-added", None)] == [
        (event.kind, event.severity) for event in store.events().items
    ]


def test_where_it_begins(store: HistoryStore) -> None:
    """Where the first engine appeared, as long as it stays; without any, at the last record."""
    assert store.begin() is None
    store.record(at(1), "empty", look(1), {})
    assert at(1) == store.begin()
    told(store, [look(2, NOTHING), look(3, NOTHING)])
    store.record(at(4), "empty", look(4), {})
    assert at(2) == store.begin()
    store.forget(at(100))
    assert at(2) == store.begin()


def test_events_as_they_are_recorded(store: HistoryStore) -> None:
    """Each has its id, and the episode as it is after it."""
    done = store.record(START, "main", look(0, engine(firing())), {})
    added, began = done.events
    assert ("recorded", "target-added", "began") == (done.outcome, added.kind, began.kind)
    assert target() == began.target
    assert began.episode is not None
    assert (firing(), START) == (began.episode.first, began.episode.began)
    (stored,) = store.events(EventQuery(kinds=("began",))).items
    assert (began.id, began.episode_id) == (stored.id, stored.episode)


def test_an_episode_goes_on_where_another_process_left_it(store: HistoryStore) -> None:
    """Nothing of it is kept in memory: ``keep_firing_for`` too counts from the lapse that was stored."""
    keep = {RULE: 45.0}
    assert ["began"] == told(store, [look(0, engine(firing())), look(1, NOTHING)], keep)
    assert "2027-01-15T08:00:30Z" == store.episodes().items[0].lapsed
    store.close()
    assert [] == told(store, [look(2, NOTHING)], keep)
    assert ["resolved"] == told(store, [look(3, NOTHING)], keep)
    assert 90.0 == store.episodes().items[0].lasted_s


def test_pending_tells_nothing(store: HistoryStore) -> None:
    assert [] == told(store, [look(0, engine(pending())), look(1, NOTHING)])
    assert () == store.episodes().items


@pytest.mark.parametrize("moment", [at(1), at(0.5), at(-1000)])
def test_what_is_not_after_the_last_record_changes_nothing(store: HistoryStore, moment: float) -> None:
    """Replicas, and clocks that are set back."""
    told(store, [look(0, NOTHING), look(1, engine(firing()))])
    before = store.episodes(), store.events()
    late = store.record(moment, "main", look(0, NOTHING), {})
    assert ("late", at(1) - moment) == (late.outcome, late.behind_s)
    assert before == (store.episodes(), store.events())
    assert at(1) == store.recorded("main")
    assert store.recorded("other") is None


def test_sources_are_apart(store: HistoryStore) -> None:
    """The same labels at two sources are two targets, each with its own time."""
    store.record(at(5), "one", look(5, engine(firing())), {})
    store.record(at(1), "two", look(1, engine(firing())), {})
    store.record(at(2), "two", look(2, NOTHING), {})
    assert [("one", "firing"), ("two", "resolved")] == [(one.source, one.state) for one in store.episodes().items]


@pytest.mark.parametrize("state", ["unreachable", "stale"])
def test_an_unreadable_source_resolves_nothing(store: HistoryStore, state: str) -> None:
    """It is told once, and when it is over."""
    bad = look(1, state=state, error="http://me:secret@prometheus refused")  # type: ignore[arg-type]
    looks = [look(0, engine(firing())), bad, replace(bad, time=at(2))]
    assert ["began", "source-unreachable"] == told(store, looks)
    assert "firing" == store.episodes().items[0].state
    assert ["source-recovered", "resolved"] == told(store, [look(3, NOTHING)])
    recovered, unreachable = store.events(EventQuery(kinds=("source-recovered", "source-unreachable"))).items
    assert "http://prometheus refused" == unreachable.reason
    assert "2027-01-15T08:00:30Z" == recovered.since


def test_a_source_read_in_part(store: HistoryStore) -> None:
    """What is missing for want of an answer is neither gone nor resolved; what is known to be over is."""
    other = engine(where=target(1))
    full = engine(firing(), firing("queue-waiting"))
    unknown = engine(unknown=["queue-waiting"])
    assert ["began", "began", "resolved"] == told(store, [look(0, full, other), look(1, unknown, state="partial")])
    assert ["queue-waiting"] == [one.rule for one in store.episodes(EpisodeQuery(open_only=True)).items]
    assert ["target-removed", "resolved"] == told(store, [look(2, unknown)])


def test_a_history_that_is_too_short(store: HistoryStore) -> None:
    """After a restart what palanca scrapes itself reaches back for seconds: what holds still is the same episode."""
    short = engine(replace(pending(), full_history=False))
    assert ["began"] == told(store, [look(0, engine(firing())), look(1, short), look(2, engine(firing()))])
    assert ["resolved"] == told(store, [look(3, short), look(4, engine())])
    assert ["began", "resolved"] == told(store, [look(5, engine(firing())), look(6, engine(pending()))])


def test_a_target_goes_and_comes_back(store: HistoryStore) -> None:
    """Its episodes end, with the reason; what was known of it is compared when it is back."""
    before = engine(firing(), where=target(1), facts={"block_size": 16.0})
    after = engine(where=target(1), facts={"block_size": 32.0})
    assert ["began", "target-removed", "resolved"] == told(store, [look(0, NOTHING, before), look(1, NOTHING)])
    assert "target removed" == store.episodes().items[0].reason
    assert "target removed" == store.events(EventQuery(kinds=("resolved",))).items[0].reason
    assert ["configuration-changed"] == told(store, [look(2, NOTHING, after)])
    assert 3 == len(store.events(EventQuery(kinds=("target-added",))).items)


def test_a_source_that_is_not_configured_any_more(store: HistoryStore) -> None:
    """Its episodes end, once, and never before they began."""
    told(store, [look(5, engine(firing()))])
    assert () == store.retire(["main"], at(6))
    assert ["target-removed", "resolved"] == [event.kind for event in store.retire(["other"], at(4)) or ()]
    assert () == store.retire(["other"], at(7))
    (one,) = store.episodes().items
    assert ("source removed", 0.0) == (one.reason, one.lasted_s)


def test_restarts(store: HistoryStore) -> None:
    """A process that began anew, told once, with its start."""
    looks = [
        look(0, engine(uptime=1000.0, resets=0.0)),
        look(1, engine(uptime=1030.5, resets=0.0)),
        look(2, engine(uptime=10.0, resets=0.0)),
        look(3, engine(uptime=40.0, resets=1.0)),
        look(4, engine()),
    ]
    assert ["restarted"] == told(store, looks)
    (event,) = store.events(EventQuery(kinds=("restarted",))).items
    assert ("process start", "2027-01-15T08:00:50Z") == (event.reason, event.since)


def test_changed_configuration(store: HistoryStore) -> None:
    """Facts that are reported or given, and the release."""
    before = engine(facts={"block_size": 16.0, "gpu": given("h100"), "kv_override": False}, release="0.26.0")
    after = engine(facts={"block_size": 32.0, "kv_override": True}, release="0.27.1")
    assert ["configuration-changed"] == told(store, [look(0, before), look(1, before), look(2, after), look(3, after)])
    (event,) = store.events(EventQuery(kinds=("configuration-changed",))).items
    assert [
        ("vllm_release", "0.26.0", "0.27.1"), ("block_size", 16, 32),
        ("gpu", "h100", None), ("kv_override", False, True),
    ] == [(one.name, one.before, one.after) for one in event.changes]  # fmt: skip


def test_what_this_release_cannot_read(store: HistoryStore) -> None:
    """It is told which part of the history that is, and nothing is recorded over it."""
    told(store, [look(0, engine(firing()))])
    with store._database.writing() as connection:
        connection.execute(update(episodes).values(latest='{"rule":1}'))
    for act in (store.episodes, lambda: told(store, [look(1, NOTHING)])):
        with pytest.raises(HistoryError, match="holds episode 1 in a form that this release cannot read"):
            act()
    assert at(0) == store.recorded("main")


def test_after_a_gap(store: HistoryStore) -> None:
    """Why nothing was recorded stands in the history."""
    done = store.record(at(9), "main", look(9), {}, Gap(at(3), "disk full"))
    assert ["recording-resumed"] == [event.kind for event in done.events]
    (event,) = store.events().items
    assert ("disk full", "2027-01-15T08:01:30Z", None) == (event.reason, event.since, event.target)


def test_acknowledging(store: HistoryStore) -> None:
    """Twice the same is once; another name takes its place, and all of it is in the events."""
    told(store, [look(0, engine(firing()))])
    (one,) = store.episodes().items
    for who, moment in (("ana", 1), ("ana", 2), ("ben", 3), ("ana", 4)):
        found = store.acknowledge(one.id, who, "on it", at(moment))
        assert found is not None
        assert found.acknowledged is not None
        assert who == found.acknowledged.who
    told(store, [look(5, engine(firing()))])
    kept = store.episode(one.id)
    assert kept is not None
    assert kept.acknowledged is not None
    assert ("2027-01-15T08:02:00Z", "ana", "on it") == tuple(kept.acknowledged.model_dump().values())
    events = store.events(EventQuery(kinds=("acknowledged",), episode=one.id)).items
    assert [("ana", "on it"), ("ben", "on it"), ("ana", "on it")] == [(event.who, event.note) for event in events]


def test_verifying(store: HistoryStore) -> None:
    """The same document is attached once."""
    told(store, [look(0, engine(firing()))])
    (one,) = store.episodes().items
    for moment, verdict in ((1, "did nothing"), (2, "did nothing"), (3, "helped")):
        store.attach_verification(one.id, {"verdict": verdict, "engines": []}, at(moment))
    (kept,) = store.episodes().items
    assert ["did nothing", "helped"] == [result.document["verdict"] for result in kept.verifications]
    assert ["helped", "did nothing"] == [event.reason for event in store.events(EventQuery(kinds=("verified",))).items]
    with pytest.raises(UsageError, match="no JSON"):
        store.attach_verification(one.id, {"value": math.inf}, at(4))


@pytest.mark.parametrize("number", [0, -1, 7, 2**63, 10**30])
def test_no_such_episode(store: HistoryStore, number: int) -> None:
    assert store.episode(number) is None
    assert store.acknowledge(number, "ana", "", START) is None
    assert store.attach_verification(number, {}, START) is None
    assert () == store.events(EventQuery(episode=number)).items


def test_hostile_text(store: HistoryStore) -> None:
    """Labels, notes and names may hold anything; the same target is the same target at the next look."""
    where = Target.of({"instance": "a\0b\ud800'\"%s" + "x" * 9000, "\x01ü": "\n"})
    looks = [look(index, engine(firing(), where=where, facts={"gpu": "\0"})) for index in range(3)]
    for step in looks:
        store.record(step.time, "so\0ur\ud800ce", step, {})
    (one,) = store.episodes().items
    assert {"instance": "a\0b\ufffd'\"%s" + "x" * 9000, "\x01ü": "\n"} == one.target
    found = store.acknowledge(one.id, "a\0\ud800", "'; DROP TABLE palanca_episodes; --", at(9))
    assert found is not None
    assert found.acknowledged is not None
    assert "a\ufffd\ufffd" == found.acknowledged.who
    for text in ("\0", "\ud800", "' OR 1=1 --", "%"):
        nothing = EpisodeQuery(sources=[text], rules=[text], severities=[text], causes=[text], match={text: text})
        assert () == store.episodes(nothing).items
        assert () == store.events(EventQuery(kinds=[text], match={text: text})).items
    assert 1 == len(store.episodes(EpisodeQuery(match={"\x01ü": "\n"})).items)


def test_numbers_without_bound_survive(store: HistoryStore) -> None:
    """Infinite evidence is read back for the next step, and written as null."""
    told(store, [look(0, engine(firing(usage=math.inf))), look(1, engine(firing(usage=0.9)))])
    (one,) = store.episodes().items
    assert (None, None) == (one.first.evidence[0].value, one.peak[0].value)
    event = store.record(at(2), "main", look(2, NOTHING), {}).events[0]
    assert event.episode is not None
    assert math.inf == event.episode.peak[0].value


@pytest.mark.parametrize("moment", [math.nan, math.inf])
def test_no_moment(store: HistoryStore, moment: float) -> None:
    with pytest.raises(ValueError, match="no moment"):
        store.record(moment, "main", look(0), {})


def test_a_fleet(store: HistoryStore) -> None:
    """More engines than one statement may name."""
    fleet = [engine(firing(), where=target(index)) for index in range(1200)]
    done = store.record(at(0), "main", look(0, *fleet), {})
    assert (2400, 2400) == (len(done.events), len({event.id for event in done.events}))
    assert 1200 == len({event.episode_id for event in done.events if event.kind == "began"})
    kinds = Counter(told(store, [look(1, fleet[0], engine(where=target(1)))]))
    assert Counter({"target-removed": 1198, "resolved": 1199}) == kinds


# --- pages and filters -----------------------------------------------------------------------------


@pytest.fixture
def filled(store: HistoryStore) -> HistoryStore:
    """Two engines: rule a fires at both from 0 and 2 on, rule b at the first from 3 on; all but b is over at 5."""
    a = firing("a-rule", "warning")
    b = firing("b-rule")
    one, two = target(0), target(1, zone="z")
    steps = [([a], []), ([a], []), ([a], [a]), ([a, b], [a]), ([a, b], [a]), ([b], [])]
    told(store, [look(i, engine(*x, where=one), engine(*y, where=two)) for i, (x, y) in enumerate(steps)])
    return store


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (EpisodeQuery(), ["b0", "a1", "a0"]),
        (EpisodeQuery(open_only=True), ["b0"]),
        (EpisodeQuery(rules=["a-rule"]), ["a1", "a0"]),
        (EpisodeQuery(severities=["critical", "info"]), ["b0"]),
        (EpisodeQuery(causes=["kv-capacity"], sources=["main"]), ["b0", "a1", "a0"]),
        (EpisodeQuery(causes=["hang"]), []),
        (EpisodeQuery(sources=["other"]), []),
        (EpisodeQuery(match={"zone": "z", "job": "vllm"}), ["a1"]),
        (EpisodeQuery(match={"zone": ""}), ["b0", "a0"]),
        (EpisodeQuery(match={"zone": "y"}), []),
        (EpisodeQuery(end=at(2)), ["a1", "a0"]),
        (EpisodeQuery(begin=at(5.5)), ["b0"]),
        (EpisodeQuery(begin=at(0.5), end=at(1)), ["a0"]),
        (EpisodeQuery(end=at(-1)), []),
    ],
)
def test_filters(filled: HistoryStore, query: EpisodeQuery, expected: list[str]) -> None:
    """The newest first; an episode belongs to all moments at which it fired."""
    found = [f"{one.rule[0]}{1 if 'zone' in one.target else 0}" for one in filled.episodes(query).items]
    assert expected == found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages(filled: HistoryStore, limit: int) -> None:
    """Together they are all, each once, also where new ones come in between."""
    all_episodes, all_events = filled.episodes().items, filled.events().items
    found: list[object] = []
    page = filled.episodes(EpisodeQuery(limit=limit))
    told(filled, [look(6, engine(firing("b-rule"), firing("c-rule"), where=target(0)))])
    while True:
        found += [one.id for one in page.items]
        if page.next is None:
            break
        page = filled.episodes(EpisodeQuery(limit=limit, cursor=page.next))
    assert [one.id for one in all_episodes] == found
    shown: list[object] = []
    cursor: str | None = None
    while True:
        part = filled.events(EventQuery(end=at(5), limit=limit, cursor=cursor))
        shown, cursor = [*shown, *part.items], part.next
        if cursor is None:
            break
    assert [*all_events] == shown


@pytest.mark.parametrize("cursor", ["", "x", "1_", "nan_1", "1e9_1_2", "1e999_1", "--1_1", "1.0_" + "9" * 30])
def test_a_wrong_cursor(store: HistoryStore, cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        store.episodes(EpisodeQuery(cursor=cursor))


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_wrong_limit(store: HistoryStore, limit: int) -> None:
    with pytest.raises(UsageError, match="give 1 to 1000"):
        store.events(EventQuery(limit=limit))


# --- what is forgotten -----------------------------------------------------------------------------


def test_forgetting(filled: HistoryStore) -> None:
    """What was over, and told, before that moment goes; what is open stays, however old."""
    opened = filled.episodes(EpisodeQuery(open_only=True)).items
    assert 0 == filled.forget(START - 1)
    assert 0 < filled.forget(at(100))
    assert opened == filled.episodes().items
    assert () == filled.events().items
    assert 0 == filled.forget(at(100))
    assert ["resolved"] == told(filled, [look(6, engine(), engine(where=target(1, zone="z")))])


def test_forgetting_targets(store: HistoryStore) -> None:
    """Engines that are gone are forgotten with the last that tells of them, many at a time."""
    fleet = [engine(where=target(index)) for index in range(700)]
    told(store, [look(0, *fleet), look(1, NOTHING)])
    assert 700 + 699 + 699 == store.forget(at(2))
    assert [] == told(store, [look(3, *fleet)])
    assert 699 == len(store.events(EventQuery(kinds=("target-added",), limit=1000)).items)


def test_a_narrower_release_is_no_change(store: HistoryStore) -> None:
    """An inferred range becomes narrower as more metrics appear."""
    ranges = [VllmVersion(first, "0.33.0", ("v1",), "inferred") for first in ("0.24.0", "0.28.0")]
    assert [] == told(store, [look(step, engine(release=one)) for step, one in enumerate(ranges)])
