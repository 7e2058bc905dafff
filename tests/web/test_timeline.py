"""What happened, engine by engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.api.apps import kept, world
from tests.engines import shipped
from tests.history.looks import at, engine, firing, look
from tests.recorded import FP8, changed
from tests.render.builders import target
from tests.web.served import QUIET, engines

from palanca.history.documents import EpisodeDocument, EventDocument
from palanca.history.reader import EpisodeQuery
from palanca.history.store import HistoryStore
from palanca.quantities import moment
from palanca.render.verify import document
from palanca.web.timeline import LANE_WIDTH, SPANS, TimelineView, Watched, timeline_view, watched

END = at(200)
"""An hour and a half after the begin."""


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[EpisodeDocument], list[EventDocument]]:
    """Two engines: one is mended by a change and a restart, the other is still in trouble; the source was away."""
    folder: Path = tmp_path_factory.mktemp("timeline")
    store = HistoryStore(folder / "palanca.db")
    one, two = target(0), target(1)

    def record(step: float, *reports: object, **more: object) -> None:
        store.record(at(step), "main", look(step, *reports, **more), {})  # type: ignore[arg-type]

    small, large = {"max_num_seqs": 64.0}, {"max_num_seqs": 96.0}
    record(0, engine(where=one, facts=small, uptime=1000.0), engine(where=two))
    record(10, engine(firing(), where=one, facts=small, uptime=1300.0), engine(where=two))
    record(40, engine(firing(), where=one, facts=small, uptime=2200.0), engine(firing(severity="warning"), where=two))
    record(60, engine(where=one, facts=large, uptime=10.0), engine(firing(severity="warning"), where=two))
    record(70, state="unreachable", error="refused")
    record(80, engine(where=one, facts=large, uptime=610.0), engine(firing(severity="warning"), where=two))
    first = store.episodes(EpisodeQuery(severities=["critical"])).items[0]
    store.acknowledge(first.id, "ana", "rolling out", at(41))
    store.attach_verification(first.id, document(changed(*FP8)), at(90))
    found = [*store.episodes().items], [*store.events().items]
    store.close()
    return found


def view(happened: tuple[list[EpisodeDocument], list[EventDocument]]) -> TimelineView:
    return timeline_view(*happened, (END - SPANS["24h"], END), shipped())


def test_lanes(happened: tuple[list[EpisodeDocument], list[EventDocument]]) -> None:
    """Each engine once, with bars where it was in trouble, to the end where it still is."""
    made = view(happened)
    lanes = {lane.name: lane for lane in made.lanes}
    mended, sick = lanes["llama-3-8b @ 10.0.0.5:8000"], lanes["llama-3-8b @ 10.0.0.6:8000"]
    (bar,) = mended.bars
    scale = LANE_WIDTH / SPANS["24h"]
    assert bar.x == pytest.approx(LANE_WIDTH - (END - at(10)) * scale, abs=0.1)
    assert bar.width == pytest.approx((at(60) - at(10)) * scale, abs=0.2)
    (still,) = sick.bars
    assert still.x + still.width == pytest.approx(LANE_WIDTH)
    assert "still open" in still.text
    assert ("critical", "warning") == (bar.severity, still.severity)


def test_restarts_and_changes_are_marked(happened: tuple[list[EpisodeDocument], list[EventDocument]]) -> None:
    """At their engine, with what changed."""
    lane = next(lane for lane in view(happened).lanes if lane.name.endswith("10.0.0.5:8000"))
    said = {one.what: one.detail for one in lane.events}
    assert {"restarted", "configuration changed", "appeared"} == set(said)
    assert "max_num_seqs 64 -> 96" == said["configuration changed"]
    assert len(lane.events) == len(lane.marks)
    assert "restarted" in lane.description


def test_before_and_after(happened: tuple[list[EpisodeDocument], list[EventDocument]]) -> None:
    """The verification stands beside its episode; who looks after it too."""
    lane = next(lane for lane in view(happened).lanes if lane.name.endswith("10.0.0.5:8000"))
    (row,) = lane.episodes
    assert ("ana: rolling out", "25 min") == (row.looked_after, row.lasted)
    (check,) = row.verified
    assert "helped" == check.verdict
    goals = {title: (before, after) for title, before, after, _ in check.rows}
    assert {"Preemptions per minute", "Requests waiting"} <= set(goals)
    assert "0 preemptions/min" == goals["Preemptions per minute"][1]
    assert row.then.startswith("engine?match=")
    assert "time=" in row.then


def test_sources(happened: tuple[list[EpisodeDocument], list[EventDocument]]) -> None:
    """By themselves."""
    assert [("source is back", ""), ("source unreachable", "refused")] == [
        (one.what, one.detail) for one in view(happened).sources
    ]


def test_overlapping_episodes_lie_below_each_other(
    happened: tuple[list[EpisodeDocument], list[EventDocument]],
) -> None:
    """And those that follow each other beside."""
    first = next(one for one in happened[0] if one.ended is not None)
    second = first.model_copy(update={"id": 99, "rule": "ttft-high"})
    later = first.model_copy(update={"id": 98, "began": first.ended, "ended": None})
    made = timeline_view([first, second, later], [], (END - SPANS["24h"], END), shipped())
    assert [0, 1, 0] == [bar.row for bar in made.lanes[0].bars]


@pytest.mark.parametrize(
    "text",
    ["{}", '{"engines": []}', '{"verdict": "helped", "engines": [{"signals": null}]}',
     '{"engines": [{"signals": [{"signal": "x", "before": null, "after": 1}]}]}'],
)  # fmt: skip
def test_verifications_of_other_releases(
    happened: tuple[list[EpisodeDocument], list[EventDocument]], text: str
) -> None:
    """What they lack is left out."""
    episode = next(one for one in happened[0] if one.verifications)
    old = episode.verifications[0].model_copy(update={"document": json.loads(text)})
    made = timeline_view([episode.model_copy(update={"verifications": (old,)})], [], (END - 1e6, END), shipped())
    assert () == made.lanes[0].episodes[0].verified[0].rows


@pytest.mark.parametrize(
    ("begin", "gap", "some"),
    [(None, "Nothing has been recorded yet.", False), (0.0, "", True), (100.0, "", True),
     (150.0, "Not watched before 1970-01-01 00:02:30 UTC.", True),
     (200.0, "Not watched before 1970-01-01 00:03:20 UTC.", False)],
)  # fmt: skip
def test_what_was_not_watched(begin: float | None, gap: str, some: bool) -> None:
    """Is told, where the stretch from 100 to 200 begins before the history."""
    assert Watched(gap, some) == watched(begin, (100.0, 200.0))


def test_pages_tell_it(tmp_path: Path) -> None:
    """Nothing is said to have not happened before the history begins."""
    quiet = engines(QUIET)
    first = quiet.time - 600
    made = world(quiet, history=kept(tmp_path, replace(quiet, time=first), quiet))
    for path, query, words in (
        ("/timeline", "model=another", "Nothing happened since:"), ("/engine", "", "No episode since."),
    ):  # fmt: skip
        text = made.get(path, query).text
        assert f"Not watched before {moment(first)}." in text
        assert words in text
        before = made.get(path, f"{query}&time={first - 60:.0f}").text
        assert "Not watched before" in before
        assert "Nothing happened" not in before
        assert "No episode" not in before


def test_nothing() -> None:
    """No lane."""
    assert ((), ()) == (view(([], [])).lanes, view(([], [])).sources)
