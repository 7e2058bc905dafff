"""Recorded series as text: names by release and prefix, joins, bounds, fallbacks."""

from __future__ import annotations

import re

import pytest
from tests.engines import shipped

from palanca.alerting import names
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options, matchers, release_range
from palanca.alerting.recording import Recorder


def recorder(vllm: str = "all", **more: object) -> Recorder:
    return Recorder(shipped(), Options(releases=release_range(vllm, shipped().metrics), **more))  # type: ignore[arg-type]


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("vllm", "found", "missing"),
    [
        ("all", {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}, set[str]()),
        ("0.33", {"vllm:kv_cache_usage_perc"}, {"vllm:gpu_cache_usage_perc"}),
        ("0.6.0", {"vllm:gpu_cache_usage_perc"}, {"vllm:kv_cache_usage_perc"}),
    ],
)
def test_names_of_the_releases(vllm: str, found: set[str], missing: set[str]) -> None:
    """Those that a chosen release shows, the newest first."""
    text = recorder(vllm).text("kv_cache_usage")
    used = set(re.findall(r"vllm:\w+", text))
    assert found <= used
    assert used.isdisjoint(missing)


@pytest.mark.parametrize(
    ("vllm", "there"), [("0.10", False), ("0.12.0", False), ("0.12.0-0.13.0", True), ("0.33", True), ("all", True)]
)
def test_label_values_have_releases(vllm: str, *, there: bool) -> None:
    """Errors are counted from 0.13.0 on; before it a share of 0 would look like a measurement."""
    assert there == recorder(vllm).available("error_share")
    assert recorder(vllm).available("abort_share")


def test_prefixes() -> None:
    text = recorder("0.33", prefixes=("ray_vllm_", "vllm:")).text("running")
    assert ["vllm:num_requests_running", "ray_vllm_num_requests_running"] == re.findall(r"\w*vllm[:_]\w+", text)


def test_what_a_release_lacks_is_not_available() -> None:
    """And neither is what is computed from it; a fallback or an older gauge stands in."""
    old, new = recorder("0.6.0"), recorder("0.33")
    assert not old.available("waiting_deferred")
    assert old.available("waiting_capacity")
    assert "palanca:waiting:requests" == old.text("waiting_capacity")
    assert old.available("prefix_hit_rate")
    assert "_per_second" not in old.text("prefix_hit_rate")
    assert new.available("waiting_deferred")
    assert not old.available("acceptance_pos_0")
    left = Matrix(shipped(), Options(releases=release_range("0.6.0", shipped().metrics))).left_out
    assert "no chosen release has all that it needs" == left["deferred-waiting"]


def test_server_wide_series_are_joined() -> None:
    """On the labels that both have; those of vLLM on the model too."""
    text = flat(recorder().text("up"))
    assert f"{names.ENGINE} * on (cluster, namespace, job, instance) group_left ()" in text
    assert "on (cluster, namespace, job, instance, model_name)" in flat(recorder().text("admission_rejections"))
    assert text.endswith(">= 0 <= 1.01")


def test_selector() -> None:
    """On every series; server-wide ones are selected by the labels that they surely have."""
    mine = recorder(selector=matchers('job="a",model_name=~"x.*"'))
    assert 'vllm:num_requests_running{job="a", model_name=~"x.*"}[2m]' in mine.text("running")
    assert 'up{job="a"}[2m]' in mine.text("up")
    assert 'vllm:num_requests_running{job="a", model_name=~"x.*"}' in mine.engines()


def test_bounds_are_those_of_the_process() -> None:
    """Gauges below 0 and shares above 1 say nothing; counters and histograms have no bounds."""
    assert recorder("0.33").text("running").endswith(" >= 0")
    assert recorder("0.33").text("kv_cache_usage").endswith(" >= 0 <= 1.01")
    assert recorder().text("kv_cache_usage").endswith(") >= 0 <= 1.01")
    assert ">=" not in recorder().text("preemptions_per_minute")
    assert recorder("0.9").text("prefix_hit_rate").endswith(">= 0")


def test_means() -> None:
    """Nothing observed has no mean; where there is a fallback it has one of no number, and none is taken."""
    assert flat(recorder("0.33").text("ttft_mean")).endswith("> 0)")
    assert "or NaN *" in flat(recorder("0.33").text("tpot_mean"))
    assert recorder("0.33").text("tpot_mean").endswith("palanca:itl_mean:seconds")


def test_presence() -> None:
    """1 where the core series is there, 0 where an engine of the last hour lacks it."""
    text = flat(recorder("0.33").text("vllm_series"))
    assert text.startswith(f"( {names.ENGINE} and max without")
    assert f") or 0 * ({names.ENGINE} unless on (cluster, namespace, job, instance) max without" in text


def test_order() -> None:
    """Each after what it needs, once."""
    ordered = recorder().ordered(["frontend_share", "ttft_tail", "restarts"])
    place = {name: at for at, name in enumerate(ordered)}
    assert len(place) == len(ordered)
    for name in ordered:
        assert all(place[part] < place[name] for part in recorder().needs(name))
