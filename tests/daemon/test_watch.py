"""One source, polled again and again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.daemon.fakes import KV, Clock, Recorded, watching
from tests.recorded import AT

from palanca.daemon.fleet import View, with_labels
from palanca.errors import NoTargetsError, SourceError, UsageError
from palanca.model import Target
from palanca.poll import Stretch


def test_a_poll() -> None:
    """The diagnosis is of the last moment of the grid, and the view has it."""
    source = Recorded(Clock())
    watch = watching(source)
    poll = watch.poll()
    assert ("ok", source.clock()) == (poll.result, poll.began)
    assert poll.view is watch.view
    assert watch.view.diagnosis is not None
    assert source.clock() // 30 * 30 == watch.view.diagnosis.time
    assert ["a-rule"] == [one.rule for one in watch.view.diagnosis.targets[0].findings]


def test_a_failure_keeps_what_was_known() -> None:
    """The last diagnosis stays, and the reason is told; the next success clears it."""
    source = Recorded(Clock())
    watch = watching(source)
    known = watch.poll().view.diagnosis
    source.failure = SourceError("refused")
    poll = watch.poll()
    assert ("error", "refused", known) == (poll.result, poll.view.error, poll.view.diagnosis)
    source.failure, source.clock.now = None, source.clock.now + 30
    poll = watch.poll()
    assert ("ok", None) == (poll.result, poll.view.error)


def test_a_fault_of_palanca_is_told_too() -> None:
    """What nobody foresaw does not leave an old diagnosis standing as if it were new."""
    source = Recorded(Clock())
    watch = watching(source)
    known = watch.poll().view.diagnosis
    source.failure = ZeroDivisionError("of a rule")
    poll = watch.poll()
    assert ("error", known, source.failure) == (poll.result, poll.view.diagnosis, poll.fault)
    assert "a fault of palanca, please report it: ZeroDivisionError('of a rule')" == poll.view.error
    source.failure = None
    assert ("ok", None) == ((poll := watch.poll()).result, poll.fault)


def test_a_source_without_targets_is_no_failure() -> None:
    """It answers, and there is nothing to judge."""
    source = Recorded(Clock(), failure=NoTargetsError("no vLLM series"))
    watch = watching(source)
    poll = watch.poll()
    assert poll.result == "no-targets"
    assert poll.view.diagnosis is not None
    assert ((), ("no vLLM series",)) == (poll.view.diagnosis.targets, poll.view.diagnosis.source.warnings)
    assert poll.view.info(source.clock()).state == "ok"


def test_engines_are_not_gone_at_the_first_empty_answer() -> None:
    """A Prometheus that lost its data has none until it has scraped; an answer with engines begins the count anew."""
    source = Recorded(Clock())
    watch = watching(source)
    known = watch.poll().view.diagnosis
    for _ in range(2):
        source.failure = NoTargetsError("no vLLM series")
        results = [watch.poll().result for _ in range(2)]
        assert ["error", "error"] == results
        assert known is not None
        assert watch.view.diagnosis is not None
        assert [one.target for one in known.targets] == [one.target for one in watch.view.diagnosis.targets]
        assert "no vLLM series; the engines seen before are believed gone after 3 polls" in str(watch.view.error)
        source.failure = None
        source.clock.now += 30
        assert watch.poll().result == "ok"
    source.failure = NoTargetsError("no vLLM series")
    assert ["error", "error", "no-targets"] == [watch.poll().result for _ in range(3)]
    assert watch.view.diagnosis is not None
    assert () == watch.view.diagnosis.targets


def test_a_source_in_trouble_is_asked_half_as_often() -> None:
    """After three failures every second poll is left out; a success ends that."""
    source = Recorded(Clock(), failure=SourceError("refused"))
    watch = watching(source)
    due = []
    for _ in range(8):
        due.append(watch.due())
        if due[-1]:
            watch.poll()
        source.clock.now += 30
    assert [True, True, True, False, True, False, True, False] == due
    source.failure = None
    watch.poll()
    assert [True, True, True] == [watch.due() for _ in range(3)]


def test_a_poll_that_took_long_is_rest_enough() -> None:
    """A server that hangs is asked again as soon as that has ended: it may have recovered long ago."""
    source = Recorded(Clock(), failure=SourceError("no answer"))
    watch = watching(source)
    for _ in range(4):
        watch.poll()
    assert not watch.due()
    source.clock.now += 60
    assert watch.due()


def test_a_fresh_diagnosis_of_the_past() -> None:
    """It leaves the view alone."""
    source = Recorded(Clock())
    watch = watching(source, cluster="eu")
    view = watch.fresh(AT[KV] - 60.0)
    assert watch.view.diagnosis is None
    assert view.diagnosis is not None
    assert AT[KV] - 60.0 == pytest.approx(view.diagnosis.time)


@pytest.mark.parametrize(
    ("failure", "error"), [(SourceError("refused"), "refused"), (NoTargetsError("none"), None)], ids=["failed", "empty"]
)
def test_a_fresh_diagnosis_that_fails(failure: SourceError, error: str | None) -> None:
    """The reason is a result."""
    view = watching(Recorded(Clock(), failure=failure)).fresh(None)
    assert error == view.error
    assert (view.diagnosis is None) == (error is not None)


def test_a_moment_that_a_source_cannot_know() -> None:
    """It is told apart from a failure: another source may know it."""
    source = Recorded(Clock())
    source.failure = UsageError("it is in the future")
    view = watching(source).fresh(4e9)
    assert (True, "it is in the future", None) == (view.impossible, view.error, view.diagnosis)


def test_labels_are_added() -> None:
    """A recorded diagnosis has the labels of its source."""
    watch = watching(Recorded(Clock()), cluster="eu")
    diagnosis = watch.poll().view.diagnosis
    assert diagnosis is not None
    (report,) = watch.labelled(diagnosis).targets
    assert report.target.get("cluster") == "eu"
    assert Target.of({**diagnosis.targets[0].target.as_dict(), "cluster": "eu"}) == report.target


def test_another_watch_goes_on() -> None:
    """After a reload the last diagnosis is still there, under the new interval and labels."""
    old = watching(Recorded(Clock()))
    old.poll()
    new = watching(Recorded(Clock(), url="http://other"), interval=60.0, cluster="eu")
    new.resume(old)
    assert replace(old.view, url="http://other", interval=60.0, labels={"cluster": "eu"}) == new.view
    assert isinstance(new.view, View)


# --- a stretch of time -----------------------------------------------------------------------------


def test_a_stretch_of_one_engine() -> None:
    """The signals that are asked for, at the moments that are asked for, with the labels of the source."""
    source = Recorded(Clock())
    made = watching(source, cluster="eu")
    poll = made.poll()
    assert poll.view.diagnosis is not None
    target = with_labels(poll.view.diagnosis.targets[0].target, {"cluster": "eu"})
    stretch = Stretch(("kv_cache_usage",), source.clock(), span=300.0, steps=11, patience=3.0)
    found = made.series(target, stretch)
    assert (target,) == found.targets
    assert {"kv_cache_usage"} == set(found.signals)
    assert (11, 30.0) == (len(found.times), found.times[1] - found.times[0])
    assert source.clock() == found.times[-1]
    last = poll.view.diagnosis.targets[0].signals["kv_cache_usage"].value
    assert found.signals["kv_cache_usage"].values[0, -1] == pytest.approx(last, rel=0.05)
    assert 3.0 == source.questions[-1].patience
    assert "cluster" not in source.questions[-1].matchers


def test_whose_target_it_is() -> None:
    """That of a source that knows it, then of one whose labels it has."""
    made = watching(Recorded(Clock()), cluster="eu")
    gone = Target.of({"job": "other", "cluster": "eu"})
    assert 1 == made.strangeness(gone)
    made.poll()
    assert made.view.diagnosis is not None
    own = made.view.diagnosis.targets[0].target
    assert [0, 2, 1] == [made.strangeness(one) for one in (with_labels(own, {"cluster": "eu"}), own, gone)]
