"""Pushing and reading, with Alertmanagers that are none."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from tests.notify.wires import FakeWire, Journal, Json, failing
from tests.serving import until

from palanca.errors import SourceError
from palanca.notify.alertmanager import AT_ONCE, Alertmanager, Pace, Pusher, RefusedError, Reply, SilenceReader, backoff
from palanca.notify.pushed import PushedAlert
from palanca.notify.silences import Matcher, MutedAlert, Muting, Silence

NOW = 1800000000.0
QUICK = Pace(every=0.05, alive=100.0)


def alert(name: str) -> PushedAlert:
    return PushedAlert({"alertname": name}, {}, NOW - 10)


@contextmanager
def pushing(*wires: FakeWire, pace: Pace = QUICK, journal: Journal | None = None) -> Iterator[Pusher]:
    pusher = Pusher([Alertmanager(one) for one in wires], journal or Journal(), lambda: NOW, pace)
    pusher.start()
    try:
        yield pusher
    finally:
        pusher.stop()
        pusher.join(5)


def ends(message: Sequence[Json]) -> dict[str, bool]:
    """Alert -> whether it goes on."""
    return {one["labels"]["alertname"]: one["endsAt"] > "2027-01-15T08:00:00Z" for one in message}


# --- pushing ---------------------------------------------------------------------------------------


def test_kept_alive_and_resolved() -> None:
    """Again and again while it is wanted, once with its end when it is not, and then no more."""
    wire = FakeWire()
    with pushing(wire) as pusher:
        pusher.want([alert("a"), alert("b")])
        until(lambda: len(wire.posted) > 2)
        assert {"a": True, "b": True} == ends(wire.posted[-1])
        pusher.want([alert("b")])
        until(lambda: {"a": False, "b": True} in map(ends, wire.posted))
        until(lambda: {"b": True} == ends(wire.posted[-1]))
        pusher.want([])
        until(lambda: {"b": False} == ends(wire.posted[-1]))
        count = len(wire.posted)
        time.sleep(0.2)
        assert count == len(wire.posted)
    assert wire.stopped


def test_nothing_before_the_first_diagnosis() -> None:
    """And nothing of an empty one: what an earlier process has sent ends by itself."""
    wire = FakeWire()
    with pushing(wire) as pusher:
        time.sleep(0.15)
        pusher.want([])
        time.sleep(0.15)
    assert [] == wire.asked


def test_news_at_once() -> None:
    """Not only when it is time to keep alive; the same again is no news."""
    wire = FakeWire()
    with pushing(wire, pace=Pace(3600, 7200)) as pusher:
        pusher.want([alert("a")])
        until(lambda: len(wire.posted) == 1)
        pusher.want([alert("a")])
        pusher.want([alert("a"), alert("b")])
        until(lambda: len(wire.posted) == 2)
    assert {"a": True, "b": True} == ends(wire.posted[-1])


def test_an_end_that_did_not_arrive() -> None:
    """Is told when it can be, though it is long over."""
    broken = [False]
    wire = FakeWire(lambda _, __: Reply(503, retry_after=0.1) if broken[0] else Reply(200))
    with pushing(wire) as pusher:
        pusher.want([alert("a")])
        until(lambda: wire.posted)
        broken[0] = True
        count = len(wire.posted)
        pusher.want([])
        until(lambda: {"a": False} == ends(wire.posted[-1]) and len(wire.posted) > count)
        broken[0] = False
        failed = len(wire.posted)
        until(lambda: len(wire.posted) > failed)
        assert {"a": False} == ends(wire.posted[-1])


def test_one_that_is_down() -> None:
    """Keeps nothing from the others."""
    dead, alive, journal = FakeWire(failing, "http://dead"), FakeWire(url="http://alive"), Journal()
    with pushing(dead, alive, journal=journal) as pusher:
        pusher.want([alert("a")])
        until(lambda: len(alive.posted) > 2 and journal.of("http://dead"))
    assert {"sent 1"} == set(journal.of("http://alive"))
    assert {"failed http://am:9093: connection refused"} == set(journal.of("http://dead"))


def test_many() -> None:
    """In requests of a size that every proxy lets through; one that is refused keeps none of the others."""
    wire = FakeWire(lambda _, __: Reply(400, b'"bad"') if len(wire.posted) == 1 else Reply(200))
    with pytest.raises(RefusedError, match=r'/api/v2/alerts: HTTP 400 "bad"'):
        Alertmanager(wire).push([{"labels": {"n": str(at)}} for at in range(2 * AT_ONCE + 1)])
    assert [AT_ONCE, AT_ONCE, 1] == [len(one) for one in wire.posted]


def test_asked_to_wait() -> None:
    """With Retry-After nothing more is sent until then."""
    wire = FakeWire(lambda _, __: Reply(429, retry_after=7))
    with pytest.raises(RefusedError) as raised:
        Alertmanager(wire).push([{}] * (AT_ONCE + 1))
    assert (1, 7.0) == (len(wire.posted), raised.value.retry_after)


def test_backoff() -> None:
    """Longer each time, as long as is asked for, and never for ever."""
    lost = SourceError("x")
    assert [1, 2, 4, 32, 60, 60] == [backoff(count, lost).seconds for count in (1, 2, 3, 6, 7, 10**6)]
    assert [7, 600] == [backoff(1, RefusedError("x", asked)).seconds for asked in (7, 10**9)]
    assert backoff(1, lost).patient


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "alertmanager.bearer_file"),
        (403, "may not"),
        (404, "is the path right"),
        (410, "no API v2"),
        (500, "HTTP 500"),
    ],
)
def test_what_to_do(status: int, words: str) -> None:
    """A refusal says how to mend it."""
    with pytest.raises(SourceError, match=words):
        Alertmanager(FakeWire(lambda _, __: Reply(status, b"\xff no\n"))).push([{}])


def test_a_fault_of_ours_ends_no_thread() -> None:
    """It is told, and the thread goes on."""
    wire, journal = FakeWire(lambda _, __: 1 / 0), Journal()  # type: ignore[arg-type, return-value]
    with pushing(wire, journal=journal) as pusher:
        pusher.want([alert("a")])
        until(lambda: journal.events)
    assert "failed a fault of palanca: ZeroDivisionError('division by zero')" == journal.events[0][0]


# --- reading ---------------------------------------------------------------------------------------

SILENCE = {
    "id": "s1",
    "status": {"state": "active"},
    "startsAt": "2027-01-15T07:00:00.123Z",
    "endsAt": "2027-01-15T09:00:00.000Z",
    "matchers": [
        {"name": "a", "value": "b", "isRegex": False, "isEqual": True},
        {"name": "c", "value": "d.*", "isRegex": True, "isEqual": False},
        {"name": "e", "value": "f", "isRegex": False},
    ],
    "comment": "x",
}
ALERT = {"labels": {"palanca_rule": "x"}, "status": {"state": "suppressed", "silencedBy": ["s1"], "inhibitedBy": []}}


def answers(silences: object, alerts: object) -> FakeWire:
    return FakeWire(lambda _, path: Reply(200, json.dumps(alerts if "alerts" in path else silences).encode()))


def test_reading() -> None:
    """Silences in force with their matchers, and the alerts that are silenced."""
    expired = {**SILENCE, "id": "s0", "status": {"state": "expired"}}
    wire = answers([SILENCE, expired], [ALERT])
    matchers = (Matcher("a", "b"), Matcher("c", "d.*", regex=True, equal=False), Matcher("e", "f"))
    begins = NOW - 3600 + 0.123
    expected = Muting((Silence("s1", begins, NOW + 3600, matchers),), (MutedAlert({"palanca_rule": "x"}, ("s1",)),))
    assert expected == Alertmanager(wire).muting()
    assert (
        "/api/v2/alerts?active=false&silenced=true&inhibited=true&filter=palanca_rule%3D~%22.%2B%22" == wire.asked[1][1]
    )
    quiet = answers([expired], [ALERT])
    assert Muting() == Alertmanager(quiet).muting()
    assert 1 == len(quiet.asked)


@pytest.mark.parametrize(
    ("silences", "alerts"),
    [
        ({}, []),
        ([{**SILENCE, "matchers": [{"name": "a"}]}], []),
        ([{**SILENCE, "endsAt": "never"}], []),
        ([{**SILENCE, "endsAt": 5}], []),
        ([{**SILENCE, "matchers": None}], []),
        ([SILENCE], [{"labels": []}]),
        ([SILENCE], [{"labels": {}, "status": None}]),
        ([SILENCE], "x"),
    ],
)
def test_what_is_no_alertmanager(silences: object, alerts: object) -> None:
    """Is said, and no traceback."""
    with pytest.raises(SourceError, match="is this an Alertmanager"):
        Alertmanager(answers(silences, alerts)).muting()


def test_not_even_json() -> None:
    """The same."""
    for body in (b"<html>", b"[" * 100_000, b"\xff"):
        with pytest.raises(SourceError, match=r"http://am:9093/api/v2/silences: the answer is no list"):
            Alertmanager(FakeWire(lambda _, __, body=body: Reply(200, body))).muting()  # type: ignore[misc]


def test_all_together() -> None:
    """What one of them says is known, while another is down; and what is too old is forgotten."""
    clock = [NOW]
    good, dead = answers([SILENCE], []), FakeWire(failing, "http://dead")
    journal = Journal()
    reader = SilenceReader([Alertmanager(good), Alertmanager(dead)], journal, lambda: clock[0], every=0.05)
    assert Muting() == reader.muting
    reader.start()
    try:
        until(lambda: reader.muting.silences)
        until(lambda: journal.of("http://dead"))
        good.answer = failing
        until(lambda: any("unread" in one for one in journal.of("http://am:9093")))
        assert reader.muting.silences
        clock[0] += 301
        assert Muting() == reader.muting
    finally:
        reader.stop()
        reader.join(5)
    assert good.stopped
    assert dead.stopped
