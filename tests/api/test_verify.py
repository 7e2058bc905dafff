"""Did the change help? Over REST, kept with the episode."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.apps import World, fleet, kept, world
from tests.api.test_diagnose import fault
from tests.recorded import FP8, changed

from palanca.errors import BusyError, SourceError, UsageError
from palanca.history.disabled import NoHistory
from palanca.history.documents import OneEpisodeDocument
from palanca.render import verify as writer
from palanca.verifying import Trial

PATH = "/api/v1/history/1/verify"


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> World:
    """For tests that keep nothing."""
    return world(fleet(), history=kept(tmp_path_factory.mktemp("past"), fleet()))


def test_a_verification_is_kept(tmp_path: Path) -> None:
    """With the episode, whose source, target and rule are what is verified; the same once more adds nothing."""
    mine = world(fleet(), history=kept(tmp_path, fleet()))
    answer = mine.post(PATH, {"change_at": "-20m", "period": "5m"})
    OneEpisodeDocument.model_validate(answer.json)
    episode = mine.get("/api/v1/history/1").json["episode"]
    assert answer.json["episode"] == episode
    assert [writer.document(changed(*FP8))] == [one["document"] for one in episode["verifications"]]
    ((source, target, trial),) = mine.backend.verified
    assert (episode["source"], episode["target"]) == (source, target.as_dict())
    assert Trial(mine.backend.clock - 1200, 300.0, episode["rule"]) == trial
    mine.post(PATH, {})
    assert Trial(None, 600.0, episode["rule"]) == mine.backend.verified[1][2]
    assert 1 == len(mine.get("/api/v1/history/1").json["episode"]["verifications"])
    assert 1 == len(mine.get("/api/v1/history/events", "kind=verified").json["events"])
    assert [200, 200] == [note.status for note in mine.audited]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"change_at": "now"}, "body.change_at: "),
        ({"change_at": 5}, "body.change_at: "),
        ({"period": "29s"}, "body.period: give a duration from 30s to 6h"),
        ({"period": "6h1s"}, "body.period: give a duration from 30s to 6h"),
        ({"period": "long"}, "body.period: "),
        ({"period": ""}, "body.period: "),
        ({"period": "1" * 21}, "body.period: "),
        ({"more": 1}, "body.more: there is no such parameter"),
        ([], "body: "),
    ],
)
def test_wrong_bodies(past: World, body: object, said: str) -> None:
    """Told by key; nothing is asked of a source."""
    before = len(past.backend.verified)
    assert said in fault(past.post(PATH, body))
    assert before == len(past.backend.verified)


@pytest.mark.parametrize(
    ("error", "status"),
    [(BusyError("ask again later"), 503), (SourceError("no answer"), 503), (UsageError("no change was found"), 400)],
)
def test_what_it_can_fail_of(tmp_path: Path, error: Exception, status: int) -> None:
    """As told; nothing is kept."""
    mine = world(fleet(), history=kept(tmp_path, fleet()))
    mine.backend.failure = error
    assert str(error) == fault(mine.post(PATH, {}), status)
    assert [] == mine.get("/api/v1/history/1").json["episode"]["verifications"]


def test_an_episode_that_is_none(past: World) -> None:
    """Not there, or not to be read now."""
    assert "no episode 99" in fault(past.post("/api/v1/history/99/verify", {}), 404)
    assert "history.enabled" in fault(world(fleet(), history=NoHistory()).post(PATH, {}), 503)
    assert "x: there is no such parameter" in fault(
        past.send("POST", PATH, "x=1", headers={"Content-Type": "application/json"}, body=b"{}")
    )
