"""Recorded quantiles: read where they say the same as the buckets, and never where they might not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from tests.engines import RECORDINGS, shipped
from tests.recorded import AT, store
from tests.servers import Recorded as Evaluated
from tests.servers import prometheus
from tests.signals.agreement import TOLERANCE, Counted, differences

from palanca.alerting.group import documents
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options, matchers
from palanca.alerting.quantiles import recordings
from palanca.model import SourceInfo, Target
from palanca.poll import Question, run
from palanca.signals.leaves import Grid
from palanca.signals.queries import PromQLReader
from palanca.signals.readings import read
from palanca.signals.recorded import DIGEST, GROUP, SELECTED, Recorded, missing_engines
from palanca.signals.store import Series
from palanca.sources.prometheus import Prometheus
from palanca.sources.server import PrometheusSource

NAMES = sorted(path.name.removesuffix(".om.gz") for path in RECORDINGS.glob("*.om.gz"))
INTERVAL = 15.0
INFO = SourceInfo("test", "")
A = Target.of({"job": "vllm", "instance": "a:8000"})
B = Target.of({"job": "vllm", "instance": "b:8000"})
END_MS = 1_800_000_000_000


def rule_file(folder: Path, options: Options | None = None) -> Path:
    """The exported recording rules that read metrics and not each other, in one group: so all are of one moment."""
    rules = [
        rule
        for group in documents(Matrix(shipped(), options or Options()))
        if group["name"] in {"palanca", "palanca-quantiles"}
        for rule in group["rules"]  # type: ignore[attr-defined]
        if "record" in rule and "palanca:" not in rule["expr"]
    ]
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "interval": f"{INTERVAL:g}s", "rules": rules}]}))
    return path


def moment(client: Prometheus, at: float) -> float:
    """The newest moment, not after ``at``, at which the rules were evaluated."""
    (row, *_) = client.query(f"{recordings(shipped()).definitions}[30m]", at)
    return float(row.times[-1]) / 1000


@pytest.mark.parametrize("name", NAMES)
def test_the_same_readings_and_findings(name: str, tmp_path: Path) -> None:
    """Over every recording: equal values, states and windows at moments of evaluation, and equal findings.

    Between them a recorded quantile is that of the evaluation before, so findings are those of then or of now.
    """
    first, last = store(name).span()
    at, known = AT.get(name, last - 20), recordings(shipped())
    evaluated = Evaluated(rule_file(tmp_path), first, last)
    text = RECORDINGS / f"{name}.om.gz"
    with prometheus(text, tmp_path / "server", recorded=evaluated) as url, Prometheus(url) as client:
        steps = max(int((moment(client, at) - first) // INTERVAL) - 1, 1)
        for grid in (Grid(moment(client, at), steps, INTERVAL), Grid(moment(client, at), 1, INTERVAL)):
            counted = Counted(client)
            reader = PromQLReader(counted, shipped(), grid, recordings=known)
            made = read(shipped(), reader, grid, INFO)
            words, worst = differences(made, read(shipped(), PromQLReader(client, shipped(), grid), grid, INFO))
            assert "" == reader.unrecorded
            assert not any("_bucket" in text and "rate(" in text for text in counted.texts)
            assert [] == words
            assert worst <= TOLERANCE

        evaluation = moment(client, at - 20)
        before = found(client, evaluation, recorded=False)
        assert found(client, evaluation, recorded=True) == before
        for later in (4.0, 11.0):
            now = found(client, evaluation + later, recorded=False)
            assert found(client, evaluation + later, recorded=True) in (before, now)


def found(client: Prometheus, at: float, *, recorded: bool) -> tuple[str, list[tuple[str, str, str, str]]]:
    """What a diagnosis of the one engine says at a moment."""
    source = PrometheusSource(client, clock=lambda: at, recorded=recorded)
    (report,) = run(shipped(), source, Question(at=at)).targets
    return report.status, [(one.rule, one.state, one.severity, one.role) for one in report.findings]


def test_engines_that_the_rules_do_not_select(tmp_path: Path) -> None:
    """Recorded for other engines only: everything is read from the buckets."""
    name = "kv-saturated"
    first, last = store(name).span()
    path = rule_file(tmp_path, Options(selector=matchers('instance="other:8000"')))
    with (
        prometheus(RECORDINGS / f"{name}.om.gz", tmp_path / "server", recorded=Evaluated(path, first, last)) as url,
        Prometheus(url) as client,
    ):
        grid = Grid(moment(client, AT[name]), 1, INTERVAL)
        reader = PromQLReader(client, shipped(), grid, recordings=recordings(shipped()))
        made = read(shipped(), reader, grid, INFO)
        assert reader.unrecorded.startswith("1 engines are not among those recorded")
        plain = read(shipped(), PromQLReader(client, shipped(), grid), grid, INFO)
        assert ([], 0.0) == differences(made, plain)


def test_a_window_of_ones_own() -> None:
    """Recorded quantiles are of the windows of the signals, so others are no leaf of theirs."""
    assert all(leaf.window == 300 and leaf.function == "quantile" for leaf in recordings(shipped()).series)


# --- whether they may be read -----------------------------------------------------------------------


def definition(group: str, *, age: float = 5.0, digest: str | None = None, selected: str = "x") -> Series:
    """A group of an interval of 20 s, evaluated for ten minutes up to ``age`` seconds before the end."""
    labels = {GROUP: group, DIGEST: digest or recordings(shipped()).digest, SELECTED: selected}
    times = END_MS - round(age * 1000) - np.arange(30, -1, -1) * 20_000
    return Series("", labels, times, np.full(times.size, 20.0))


GROUPS = sorted(recordings(shipped()).groups)


def why(*rows: Series, steps: int = 1, uncovered: tuple[Target, ...] = ()) -> str:
    times = END_MS - np.arange(steps - 1, -1, -1) * 15_000
    return Recorded(recordings(shipped()), rows, uncovered).why_not(times)


def test_fresh_and_complete() -> None:
    both = [definition(group) for group in GROUPS]
    assert "" == why(*both)
    assert "" == why(*both, steps=40)
    assert "" == why(*both, *(definition(group, selected="y") for group in GROUPS))
    assert "" == why(*both, definition(GROUPS[0], age=60, digest="an older one"))


def test_nothing_recorded() -> None:
    assert why().startswith("it records none")


@pytest.mark.parametrize("age", [51.0, 400.0])
def test_too_old(age: float) -> None:
    """A group is late after two and a half of its intervals."""
    rows = [definition(GROUPS[0]), definition(GROUPS[1], age=age)]
    assert f"the group {GROUPS[1]} of rules was not evaluated in time" in why(*rows)


def test_not_recorded_for_all_of_the_time() -> None:
    """A range that began before the recording is read from the buckets as a whole."""
    both = [definition(group) for group in GROUPS]
    assert "was not evaluated in time" in why(*both, steps=42)


def test_other_definitions() -> None:
    """One group of another version is enough, for nobody knows of which engines it is."""
    both = [definition(group) for group in GROUPS]
    assert "another version" in why(*both, definition("palanca", digest="0123", selected="y"))


def test_groups_of_different_engines() -> None:
    rows = [definition(GROUPS[0]), definition(GROUPS[1]), definition(GROUPS[1], selected="y")]
    assert "select different engines" in why(*rows)


def test_engines_that_are_missing() -> None:
    both = [definition(group) for group in GROUPS]
    assert "2 engines are not among those recorded, the first: instance=a:8000 job=vllm" == why(*both, uncovered=(B, A))


def beats(*ages: float) -> NDArray[np.float64]:
    return END_MS / 1000 - np.array(sorted(ages, reverse=True))


@pytest.mark.parametrize(
    ("heartbeat", "missing"),
    [({A: beats(100, 50)}, ()), ({A: beats(100), B: beats(100)}, (B,)), ({A: beats(100), B: beats(4)}, ()), ({}, (B,))],
)
def test_who_is_missing(heartbeat: Mapping[Target, NDArray[np.float64]], missing: object) -> None:
    """An engine that began after the newest evaluation cannot have been recorded; one without a heartbeat counts."""
    wanted = [A, B] if B in heartbeat or not heartbeat else [A]
    rows = [definition(GROUPS[0]), definition(GROUPS[1])._replace(times=definition(GROUPS[1]).times - 1000)]
    assert missing == missing_engines(wanted, {A}, heartbeat, rows)
