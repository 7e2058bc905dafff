"""Which names targets have: counted where all of them do, listed where only some."""

from __future__ import annotations

import numpy as np
import pytest

from palanca.check import load_catalogue
from palanca.model import Catalogue, Target
from palanca.resources import shipped
from palanca.signals.identity import Identities
from palanca.signals.inventory import ALIKE_TAG, NAME_TAG, Selection, alike, common_names, places
from palanca.signals.store import Columns, Series

RUNNING, WAITING, TTFT = "num_requests_running", "num_requests_waiting", "time_to_first_token_seconds"
ENGINES = [{"job": "v", "instance": f"{name}:8000"} for name in "abc"]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue([shipped("rules")])


def rows(*found: tuple[dict[str, str], float]) -> Columns:
    return Columns.of([Series("", labels, np.array([0], dtype=np.int64), np.array([value])) for labels, value in found])


def common(
    catalogue: Catalogue, counts: dict[str, int], *, histograms: int = 3
) -> tuple[dict[str, set[str]], set[str], list[str]]:
    """What is found where three engines have gauges and so many of them histograms."""
    metrics = catalogue.metrics
    families = [metrics.families[name] for name in (RUNNING, WAITING, "time_to_first_token")]
    groups = alike(families, Selection({"job": "v"}).of)
    counted = rows(*(({NAME_TAG: name}, float(count)) for name, count in counts.items()))
    kinds = {one.families[0].type: str(at) for at, one in enumerate(groups)}
    having = [*(({**one, ALIKE_TAG: kinds["gauge"]}, 1.0) for one in ENGINES)]
    having += [({**one, ALIKE_TAG: kinds["histogram"]}, 1.0) for one in ENGINES[:histograms]]
    names, full, texts = common_names(groups, counted, rows(*having), places(metrics), Identities(), "1h")
    assert {Target.of(one) for one in ENGINES} == set(names)
    return {target.get("instance")[0]: own for target, own in names.items()}, full, texts


def test_names_that_all_have(catalogue: Catalogue) -> None:
    """Nothing has to be listed; a histogram is known by its count."""
    found = common(catalogue, {f"vllm:{RUNNING}": 3, f"vllm:{WAITING}": 3, f"vllm:{TTFT}_count": 2}, histograms=2)
    both = {RUNNING, WAITING}
    assert {"a": both | {TTFT}, "b": both | {TTFT}, "c": both} == found[0]
    assert {f"vllm:{RUNNING}", f"vllm:{WAITING}", f"vllm:{TTFT}"} == found[1]
    assert [] == found[2]


def test_names_that_some_have(catalogue: Catalogue) -> None:
    """They are listed, by the very names that there are, and nothing else is."""
    found = common(
        catalogue,
        {f"vllm:{RUNNING}": 2, f"ray_vllm_{RUNNING}": 1, f"vllm:{WAITING}": 3, f"vllm:{TTFT}_count": 1},
    )
    assert {"a": {WAITING}, "b": {WAITING}, "c": {WAITING}} == found[0]
    assert {f"vllm:{RUNNING}", f"ray_vllm_{RUNNING}", f"vllm:{WAITING}", f"vllm:{TTFT}"} == found[1]
    histograms, gauges = sorted(found[2], key=lambda text: RUNNING in text)
    assert f'{{__name__="vllm:{TTFT}_count", job="v"}}[1h]' in histograms
    assert f'{{__name__=~"ray_vllm_{RUNNING}|vllm:{RUNNING}", job="v"}}[1h]' in gauges


def test_names_of_no_family(catalogue: Catalogue) -> None:
    """A proxy that tells more than was asked for is not believed."""
    found = common(catalogue, {f"vllm:{RUNNING}": 3, "node_load1": 3, "": 3, "process_cpu_seconds_total": 3})
    assert {"a": {RUNNING}, "b": {RUNNING}, "c": {RUNNING}} == found[0]
    assert ({f"vllm:{RUNNING}"}, []) == found[1:]
