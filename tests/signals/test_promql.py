"""Signals as PromQL text: what is written for each kind, and for the names that a source has."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.sample_stores import catalogue

from palanca.model import Catalogue, Signal
from palanca.signals.leaves import Leaf
from palanca.signals.promql import PromQL, matchers, quote

COPIES = "prometheus_replica, replica"
MAX, SUM, SUM_REASONS = f"max without ({COPIES})", "sum without (pid)", "sum without (finished_reason, pid)"
RUNNING = "vllm:num_requests_running"


def written(signal: Signal, *names: str, window: float | None = None, extra: tuple[str, ...] = ()) -> str:
    """PromQL of a signal of the test beside those that palanca ships."""
    shipped = catalogue()
    made: Catalogue = replace(shipped, signals={**shipped.signals, "x": signal})
    return PromQL(made, names, extra).signal("x", window=window)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ("", '""'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb", '"a\\nb"'),
        ("é|.*", '"é|.*"'),
        ("{x}", '"{x}"'),
        ('\\"', '"\\\\\\""'),
    ],
)
def test_quote(value: str, text: str) -> None:
    """Backslash, double quote and newline are escaped, nothing else."""
    assert text == quote(value)


def test_matchers() -> None:
    """Matchers are equalities in the order of the labels."""
    assert ('a="1"', 'b="x\\"y"') == matchers({"b": 'x"y', "a": "1"})
    assert () == matchers({})


@pytest.mark.parametrize(
    ("signal", "text"),
    [
        (
            Signal(title="", unit="requests", avg="num_requests_running"),
            f"max without (pid, {COPIES}) (avg_over_time({RUNNING}[5m]))",
        ),
        (
            Signal(title="", unit="requests", window="90s", max="num_requests_running"),
            f"max without (pid, {COPIES}) (max_over_time({RUNNING}[1m30s]))",
        ),
        (
            Signal(title="", unit="requests", window="1h", min="num_requests_running"),
            f"max without (pid, {COPIES}) (min_over_time({RUNNING}[1h]))",
        ),
        (Signal(title="", unit="requests", now="num_requests_running"), f"max without (pid, {COPIES}) ({RUNNING})"),
        (
            Signal(title="", unit="ratio", now="engine_sleep_state", where={"sleep_state": "awake"}),
            f'max without (pid, {COPIES}) (sum without (sleep_state) (vllm:engine_sleep_state{{sleep_state="awake"}}))',
        ),
        (
            Signal(title="", unit="preemptions/s", window="2m", rate="preemptions"),
            f"max without ({COPIES}) (sum without (pid) (rate(vllm:num_preemptions_total[2m])))",
        ),
        (
            Signal(title="", unit="preemptions/min", window="2m", rate="preemptions", times=60),
            f"60 * max without ({COPIES}) (sum without (pid) (rate(vllm:num_preemptions_total[2m])))",
        ),
        (
            Signal(title="", unit="preemptions", window="2m", increase="preemptions"),
            f"120 * max without ({COPIES}) (sum without (pid) (rate(vllm:num_preemptions_total[2m])))",
        ),
        (
            Signal(title="", unit="steps/s", rate="iteration_tokens"),
            f"max without ({COPIES}) (sum without (pid) (rate(vllm:iteration_tokens_total_count[5m])))",
        ),
        (
            Signal(title="", unit="restarts", resets="prompt_tokens"),
            f"max without ({COPIES}) (sum without (pid) (resets(vllm:prompt_tokens_total[5m])))",
        ),
        (
            Signal(title="", unit="restarts", changes="process_start_time"),
            f"max without ({COPIES}) (sum without (pid) (changes(process_start_time_seconds[5m])))",
        ),
        (
            Signal(title="", unit="s", since="process_start_time"),
            f"time() - (max without (pid, {COPIES}) (process_start_time_seconds))",
        ),
        (
            Signal(title="", unit="ratio", present="num_requests_running"),
            f"clamp_max(count without (pid, {COPIES}) (max without (pid, {COPIES}) ({RUNNING})), 1)",
        ),
        (
            Signal(title="", unit="s", quantile=0.9, of="time_to_first_token"),
            f"histogram_quantile(0.9, sum without (pid, {COPIES}) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
        ),
        (
            Signal(title="", unit="s", mean="time_to_first_token"),
            (
                f"({MAX} ({SUM} (rate(vllm:time_to_first_token_seconds_sum[5m]))))"
                f" / ({MAX} ({SUM} (rate(vllm:time_to_first_token_seconds_count[5m]))))"
            ),
        ),
        (
            Signal(title="", unit="ratio", rate="spec_accepted_tokens", per="spec_drafts"),
            (
                f'({MAX} ({SUM} (rate(vllm:spec_decode_num_accepted_tokens_total{{engine!=""}}[5m]))))'
                f" / ({MAX} ({SUM} (rate(vllm:spec_decode_num_drafts_total[5m]))))"
            ),
        ),
        (
            Signal(title="", unit="requests/s", rate="request_success", where={"finished_reason": "stop"}),
            (
                f'({MAX} ({SUM_REASONS} (rate(vllm:request_success_total{{finished_reason="stop"}}[5m]))))'
                f" or (0 * {MAX} ({SUM_REASONS} (rate(vllm:request_success_total[5m]))))"
            ),
        ),
    ],
    ids=lambda one: one.kind if isinstance(one, Signal) else "",
)
def test_kinds(signal: Signal, text: str) -> None:
    """Each kind has its function, and its aggregation over own labels, processes and copies."""
    assert text == written(signal)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ((), ["vllm:kv_cache_usage_perc"]),
        (("up",), ["vllm:kv_cache_usage_perc"]),
        (("vllm:gpu_cache_usage_perc",), ["vllm:gpu_cache_usage_perc"]),
        (("ray_vllm_kv_cache_usage_perc",), ["ray_vllm_kv_cache_usage_perc"]),
        (
            ("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"),
            ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
        ),
        (
            ("vllm_kv_cache_usage_perc", "vllm:kv_cache_usage_perc"),
            ["vllm:kv_cache_usage_perc", "vllm_kv_cache_usage_perc"],
        ),
    ],
)
def test_names_of_the_source(names: tuple[str, ...], found: list[str]) -> None:
    """Names that the source has are joined by ``or``, the preferred one first; none known gives the newest."""
    text = written(Signal(title="", unit="ratio", avg="kv_cache_usage"), *names)

    assert found == re.findall(r"[a-z_:]+_usage_perc", text)
    assert len(found) - 1 == text.count(" or ")


def test_names_of_histograms() -> None:
    """A histogram is found by its plain name and by that of its buckets."""
    signal = Signal(title="", unit="s", quantile=0.5, of="inter_token_latency")

    for name in ("vllm:time_per_output_token_seconds", "vllm:time_per_output_token_seconds_bucket"):
        assert "(rate(vllm:time_per_output_token_seconds_bucket[5m]))" in written(signal, name)
        assert "inter_token_latency" not in written(signal, name)


def test_server_wide_families_have_no_prefix() -> None:
    """``up`` and the like are the same whatever the live prefix."""
    assert f"max without (pid, {COPIES}) (min_over_time(up[2m]))" == PromQL(catalogue(), ["ray_vllm_x"]).signal("up")


def test_extra_matchers_are_everywhere() -> None:
    """What the user selects is in every selector."""
    text = written(
        Signal(
            title="", unit="ratio", rate="request_success", where={"finished_reason": "stop"}, per="request_success"
        ),
        extra=('job="a"',),
    )

    assert text.count("vllm:") == text.count('job="a"')
    assert '{finished_reason="stop", job="a"}' in text


def test_odd_label_values() -> None:
    """A value that looks like PromQL stays a value."""
    text = PromQL(catalogue()).leaf(
        Leaf("rate", "request_success", 60, where=(("finished_reason", '"} or vector(1) #'),))
    )

    assert '{finished_reason="\\"} or vector(1) #"}' in text


def test_a_window_replaces_all_windows() -> None:
    """``--window`` holds for every part, also of expressions, fallbacks and counts."""
    assert {"1m"} == set(re.findall(r"\[(.*?)\]", PromQL(catalogue()).signal("restarts", window=60)))
    assert written(Signal(title="", unit="preemptions", window="2m", increase="preemptions"), window=600).startswith(
        "600 * "
    )


def test_older_gauge() -> None:
    """The gauge of V0 is read where the counters are missing, and never where it says -1."""
    text = PromQL(catalogue()).signal("prefix_hit_rate")

    assert text.endswith(
        f" or ((max without (pid, {COPIES}) (avg_over_time(vllm:gpu_prefix_cache_hit_rate[5m]))) >= 0)"
    )


def test_fallback() -> None:
    """The other signal follows behind ``or``."""
    promql = PromQL(catalogue())

    assert promql.signal("process_restarts").endswith(f") or ({promql.signal('counter_resets')})")


A, B = (f"({PromQL(catalogue()).signal(name)})" for name in ("running", "waiting"))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ("running + waiting", f"({A} + {B})"),
        ("running / (running + waiting)", f"({A} / ({A} + {B}))"),
        ("1 - running", f"(1 - {A})"),
        ("running * 1048576", f"({A} * 1048576)"),
        ("running * 0.1234567", f"({A} * 0.1234567)"),
        ("floor(running)", f"floor({A})"),
        ("ceil(running / 8)", f"ceil(({A} / 8))"),
        ("round_down(running, 8)", f"((floor({A} / 8) * 8 > 0) or floor({A}))"),
        ("max(running, 0)", f"clamp_min({A}, 0)"),
        ("max(0, running)", f"clamp_min({A}, 0)"),
        ("min(1, running)", f"clamp_max({A}, 1)"),
        ("max(running, waiting)", f"(({A} >= {B}) or {B})"),
        ("min(running, waiting)", f"(({A} <= {B}) or {B})"),
        ("min(8, running, waiting)", f"clamp_max((({A} <= {B}) or {B}), 8)"),
    ],
)
def test_expressions(expr: str, text: str) -> None:
    """Arithmetic is parenthesised; extremes with numbers are clamps, whatever the order."""
    assert text == written(Signal(title="", unit="requests", expr=expr))


def test_conditions_are_no_signals() -> None:
    """What is no number has no PromQL of this kind."""
    with pytest.raises(TypeError, match="Compare has no PromQL"):
        written(Signal(title="", unit="ratio", expr="running > waiting"))
    with pytest.raises(KeyError):
        PromQL(catalogue()).signal("nothing")


@pytest.mark.parametrize("name", sorted(catalogue().signals))
def test_every_shipped_signal_has_promql(name: str) -> None:
    """Each signal is written with balanced parentheses and one window for each range."""
    text = PromQL(catalogue()).signal(name)

    assert text.count("(") == text.count(")") > 0
    assert "nan" not in text.lower()
    assert text.count("_over_time(") + text.count("rate(") + text.count("resets(") + text.count(
        "changes("
    ) == text.count("[")
