"""Burn rates: where an objective snaps to, and that the bounds are those of the releases."""

from __future__ import annotations

import re

import pytest
from tests.engines import ROOT, shipped

from palanca.alerting import names, objectives
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options, Override, release_range
from palanca.releases import Release

EXPOSITIONS = sorted((ROOT / "tests" / "data" / "exposition").glob("*.txt"))
BUCKET = re.compile(r'^vllm:(\w+)_bucket\{[^}]*le="([0-9.e+]+)"')


@pytest.mark.parametrize("path", EXPOSITIONS, ids=lambda path: path.stem)
def test_bounds_are_those_of_the_release(path: object) -> None:
    """Every exposition of a release has the bounds that objectives snap to."""
    text = path.read_text()  # type: ignore[attr-defined]
    release = release_range(re.match(r"[0-9.]+[0-9]", path.stem)[0], shipped().metrics)  # type: ignore[attr-defined,index]
    found: dict[str, set[float]] = {}
    for line in text.splitlines():
        one = BUCKET.match(line)
        if one is not None:
            found.setdefault(one[1], set()).add(float(one[2]))
    compared = 0
    for family in ("time_to_first_token", "inter_token_latency"):
        for name in shipped().metrics.families[family].names:
            if name.name in found and name.name != "time_per_output_token_seconds":
                bounds = {objectives.snapped(family, bound, release) for bound in found[name.name]}
                assert bounds == found[name.name], name.name
                compared += 1
    assert compared or "inter_token_latency_seconds" not in found


@pytest.mark.parametrize(
    ("objective", "releases", "expected"),
    [
        (1.0, "all", 1.0),
        (0.9, "all", 0.75),
        (15.0, "all", 10.0),
        (30.0, "all", 20.0),
        (30.0, "0.8.4+", 20.0),
        (30.0, "0.8.3", 10.0),
        (0.0005, "all", None),
    ],
)
def test_snapped(objective: float, releases: str, expected: float | None) -> None:
    """Down to the next bound of the newest of the chosen releases; none below the first one."""
    assert expected == objectives.snapped("time_to_first_token", objective, release_range(releases, shipped().metrics))


def test_lacking() -> None:
    """Coarser releases are not judged at a bound far below the objective."""
    assert {"0.4.0-0.8.3": 2.5} == objectives.lacking("inter_token_latency", 80.0, None)
    assert {} == objectives.lacking("inter_token_latency", 0.2, None)
    assert {} == objectives.lacking("inter_token_latency", 80.0, release_range("0.33", shipped().metrics))


def test_the_alert_says_which() -> None:
    """In its description and in a label; who set an objective is woken up by it."""
    options = Options(overrides=(Override({"model_name": "a"}, slo={"ttft_p99": 0.9}),))
    group = objectives.group(Matrix(shipped(), options))
    assert group is not None
    mine = [one for one in group.alerts if one.labels.get(names.OVERRIDE) == 'model_name="a"']
    assert ["critical", "critical", "warning", "warning"] == [one.labels[names.SEVERITY] for one in mine]
    assert {"0.75"} == {one.labels[names.OBJECTIVE] for one in mine}
    assert all("the objective of 0.9 s snaps to the bucket le=0.75" in one.annotations["description"] for one in mine)
    others = [one for one in group.alerts if one not in mine]
    assert {"warning", "info"} == {one.labels[names.SEVERITY] for one in others}
    assert 12 == len(group.alerts)


def test_nothing_to_judge() -> None:
    """An objective below the first bound, rules that were not chosen, releases without the histogram."""
    low = Options(overrides=(Override({}, slo={"ttft_p99": 0.0001, "itl_p99": 0.0001}),))
    assert objectives.group(Matrix(shipped(), low)) is None
    assert ["VllmItlBudgetBurn", "VllmTtftBudgetBurn"] == sorted(objectives.unjudged(Matrix(shipped(), low)))
    assert {} == objectives.unjudged(Matrix(shipped(), Options()))
    assert objectives.group(Matrix(shipped(), Options(rules=("kv-*",)))) is None


def test_both_names_of_the_inter_token_latency() -> None:
    """Old and new releases side by side, and whole bounds written either way."""
    group = objectives.group(Matrix(shipped(), Options()))
    assert group is not None
    itl = next(rule.expr for rule in group.rules if "itl" in getattr(rule, "record", ""))
    assert "inter_token_latency_seconds_bucket" in itl
    assert "time_per_output_token_seconds_bucket" in itl
    ttft = next(rule.expr for rule in group.rules if "ttft" in getattr(rule, "record", ""))
    assert r'le=~"1|1\\.0"' in ttft
    assert Release("0.33.0") in (release_range("0.33", shipped().metrics) or [])
