"""Own metrics: every name and label, whatever the engines are called, as the real tools read them."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.daemon.fakes import Clock, Recorded, watching
from tests.engines import ROOT, shipped
from tests.render.builders import bad_report, diagnosis, one_saturated, report, saturated, target, unknown
from tests.servers import tool

from palanca import __version__
from palanca.alerting import names
from palanca.alerting.group import groups
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options
from palanca.daemon.fleet import View
from palanca.daemon.snapshot import Snapshot, taken
from palanca.daemon.watch import Poll, Watch
from palanca.model import Diagnosis, SourceInfo, Target, TargetReport
from palanca.sources.prometheus import Asked
from palanca.telemetry import SOURCE_STATES, STATUSES, Telemetry, shown_labels

NOW = one_saturated().time + 7.0
HOSTILE = 'a"b\\c\nd{}\x00é漢\ud800'
DOCS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class Counting(Recorded):
    """A source that counts its questions."""

    asked: Asked = field(default_factory=Asked)


def telemetry() -> Telemetry:
    return Telemetry(lambda: NOW)


def published(*diagnoses: Diagnosis) -> Telemetry:
    made = telemetry()
    for number, one in enumerate(diagnoses):
        made.published(taken(one, number))
    return made


def one_finding(engine: Target) -> TargetReport:
    return replace(bad_report(), target=engine, findings=(saturated(),))


def polled(made: Telemetry, watch: Watch, result: str = "ok", began: float = NOW - 3, seconds: float = 0.3) -> None:
    view = View(watch.name, watch.source.url, 30.0)
    made.polled(watch, Poll(began, seconds, result, view))  # type: ignore[arg-type]


def series(made: Telemetry, name: str = "palanca_") -> Series:
    """What a parser reads; no series stands there twice."""
    found: Series = {}
    for family in text_string_to_metric_families(made.text().decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            if sample.name.startswith(name) and not sample.name.endswith("_created"):
                found[key] = sample.value
    return found


def value(made: Telemetry, name: str, **labels: str) -> float | None:
    return series(made).get((name, frozenset(labels.items())))


def checked(made: Telemetry) -> str:
    """What the real tool complains about."""
    done = subprocess.run(
        [tool("promtool"), "check", "metrics"], input=made.text(), check=False, capture_output=True, timeout=30
    )
    return (done.stdout + done.stderr).decode()


def everything() -> Telemetry:
    """All there is, once."""
    made = published(diagnosis(bad_report(), report(1), unknown(2)))
    watch = watching(Counting(Clock(), asked=Asked(3, 40, 500)), name="prometheus")
    polled(made, watch)
    made.skipped("prometheus")
    made.served("GET", "/diagnose", 200, 0.004)
    made.history(up=True)
    made.notified("slack", "sent")
    return made


# --- names and labels ----------------------------------------------------------------------------


def documented() -> dict[str, tuple[str, list[str]]]:
    """Type and labels of each metric in the table of the documentation."""
    rows = re.findall(r"^\| `(palanca_\w+)` \| (\w+) \| (.*?) \|", DOCS, re.MULTILINE)
    assert rows
    return {name: (kind, re.findall(r"`(\w+)`", labels)) for name, kind, labels in rows}


def test_every_metric_is_documented_with_its_labels() -> None:
    """The table and the registry say the same; the engine's own labels come on top of those of a finding."""
    found: dict[str, tuple[str, set[str]]] = {}
    for family in everything().registry.collect():
        if not family.name.startswith("palanca_"):
            continue
        name = {"counter": f"{family.name}_total", "info": f"{family.name}_info"}.get(family.type, family.name)
        assert family.samples, name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = (family.type, labels - (set(target().as_dict()) if name == "palanca_finding_active" else set()))
    assert {name: (kind, set(labels)) for name, (kind, labels) in documented().items()} == found


def test_nothing_has_series_before_it_is_known() -> None:
    """A gauge that says 0 of what nobody has looked at yet would call people at night."""
    names = {name for name, _ in series(telemetry())}
    assert {"palanca_build_info", "palanca_config_last_reload_successful"} == names


def test_the_tools_have_nothing_to_complain_about() -> None:
    """Neither with everything in it nor with nothing."""
    assert "" == checked(everything())
    assert "" == checked(telemetry())


def test_version() -> None:
    """As the program says it."""
    assert 1 == value(telemetry(), "palanca_build_info", version=__version__)


def test_alerts_on_palanca_are_rules_over_metrics_that_exist() -> None:
    """The exported ones name documented metrics only, and the page tells of each."""
    (group,) = [one for one in groups(Matrix(shipped(), Options())) if one.name == names.ITSELF_GROUP]
    used = {name for alert in group.alerts for name in re.findall(r"palanca_\w+", alert.expr)}
    assert used
    assert {re.sub("_(count|bucket|sum)$", "", name) for name in used} <= set(documented())
    assert all(alert.alert in DOCS for alert in group.alerts)


# --- what is told ----------------------------------------------------------------------------------


def test_polls() -> None:
    """Counted by source and result, and timed."""
    made, watch = telemetry(), watching(Recorded(Clock()), name="eu")
    for result in ("ok", "error", "ok"):
        polled(made, watch, result, seconds=0.3)
    assert 2 == value(made, "palanca_polls_total", source="eu", result="ok")
    assert 1 == value(made, "palanca_polls_total", source="eu", result="error")
    assert 3 == value(made, "palanca_poll_duration_seconds_count", source="eu")
    assert 0 == value(made, "palanca_poll_duration_seconds_bucket", source="eu", le="0.25")
    assert 3 == value(made, "palanca_poll_duration_seconds_bucket", source="eu", le="0.5")


def test_last_success_is_not_moved_by_an_error() -> None:
    """An empty source has answered."""
    made, watch = telemetry(), watching(Recorded(Clock()), name="eu")
    polled(made, watch, "no-targets", began=100.0)
    polled(made, watch, "error", began=130.0)
    assert 100 == value(made, "palanca_source_last_success_timestamp_seconds", source="eu")


def test_skipped_polls() -> None:
    """Counted by source."""
    made = telemetry()
    made.skipped("eu")
    assert 1 == value(made, "palanca_polls_skipped_total", source="eu")


def test_questions_go_on_over_a_reload() -> None:
    """The new client counts from 0; the counters never fall."""
    made = telemetry()
    old, new = Counting(Clock(), asked=Asked(3, 40, 500)), Counting(Clock(), asked=Asked(1, 2, 3))
    polled(made, watching(old, name="eu"))
    old.asked = Asked(4, 50, 600)
    polled(made, watching(old, name="eu"))
    assert 4 == value(made, "palanca_source_queries_total", source="eu")
    polled(made, watching(new, name="eu"))
    assert 5 == value(made, "palanca_source_queries_total", source="eu")
    assert 52 == value(made, "palanca_source_series_total", source="eu")
    assert 603 == value(made, "palanca_source_samples_total", source="eu")


def test_a_removed_source_is_forgotten() -> None:
    """Else its last success would grow old for ever."""
    made = telemetry()
    for name in ("eu", "us"):
        polled(made, watching(Counting(Clock()), name=name))
    info = SourceInfo("eu", "http://eu")
    made.published(taken(Diagnosis(NOW, info, (), (info,)), 1))
    assert NOW - 3 == value(made, "palanca_source_last_success_timestamp_seconds", source="eu")
    assert value(made, "palanca_source_last_success_timestamp_seconds", source="us") is None
    assert value(made, "palanca_source_queries_total", source="us") is None
    assert value(made, "palanca_source_state", source="us", state="ok") is None


@pytest.mark.parametrize("state", SOURCE_STATES)
def test_state_of_a_source(state: str) -> None:
    """One of the states is 1."""
    info = SourceInfo("eu", "http://eu", state)  # type: ignore[arg-type]
    made = published(Diagnosis(NOW, info, (), (info,)))
    assert {one: float(one == state) for one in SOURCE_STATES} == {
        one: value(made, "palanca_source_state", source="eu", state=one) for one in SOURCE_STATES
    }


def test_age_of_the_diagnosis() -> None:
    """From its moment to now; a clock that was set back makes it 0; without a diagnosis there is none."""
    assert 7 == value(published(one_saturated()), "palanca_diagnosis_age_seconds")
    assert 0 == value(published(replace(one_saturated(), time=NOW + 60)), "palanca_diagnosis_age_seconds")
    dead = SourceInfo("eu", "http://eu", "unreachable", None)
    assert value(published(Diagnosis(NOW, dead, (), (dead,))), "palanca_diagnosis_age_seconds") is None


def test_targets_by_status() -> None:
    """All of them, also those with none."""
    made = published(diagnosis(bad_report(), report(1), report(2), unknown(3)))
    assert {"critical": 1, "warning": 0, "unknown": 1, "idle": 0, "ok": 2} == {
        status: value(made, "palanca_targets", status=status) for status in STATUSES
    }


def test_rules_that_cannot_be_judged() -> None:
    """Engines are counted by rule."""
    made = published(diagnosis(unknown(0), unknown(1)))
    found = {dict(labels)["rule"]: count for (_, labels), count in series(made, "palanca_rules_unknown").items()}
    assert {one.rule: 2.0 for one in unknown(0).unknown} == found


def test_findings_come_and_go() -> None:
    """With the labels of their engine; what has ended has no series."""
    made = published(diagnosis(one_finding(target())))
    ((_, labels),) = series(made, "palanca_finding_active")
    assert target().as_dict().items() <= dict(labels).items()
    wanted = {"rule": "kv-cache-saturated", "severity": "critical", "cause": "kv-capacity", "state": "firing"}
    assert wanted.items() <= dict(labels).items()
    made.published(taken(diagnosis(report()), 2))
    assert {} == series(made, "palanca_finding_active")


def test_answers() -> None:
    """By route and status; a caller cannot make series by inventing methods."""
    made = telemetry()
    made.served("GET", "/diagnose", 200, 0.004)
    for number in range(50):
        made.served(f"M{number}", "other", 404, 0.001)
    name = "palanca_http_request_duration_seconds_count"
    assert 1 == value(made, name, method="GET", route="/diagnose", status="200")
    assert 50 == value(made, name, method="other", route="other", status="404")
    assert 2 == len(series(made, name))


@pytest.mark.parametrize("up", [True, False])
def test_history(up: bool) -> None:
    """1 or 0."""
    made = telemetry()
    made.history(up=up)
    assert float(up) == value(made, "palanca_history_up")


def test_reloads() -> None:
    """The newest counts."""
    made = telemetry()
    assert 1 == value(made, "palanca_config_last_reload_successful")
    made.reloaded(successful=False)
    assert 0 == value(made, "palanca_config_last_reload_successful")
    made.reloaded(successful=True)
    assert 1 == value(made, "palanca_config_last_reload_successful")


# --- hostile labels ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["job", "model_name"], ["job", "model_name"]),
        (["rule", "severity"], ["exported_rule", "exported_severity"]),
        (["exported_rule", "rule"], ["exported_rule", "exported_rule_2"]),
        (["a.b", "a_b", "a-b"], ["a_b", "a_b_2", "a_b_3"]),
        (["a.b", "a_b", "a_b_2"], ["a_b", "a_b_2", "a_b_2_2"]),
        (["le", "quantile"], ["exported_le", "exported_quantile"]),
        (["__name__", "1st"], ["exported___name__", "exported_1st"]),
        (["é漢", "lemon"], ["exported___", "lemon"]),
    ],
)  # fmt: skip
def test_names_of_labels(names: list[str], shown: list[str]) -> None:
    """Each becomes another one that a gauge may have."""
    assert shown == shown_labels(names)


@pytest.mark.parametrize(
    "labels",
    [
        {"a.b": "1", "a_b": "2", "a-b": "3"},
        {"rule": "x", "exported_rule": "y", "le": "z", "__name__": "n"},
        {"model_name": HOSTILE, "é": HOSTILE},
    ],
)
def test_hostile_labels(labels: Mapping[str, str]) -> None:
    """Two engines that differ in the last label only stay two, and the tools read both."""
    last = list(labels)[-1]
    engines = [target(0, **labels), target(0, **{**labels, last: "other"})]
    made = published(diagnosis(*map(one_finding, engines)))
    assert 2 == len(series(made, "palanca_finding_active"))
    assert "" == checked(made)


def test_engines_with_other_labels_share_a_family() -> None:
    """What an engine lacks is empty, which is the same as not there."""
    made = published(diagnosis(one_finding(target(0)), one_finding(target(1, pod="p"))))
    found = sorted(dict(labels)["pod"] for _, labels in series(made, "palanca_finding_active"))
    assert ["", "p"] == found


def test_reading_beside_writing() -> None:
    """Polls end in other threads while the page is made."""
    made, stop = telemetry(), threading.Event()
    failures: list[BaseException] = []

    def write(name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            polled(made, watching(Counting(Clock()), name=f"{name}{number % 50}"))
            info = SourceInfo(f"{name}{number % 7}", "http://x")
            made.published(Snapshot(Diagnosis(NOW, info, (), (info,)), taken(one_saturated(), 0).json, number))

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            made.text()
    except BaseException as error:  # noqa: BLE001  shown below
        failures.append(error)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [] == failures
