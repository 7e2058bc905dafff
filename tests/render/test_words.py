"""Numbers, times, names and groups in words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.render.builders import (
    NOW,
    bad_report,
    catalogue,
    diagnosis,
    drop_override,
    fp8_cache,
    lower_slots,
    misses,
    one_saturated,
    report,
    saturated,
    target,
    three_of_eight,
    unknown,
)

from palanca import quantities
from palanca.model import Evidence, Recommendation, SignalValue, State, Target
from palanca.render import gaps, groups, words


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (4.71, "s", "4.7 s"),
        (0.0844, "s", "84.4 ms"),
        (0.00012, "s", "0.12 ms"),
        (45.25, "s", "45.2 s"),
        (0.0, "s", "0 s"),
        (210.0, "s", "3 min 30 s"),
        (-210.0, "s", "-3 min 30 s"),
        (0.972, "ratio", "0.97"),
        (1.0, "ratio", "1"),
        (4.489, "ratio", "4.49"),
        (42.0, "preemptions/min", "42 preemptions/min"),
        (1.0, "preemptions/min", "1 preemption/min"),
        (30.0, "1/min", "30/min"),
        (1843.2, "tokens/s", "1,843 tokens/s"),
        (27.44, "requests", "27.4 requests"),
        (1.0, "requests", "1 request"),
        (1024.0, "bytes", "1 KiB"),
        (15_032_385_536.0, "bytes", "14 GiB"),
        (2.0**50, "bytes", "1,024 TiB"),
        (1e300, "requests", "1e+300 requests"),
        (math.nan, "s", "-"),
        (math.inf, "s", "without bound"),
        (None, "s", "-"),
    ],
)
def test_number(value: float | None, unit: str, expected: str) -> None:
    """A number reads as an operator would write it."""
    assert expected == quantities.number(value, unit)


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([0.99, 0.95, 0.972], "ratio", "0.95-0.99"),
        ([0.951, 0.952], "ratio", "0.95"),
        ([0.084, 4.7], "s", "84 ms to 4.7 s"),
        ([0.0, 4.7], "s", "0-4.7 s"),
        ([0.0, 0.2], "s", "0 to 200 ms"),
        ([130.0, 250.0], "s", "2 min 10 s to 4 min 10 s"),
        ([-1.0, 2.0], "ratio", "-1 to 2"),
        ([1.0, 3.0], "requests", "1-3 requests"),
        ([math.nan], "ratio", "-"),
    ],
)
def test_number_range(values: list[float], unit: str, expected: str) -> None:
    """Numbers of several engines read as a range, the unit written once where it is one."""
    assert expected == quantities.number_range(values, unit)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0 s"), (45, "45 s"), (60, "1 min"), (210, "3 min 30 s"), (7200, "2 h"), (3605, "1 h"), (273600, "3 d 4 h")],
)
def test_time_span(seconds: float, expected: str) -> None:
    """A length of time takes its two largest units."""
    assert expected == quantities.time_span(seconds)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (NOW, "2026-03-01T14:03:30Z"),
        (NOW + 0.25, "2026-03-01T14:03:30.250Z"),
        (NOW + 0.9999, "2026-03-01T14:03:31Z"),
        (math.nan, "1970-01-01T00:00:00Z"),
        (1e20, "9999-12-31T23:59:59Z"),
    ],
)
def test_rfc3339(time: float, expected: str) -> None:
    """Times are UTC, with milliseconds only where they are not whole, and within the years that can be written."""
    assert expected == quantities.rfc3339(time)


def test_clock_names_the_day_where_it_is_another() -> None:
    """A time of another day bears its date."""
    assert "2026-02-28 14:03:30 UTC" == quantities.clock(NOW - 86400, NOW)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1 / 3, 0.3333333333), (-0.0, 0.0), (math.nan, None), (-math.inf, None), (None, None)],
)
def test_finite(value: float | None, expected: float | None) -> None:
    """Numbers keep 10 digits, and what is no number becomes None."""
    assert expected == quantities.finite(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (256.0, "256"),
        (0.92, "0.92"),
        (True, "on"),
        (False, "off"),
        ("fp8", "fp8"),
        (None, "unknown"),
        ("a\nb", "a\\nb"),
    ],
)
def test_setting(value: words.Setting, expected: str) -> None:
    """Settings read as on a command line: no thousands separator."""
    assert expected == words.setting(value)


def test_printable_escapes_what_cannot_be_seen() -> None:
    """Line breaks, escape codes and direction marks are shown, other scripts are kept."""
    assert "a\\n\\r\\t\\x1b[31m\\u202e\\U000e0001 模型" == words.printable("a\n\r\t\x1b[31m\u202e\U000e0001 模型")


@given(st.text())
def test_printable_leaves_nothing_unseen(text: str) -> None:
    """Whatever comes in, what goes out is printable."""
    assert all(letter.isprintable() or letter.isspace() for letter in words.printable(text))
    assert "\x1b" not in words.printable(text)


@given(st.text(), st.integers(min_value=3, max_value=50))
def test_clip_keeps_the_width(text: str, width: int) -> None:
    """A clipped text is never wider than asked."""
    assert words.cells(words.clip(text, width)) <= width


def test_clip_leaves_what_fits() -> None:
    """A text that fits stays as it is, however its letters are weighed."""
    assert "模型" == words.clip("模型", 4)


def test_clip_keeps_both_ends() -> None:
    """The end of a long name tells the engines apart, so the middle goes."""
    assert "meta-…:8000" == words.clip("meta-llama/Llama-3.1-8B @ 10.0.0.5:8000", 11)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://me:secret@prom:9090/x", "http://prom:9090/x"),
        ("http://prom:9090/a@b", "http://prom:9090/a@b"),
        ("refused by https://token@thanos", "refused by https://thanos"),
    ],
)
def test_without_credentials(text: str, expected: str) -> None:
    """User and password of an address are never shown."""
    assert expected == words.without_credentials(text)


@pytest.mark.parametrize(
    ("items", "expected"),
    [([], ""), (["a"], "a"), (["a", "b", "c", "d"], "a, b, c, d"), (["a", "b", "c", "d", "e"], "a, b, c and 2 more")],
)
def test_listing(items: list[str], expected: str) -> None:
    """A long list ends in how many more there are, never in one more."""
    assert expected == words.listing(items)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"model_name": "m", "instance": "h:1", "engine": "0"}, "m @ h:1"),
        ({"model_name": "m", "instance": "h:1", "engine": "1"}, "m @ h:1 engine 1"),
        ({"instance": "h:1"}, "h:1"),
        ({"model_name": "m", "ReplicaId": "r"}, '{ReplicaId="r", model_name="m"}'),
        ({"engine": "1"}, '{engine="1"}'),
        ({}, "{}"),
    ],
)
def test_target_name(labels: dict[str, str], expected: str) -> None:
    """An engine goes by model and instance, else by its labels."""
    assert expected == words.target_name(Target.of(labels))


def test_target_names_tell_engines_of_one_server_apart() -> None:
    """Engines of equal short names get the labels in which they differ."""
    first, second, other = target(0), target(0, engine="1"), target(1)
    expected = {
        first: "llama-3-8b @ 10.0.0.5:8000 engine 0",
        second: "llama-3-8b @ 10.0.0.5:8000 engine 1",
        other: "llama-3-8b @ 10.0.0.6:8000",
    }
    assert expected == words.target_names([first, second, other])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kv_cache_usage", "KV cache usage"),
        ("ttft_p99", "TTFT p99"),
        ("slo.ttft_p99", "Slo.TTFT p99"),
        ("itl_p99 / itl_mean", "ITL p99 / ITL mean"),
        ("vllm_series", "vLLM series"),
        ("", ""),
        ("preemptions_per_minute", "Preemptions per minute"),
    ],
)
def test_signal_title_without_catalogue(name: str, expected: str) -> None:
    """Without a catalogue the name itself becomes words."""
    assert expected == words.signal_title(name)


def test_signal_title_of_the_catalogue() -> None:
    """The catalogue's title wins."""
    assert "KV cache in use" == words.signal_title("kv_cache_usage", catalogue())


def test_group_name() -> None:
    """What a fleet rule compared is a model, else labels."""
    assert "model m" == words.group_name({"model_name": "m", "job": "j"})
    assert '{a="1", b="2"}' == words.group_name({"b": "2", "a": "1"})


def test_groups_of_three_of_eight() -> None:
    """Equal findings come together; roots come before symptoms, the worst first."""
    found = groups.group_findings(three_of_eight())
    expected = [("kv-cache-saturated", 3), ("prefix-cache-miss", 1), ("ttft-high", 3)]
    assert expected == [(group.first.rule, len(group.members)) for group in found]


def test_groups_of_equal_severity_by_number_of_engines() -> None:
    """Of two problems of one severity, what more engines have comes first."""
    one = saturated(rule="a-rule")
    many = saturated(rule="b-rule")
    reports = [report(0, findings=(one,)), report(1, findings=(many,)), report(2, findings=(many,))]
    assert ["b-rule", "a-rule"] == [group.first.rule for group in groups.group_findings(diagnosis(*reports))]


def test_group_takes_the_lowest_confidence_and_earliest_begin() -> None:
    """A group is no surer than its least sure member, and as old as its oldest."""
    reports = [report(0, findings=(saturated(),)), report(1, findings=(saturated(confidence="low", since=NOW - 900),))]
    group = groups.group_findings(diagnosis(*reports))[0]
    assert ("low", NOW - 900) == (group.confidence, group.since)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "since 14:00:00 UTC (3 min 30 s)"),
        ({"since_at_least": True}, "since 14:00:00 UTC or earlier (at least 3 min 30 s)"),
        ({"state": "pending", "since": NOW - 60}, "pending since 14:02:30 UTC (1 min of 3 min)"),
        (
            {"state": "pending", "since": NOW - 60, "full_history": False},
            "held for 1 min of 3 min; the source has no longer history",
        ),
    ],
)
def test_held(changes: dict[str, Any], expected: str) -> None:
    """Each state says for how long the finding has held."""
    group = groups.group_findings(diagnosis(report(findings=(saturated(**changes),))))[0]
    assert expected == groups.held(group, NOW)


def test_held_of_a_rule_that_does_not_wait() -> None:
    """Where the rule asks for no time, none is named."""
    group = groups.group_findings(diagnosis(report(findings=(misses(),))))[0]
    assert "pending since 14:03:00 UTC (30 s)" == groups.held(group, NOW)


def test_evidence_of_a_group_is_a_range() -> None:
    """A comparison on several engines shows the range of values."""
    rows = groups.evidence_rows(groups.group_findings(three_of_eight())[0], catalogue())
    assert "KV cache in use 0.95-0.99 > 0.85" == rows[0].text


def test_evidence_shows_the_digits_that_tell_it_from_its_threshold() -> None:
    """0.8504 > 0.85 does not read 0.85 > 0.85."""
    group = groups.group_findings(diagnosis(report(findings=(saturated(0.8504),))))[0]
    assert "KV cache usage 0.8504 > 0.85" == groups.evidence_rows(group)[0].text


def test_evidence_that_no_digits_tell_apart() -> None:
    """Where even six digits read the same, three are shown."""
    group = groups.group_findings(diagnosis(report(findings=(saturated(0.85 + 1e-12),))))[0]
    assert "KV cache usage 0.85 > 0.85" == groups.evidence_rows(group)[0].text


@pytest.mark.parametrize(
    ("state", "expected"),
    [(State.LOWER_BOUND, "at least 4.7 s"), (State.INTERPOLATED, "about 4.7 s"), (State.OK, "4.7 s")],
)
def test_evidence_says_how_exact_it_is(state: State, expected: str) -> None:
    """A quantile beyond the last bucket reads "at least", one inside the first reads "about"."""
    evidence = Evidence("ttft_p99", 4.71, ">", 1.0, "s", "", note="200 first tokens")
    signals = {"ttft_p99": SignalValue(4.71, "s", state, 300.0)}
    group = groups.group_findings(diagnosis(report(signals=signals, findings=(saturated(evidence=(evidence,)),))))[0]
    row = groups.evidence_rows(group)[0]
    assert (expected, "> 1 s", "200 first tokens") == (row.value, row.threshold, row.note)


@pytest.mark.parametrize(
    ("recommendation", "expected"),
    [
        (lower_slots(), "--max-num-seqs 256 -> 96"),
        (fp8_cache(), "--kv-cache-dtype auto -> fp8"),
        (replace(lower_slots(), current=None), "--max-num-seqs -> 96"),
        (replace(lower_slots(), proposed=None), "lower --max-num-seqs (now 256)"),
        (replace(lower_slots(), proposed=None, current=None), "lower --max-num-seqs"),
        (replace(lower_slots(), flag="--x", direction="enable", proposed=True), "--x: turn on"),
        (replace(lower_slots(), flag="--x", direction="disable", proposed=None), "--x: turn off"),
        (drop_override(), "remove --num-gpu-blocks-override (now 256)"),
        (replace(drop_override(), current=None), "remove --num-gpu-blocks-override"),
        (replace(lower_slots(), lever="identical_prefix", flag=None, direction="none"),
         "identical prefix (no flag of the engine)"),
        (replace(lower_slots(), lever="replicas", flag=None, direction="raise", current=3.0, proposed=4.0),
         "replicas 3 -> 4"),
    ],
)  # fmt: skip
def test_change(recommendation: Recommendation, expected: str) -> None:
    """Every kind of change fits one line."""
    assert expected == groups.change(recommendation)


def test_details_of_a_recommendation() -> None:
    """The details name the current value's provenance and how to verify."""
    found = dict(groups.details(fp8_cache(), catalogue()))
    assert "auto, reported by the engine" == found["Now"]
    assert "Preemptions per minute <= 1 within 10m; Requests waiting <= 5 within 10m" == found["Verify"]


def test_details_without_current_value() -> None:
    """An unknown current value of a flag is said to be unknown; an action has none."""
    nothing = replace(lower_slots(), current=None, provenance=None, proposed=None)
    assert "unknown" == dict(groups.details(nothing))["Now"]
    assert "Now" not in dict(groups.details(replace(nothing, flag=None)))
    assert "256" == dict(groups.details(replace(lower_slots(), provenance=None)))["Now"]


def test_other_values_name_the_engines() -> None:
    """Engines that need another value than the one shown are named with it."""
    reports = [
        report(0, findings=(saturated(recommendations=(lower_slots(),)),)),
        report(1, findings=(saturated(recommendations=(lower_slots(64.0),)),)),
        report(2, findings=(saturated(recommendations=()),)),
    ]
    made = diagnosis(*reports)
    names = words.target_names([item.target for item in reports])
    group = groups.group_findings(made)[0]
    assert "--max-num-seqs 256 -> 64 on llama-3-8b @ 10.0.0.6:8000" == groups.other_values(group, names)


def test_other_values_of_no_recommendation() -> None:
    """Without a recommendation there is nothing to differ."""
    group = groups.group_findings(diagnosis(report(findings=(misses(),))))[0]
    assert "" == groups.other_values(group, {})


def test_unjudged_rules_collapse() -> None:
    """Rules that lack the same on the same engines share a line, the widest gap first."""
    found = gaps.group_unjudged(diagnosis(*one_saturated().targets, bad_report(1), unknown(2)))
    expected = [
        (("kv-cache-saturated", "kv-cache-leak"), "kv_cache_usage (absent)"),
        (("cuda-graph-gap",), "enforce_eager (absent)"),
        (("ttft-high",), "ttft_p99 (stale)"),
    ]
    assert expected == [(group.rules, group.lacks) for group in found]


def test_some_engines() -> None:
    """Few engines are named, many counted, all left out."""
    targets = [target(index) for index in range(5)]
    names = words.target_names(targets)
    assert "" == words.some_engines(targets, 5, names)
    assert "4 of 5 engines" == words.some_engines(targets[:4], 5, names)
    assert "llama-3-8b @ 10.0.0.5:8000" == words.some_engines(targets[:1], 5, names)
