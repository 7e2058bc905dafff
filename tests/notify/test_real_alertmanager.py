"""Against a real Alertmanager: alerts arrive, live and end; silences show; its webhook is answered by the real API."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from tests.alertmanagers import Running, serving, written
from tests.api.apps import FakeSink, World, fleet, odd, world
from tests.engines import shipped
from tests.notify.test_pushed import fired
from tests.notify.wires import Journal
from tests.servers import Reply, answering, free_port
from tests.serving import silent, until

from palanca.alerting.routing import Routing
from palanca.api.access import Token, Tokens
from palanca.api.guard import Rules
from palanca.app.alertmanagers import SessionWire
from palanca.errors import HistoryError
from palanca.model import Diagnosis, Silenced
from palanca.notify.alertmanager import Alertmanager, Pace, Pusher, SilenceReader
from palanca.notify.pushed import PushedAlert
from palanca.notify.silences import Marker, Muting
from palanca.sources.session import Access

RULE = "kv-cache-saturated"
SECRET = "0123456789abcdef0123456789abcdef"
PACE = Pace(every=0.4, alive=3.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(written(tmp_path_factory.mktemp("am"), shipped(), Routing())) as made:
        yield made


def speaking(url: str, **access: object) -> Alertmanager:
    return Alertmanager(SessionWire(url, Access(attempts=1, **{"timeout": 2.0, **access})))  # type: ignore[arg-type]


@contextlib.contextmanager
def pushing(*urls: str, journal: Journal | None = None, pace: Pace = PACE) -> Iterator[Pusher]:
    pusher = Pusher([speaking(url) for url in urls], journal or Journal(), time.time, pace)
    pusher.start()
    try:
        yield pusher
    finally:
        pusher.stop()
        pusher.join(5)


def of_now(diagnosis: Diagnosis, model: str) -> Diagnosis:
    """With the moment of now, and engines of a model that no other test has."""
    reports = tuple(
        replace(one, target=replace(one.target, labels=(*one.target.labels, ("test", model))))
        for one in diagnosis.targets
    )
    return replace(diagnosis, time=time.time(), targets=reports)


def firing(server: Running, test: str) -> list[dict[str, str]]:
    return [one["labels"] for one in server.alerts() if one["labels"].get("test") == test]


def wanted(test: str) -> list[PushedAlert]:
    return fired(of_now(fleet(), test))


# --- pushing ---------------------------------------------------------------------------------------


def test_pushed_kept_alive_resolved(server: Running) -> None:
    """It stays beyond the time that one push lasts, ends when it is over, and by itself when palanca dies."""
    alerts = wanted("life")
    with pushing(server.url) as pusher:
        pusher.want(alerts)
        until(lambda: len(firing(server, "life")) == len(alerts))
        time.sleep(PACE.alive + 0.5)
        assert {one.key for one in alerts} == {tuple(sorted(one.items())) for one in firing(server, "life")}
        pusher.want(alerts[1:])
        until(lambda: len(firing(server, "life")) == len(alerts) - 1, 2)
    assert len(alerts) - 1 == len(firing(server, "life"))
    until(lambda: not firing(server, "life"), PACE.alive + 2)


def test_two_replicas(server: Running) -> None:
    """Their alerts are one; when one replica ends, the other keeps them alive."""
    alerts = wanted("replicas")
    with pushing(server.url) as first:
        first.want(alerts)
        with pushing(server.url) as second:
            second.want(alerts)
            until(lambda: len(firing(server, "replicas")) == len(alerts))
        time.sleep(PACE.alive)
        assert len(alerts) == len(firing(server, "replicas"))


def test_several_and_only_one_is_well(server: Running) -> None:
    """One is dead, one never answers, one answers with a fault: the alerts arrive within a second all the same."""
    journal = Journal()
    dead = f"http://127.0.0.1:{free_port()}"
    with silent() as slow, answering(Reply(500, b"broken")) as broken:
        begin = time.monotonic()
        with pushing(dead, slow, broken.url, server.url, journal=journal) as pusher:
            pusher.want(wanted("several"))
            until(lambda: firing(server, "several"), 5, 0.02)
            assert time.monotonic() - begin < 1.5
            until(lambda: all(journal.of(one) for one in (dead, slow, broken.url)))
            begin = time.monotonic()
        assert time.monotonic() - begin < 2, "an Alertmanager that hangs holds up the end"
    assert "connection refused" in journal.of(dead)[0]
    assert "no whole answer within 2 s" in journal.of(slow)[0]
    assert "HTTP 500 broken" in journal.of(broken.url)[0]


def test_hostile_labels(server: Running) -> None:
    """Whatever labels engines have, Alertmanager takes their alerts, each by itself."""
    alerts = fired(of_now(odd(), "odd"))
    with pushing(server.url) as pusher:
        pusher.want(alerts)
        until(lambda: len(firing(server, "odd")) == len(alerts))
    assert {one.labels["model_name"] for one in alerts} == {one["model_name"] for one in firing(server, "odd")}


def test_credentials() -> None:
    """A token, or a pair, and headers are shown; Retry-After is read, as seconds and as a date."""
    replies: Sequence[Reply] = [
        Reply(429, headers={"Retry-After": "7"}),
        Reply(503, headers={"Retry-After": "Fri, 31 Dec 2999 23:59:59 GMT"}),
        Reply(503, headers={"Retry-After": "soon"}),
        Reply(200),
    ]
    with answering(replies) as canned:
        wire = SessionWire(canned.url + "/am/", Access(attempts=1, bearer="t", headers={"X-Scope-OrgID": "o"}))
        waits = [wire.ask("POST", "/api/v2/alerts", b"[]").retry_after for _ in replies]
        SessionWire(canned.url.replace("//", "//u:p@"), Access(attempts=1)).ask("GET", "/api/v2/silences")
    assert [7, 0, 0] == [waits[0], *waits[2:]]
    assert waits[1] > 1e9
    first, last = canned.requests[0], canned.requests[-1]
    assert ("/am/api/v2/alerts", "Bearer t", "o") == (
        first.path,
        first.headers["Authorization"],
        first.headers["X-Scope-OrgID"],
    )
    assert "application/json" == first.headers["Content-Type"]
    assert "Basic dTpw" == last.headers["Authorization"]


# --- silences --------------------------------------------------------------------------------------


def test_silences_show(server: Running) -> None:
    """By the alert's name and by regular expressions; a silence that is ended does not show any more."""
    test = "silences"
    marking = of_now(fleet(), test)

    def found(muting: Muting) -> dict[tuple[str, str], Silenced]:
        made = Marker(shipped().rules, {RULE}, muting, time.time()).marked(marking)
        return {
            (one.target.get("instance"), each.rule): each.silenced
            for one in made.targets
            for each in one.findings
            if each.silenced
        }

    reader = SilenceReader(
        [speaking(server.url), speaking(f"http://127.0.0.1:{free_port()}")], Journal(), time.time, every=0.1
    )
    reader.start()
    try:
        with pushing(server.url) as pusher:
            pusher.want(wanted(test))
            until(lambda: firing(server, test))
            assert {} == found(reader.muting)
            here = ("test", test, False, True)
            by_name = server.silence(("alertname", "PalancaKvCacheSaturated", False, True), here)
            until(lambda: found(reader.muting))
            assert {RULE} == {rule for _, rule in found(reader.muting)}
            assert {(by_name,)} == {one.by for one in found(reader.muting).values()}
            by_regex = server.silence(
                ("instance", "vllm-[03]:.*", True, True), ("severity", "info|none", True, False), here
            )
            until(lambda: any(by_regex in one.by for one in found(reader.muting).values()))
            both = found(reader.muting)["vllm-0:8000", RULE]
            assert {by_name, by_regex} == set(both.by)
            assert 500 < both.until - time.time() <= 600
            assert (by_name,) == found(reader.muting)["vllm-6:8000", RULE].by
            muted = [one for one in server.alerts() if one["status"]["silencedBy"]]
            assert len(muted) == len([one for one in found(reader.muting) if one[1] == RULE])
            for name in (by_name, by_regex):
                server.end(name)
            until(lambda: not found(reader.muting))
    finally:
        reader.stop()
        reader.join(5)


# --- the webhook -----------------------------------------------------------------------------------


@contextlib.contextmanager
def answered_by(mine: World) -> Iterator[str]:
    """The application on a port of its own, in a thread."""
    config = uvicorn.Config(mine.app, port=free_port(), log_config=None, access_log=False, lifespan="off")
    app = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(app.serve()))
    thread.start()
    try:
        until(lambda: app.started)
        yield f"http://127.0.0.1:{config.port}"
    finally:
        app.should_exit = True
        thread.join()


def test_the_webhook(tmp_path: Path) -> None:
    """With its token; 503 is tried again until it is taken; the end of the alerts arrives too."""
    sink = FakeSink(failures=[HistoryError("the database is down"), HistoryError("the database is down")])
    rules = Rules(Tokens([Token("alertmanager", "write", SECRET)]))
    token = tmp_path / "palanca.token"
    token.write_text(SECRET)
    mine = world(fleet(), rules=rules, sink=sink)
    labels = {
        "alertname": "VllmKvCacheSaturated", "severity": "critical", "cause": "kv-capacity", "palanca_rule": RULE,
        "job": "vllm", "model_name": "qwen",
    }  # fmt: skip
    with answered_by(mine) as url:
        routing = Routing(
            external_url=url, credentials_file=str(token), group_wait=1, group_interval=2, repeat_interval=2
        )
        with serving(written(tmp_path / "am", shipped(), routing)) as alertmanager:
            fires = [{**labels, "instance": name} for name in ("vllm-0:8000", "vllm-6:8000", "gone:1")]
            alertmanager.post(*fires)
            until(lambda: sink.groups and len(mine.audited) > 2)  # an answer is noted after it was given
            assert [503, 503, 200] == [one.status for one in mine.audited[:3]]
            assert {"alertmanager"} == {one.caller for one in mine.audited}
            assert 1 == len({one.group.identity for one in sink.tries[:3]})
            first = next(iter(sink.groups.values()))
            assert {
                "alertname": "VllmKvCacheSaturated",
                "job": "vllm",
                "model_name": "qwen",
            } == first.group.group_labels
            known = {one.alert.labels["instance"]: one for one in first.alerts}
            assert [True, True, False] == [known[one["instance"]].known for one in fires]
            (accused,) = known["vllm-0:8000"].accused
            assert accused.finding is not None
            assert (RULE, True) == (accused.finding.rule, bool(accused.recommendations))
            assert "1 of 3 alerts" in first.remark
            alertmanager.post(*fires, seconds=0)
            over = until(lambda: [one for one in sink.groups.values() if one.group.status == "resolved"])[0]
            assert first.group.key == over.group.key
            assert all(one.ends is not None for one in over.group.alerts)
