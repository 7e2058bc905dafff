"""First and last bounds of histograms: few buckets are counted, and what is said is what all of them would say."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from tests.servers import prometheus
from tests.signals.agreement import TOLERANCE, Counted, both, differences

from palanca.check import load_catalogue
from palanca.model import Catalogue, State
from palanca.resources import shipped
from palanca.signals import bounds
from palanca.signals.bounds import FEW_TARGETS, inner_bounds
from palanca.signals.inventory import places
from palanca.signals.leaves import Grid
from palanca.sources.prometheus import Prometheus
from palanca.sources.recording import load

END = 1_800_000_300
STEP = 15
ENGINES = FEW_TARGETS + 5
TTFT, LENGTH = "time_to_first_token_seconds", "request_prompt_tokens"
USUAL = {TTFT: ("0.1", "0.5", "1.0", "5.0"), LENGTH: ("1.0", "10.0", "100.0")}
LONGER = {**USUAL, "request_prompt_tokens": ("1.0", "10.0", "100.0", "1000.0")}
SHORTER = {**USUAL, "time_to_first_token_seconds": ("0.1", "0.5", "1.0")}
FINER = {**USUAL, "time_to_first_token_seconds": ("0.1", "0.5", "0.7", "1.0", "5.0")}
APART = {**USUAL, "time_to_first_token_seconds": ("0.05", "0.2", "20.0")}
LACKING = {"request_prompt_tokens": USUAL["request_prompt_tokens"]}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue([shipped("rules")])


def text(special: dict[int, dict[str, tuple[str, ...]]], others: Collection[int] = ()) -> str:
    """OpenMetrics of engines with the usual bounds, save some; what is observed lies beyond the last one.

    ``others`` have another prefix.
    """
    lines = (
        line
        for at in range(ENGINES)
        for line in engine(at, special.get(at, USUAL), "ray_vllm_" if at in others else "vllm:")
    )
    return "\n".join([*lines, "# EOF\n"])


def engine(at: int, layout: dict[str, tuple[str, ...]], prefix: str = "vllm:") -> Iterator[str]:
    own = f'job="vllm",instance="engine-{at}:8000",model_name="m",engine="0"'
    times = range(END - 300, END + 1, STEP)
    yield from (f"{prefix}num_requests_running{{{own}}} 1 {time}" for time in times)
    for name, finite in layout.items():
        for le in (*finite, "+Inf"):
            share = {(name, finite[0]): 0.1, (name, "+Inf"): 1.0, (LENGTH, "200.0"): 1.0}.get((name, le), 0.2)
            for time in times:
                yield f'{prefix}{name}_bucket{{{own},le="{le}"}} {(time - END + 300) * share} {time}'
        yield from (f"{prefix}{name}_count{{{own}}} {time - END + 300} {time}" for time in times)
        yield from (f"{prefix}{name}_sum{{{own}}} {time - END + 300} {time}" for time in times)


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


ACROSS = {TTFT: ("0.1", "0.5", "200.0", "500.0"), LENGTH: ("1.0", "10.0", "100.0")}
FURTHER = {**ACROSS, LENGTH: ("1.0", "10.0", "100.0", "200.0")}
WITHIN = {TTFT: ("0.5", "1.0"), LENGTH: ("10.0",)}


@pytest.mark.parametrize(
    ("special", "others"),
    [
        pytest.param(
            {**dict.fromkeys(range(ENGINES), ACROSS), 7: FURTHER}, [], id="further by an inner bound of another"
        ),
        pytest.param(dict.fromkeys(range(5), WITHIN), range(5), id="a prefix whose bounds are inner ones"),
        pytest.param({0: WITHIN, 1: USUAL}, range(2), id="engines of that prefix differ"),
        pytest.param(dict.fromkeys(range(9), LONGER), range(9), id="a prefix that reaches further"),
        pytest.param({at: (LONGER, WITHIN)[at % 2] for at in range(ENGINES)}, range(0, ENGINES, 3), id="both mixed"),
    ],
)
@pytest.mark.parametrize("few", [FEW_TARGETS, ENGINES])
def test_histograms_that_share_names_and_bounds(
    special: dict[int, dict[str, tuple[str, ...]]],
    others: Collection[int],
    few: int,
    tmp_path: Path,
    catalogue: Catalogue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bounds of one histogram say nothing of another, nor those of one prefix of the next."""
    monkeypatch.setattr(bounds, "FEW_TARGETS", few)
    path = tmp_path / "fleet.om"
    path.write_text(text(special, others))
    with prometheus(path, tmp_path / "server") as url, Prometheus(url) as client:
        words, worst = differences(*both(catalogue, client, load(path), Grid(END, 1, STEP)))
    assert ([], True) == (words, worst <= TOLERANCE)


def test_few_targets_are_read_at_once(tmp_path: Path, catalogue: Catalogue) -> None:
    """One question is enough for them."""
    path = tmp_path / "few.om"
    path.write_text("\n".join([*engine(0, USUAL), *engine(1, LONGER), "# EOF\n"]))
    with prometheus(path, tmp_path / "server") as url, Prometheus(url) as client:
        queries = Counted(client)
        assert [] == differences(*both(catalogue, queries, load(path), Grid(END, 1, STEP)))[0]
    assert 1 == sum(query.startswith("count by (__name__, le)") for query in queries.texts)


def test_inner_bounds(catalogue: Catalogue) -> None:
    """A bound is an inner one where it lies within every histogram of its name, however it is written."""
    known = places(catalogue.metrics)
    one, other = "vllm:time_to_first_token_seconds", "ray_vllm_time_to_first_token_seconds"
    assert {TTFT: {"2", "3.0"}} == inner_bounds({one: ["1.0", "2", "3.0", "4"]}, known)
    assert {TTFT: {"2"}} == inner_bounds({one: ["1.0", "2", "3.0", "4"], other: ["1", "2", "3"]}, known)
    lengths = {"request_prompt_tokens": {"3"}}
    assert {TTFT: {"2"}} | lengths == inner_bounds({one: ["1", "2", "3"], f"vllm:{LENGTH}": ["2", "3", "4"]}, known)
    assert {TTFT: set()} == inner_bounds({one: ["1", "2"]}, known)
    assert {} == inner_bounds({}, known)
