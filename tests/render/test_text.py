"""The report for people at a terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.render.builders import (
    NOW,
    SOURCE,
    bad_report,
    catalogue,
    diagnosis,
    idle,
    lower_slots,
    misses,
    one_saturated,
    report,
    saturated,
    slow_first_token,
    target,
    three_of_eight,
    unknown,
    unreachable,
)

from palanca.model import Diagnosis, Evidence, SignalValue, Silenced, SourceInfo, State, Target, Unjudged
from palanca.render.text import render, wrap

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = [
    "line\nbreak\r\n\tand tab",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred",
    "[red]markup[/red] [link=http://evil]x[/link]",
    "\u202eright to left\u200f\u2066",
    "x" * 10_000,
    "模型" * 200,
    "e" + "\u0301" * 500,
    "a b " * 400,
    "👩‍👩‍👧‍👦❤️🇪🇸",
]


def plain(made: Diagnosis, width: int = 80) -> str:
    """Render without colour."""
    return render(made, width=width, color=False, catalogue=catalogue())


def lines(made: Diagnosis, start: str, count: int, width: int = 80) -> list[str]:
    """So many lines from the first that begins with ``start``."""
    found = plain(made, width).splitlines()
    first = next(index for index, line in enumerate(found) if line.startswith(start))
    return found[first : first + count]


def test_worst_problem_comes_first() -> None:
    """The head says what, where, since when and how sure."""
    expected = [
        "CRITICAL: KV cache is full and requests are being preempted",
        "  Where       llama-3-8b @ 10.0.0.5:8000",
        "  Job         vllm",
        "  When        since 14:00:00 UTC (3 min 30 s)",
        "  Cause       kv-capacity, confidence high",
    ]
    assert expected == lines(one_saturated(), "CRITICAL", 5)


def test_silenced_alerts() -> None:
    """Who mutes them, and until when; it is a finding all the same."""
    muted = Silenced(("6a1f0c7e",), NOW + 3600)
    slow = replace(slow_first_token(), silenced=muted)
    bad = [replace(bad_report(n), findings=(saturated(silenced=muted if n else None), slow)) for n in range(3)]
    text = " ".join(plain(diagnosis(*bad), 200).split())
    assert "Alert silenced until 15:03:30 UTC by 6a1f0c7e on 2 of 3 engines" in text
    assert text.index("the same engines; silenced until 15:03:30 UTC by 6a1f0c7e") > text.index("Also found")
    assert "silenced" not in plain(three_of_eight())


def test_header() -> None:
    """The first lines say when, how many engines of which status, and from where."""
    expected = [
        "2026-03-01 14:03:30 UTC, 8 engines: 3 critical, 1 unknown, 1 idle, 3 ok",
        "source prometheus http://prometheus:9090, vLLM 0.24.0-0.33.0 (inferred)",
    ]
    assert expected == plain(three_of_eight()).splitlines()[:2]


def test_evidence() -> None:
    """Evidence is value, unit, operator and threshold, in columns."""
    expected = [
        "Evidence",
        "  KV cache in use         0.97                > 0.85",
        "  Preemptions per minute  42 preemptions/min  > 30 preemptions/min",
    ]
    assert expected == lines(one_saturated(), "Evidence", 3)


def test_evidence_on_a_narrow_terminal() -> None:
    """Where columns do not fit, evidence is a sentence, and a note gives way first."""
    evidence = Evidence("waiting_share", 0.42, ">", 0.2, "ratio", "", note="bottleneck")
    made = diagnosis(report(findings=(saturated(evidence=(evidence,)),)))
    assert ["Evidence", "  Waiting share  0.42  > 0.2  (bottleneck)"] == lines(made, "Evidence", 2, width=44)
    assert ["  Waiting share  0.42  > 0.2"] == lines(made, "  Waiting", 1, width=40)
    expected = ["  Preemptions per minute: 42", "    preemptions/min > 30 preemptions/min"]
    assert expected == lines(one_saturated(), "  Preemptions", 2, width=40)


def test_recommendation() -> None:
    """The change, where its value comes from, what it does and costs, and how to verify it."""
    made = diagnosis(report(findings=(saturated(recommendations=(lower_slots(),)),)))
    expected = [
        "Change this",
        "  --max-num-seqs 256 -> 96",
        "    Why        Fewer sequences at once need fewer KV blocks.",
        "    Now        256, as given to palanca",
        "    Computed   floor(0.9 x 87,500 KV tokens / (640 prompt + 340 / 2 generated)), down to a multiple of 8",
        "    Set        --max-num-seqs 96",
        "    Applies to all engines of llama-3-8b",
        "    Effect     Preemptions stop; requests wait in the queue instead.",
        "    Trade-off  Moves the wait, throughput falls by about 2 %.",
        "    Risk       low",
        "    Verify     Preemptions per minute <= 1 within 10m",
    ]
    assert expected == lines(made, "Change", 11, width=120)


def test_alternatives_are_brief() -> None:
    """The other levers take a line or two."""
    expected = [
        "Or, one at a time",
        "  --max-num-seqs 256 -> 96 (low risk) Moves the wait, throughput falls by about 2 %.",
    ]
    assert expected == lines(one_saturated(), "Or,", 2, width=120)


def test_other_values_of_the_group() -> None:
    """Engines that need another value are named."""
    reports = [
        report(index, findings=(saturated(recommendations=(lower_slots(value),)),))
        for index, value in enumerate((96.0, 64.0))
    ]
    expected = "    Elsewhere  --max-num-seqs 256 -> 64 on llama-3-8b @ 10.0.0.6:8000"
    assert [expected] == lines(diagnosis(*reports), "    Elsewhere", 1)


def test_group_of_engines() -> None:
    """A problem of several engines names them."""
    expected = (
        "  Where       3 of 8 engines: llama-3-8b @ 10.0.0.8:8000, llama-3-8b @ 10.0.0.9:8000, "
        "llama-3-8b @ 10.0.0.10:8000"
    )
    assert [expected] == lines(three_of_eight(), "  Where", 1, width=130)


def test_group_of_all_engines() -> None:
    """A problem of all engines says so and names a few."""
    expected = "  Where       all 5 engines: a0, a1, a2 and 2 more"
    reports = [replace(bad_report(), target=Target.of({"instance": f"a{index}"})) for index in range(5)]
    assert [expected] == lines(diagnosis(*reports), "  Where", 1)


def test_fleet_finding_names_its_group() -> None:
    """A finding of a fleet rule says within what it compared."""
    made = diagnosis(report(findings=(saturated(scope="model", group={"model_name": "m"}),)))
    assert ["  Where       llama-3-8b @ 10.0.0.5:8000 (within model m)"] == lines(made, "  Where", 1)


def test_symptom_is_one_sentence() -> None:
    """A symptom says what explains it."""
    expected = (
        "  info     Time to first token is above the objective; explained by kv-cache-saturated; "
        "Time to first token, p99 4.7 s > 1 s"
    )
    assert ["Also found", expected] == lines(one_saturated(), "Also found", 2, width=130)


def test_symptom_of_the_same_engines() -> None:
    """The engines of the problem are not named again."""
    assert "4.7 s > 1 s; the same engines" in plain(three_of_eight(), 160)


def test_second_problem_is_short() -> None:
    """A further problem has one paragraph with its change."""
    other = saturated(rule="other", title="Other", severity="warning", evidence=(), recommendations=(lower_slots(),))
    made = diagnosis(report(findings=(saturated(), other)))
    expected = "  warning  Other; since 14:00:00 UTC (3 min 30 s); change --max-num-seqs 256 -> 96"
    assert expected in plain(made, 120).splitlines()


def test_pending_is_no_problem() -> None:
    """A pending finding is listed under a calm answer."""
    made = diagnosis(report(findings=(misses(),)))
    assert ["OK: Nothing to change on llama-3-8b @ 10.0.0.5:8000."] == lines(made, "OK", 1)
    expected = "  info     Prefix cache does not hit; Prefix hit rate 0.04 < 0.3; pending since 14:03:00 UTC (30 s)"
    assert [expected] == lines(made, "  info", 1, width=120)


def test_short_history() -> None:
    """Where the source covers less than the rule asks, the problem keeps its severity and says so."""
    finding = saturated(state="pending", full_history=False, confidence="low", since=1772373750.0)
    text = plain(diagnosis(report(findings=(finding,))))
    assert "CRITICAL (pending): KV cache is full" in text
    assert "held for 1 min of 3 min; the source has no longer history" in text


def test_problem_without_evidence_and_advice() -> None:
    """A bare finding leaves out what it does not have."""
    finding = saturated(evidence=(), recommendations=(), summary="")
    made = diagnosis(report(target=Target.of({"instance": "h:1"}), findings=(finding,)))
    expected = [
        "CRITICAL: KV cache is full and requests are being preempted",
        "  Where       h:1",
        "  When        since 14:00:00 UTC (3 min 30 s)",
        "  Cause       kv-capacity, confidence high",
        "",
        "  More: palanca rules show kv-cache-saturated",
    ]
    assert expected == lines(made, "CRITICAL", 6)


def test_healthy_engine() -> None:
    """A healthy engine gets a calm answer with the key numbers."""
    expected = [
        "OK: Nothing to change on llama-3-8b @ 10.0.0.5:8000.",
        "  TTFT p50                      48 ms",
        "  Time to first token, p99      121 ms",
        "  ITL p99                       31 ms",
        "  Running                       27.4 requests",
        "  Requests waiting              0 requests",
        "  KV cache in use               0.41",
        "  Prefix hit rate               0.63",
        "  Generation tokens per second  1,843 tokens/s",
    ]
    assert expected == lines(diagnosis(report()), "OK", 9)


def test_healthy_numbers_that_are_special() -> None:
    """Of the key numbers an idle one says so, a bound says "at least", a missing one is left out."""
    signals = {
        "ttft_p99": SignalValue(2560.0, "s", State.LOWER_BOUND, 300.0),
        "itl_p99": SignalValue(None, "s", State.IDLE, 300.0),
        "running": SignalValue(None, "requests", State.ABSENT, 300.0),
    }
    expected = ["  Time to first token, p99      at least 42 min 40 s", "  ITL p99                       no traffic"]
    assert expected == lines(diagnosis(report(signals=signals)), "OK", 4)[1:3]


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([report(0), report(1)], "OK: Nothing to change on all 2 engines."),
        ([report(0), idle(1)], "OK: Nothing to change on 1 of 2 engines."),
    ],
)
def test_healthy_fleet(reports: list[object], expected: str) -> None:
    """A fleet says on how many engines nothing is to be changed."""
    made = replace(diagnosis(), targets=tuple(reports))  # type: ignore[arg-type]
    assert [expected] == lines(made, "OK", 1)


def test_idle() -> None:
    """An idle engine is explained in a sentence and not called ok."""
    text = plain(diagnosis(idle()), 200)
    assert "IDLE: 1 engine (llama-3-8b @ 10.0.0.5:8000) had no traffic: no request ran" in text
    assert "OK" not in text


def test_unknown() -> None:
    """An engine that cannot be judged says what is missing."""
    text = plain(diagnosis(unknown()), 300)
    expected = (
        "UNKNOWN: 1 engine (llama-3-8b @ 10.0.0.5:8000) cannot be judged, because a core signal is missing or old: "
        "Running (absent), Requests waiting (absent), KV cache in use (absent), Time to first token, p99 (stale). "
    )
    assert expected in text


def test_unknown_without_a_known_gap() -> None:
    """Where no signal is reported at all, the sentence stands alone."""
    text = plain(diagnosis(report(status="unknown", signals={})), 300)
    assert "a core signal is missing or old. Unknown is not ok" in text


def test_not_judged() -> None:
    """Rules that lack the same share a line; what lacks on all engines names none."""
    expected = [
        "Not judged",
        "  cuda-graph-gap on 7 of 8 engines: no enforce_eager (absent)",
        "  kv-cache-saturated, kv-cache-leak on llama-3-8b @ 10.0.0.12:8000: no kv_cache_usage (absent)",
        "  ttft-high on llama-3-8b @ 10.0.0.12:8000: no ttft_p99 (stale)",
    ]
    assert expected == lines(three_of_eight(), "Not judged", 4, width=120)
    assert ["  cuda-graph-gap: no enforce_eager (absent)"] == lines(one_saturated(), "  cuda-graph", 1)


def test_many_gaps_are_cut() -> None:
    """Only the widest gaps are listed."""
    gaps = tuple(Unjudged(f"rule-{index}", ((f"signal_{index}", State.ABSENT),)) for index in range(12))
    assert "  and 4 more gaps; --format json lists them all" in plain(diagnosis(report(unknown=gaps))).splitlines()


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((1, 1), "1 rule."), ((0, 2), "0-2 rules per engine."), ((3, 3), "3 rules.")],
)
def test_not_applicable(counts: tuple[int, int], expected: str) -> None:
    """How many rules do not apply is a number, or a range."""
    reports = [report(index, not_applicable=("rule",) * count) for index, count in enumerate(counts)]
    assert f"Not applicable to this release or configuration: {expected}" in plain(diagnosis(*reports))


def test_table_of_engines() -> None:
    """Several engines are listed with status and numbers, the worst first."""
    expected = [
        "Engines",
        "  status    engine                        running   waiting        KV  TTFT p99",
        "  critical  llama-3-8b @ 10.0.0.8:8000        118        61      0.95     4.7 s",
    ]
    assert expected == lines(three_of_eight(), "Engines", 3)


def test_table_on_a_narrow_terminal() -> None:
    """On a narrow terminal numbers give way to the names."""
    expected = ["Engines", "  status    engine", "  critical  llama-3-8b @ 10.0.0.8:8000"]
    assert expected == lines(three_of_eight(), "Engines", 3, width=40)


def test_table_of_a_large_fleet() -> None:
    """A large fleet is cut, and what is left out is counted by status."""
    reports = [report(index) for index in range(30)] + [idle(30 + index) for index in range(5)]
    assert "  and 5 more: 5 ok" in plain(diagnosis(*reports)).splitlines()


def test_table_marks_lower_bounds() -> None:
    """A quantile beyond the last bucket is marked in the table."""
    bound = {"ttft_p99": SignalValue(80.0, "s", State.LOWER_BOUND, 300.0)}
    assert ">=80 s" in plain(diagnosis(report(0, signals=bound), report(1)))


def test_unreachable_source() -> None:
    """A dead source is a result that says why, without credentials."""
    text = plain(unreachable(), 200)
    assert "SOURCE UNREACHABLE: No data could be read: connection refused by http://prometheus:9090 after 3" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SourceInfo("p", "u", "unreachable"), "No data could be read: no reason was given. Nothing is concluded"),
        (SourceInfo("p", "u", "stale", age_s=600.0), "SOURCE STALE: The data are old. The newest sample is 10 min"),
        (SourceInfo("p", "u", "partial", error="timeout"), "would have shown is unknown. timeout"),
    ],
)  # fmt: skip
def test_source_states(source: SourceInfo, expected: str) -> None:
    """What is wrong with the source stands above everything else."""
    assert expected in plain(diagnosis(report(), source=source), 200)


def test_source_warnings() -> None:
    """Warnings of the source are listed, a few of them."""
    source = replace(SOURCE, warnings=tuple(f"warning {index}" for index in range(7)))
    found = lines(diagnosis(report(), source=source), "Warnings of the source", 7)
    assert ["Warnings of the source", "  warning 0", "  and 2 more"] == [found[0], found[1], found[6]]
    few = plain(diagnosis(report(), source=replace(SOURCE, warnings=("one",))))
    assert few.endswith("Warnings of the source\n  one\n")


def test_no_engine() -> None:
    """A source without engines says so."""
    assert "No engine found. The source answers, but has no series of a vLLM engine." in plain(diagnosis())


def test_colour_only_adds_escape_codes() -> None:
    """The coloured report is the plain one with colours."""
    coloured = render(three_of_eight(), width=80, color=True, catalogue=catalogue())
    assert "\x1b[1;31mCRITICAL:\x1b[0m KV cache is full" in coloured
    assert plain(three_of_eight()) == ESCAPE.sub("", coloured)


def test_without_catalogue() -> None:
    """Without a catalogue signals go by their names."""
    assert "  KV cache usage          0.97" in render(one_saturated(), width=80, color=False)


@pytest.mark.parametrize(
    ("text", "width", "hang", "expected"),
    [
        ("one two three", 8, 2, ["one two", "  three"]),
        ("a  b", 10, 0, ["a  b"]),
        ("abcdefghij", 4, 1, ["abcd", " efg", " hij"]),
        ("ab cdefghij", 4, 0, ["ab", "cdef", "ghij"]),
        ("took 30 s", 7, 0, ["took", "30 s"]),
        ("", 10, 2, [""]),
        ("模型模型", 5, 0, ["模型", "模型"]),
    ],
)
def test_wrap(text: str, width: int, hang: int, expected: list[str]) -> None:
    """Lines break at spaces, a number keeps its unit, and what is too long breaks anywhere."""
    assert expected == wrap(text, width, hang)


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("width", [40, 80])
def test_hostile_values(value: str, width: int) -> None:
    """No label value, title or warning widens the page, breaks a line or brings a terminal code."""
    finding = saturated(title=value, summary=value, group={"model_name": value})
    bad = replace(bad_report(findings=()), findings=(finding, misses(title=value)))
    named = replace(bad, target=target(model_name=value, job=value))
    source = SourceInfo(value, value, "partial", warnings=(value,), error=value)
    made = diagnosis(named, report(1, target=Target.of({"pod": value})), source=source)
    for line in plain(made, width).split("\n"):
        assert cell_len(line) <= width
        assert line.isprintable()


@given(st.text(st.characters(codec=None), max_size=300), st.integers(min_value=40, max_value=200), st.booleans())
def test_any_label_keeps_the_width(value: str, width: int, color: bool) -> None:
    """Whatever a label holds, the page is as wide as the terminal and has only our escape codes."""
    named = replace(bad_report(), target=target(model_name=value, instance=value))
    text = render(diagnosis(named, report(1)), width=width, color=color)
    bare = ESCAPE.sub("", text) if color else text
    assert "\x1b" not in bare
    assert max(cell_len(line) for line in bare.split("\n")) <= width


def test_markup_is_shown_as_it_is() -> None:
    """Square brackets are text."""
    assert "[red]m @ 10.0.0.5:8000" in plain(diagnosis(bad_report(target=target(model_name="[red]m"))))
