"""First and last bounds of histograms: few buckets are counted, and what is said is what all of them would say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import prometheus
from tests.signals.agreement import TOLERANCE, Counted, both, differences

from palanca.check import load_catalogue
from palanca.model import Catalogue, State
from palanca.resources import shipped
from palanca.signals.bounds import FEW_TARGETS, inner_bounds
from palanca.signals.leaves import Grid
from palanca.sources.prometheus import Prometheus
from palanca.sources.recording import load

END = 1_800_000_300
STEP = 15
ENGINES = FEW_TARGETS + 5
USUAL = {"time_to_first_token_seconds": ("0.1", "0.5", "1.0", "5.0"), "request_prompt_tokens": ("1.0", "10.0", "100.0")}
LONGER = {**USUAL, "request_prompt_tokens": ("1.0", "10.0", "100.0", "1000.0")}
SHORTER = {**USUAL, "time_to_first_token_seconds": ("0.1", "0.5", "1.0")}
FINER = {**USUAL, "time_to_first_token_seconds": ("0.1", "0.5", "0.7", "1.0", "5.0")}
APART = {**USUAL, "time_to_first_token_seconds": ("0.05", "0.2", "20.0")}
LACKING = {"request_prompt_tokens": USUAL["request_prompt_tokens"]}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue([shipped("rules")])


def text(special: dict[int, dict[str, tuple[str, ...]]]) -> str:
    """OpenMetrics of engines with the usual bounds, save some; what is observed lies beyond the last one."""
    return "\n".join([*(line for at in range(ENGINES) for line in engine(at, special.get(at, USUAL))), "# EOF\n"])


def engine(at: int, bounds: dict[str, tuple[str, ...]]) -> Iterator[str]:
    own = f'job="vllm",instance="engine-{at}:8000",model_name="m",engine="0"'
    times = range(END - 300, END + 1, STEP)
    yield from (f"vllm:num_requests_running{{{own}}} 1 {time}" for time in times)
    for name, finite in bounds.items():
        for le in (*finite, "+Inf"):
            share = {finite[0]: 0.1, "+Inf": 1.0}.get(le, 0.2)
            for time in times:
                yield f'vllm:{name}_bucket{{{own},le="{le}"}} {(time - END + 300) * share} {time}'
        yield from (f"vllm:{name}_count{{{own}}} {time - END + 300} {time}" for time in times)
        yield from (f"vllm:{name}_sum{{{own}}} {time - END + 300} {time}" for time in times)


@pytest.mark.parametrize(
    ("special", "whole"),
    [
        pytest.param({}, [], id="all alike"),
        pytest.param({7: LONGER}, [], id="one reaches further"),
        pytest.param(dict.fromkeys(range(0, ENGINES, 2), LONGER), [], id="half of them reach further"),
        pytest.param({7: SHORTER}, ["time_to_first_token_seconds"], id="one ends sooner"),
        pytest.param({7: FINER}, [], id="one has another within"),
        pytest.param({0: FINER, 24: SHORTER}, ["time_to_first_token_seconds"], id="the first has another within"),
        pytest.param({7: APART}, ["time_to_first_token_seconds"], id="one has others"),
        pytest.param({7: LACKING}, [], id="one lacks a histogram"),
        pytest.param(dict.fromkeys(range(1, ENGINES), LACKING), [], id="only one has a histogram"),
        pytest.param(
            {at: (LONGER, SHORTER, FINER, APART, LACKING)[at % 5] for at in range(ENGINES)}, None, id="all differ"
        ),
    ],
)
def test_as_if_all_buckets_were_read(
    special: dict[int, dict[str, tuple[str, ...]]], whole: list[str] | None, tmp_path: Path, catalogue: Catalogue
) -> None:
    """The same states as from the samples; all buckets of a histogram are counted only where its ends differ."""
    path = tmp_path / "fleet.om"
    path.write_text(text(special))
    grid = Grid(END, 1, STEP)

    with prometheus(path, tmp_path / "server") as url, Prometheus(url) as client:
        queries = Counted(client)
        asked, computed = both(catalogue, queries, load(path), grid)

    words, worst = differences(asked, computed)
    assert ([], True) == (words, worst <= TOLERANCE)
    assert ENGINES == len(asked.targets)
    beyond = [State(int(one)) for one in asked.signals["prompt_length_p99"].states[:, -1]]
    assert [State.LOWER_BOUND] * ENGINES == beyond
    layout, *counts = [query for query in queries.texts if query.startswith("count by (__name__, le)")]
    assert "instance" in layout
    assert 'le!~"' in counts[0]
    everything = [query for query in counts[1:] if 'le!~"' not in query]
    assert len(counts) - 1 == len(everything) <= 1
    if whole is not None:
        assert whole == [name for name in USUAL for query in everything if name in query]


def test_few_targets_are_read_at_once(tmp_path: Path, catalogue: Catalogue) -> None:
    """One question is enough for them."""
    path = tmp_path / "few.om"
    path.write_text("\n".join([*engine(0, USUAL), *engine(1, LONGER), "# EOF\n"]))
    with prometheus(path, tmp_path / "server") as url, Prometheus(url) as client:
        queries = Counted(client)
        assert [] == differences(*both(catalogue, queries, load(path), Grid(END, 1, STEP)))[0]
    assert 1 == sum(query.startswith("count by (__name__, le)") for query in queries.texts)


def test_inner_bounds() -> None:
    """A bound that is the first or last of any histogram is none, however it is written."""
    assert {"2", "3.0"} == inner_bounds({"a": ["1.0", "2", "3.0", "4"], "b": ["4.0", "5"], "c": ["1"]})
    assert set() == inner_bounds({"a": ["1", "2"]})
    assert set() == inner_bounds({})
