"""Several sources as one diagnosis, and what time does to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from palanca.daemon.fleet import View, aged, labelled, left_out, merged
from palanca.model import Diagnosis, SourceInfo, Status, Target, TargetReport

NOW = 1_800_000_000.0


def report(status: Status = "ok", **labels: str) -> TargetReport:
    return TargetReport(Target.of(labels or {"instance": "a:1"}), status, None, {}, {}, (), (), (), {})


def view(name: str = "eu", *reports: TargetReport, ago: float = 10.0, **changes: Any) -> View:  # noqa: ANN401  fields of all types
    diagnosis = Diagnosis(NOW - ago, SourceInfo("x", "http://x"), reports)
    return replace(View(name, f"http://{name}", 30.0, diagnosis), **changes)


def test_a_source_that_answers() -> None:
    """State and warnings are those of the diagnosis, the age is that of its moment."""
    assert SourceInfo("eu", "http://eu", "ok", 10.0) == view().info(NOW)


def test_a_source_before_its_first_poll() -> None:
    """Nothing is known: unreachable, with the reason."""
    info = View("eu", "http://eu", 30.0).info(NOW)
    assert ("unreachable", None, "not polled yet") == (info.state, info.age_s, info.error)


@pytest.mark.parametrize(
    ("ago", "error", "state"),
    [(10.0, None, "ok"), (75.0, None, "ok"), (75.1, None, "stale"), (10.0, "refused", "stale"), (-5.0, None, "ok")],
)
def test_when_a_source_is_stale(ago: float, error: str | None, state: str) -> None:
    """After a failed poll at once; without one when two polls are missing. A clock set back makes no negative age."""
    info = view(ago=ago, error=error).info(NOW)
    assert state == info.state
    assert max(ago, 0.0) == info.age_s
    assert (state == "stale") == (info.error is not None)


@pytest.mark.parametrize(
    ("before", "after"),
    [("ok", "unknown"), ("idle", "unknown"), ("unknown", "unknown"), ("warning", "warning"), ("critical", "critical")],
)
def test_what_was_well_some_time_ago_is_unknown(before: Status, after: Status) -> None:
    """Unknown is never ok; what was wrong is still worth knowing."""
    assert after == aged(report(before)).status
    assert after == merged([view("eu", report(before), error="refused")], NOW).targets[0].status


def test_what_a_part_of_the_data_leaves_out() -> None:
    """What is there is as it is now, what is not as it was, and what was well is unknown; in order."""
    a, b, c, d = (report("ok", instance=name) for name in "abcd")
    part = Diagnosis(NOW, SourceInfo("x", "http://x", "partial"), (replace(b, status="warning"),))
    known = replace(view("eu", a, b, replace(c, status="critical")), left_out=(d,))
    known = replace(known, diagnosis=part, left_out=left_out(part, known))
    assert ["unknown", "warning", "critical", "unknown"] == [one.status for one in merged([known], NOW).targets]
    assert ["b"] == [one.target.get("instance") for one in part.targets]


def test_labels_are_added_and_never_replaced() -> None:
    """The name of the cluster tells engines of several sources apart."""
    bare, own = report(instance="a:1"), report(instance="a:1", cluster="own")
    assert Target.of({"instance": "a:1", "cluster": "eu"}) == labelled(bare, {"cluster": "eu"}).target
    assert own is labelled(own, {"cluster": "eu"})


def test_several_sources_are_one_diagnosis() -> None:
    """Targets of all of them in order; the worst state, the greatest age, every error with its source."""
    made = merged(
        [
            view("eu", report(instance="b:1"), labels={"cluster": "eu"}),
            view("us", report(instance="a:1"), labels={"cluster": "us"}, ago=20.0, error="refused"),
        ],
        NOW,
    )
    assert ["eu", "us"] == [one.target.get("cluster") for one in made.targets]
    assert ["ok", "unknown"] == [one.status for one in made.targets]
    assert NOW - 10.0 == made.time
    source = made.source
    assert ("eu, us", "stale", 20.0, "us: refused") == (source.name, source.state, source.age_s, source.error)
    assert ["ok", "stale"] == [one.state for one in made.sources]


def test_a_target_that_two_sources_know() -> None:
    """Two replicas of a Prometheus: the one in the better state is believed, whichever stands first."""
    stale, good = view("a", report("critical"), error="refused"), view("b", report("warning"))
    for views in ([stale, good], [good, stale]):
        made = merged(views, NOW)
        assert ["warning"] == [one.status for one in made.targets]


def test_no_source_has_answered() -> None:
    """The moment is now, and nothing is said of any target."""
    made = merged([View("eu", "http://eu", 30.0)], NOW)
    assert (NOW, (), "unreachable") == (made.time, made.targets, made.source.state)
