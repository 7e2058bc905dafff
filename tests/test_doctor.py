"""What doctor says of made-up evidence: one inspection after another, each loud and each quiet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tests.engines import END, catalogue, readings, rule, shipped, target

from palanca.diagnosis import diagnose
from palanca.doctor import INSPECTIONS, DoctorReport, examine, reason
from palanca.inspections.evidence import SHOWN, Check, Evidence, SeriesSeen, ServerSeen, some
from palanca.model import Catalogue, SourceInfo, State, Target, VllmVersion
from palanca.signals.leaves import Discovery

SOURCE = SourceInfo("test", "http://test")
VLLM = ServerSeen("http://a:8000", "vllm", seconds=0.02, version="0.26.0", size=50_000, series=450)
TTFT = "vllm:time_to_first_token_seconds_bucket"
OLD = "time_per_output_token_seconds"
HERE = "; vLLM 0.26.0 does not show it here"
PROCESS = shipped().metrics.families["process_start_time"].only_if
RELEASE = VllmVersion("0.26.0", "0.26.0", ("v1",), "reported")


def discovery(
    *targets: Target,
    every: float = 15.0,
    age: float = 0.0,
    names: Sequence[str] = ("num_requests_running",),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    silent: Sequence[Target] = (),
) -> Discovery:
    """Engines that are scraped every so many seconds, the last time ``age`` seconds before the end."""
    beats = np.asarray(END - age - np.arange(20, -1, -1) * every, dtype=np.float64)
    return Discovery(
        targets=(*targets, *silent),
        names={one: frozenset(names) for one in targets},
        prefixes=frozenset({"vllm:"}),
        heartbeat=dict.fromkeys(targets, beats),
        bounds={one: dict(bounds or {}) for one in targets},
        info={},
    )


def buckets(texts: Sequence[str], instance: str = "a:8000", name: str = TTFT) -> list[SeriesSeen]:
    return [SeriesSeen(name, instance, le) for le in texts]


def report(evidence: Evidence, of: Catalogue | None = None) -> DoctorReport:
    return examine(of or shipped(), evidence, SOURCE)


def checks(
    *,
    found: Discovery | None = None,
    series: Sequence[SeriesSeen] = (),
    servers: Sequence[ServerSeen] = (VLLM,),
    of: Catalogue | None = None,
    **more: object,
) -> dict[str, Check]:
    evidence = Evidence(servers, END, discovery=found, series=series, **more)  # type: ignore[arg-type]
    return {check.id: check for check in report(evidence, of).checks}


def test_nothing_to_remark() -> None:
    """Ordinary evidence gives nothing but ok."""
    series = [SeriesSeen("vllm:num_requests_running", "a:8000"), *buckets(["0.1", "10.0", "+Inf"])]
    made = report(Evidence([VLLM], END, discovery=discovery(target()), series=series))

    assert "ok" == made.level
    assert {"reachability", "targets", "scrape-interval", "prefixes", "buckets"} == {check.id for check in made.checks}
    assert {TTFT: 3, "vllm:num_requests_running": 1} == made.names


@pytest.mark.parametrize(
    ("why", "engines", "level", "said"),
    [
        ("", 200, "ok", "as the rules of this Prometheus record them"),
        ("it records none", 1, "ok", "from all buckets: it records none"),
        ("it records none", 200, "note", "from all buckets: it records none"),
    ],
)
def test_recorded_quantiles(why: str, engines: int, level: str, said: str) -> None:
    """Whether they are read; where they are not, a large fleet costs its Prometheus much."""
    found = discovery(*(target(instance=f"{number}:8000") for number in range(engines)))
    check = checks(found=found, unrecorded=why)["recorded"]
    assert level == check.level
    assert said in check.title
    assert (level == "note") == bool(check.hint)


def test_every_inspection_keeps_quiet_about_nothing() -> None:
    """A server that was not understood has no series, no targets and no rules; no inspection minds."""
    assert ["reachability"] == [
        check.id for inspect in INSPECTIONS for check in inspect(Evidence([VLLM], END), shipped())
    ]


def test_long_lists_are_cut() -> None:
    assert ("a", "b") == some(["a", "b"])
    assert (*map(str, range(SHOWN)), "and 3 more") == some([str(one) for one in range(SHOWN + 3)])


# --- arrival ---------------------------------------------------------------------------------------


def test_a_server_that_cannot_be_read() -> None:
    """One of several is a warning, the only one an error; the worst stands first."""
    broken = ServerSeen("http://b:8000", "unknown", error="http://b:8000/metrics: connection refused")

    assert "warning" == checks(servers=[VLLM, broken])["reachability"].level
    alone = report(Evidence([broken], END))
    assert ("error", "reachability") == (alone.level, alone.checks[0].id)
    assert ("http://b:8000/metrics: connection refused",) == alone.checks[0].details
    assert "all 2 servers answer" == checks(servers=[VLLM, VLLM])["reachability"].title


def test_a_slow_answer() -> None:
    assert ("http://a:8000: 1.5 s",) == checks(servers=[ServerSeen("http://a:8000", "vllm", seconds=1.5)])[
        "latency"
    ].details


def test_a_server_that_answers_and_cannot_be_judged() -> None:
    """Why, line by line; but not twice where no server answers."""
    found = checks(failure="no vLLM series\n(another port?)")["targets"]
    assert ("error", ("no vLLM series", "(another port?)")) == (found.level, found.details)
    broken = ServerSeen("http://b:8000", "unknown", error="refused")
    assert "targets" not in checks(servers=[broken], failure="refused")


def test_targets_that_went_and_targets_that_say_nothing() -> None:
    """Both are told apart from engines with fresh samples."""
    down = Target.of({"job": "vllm", "instance": "b:8000"})
    found = checks(found=discovery(target(), silent=[down]))
    assert ("warning", ("b:8000",)) == (found["targets-silent"].level, found["targets-silent"].details)
    assert "1 engine with fresh samples" == found["targets"].title
    gone = checks(found=discovery(target(), target("1"), age=301.0))
    assert "2 of 2 engines have had no sample for 5m" == gone["targets-gone"].title
    assert "targets" not in gone


@pytest.mark.parametrize(
    ("every", "level"), [(5.0, "ok"), (15.0, "ok"), (30.0, "ok"), (30.1, "warning"), (60.0, "warning")]
)
def test_the_interval_against_the_windows(every: float, level: str) -> None:
    """Windows of two minutes need four scrapes."""
    assert level == checks(found=discovery(target(), every=every))["scrape-interval"].level


def test_the_interval_of_own_scrapes_is_no_matter() -> None:
    assert "scrape-interval" not in checks(found=discovery(target(), every=60.0), own_scrapes=True)


def test_too_many_series() -> None:
    """Many series of one engine, with the names that have most; two engines may have twice as many."""
    series = [SeriesSeen("vllm:lora_requests_info", "a:8000", count=3000), SeriesSeen("go_info", "a:8000", count=9000)]
    found = checks(found=discovery(target()), series=series)["cardinality"]

    assert ("a:8000: 3000 series of 1 engines (most: vllm:lora_requests_info 3000)",) == found.details
    assert "cardinality" not in checks(found=discovery(target(), target("1")), series=series)


# --- buckets ---------------------------------------------------------------------------------------


def test_a_bound_written_in_two_ways() -> None:
    """Within one instance or over several: ``sum by (le)`` keeps them apart."""
    for series in (buckets(["10", "10.0", "+Inf"]), [*buckets(["10", "+Inf"]), *buckets(["10.0", "+Inf"], "b:8000")]):
        found = checks(series=series)
        assert (f'{TTFT}: le="10" and le="10.0"',) == found["buckets-mixed"].details
        assert "buckets" not in found


def test_a_histogram_without_an_end() -> None:
    assert (f"{TTFT} at a:8000",) == checks(series=buckets(["1.0", "10.0"]))["buckets-no-inf"].details


def test_a_bound_that_is_no_number() -> None:
    found = checks(series=buckets(["1.0", "ten", "+Inf"]))

    assert (f"{TTFT} at a:8000: le='ten'",) == found["buckets-no-number"].details
    assert "buckets-mixed" not in found


def test_buckets_that_differ_between_instances() -> None:
    """A fleet in the middle of an upgrade, or custom buckets on one of its engines."""
    series = [*buckets(["0.1", "10.0", "+Inf"]), *buckets(["0.1", "2560.0", "+Inf"], "b:8000")]
    found = checks(series=series)["buckets-differ"]

    assert (f"{TTFT}: a:8000 2 bounds, 0.1 to 10, b:8000 2 bounds, 0.1 to 2560",) == found.details


def test_a_threshold_beyond_the_last_bound() -> None:
    """A quantile is never more than the last finite bound, so that rule can never hold."""
    high = rule(
        when="ttft_p99 > limit",
        thresholds={"limit": {"value": 10.0, "unit": "s", "source": "a test"}},
        summary="It is {ttft_p99}.",
    )
    bounds = {"time_to_first_token": (0.001, 10.0)}
    found = checks(found=discovery(target(), bounds=bounds), of=catalogue(high))["buckets-too-low"]

    assert ("a-rule: ttft_p99 > 10, last bound 10",) == found.details
    wide = {"time_to_first_token": (0.001, 2560.0)}
    assert "buckets-too-low" not in checks(found=discovery(target(), bounds=wide), of=catalogue(high))


# --- names -----------------------------------------------------------------------------------------


def names(*full: str) -> list[SeriesSeen]:
    return [SeriesSeen(one, "a:8000") for one in full]


def test_several_prefixes() -> None:
    found = checks(series=names("vllm:num_requests_running", "ray_vllm_num_requests_running"))["prefixes"]

    assert ("note", "metric names under several prefixes: vllm:* (1), ray_vllm_* (1)") == (found.level, found.title)


def test_counters_that_lost_their_suffix() -> None:
    """A collector drops ``_total``; a histogram of that name, and what is created, are none of it."""
    series = names("vllm:num_preemptions", "vllm:iteration_tokens_total_sum", "vllm:num_preemptions_created")
    found = checks(series=series)

    assert ("vllm:num_preemptions instead of vllm:num_preemptions_total",) == found["counters-without-total"].details
    assert "names-unknown" not in found


def test_names_that_nobody_knows() -> None:
    """Of a plugin or a newer release; what recording rules make is their own."""
    found = checks(series=names("vllm:warp_factor", "vllm:ttft:p99"), recorded=frozenset({"vllm:ttft:p99"}))

    assert ("vllm:warp_factor",) == found["names-unknown"].details


def test_names_that_go_away() -> None:
    found = checks(found=discovery(target(), names=["kv_cache_usage_perc", "gpu_cache_usage_perc"]))["names-old"]

    assert ("gpu_cache_usage_perc: last in 0.11.2, now kv_cache_usage_perc",) == found.details


def test_rules_of_prometheus_that_ask_for_dead_names() -> None:
    """Names that went, and names that never were; what is shown, recorded, or only not there yet is none."""
    queries = {
        "seed/KVCacheSaturado": "vllm:gpu_cache_usage_perc > 0.85",
        "seed/Hit": "vllm:prefix_cache_hit_rate < 0.1 and vllm:num_requests_running > 0",
        "seed/Recorded": "vllm:ttft:p99 > 1",
        "seed/Spec": "rate(vllm:spec_decode_num_drafts_total[5m]) > 0",
        "seed/Other": "my_vllm:gpu_cache_usage_perc > 0",
        "Q": f"rate(vllm:{OLD}_sum[5m])",
    }
    found = checks(found=discovery(target()), queries=queries, recorded=frozenset({"vllm:ttft:p99"}))["names-dead"]

    assert [
        "vllm:gpu_cache_usage_perc: not shown here, last in 0.11.2, now kv_cache_usage_perc (in seed/KVCacheSaturado)",
        "vllm:prefix_cache_hit_rate: vLLM 0.4.0 to 0.33.0 never had it (in seed/Hit)",
        f"vllm:{OLD}_sum: not shown here, last in 0.14.1, now inter_token_latency_seconds (in Q)",
    ] == list(found.details)
    shown = discovery(target(), names=["num_requests_running", "gpu_cache_usage_perc"])
    alive = checks(found=shown, queries={"seed/KV": "vllm:gpu_cache_usage_perc > 0.85"})["names-dead"]
    assert ("ok", "1 rules of this Prometheus ask for no dead name") == (alive.level, alive.title)


# --- what cannot be judged ---------------------------------------------------------------------------


def test_rules_that_cannot_be_judged() -> None:
    """By engine, rules with the same reasons together, and a note in the checks."""
    rules = (
        rule(id="no-kv"),
        rule(id="no-slots", when="running > max_num_seqs", thresholds={}, summary="It is {running}."),
        rule(id="as-blind", when="kv_cache_usage >= half"),
    )
    whole = catalogue(*rules)
    made = examine(
        whole,
        Evidence([VLLM], END, discovery=discovery(target())),
        SOURCE,
        diagnose(whole, readings({"running": 3.0}, versions=[RELEASE])),
    )

    (seen,) = made.targets
    assert (15.0, RELEASE, 1) == (seen.interval_s, seen.version, seen.signals)
    assert {
        ("as-blind", "no-kv"): ("kv_cache_usage needs kv_cache_usage_perc; vLLM 0.26.0 does not show it here",),
        ("no-slots",): ("max_num_seqs is not known: give it with --serve-args --max-num-seqs",),
    } == {gap.rules: gap.reasons for gap in seen.gaps}
    assert "3 rules cannot be judged on some engine" in [check.title for check in made.checks]


def test_what_lacks_is_named_and_not_what_is_computed_from_it() -> None:
    """Signals that are expressions are followed to what they are made of; facts of one reason are said once."""
    growing = rule(
        when="itl_growth > limit and running_growth > limit",
        thresholds={"limit": {"value": 2, "unit": "ratio", "source": "a test"}},
        summary="It is {itl_growth}.",
    )
    whole = catalogue(growing)
    read = readings({"itl_mean": 0.01, "running": 3.0, "itl_mean_before": State.STALE, "running_before": State.ABSENT})
    made = examine(whole, Evidence([VLLM], END, discovery=discovery(target())), SOURCE, diagnose(whole, read))

    assert (
        "itl_mean_before has had no sample for five minutes",
        "running_before needs a past of 30 min, which this source does not have",
    ) == made.targets[0].gaps[0].reasons


def test_every_rule_can_be_judged() -> None:
    whole = catalogue(rule())
    made = examine(
        whole,
        Evidence([VLLM], END, discovery=discovery(target())),
        SOURCE,
        diagnose(whole, readings({"kv_cache_usage": 0.2})),
    )

    assert "every rule that applies can be judged" in [check.title for check in made.checks]
    assert () == made.targets[0].gaps


@pytest.mark.parametrize(
    ("name", "state", "expected"),
    [
        ("max_num_seqs", State.ABSENT, "max_num_seqs is not known: give it with --serve-args --max-num-seqs"),
        (
            "num_gpu_blocks",
            State.ABSENT,
            "num_gpu_blocks is not known: no flag gives it, only the engine reports it",
        ),
        ("ttft_p99", State.IDLE, "ttft_p99 has nothing to measure: no traffic of its kind in the window"),
        ("ttft_p99", State.STALE, "ttft_p99 has had no sample for five minutes"),
        ("ttft_tail", State.ABSENT, "ttft_tail is computed from what is lacking (ttft_p99 / ttft_p50)"),
        ("running_before", State.ABSENT, "running_before needs a past of 30 min, which this source does not have"),
        (
            "http_5xx",
            State.ABSENT,
            f"http_5xx needs http_requests_total, which appears when it is first counted{HERE}",
        ),
        (
            "uptime",
            State.ABSENT,
            f"uptime needs process_start_time_seconds, which only exists with {PROCESS}{HERE}",
        ),
        ("warp", State.ABSENT, "warp is not known"),
    ],
)
def test_reasons(name: str, state: State, expected: str) -> None:
    """A sentence that says what would give a value."""
    assert expected == reason(shipped(), name, state, RELEASE)


def test_a_reason_without_a_release() -> None:
    assert "kv_cache_usage needs kv_cache_usage_perc" == reason(shipped(), "kv_cache_usage", State.ABSENT, None)
