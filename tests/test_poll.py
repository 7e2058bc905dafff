"""One cycle: from a source to a diagnosis."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from tests.engines import END, RECORDINGS, catalogue, rule, shipped
from tests.recorded import AT
from tests.servers import prometheus

from palanca.errors import NoTargetsError, SourceError
from palanca.facts import INFERENCE_SIGNALS
from palanca.model import Catalogue, SourceInfo, Target
from palanca.poll import INTERVAL_S, LOOKBACK_S, Opened, Question, Stretch, grid_for, run, series
from palanca.render.document import to_json
from palanca.signals.leaves import Discovery, Grid, Leaf, Values
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore, Series
from palanca.sources.prometheus import Prometheus
from palanca.sources.recording import RecordingSource
from palanca.sources.server import PrometheusSource

LABELS = {"job": "vllm", "instance": "a:8000", "model_name": "m", "engine": "0"}


@dataclass
class Fake:
    """A source of series in memory that remembers what it was asked."""

    series: list[Series]
    questions: list[Question] = field(default_factory=list)
    costly: bool = False

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        self.questions.append(question)
        grid = grid_for(catalogue, END if question.at is None else question.at)
        reader = SampleReader(SampleStore(self.series), catalogue.metrics, grid)
        return Opened(reader, grid, lambda: SourceInfo("fake", "here"), costly=self.costly)


class Broken:
    """A source that cannot be read."""

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        raise SourceError("the cable is out")


def gauge(name: str, value: float, seconds: float = 900.0) -> Series:
    times = np.round((END - np.arange(seconds, -1, -5.0)) * 1000).astype(np.int64)
    return Series(name, LABELS, times, np.full(len(times), value))


def busy() -> Fake:
    return Fake([gauge("vllm:num_requests_running", 4.0), gauge("vllm:kv_cache_usage_perc", 0.9)])


@pytest.mark.parametrize(
    ("duration", "span"),
    [("0s", 600.0), ("3m", 600.0), ("10m", 600.0), ("20m", 1200.0), ("11m10s", 675.0), ("10m1s", 615.0)],
)
def test_the_grid_reaches_as_far_as_the_longest_duration(duration: str, span: float) -> None:
    """A rule can fire whatever its duration, also one that is no multiple of the interval."""
    grid = grid_for(catalogue(rule(**{"for": duration})), END)
    assert END == grid.times[-1]
    assert span == grid.times[-1] - grid.times[0]
    assert {INTERVAL_S} == set(np.diff(grid.times))


def test_a_grid_without_rules() -> None:
    """Without rules the grid is as long as the lookback."""
    assert LOOKBACK_S / INTERVAL_S + 1 == grid_for(catalogue(), END).steps


def test_a_long_duration_fires() -> None:
    """A duration beyond the lookback can be reached."""
    made = run(catalogue(rule(**{"for": "11m10s"})), busy(), Question())
    assert ["firing"] == [one.state for one in made.targets[0].findings]


def test_a_cycle() -> None:
    """The source is asked once, and what it has is judged at its last step."""
    source = busy()
    question = Question(at=END - 60.0)
    made = run(catalogue(rule()), source, question)
    assert [question] == source.questions
    assert END - 60.0 == made.time
    assert SourceInfo("fake", "here") == made.source
    assert ["a-rule"] == [one.rule for one in made.targets[0].findings]
    assert {**LABELS} == made.targets[0].target.as_dict()


def test_flags_and_objectives_reach_the_facts() -> None:
    """What the operator gave is a fact of every target."""
    question = Question(flags={"--max-num-seqs": "64"}, objectives={"slo.ttft_p99": 0.2})
    facts = run(catalogue(rule()), busy(), question).targets[0].facts
    assert (64.0, "given") == (facts["max_num_seqs"].value, facts["max_num_seqs"].provenance)
    assert (0.2, "given") == (facts["slo.ttft_p99"].value, facts["slo.ttft_p99"].provenance)


def test_the_window_replaces_those_of_the_signals() -> None:
    """``window`` is the window of every signal that has one."""
    signals = run(shipped(), busy(), Question(window=60.0)).targets[0].signals
    assert (60.0, 60.0) == (signals["running"].window_s, signals["kv_cache_usage"].window_s)
    signals = run(shipped(), busy(), Question()).targets[0].signals
    assert (120.0, 300.0) == (signals["running"].window_s, signals["kv_cache_usage"].window_s)


@pytest.mark.parametrize("series", [[], [gauge("node_load1", 1.0)]])
def test_nothing_to_judge(series: list[Series]) -> None:
    """A source without vLLM series is told as such."""
    with pytest.raises(NoTargetsError, match=r"^here has no vLLM series for what was asked$"):
        run(shipped(), Fake(series), Question())


def test_a_broken_source() -> None:
    """Errors of the source pass through."""
    with pytest.raises(SourceError, match="the cable is out"):
        run(shipped(), Broken(), Question())


@dataclass
class Costly:
    """A recording that is read as a Prometheus is: one instant first, then the past of what holds."""

    path: Path

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        return replace(RecordingSource(self.path).open(question, catalogue), costly=True)


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.om.gz")), ids=lambda path: path.name)
@pytest.mark.parametrize("back", [0.0, 45.0, 70.0])
def test_two_steps_give_the_same_diagnosis(path: Path, back: float) -> None:
    """Reading the past only of what holds now leaves out nothing that matters."""
    catalogue = shipped()
    newest = RecordingSource(path).open(Question(), catalogue).grid.end
    question = Question(at=newest - back)

    expected = to_json(run(catalogue, RecordingSource(path), question))
    assert expected == to_json(run(catalogue, Costly(path), question))


Asked = tuple[frozenset[str] | None, frozenset[str] | None]
"""Signals and instances that a reader was made for."""


@dataclass
class Narrow:
    """A reader that has values of no engines but those it was asked for."""

    series: list[Series]
    grid: Grid
    asked: list[Asked]
    instances: frozenset[str] | None = None

    def _reader(self, instances: frozenset[str] | None) -> SampleReader:
        kept = [one for one in self.series if instances is None or one.labels["instance"] in instances]
        return SampleReader(SampleStore(kept), shipped().metrics, self.grid)

    def discover(self) -> Discovery:
        return self._reader(None).discover()

    def at(
        self, grid: Grid, signals: Collection[str] | None = None, targets: Collection[Target] | None = None
    ) -> Narrow:
        instances = None if targets is None else frozenset(one.get("instance") for one in targets)
        self.asked.append((None if signals is None else frozenset(signals), instances))
        return Narrow(self.series, grid, self.asked, instances)

    def leaf(self, leaf: Leaf) -> Values:
        return self._reader(self.instances).leaf(leaf)


@dataclass
class Fleet(Fake):
    """Several engines, read narrowly."""

    asked: list[Asked] = field(default_factory=list)

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        opened = super().open(question, catalogue)
        return replace(opened, reader=Narrow(self.series, opened.grid, self.asked), costly=True)


def engines(usage: Mapping[str, float]) -> list[Series]:
    """Engines with these shares of the KV cache in use, by instance."""
    made = []
    for instance, value in usage.items():
        for name, shown in (("vllm:num_requests_running", 4.0), ("vllm:kv_cache_usage_perc", value)):
            one = gauge(name, shown)
            made.append(Series(name, {**LABELS, "instance": instance}, one.times, one.values))
    return made


@pytest.mark.parametrize(
    ("when", "asked"),
    [
        ("kv_cache_usage > half", {"a:8000", "c:8000"}),
        ("kv_cache_usage > half and fleet_max(kv_cache_usage) > half", {"a:8000", "b:8000", "c:8000", "d:8000"}),
    ],
)
def test_the_past_of_engines_where_a_rule_holds(when: str, asked: set[str]) -> None:
    """Others are not read, save where a rule compares engines; the diagnosis is the same."""
    scope = "model" if "fleet" in when else "target"
    known = catalogue(rule(when=when, scope=scope))
    series = engines({"a:8000": 0.9, "b:8000": 0.2, "c:8000": 0.7, "d:8000": 0.1})
    narrow = Fleet(series)
    made = run(known, narrow, Question())

    past = (frozenset({"kv_cache_usage"}), frozenset(asked))
    assert {(None, None), (frozenset(INFERENCE_SIGNALS), None)} == set(narrow.asked[:2])
    assert [past] == narrow.asked[2:]
    assert to_json(run(known, Fake(series), Question())) == to_json(made)
    assert {"firing"} == {one.state for report in made.targets for one in report.findings}


def test_only_rules_that_compare_engines_look_at_the_past_of_others() -> None:
    """Each kind of rule asks for its own signals at its own engines."""
    known = catalogue(
        rule(id="one", when="kv_cache_usage > half"),
        rule(id="two", when="running > half and running >= fleet_max(running)", scope="model"),
    )
    narrow = Fleet(engines({"a:8000": 0.9, "b:8000": 0.2, "c:8000": 0.7}))
    made = run(known, narrow, Question())

    assert [
        (frozenset({"kv_cache_usage"}), frozenset({"a:8000", "c:8000"})),
        (frozenset({"running"}), frozenset({"a:8000", "b:8000", "c:8000"})),
    ] == narrow.asked[2:]
    assert to_json(run(known, Fake(narrow.series), Question())) == to_json(made)


# --- a stretch of signals --------------------------------------------------------------------------


def test_a_stretch_is_the_same_from_a_real_server(tmp_path: Path) -> None:
    """A recording and a Prometheus over it say the same at each step, and only what is asked for is read."""
    target = {"job": "vllm", "instance": "127.0.0.1:8000"}
    stretch = Stretch(
        ("kv_cache_usage", "preemptions_per_minute"), AT["kv-saturated"], span=240.0, steps=13, patience=9.0
    )
    recording = RecordingSource(RECORDINGS / "kv-saturated.om.gz")
    mine = series(shipped(), recording, target, stretch)
    with prometheus(RECORDINGS / "kv-saturated.om.gz", tmp_path / "server") as url, Prometheus(url) as client:
        source = PrometheusSource(client, clock=lambda: AT["kv-saturated"])
        theirs = series(shipped(), source, target, stretch)
        asked = source.asked.queries
    assert set(stretch.signals) == set(mine.signals) == set(theirs.signals)
    assert mine.targets == theirs.targets
    assert (13, 20.0) == (len(theirs.times), round(theirs.times[1] - theirs.times[0], 3))
    for name in stretch.signals:
        np.testing.assert_allclose(mine.signals[name].values, theirs.signals[name].values, rtol=1e-6)
    assert asked < 20, asked


def test_a_stretch_of_nobody() -> None:
    """Is an error that says so."""
    with pytest.raises(NoTargetsError):
        series(shipped(), Fake([]), {}, Stretch(("running",), END))


# --- a server that loads little --------------------------------------------------------------------


def test_a_server_that_loads_few_samples(tmp_path: Path) -> None:
    """What is too much for it is asked in parts; the diagnosis is that of a server that loads more."""
    recording, question = RECORDINGS / "kv-saturated.om.gz", Question(at=AT["kv-saturated"])
    told, asked = [], []
    for most in (50_000_000, 700):
        options = [f"--query.max-samples={most}"]
        with prometheus(recording, tmp_path / f"{most}", options=options) as url, Prometheus(url) as client:
            source = PrometheusSource(client, clock=lambda: AT["kv-saturated"])
            diagnosis = run(shipped(), source, question)
            told.append(to_json(replace(diagnosis, source=SourceInfo("p", ""))))
            asked.append(source.asked.queries)
    assert told[0] == told[1]
    assert asked[0] < asked[1]
