"""Episodes and events over REST, on a real database."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.api.apps import Answer, FakeBackend, World, fleet, kept, odd, recorded, world
from tests.api.test_diagnose import fault
from tests.engines import END

from palanca.api.access import Token, Tokens
from palanca.api.guard import Rules
from palanca.api.history import LARGEST_ID, LONGEST_NOTE
from palanca.errors import HistoryError
from palanca.history.disabled import NoHistory
from palanca.history.documents import EpisodesDocument, EventsDocument, OneEpisodeDocument
from palanca.moments import rfc3339


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three critical engines, of which one recovers after five minutes; for tests that only read."""
    return made(tmp_path_factory.mktemp("past"))


@pytest.fixture
def mine(tmp_path: Path) -> World:
    """The same for a test that writes."""
    return made(tmp_path)


def made(folder: Path) -> World:
    mended = replace(fleet().targets[0], findings=(), status="ok")
    later = replace(fleet(), time=END + 300, targets=(mended, *fleet().targets[1:]))
    one = world(later, history=kept(folder, fleet(), replace(fleet(), time=END + 30), later))
    one.backend.clock = END + 330
    return one


def episodes(answer: Answer) -> list[dict[str, Any]]:
    assert (200, "application/json") == (answer.status, answer["Content-Type"]), answer.text
    assert {"enabled": True, "reason": None, "since": rfc3339(END)} == answer.json["history"]
    return list(answer.json["episodes"])


def test_episodes(past: World) -> None:
    """The newest first; a resolved one says how long it lasted."""
    answer = past.get("/api/v1/history")
    EpisodesDocument.model_validate(answer.json)
    found = episodes(answer)
    assert {"vllm-0:8000", "vllm-3:8000", "vllm-6:8000"} <= {one["target"]["instance"] for one in found}
    states = {one["target"]["instance"]: one["state"] for one in found if one["rule"] == "kv-cache-saturated"}
    assert {"vllm-0:8000": "resolved", "vllm-3:8000": "firing", "vllm-6:8000": "firing"} == states
    (resolved,) = [one for one in found if one["state"] == "resolved"]
    assert ("2027-01-15T08:05:00Z", 300.0) == (resolved["ended"], resolved["lasted_s"])


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 5),
        ("rule=kv-cache-saturated", 3),
        ("rule=kv-cache-saturated&rule=ttft-high", 5),
        ("severity=critical", 3),
        ("cause=kv-capacity&severity=critical", 3),
        ("cause=hang", 0),
        ("open=true", 4),
        ("open=false", 5),
        ("match=model_name=llama", 2),
        ("match=model_name=", 0),
        ("source=prometheus", 5),
        ("source=other", 0),
        ("from=-30s", 5),
        ("from=-29s", 4),
        ("to=-10m", 0),
        ("from=2027-01-15T08:00:00Z&to=2027-01-15T09:00:00+01:00", 5),
        ("from=1800000301", 4),
        ("rule=%00", 0),
        ("rule=%ED%A0%80", 0),
        ("match=a=%00", 0),
        ("rule=" + quote("' OR 1=1 --"), 0),
        ("match=" + quote("model_name=%"), 0),
    ],
)
def test_filters(past: World, query: str, count: int) -> None:
    """Nothing is a pattern, and nothing becomes SQL."""
    assert count == len(episodes(past.get("/api/v1/history", query)))


@pytest.mark.parametrize(("path", "key"), [("/api/v1/history", "episodes"), ("/api/v1/history/events", "events")])
@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_pages_make_the_whole(past: World, path: str, key: str, limit: int) -> None:
    """By the cursor that each page gives."""
    whole = past.get(path, "limit=1000").json[key]
    page = past.get(path, f"limit={limit}").json
    rows = list(page[key])
    while page["next"] is not None:
        page = past.get(path, f"limit={limit}&cursor={page['next']}").json
        rows += page[key]
    assert whole == rows
    assert len({row["id"] for row in rows}) == len(rows) > 4


def test_events(past: World) -> None:
    """What happened, by kind and episode."""
    document = past.get("/api/v1/history/events").json
    EventsDocument.model_validate(document)
    began = past.get("/api/v1/history/events", "kind=began&limit=1000").json["events"]
    assert {"began"} == {one["kind"] for one in began}
    (resolved,) = past.get("/api/v1/history/events", "kind=resolved").json["events"]
    of_one = past.get("/api/v1/history/events", f"episode={resolved['episode']}").json["events"]
    assert ["resolved", "began"] == [one["kind"] for one in of_one]


def test_one_episode(past: World) -> None:
    """As in the list."""
    for one in episodes(past.get("/api/v1/history")):
        document = past.get(f"/api/v1/history/{one['id']}").json
        OneEpisodeDocument.model_validate(document)
        assert one == document["episode"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/history/999", 404),
        (f"/api/v1/history/{LARGEST_ID}", 404),
        (f"/api/v1/history/{LARGEST_ID + 1}", 422),
        ("/api/v1/history/" + "9" * 5000, 422),
        ("/api/v1/history/0", 422),
        ("/api/v1/history/-1", 422),
        ("/api/v1/history/x", 422),
        ("/api/v1/history/1.5", 422),
        ("/api/v1/history/", 404),
        ("/api/v1/history/1/acknowledge", 405),
    ],
)
def test_an_episode_that_is_none(past: World, path: str, status: int) -> None:
    """Not there, or no number."""
    fault(past.get(path), status)
    if status != 405 and path.strip("/").count("/") == 3:
        fault(past.post(path + "/acknowledge", {}), status)


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("cursor=x", 400, "cursor"),
        ("cursor=nan_1", 400, "cursor"),
        ("cursor=1e999_1", 400, "cursor"),
        ("cursor=" + quote("1_1; DROP TABLE"), 400, "cursor"),
        ("cursor=" + "1" * 101, 422, "cursor: "),
        ("from=now", 422, "from: "),
        ("to=x", 422, "to: "),
        ("from_=-1h", 422, "from_: there is no such parameter"),
        ("limit=0", 422, "limit: "),
        ("limit=1001", 422, "limit: "),
        ("severity=bad", 422, "severity.0: "),
        ("open=maybe", 422, "open: "),
        ("kind=began", 422, "kind: there is no such parameter"),
        ("offset=1", 422, "offset: there is no such parameter"),
    ],
)
def test_wrong_parameters(past: World, query: str, status: int, said: str) -> None:
    """Told by name."""
    assert said in fault(past.get("/api/v1/history", query), status)


@pytest.mark.parametrize("query", ["kind=bad", "episode=0", "episode=x", "open=true", "cause=hang"])
def test_wrong_parameters_of_events(past: World, query: str) -> None:
    """They have filters of their own."""
    fault(past.get("/api/v1/history/events", query))


def test_tags_and_compression(past: World) -> None:
    """A list of episodes is long, and seldom changes."""
    plain, zipped = past.get("/api/v1/history"), past.get("/api/v1/history", accept_encoding="gzip")
    assert plain.body == gzip.decompress(zipped.body)
    assert 304 == past.get("/api/v1/history", if_none_match=plain["ETag"]).status


# --- acknowledging ---------------------------------------------------------------------------------


def first(past: World) -> str:
    return f"/api/v1/history/{episodes(past.get('/api/v1/history', 'open=true'))[0]['id']}"


def notes(mine: World) -> list[str]:
    return [one["note"] for one in mine.get("/api/v1/history/events", "kind=acknowledged").json["events"]]


def test_acknowledging(mine: World) -> None:
    """The episode says who looks after it; the same once more adds nothing, another note is another event."""
    path = first(mine)
    answer = mine.post(path + "/acknowledge", {"note": "on it", "who": "ana"})
    assert {"time": "2027-01-15T08:05:30Z", "who": "ana", "note": "on it"} == answer.json["episode"]["acknowledged"]
    mine.post(path + "/acknowledge", {"note": "on it", "who": "ana"})
    assert ["on it"] == notes(mine)
    mine.post(path + "/acknowledge", {"note": "done", "who": "ana"})
    assert "done" == mine.get(path).json["episode"]["acknowledged"]["note"]
    assert ["done", "on it"] == notes(mine)
    assert [("anybody", 200)] * 3 == [(note.caller, note.status) for note in mine.audited]


def test_the_name_of_the_token(tmp_path: Path) -> None:
    """Is that of who acknowledges, unless another is given."""
    rules = Rules(Tokens([Token("ops", "write", "secret")]))
    mine = world(fleet(), rules=rules, history=kept(tmp_path, fleet()))
    answer = mine.post("/api/v1/history/1/acknowledge", {}, Authorization="Bearer secret")
    assert ("ops", "") == (
        answer.json["episode"]["acknowledged"]["who"],
        answer.json["episode"]["acknowledged"]["note"],
    )


@pytest.mark.parametrize(
    ("note", "kept_as"),
    [
        ("a\nb", "a\nb"),
        ("nul \0", "nul \ufffd"),
        ("☃ 漢字 \U0001f600", "☃ 漢字 \U0001f600"),
        ("x" * LONGEST_NOTE, "x" * LONGEST_NOTE),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("'); DROP TABLE episodes; --", "'); DROP TABLE episodes; --"),
    ],
)
def test_notes(mine: World, note: str, kept_as: str) -> None:
    """Any text is kept as it is."""
    answer = mine.post(first(mine) + "/acknowledge", {"note": note})
    assert kept_as == answer.json["episode"]["acknowledged"]["note"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'"x"', 422),
        (b'{"note": 1}', 422),
        (b'{"note": null}', 422),
        (b'{"who": ""}', 422),
        (b'{"who": "' + b"x" * 201 + b'"}', 422),
        (b'{"note": "' + b"x" * (LONGEST_NOTE + 1) + b'"}', 422),
        (b'{"note": "\\ud800"}', 422),
        (b'{"note": "x", "more": 1}', 422),
        (b'{"note": NaN}', 422),
        (b"\xff\xfe", 422),
        (b"\xff", 422),
        (b"[" * 200_000, 422),
    ],
)
def test_bodies_that_are_none(past: World, body: bytes, status: int) -> None:
    """Nothing of them is kept."""
    path = first(past)
    answer = past.send("POST", path + "/acknowledge", headers={"Content-Type": "application/json"}, body=body)
    fault(answer, status)
    assert past.get(path).json["episode"]["acknowledged"] is None


def test_odd_labels(tmp_path: Path) -> None:
    """What the database keeps is what the diagnosis shows."""
    mine = world(odd(), history=kept(tmp_path, odd()))
    shown = {target["target"]["model_name"] for target in mine.get("/diagnose").json["targets"]}
    assert shown == {one["target"]["model_name"] for one in mine.get("/api/v1/history").json["episodes"]}


# --- without a database ----------------------------------------------------------------------------


def test_switched_off() -> None:
    """Empty, with the reason; what would not be kept is refused."""
    mine = world(fleet(), history=NoHistory())
    for path in ("/api/v1/history", "/api/v1/history/events", "/api/v1/history/1"):
        answer = mine.get(path)
        assert (200, False) == (answer.status, answer.json["history"]["enabled"])
        assert "history.enabled" in answer.json["history"]["reason"]
    assert "history.enabled" in fault(mine.post("/api/v1/history/1/acknowledge", {}), 503)


def test_a_database_that_cannot_be_opened(tmp_path: Path) -> None:
    """Diagnoses go on, lists say why they are empty, and a note that is not kept is told."""
    (tmp_path / "palanca.db").write_bytes(b"no database" * 1000)
    from palanca.history.facade import History  # noqa: PLC0415  only here
    from palanca.history.store import HistoryStore  # noqa: PLC0415

    mine = world(fleet(), history=History(HistoryStore(tmp_path / "palanca.db"), lambda: END, lambda: 0.0))
    assert 200 == mine.get("/diagnose").status
    answer = mine.get("/api/v1/history")
    assert (200, False, []) == (answer.status, answer.json["history"]["enabled"], answer.json["episodes"])
    assert "not a database" in answer.json["history"]["reason"]
    assert "not a database" in fault(mine.post("/api/v1/history/1/acknowledge", {}), 503)
    assert "not a database" in fault(mine.post("/api/v1/history/1/acknowledge", {}), 503)


def test_the_error_of_a_database_is_told() -> None:
    """As a problem, not as a fault of ours."""

    class Broken(NoHistory):
        def episodes(self, _: object = None) -> EpisodesDocument:
            raise HistoryError("cannot read the history in x: \ud800")

    assert "cannot read" in fault(world(fleet(), history=Broken()).get("/api/v1/history"), 503)


def test_real_episode(tmp_path: Path) -> None:
    """Of a recording: what was found, with its evidence and recommendations."""
    mine = world(recorded(), history=kept(tmp_path, recorded()))
    (one,) = mine.get("/api/v1/history", "severity=critical").json["episodes"]
    (finding,) = mine.get("/diagnose", "severity=critical").json["targets"][0]["findings"]
    assert finding == one["first"]
    assert isinstance(mine.backend, FakeBackend)
