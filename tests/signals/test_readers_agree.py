"""The bar: PromQL at a real Prometheus and numpy on the samples give the same readings."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.servers import prometheus
from tests.signals import worlds
from tests.signals.agreement import TOLERANCE, Counted, both, differences

from palanca.check import load_catalogue
from palanca.model import Catalogue, State, Target
from palanca.resources import shipped
from palanca.signals import bounds
from palanca.signals.leaves import Grid
from palanca.sources.prometheus import Prometheus
from palanca.sources.recording import load

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("*.om.gz"))
STEPS = 20
MOST_QUERIES = 40


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue([shipped("rules")])


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def grids(begin: float, end: float) -> list[Grid]:
    """20 instants over a recording; some of them alone; the end and what follows it, until all is stale."""
    step = max(round((end - begin) / STEPS, 3), 1.0)
    whole = Grid(end, STEPS, step)
    return [whole, *(Grid(float(at), 1, step) for at in whole.times[1::6]), Grid(end + 900, 10, 120)]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".om.gz"))
def test_recordings(path: Path, folder: Path, catalogue: Catalogue) -> None:
    """Every signal of every recording: values within 1e-6, the same states, targets and versions."""
    store = load(path)

    with prometheus(path, folder) as url, Prometheus(url) as client:
        for grid in grids(*store.span()):
            for window in (None, 60.0) if grid.steps > 1 else (None,):
                queries = Counted(client)
                words, worst = differences(*both(catalogue, queries, store, grid, window=window))

                assert [] == words
                assert worst <= TOLERANCE
                assert len(queries.texts) <= MOST_QUERIES
        assert ("ok", ()) == (client.info().state, client.info().warnings)


def test_buckets_that_relabelling_drops(folder: Path, catalogue: Catalogue) -> None:
    """A histogram is known by its count: means stay, quantiles are lacking, in both readers."""
    path = folder / "without.om"
    lines = gzip.decompress(RECORDINGS[0].read_bytes()).decode().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "_bucket{" not in line))
    store = load(path)
    grid = Grid(store.span()[1], STEPS, 5)

    with prometheus(path, folder / "server") as url, Prometheus(url) as client:
        asked, computed = both(catalogue, client, store, grid)

    assert ([], True) == (differences(asked, computed)[0], differences(asked, computed)[1] <= TOLERANCE)
    last = {name: State(int(one.states[0, -1])) for name, one in asked.signals.items()}
    assert (State.OK, State.ABSENT) == (last["ttft_mean"], last["ttft_p99"])


@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(world=worlds.worlds, data=st.data())
def test_worlds(world: list[worlds.Server], data: st.DataObject) -> None:
    """Resets, gaps, late starts, churn, engines, pids, copies, old and new names, all prefixes: the same readings."""
    catalogue = load_catalogue([shipped("rules")])
    labels = data.draw(st.sampled_from([{"job": "vllm"}, {"note": 'a "b" \\ ü|x'}, {"model_name": "org/new"}]))
    few = patch.object(bounds, "FEW_TARGETS", data.draw(st.sampled_from([0, bounds.FEW_TARGETS])))
    with tempfile.TemporaryDirectory() as name, few:
        path = Path(name) / "world.om"
        path.write_text(worlds.text(world))
        store = load(path)
        end = worlds.BEGIN + worlds.SPAN
        with prometheus(path, Path(name) / "server") as url, Prometheus(url) as client:
            for grid in (Grid(end, STEPS, 90), Grid(end - 700.125, 1, 15), Grid(end + 400, 1, 15)):
                for window, matchers in ((None, {}), (120.0, labels)):
                    queries = Counted(client)
                    made = both(catalogue, queries, store, grid, window=window, matchers=matchers)

                    words, worst = differences(*made)
                    assert [] == words
                    assert worst <= TOLERANCE
                    assert len(queries.texts) <= MOST_QUERIES


ELSEWHERE = """\
up{job="node",instance="n:9100"} 1 1800000000
up{job="vllm",instance="down:8000"} 0 1800000000
vllm:num_requests_running{job="vllm",instance="a:8000",model_name="m"} 1 1800000000
up{job="vllm",instance="a:8000"} 1 1800000000
http_requests_total{job="node",instance="a:8000",status="2xx",method="GET",handler="/"} 5 1800000000
# EOF
"""


@pytest.mark.parametrize(
    ("matchers", "expected"),
    [
        ({}, {"a:8000"}),
        ({"job": "vllm"}, {"a:8000", "down:8000"}),
        ({"model_name": "m"}, {"a:8000"}),
        ({"job": "x"}, set()),
    ],
)
def test_up_without_vllm_series(
    matchers: dict[str, str], expected: set[str], folder: Path, catalogue: Catalogue
) -> None:
    """An ``up`` series alone is a target where it fits --match; another job's servers never are."""
    path = folder / "up.om"
    path.write_text(ELSEWHERE)
    grid = Grid(1_800_000_010, 1, 15)

    with prometheus(path, folder / "server") as url, Prometheus(url) as client:
        asked, computed = both(catalogue, client, load(path), grid, matchers=matchers)

    assert expected == {target.get("instance") for target in asked.targets}
    assert all(isinstance(target, Target) for target in asked.targets)
    if matchers:
        assert ([], 0.0) == differences(asked, computed)
