"""What a direct scrape of each release can say: 23 pages through parser, discovery and readings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.engines import shipped

from palanca.model import Readings, SourceInfo, State
from palanca.releases import Release
from palanca.signals.leaves import Grid
from palanca.signals.readings import read
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore, Series
from palanca.sources.exposition import ExpositionParser

EXPOSITION = Path(__file__).parents[1] / "data" / "exposition"
TEXTS = sorted(EXPOSITION.rglob("*.txt"))
NAMES = [path.stem for path in TEXTS]
CATALOGUE = shipped()
LACKING = {State.ABSENT, State.NOT_APPLICABLE}

NEVER_ON_A_PAGE = {"up", "up_avg"}
"""Prometheus, or palanca, writes these."""
NEED_A_PAST = {name for name, signal in CATALOGUE.signals.items() if signal.offset or name.endswith("_growth")}
NEED_TRAFFIC = {"http_5xx", "http_5xx_share"}
"""HTTP series appear with the first request of their kind."""
NEED_MORE_DRAFTS = {f"acceptance_pos_{position}" for position in range(3, 8)}
"""The pages were made with drafts of three tokens."""
UNCERTAIN_ENGINE = {"0.7.1-v1"}
"""V1 had no label of its own then, and what its page lacks V0 has."""


def release_of(name: str) -> tuple[str, str]:
    found = re.match(r"(.*)-(v[01])(-hidden)?$", name)
    assert found is not None
    return found[1], found[2]


@cache
def readings(name: str, prefix: str = "vllm:", release: str | None = None, labels: str = "") -> Readings:
    """Two scrapes of a page 15 s apart; with a prefix of another front, and the release that the server reports."""
    text = next(path for path in TEXTS if path.stem == name).read_text(encoding="utf-8").replace("vllm:", prefix)
    if labels:
        text = text.replace("{", "{" + labels + ",")
    times = np.array([985_000, 1_000_000])
    store = SampleStore(
        Series(one.name, {**one.labels, "job": "scrape", "instance": "a:8000"}, times, np.array([one.value, one.value]))
        for one in ExpositionParser().parse(text.encode()).samples
    )
    grid = Grid(1000.0, 1, 15.0)
    reader = SampleReader(store, CATALOGUE.metrics, grid)
    releases = {"a:8000": release} if release else {}
    return read(CATALOGUE, reader, grid, SourceInfo("test", "test"), longest=15.0, releases=releases)


def states(made: Readings) -> dict[str, State]:
    return {name: State(int(one.states[0, -1])) for name, one in made.signals.items()}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_on_the_page_is_read_and_nothing_else(name: str) -> None:
    """A signal has a number, or is idle, where a series of its family is there; else it is lacking."""
    page = next(path for path in TEXTS if path.stem == name).read_text(encoding="utf-8")
    shown = set(re.findall(r"^(?:vllm:)?([a-zA-Z0-9_]+)(?=[{ ])", page, flags=re.MULTILINE))
    found = states(readings(name))
    for signal_name, signal in CATALOGUE.signals.items():
        plain = signal.family and not (signal.fallback or signal.or_gauge or signal.where or signal.present)
        if not plain or signal_name in NEED_A_PAST:
            continue
        families = [CATALOGUE.metrics.families[one] for one in (signal.family, signal.per) if one]
        there = all(
            any(one.name + ("_bucket" if family.type == "histogram" else "") in shown for one in family.names)
            for family in families
        )
        assert there == (found[signal_name] not in LACKING), signal_name


@pytest.mark.parametrize("name", NAMES)
def test_with_the_release_reported_what_is_lacking_is_not_applicable(name: str) -> None:
    """The catalogue explains every signal that a complete page of a release does not have."""
    release, engine = release_of(name)
    made = readings(name, release=release)
    absent = {signal for signal, state in states(made).items() if state is State.ABSENT}

    if name not in UNCERTAIN_ENGINE:
        assert set() == absent - NEVER_ON_A_PAGE - NEED_A_PAST - NEED_TRAFFIC - NEED_MORE_DRAFTS
    version = made.versions[0]
    assert version is not None
    assert (Release(release), "reported") == (Release(version.first), version.provenance)
    assert version.first == version.last
    assert engine in version.engines


@pytest.mark.parametrize("name", NAMES)
def test_without_it_the_range_has_the_true_release(name: str) -> None:
    """And no signal is called impossible that this release has."""
    release, engine = release_of(name)
    made = readings(name)
    version = made.versions[0]

    assert version is not None
    assert Release(version.first) <= Release(release) <= Release(version.last)
    assert engine in version.engines
    certain = states(readings(name, release=release))
    impossible = {signal for signal, state in states(made).items() if state is State.NOT_APPLICABLE}
    assert impossible <= {signal for signal, state in certain.items() if state is State.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("prefix", "labels"),
    [("ray_vllm_", 'ReplicaId="r1",WorkerId="w1"'), ("kserve_vllm:", ""), ("vllm_", 'otel_scope_name="vllm"')],
)
@pytest.mark.parametrize("name", NAMES)
def test_other_fronts_say_the_same(name: str, prefix: str, labels: str) -> None:
    """Ray, KServe and a collector rename the metrics; signals, release range and engine stay."""
    plain, renamed = readings(name), readings(name, prefix=prefix, labels=labels)

    assert states(plain) == states(renamed)
    assert plain.versions == renamed.versions
    assert [set(one.as_dict()) for one in plain.targets] == [
        set(one.as_dict()) - {"ReplicaId", "WorkerId", "otel_scope_name"} for one in renamed.targets
    ]
    assert all(full.startswith(prefix) for full in renamed.names if "num_requests_running" in full)


@pytest.mark.parametrize(
    ("name", "signal", "expected"),
    [
        ("0.4.3-v0", "e2e_p99", State.IDLE),
        ("0.4.3-v0", "queue_time_p99", State.NOT_APPLICABLE),  # from 0.6.4 on
        ("0.6.6-v0", "acceptance_length", State.NOT_APPLICABLE),  # V0's counters of speculation are others
        ("0.6.6-v0", "prefix_hit_rate", State.OK),  # the gauge of V0
        ("0.7.3-v1", "preemptions_per_minute", State.NOT_APPLICABLE),  # V1 from 0.8.0 on
        ("0.7.3-v1", "prefix_hit_rate", State.IDLE),
        ("0.10.2-v1", "tpot_p99", State.NOT_APPLICABLE),  # from 0.11.0 on
        ("0.11.0-v1", "kv_cache_usage", State.OK),  # under its new name
        ("0.12.0-v1", "itl_p99", State.IDLE),
        ("0.16.0-v1", "waiting_deferred", State.NOT_APPLICABLE),  # from 0.20.0 on
        ("0.24.0-v1", "waiting_deferred", State.OK),
        ("0.33.0-v1", "admission_rejections", State.OK),
    ],
)
def test_signals_that_come_and_go(name: str, signal: str, expected: State) -> None:
    """What the notes of the catalogue say of a release."""
    assert expected == states(readings(name, release=release_of(name)[0]))[signal]
