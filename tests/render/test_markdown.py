"""The report for tickets."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.render.builders import (
    NOW,
    SOURCE,
    bad_report,
    catalogue,
    diagnosis,
    drop_override,
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

from palanca.model import Diagnosis, Evidence, Silenced, SourceInfo, Target
from palanca.render.markdown import block, code, escape, paragraph, render, table


def section(made: Diagnosis, heading: str) -> list[str]:
    """Lines of one section, the heading left out."""
    found = render(made, catalogue()).splitlines()
    start = found.index(heading) + 1
    end = next((i for i in range(start, len(found)) if found[i].startswith("#")), len(found))
    return [line for line in found[start:end] if line]


def test_problem() -> None:
    """A problem says where, since when, why and by which rule."""
    expected = [
        "- Where: `llama-3-8b @ 10.0.0.5:8000`",
        "- When: since 14:00:00 UTC (3 min 30 s)",
        "- Cause: kv-capacity, confidence high",
        "- Rule: `kv-cache-saturated`",
        "KV cache in use 0.97, 42 preemptions per minute.",
    ]
    assert expected == section(one_saturated(), "## Critical: KV cache is full and requests are being preempted")


def test_silenced_alerts() -> None:
    """Who mutes them, and until when, as text that formats nothing."""
    muted = Silenced(("6a1f*0c7e*",), NOW + 86400 * 2)
    findings = (saturated(silenced=muted), replace(slow_first_token(), silenced=muted))
    text = render(diagnosis(report(findings=findings)))
    words = "silenced until 2026-03-03 14:03:30 UTC by 6a1f\\*0c7e\\*"
    assert f"- Alert: {words}\n" in text
    assert f"; {words}\n" in text


def test_pending_problem() -> None:
    """A pending problem says so in its heading."""
    finding = saturated(state="pending", full_history=False, summary="", evidence=(), recommendations=())
    text = render(diagnosis(report(findings=(finding,))))
    assert "## Critical (pending): KV cache is full" in text
    assert "### " not in text


def test_group() -> None:
    """Several engines are counted and named, a fleet rule names its group."""
    assert "- Where: 3 of 8 engines: `llama-3-8b @ 10.0.0.8:8000`, " in render(three_of_eight())
    made = diagnosis(report(findings=(saturated(scope="model", group={"model_name": "m"}),)))
    assert "- Where: `llama-3-8b @ 10.0.0.5:8000` (within `model m`)" in render(made)


def test_evidence() -> None:
    """Evidence is a table with the queries beneath."""
    expected = [
        "| Signal | Value | Threshold |",
        "| --- | --- | --- |",
        "| KV cache in use | 0.97 | > 0.85 |",
        "| Preemptions per minute | 42 preemptions/min | > 30 preemptions/min |",
        "```promql",
        "avg_over_time(vllm:kv_cache_usage_perc[5m])",
        "```",
    ]
    assert expected == section(one_saturated(), "### Evidence")


def test_evidence_with_a_note() -> None:
    """A note gets a column; without queries there is no block."""
    evidence = Evidence("waiting", 9.0, ">", 5.0, "requests", "", note="at least 5 minutes")
    made = diagnosis(report(findings=(saturated(evidence=(evidence,)),)))
    assert "| Requests waiting | 9 requests | > 5 requests | at least 5 minutes |" == section(made, "### Evidence")[-1]


def test_change_is_a_diff() -> None:
    """The change can be read as a diff, with all that is known of it."""
    made = diagnosis(report(findings=(saturated(recommendations=(lower_slots(),)),)))
    expected = [
        "```diff",
        "- --max-num-seqs 256",
        "+ --max-num-seqs 96",
        "```",
        "- Why: Fewer sequences at once need fewer KV blocks.",
        "- Now: 256, as given to palanca",
        "- Computed: floor(0.9 x 87,500 KV tokens / (640 prompt + 340 / 2 generated)), down to a multiple of 8",
        "- Applies to: all engines of llama-3-8b",
        "- Effect: Preemptions stop; requests wait in the queue instead.",
        "- Trade-off: Moves the wait, throughput falls by about 2 %.",
        "- Risk: low",
        "- Verify: Preemptions per minute <= 1 within 10m",
    ]
    assert expected == section(made, "### Change")


def test_change_without_current_value() -> None:
    """Where nobody knows the current value, only the new one stands."""
    made = diagnosis(report(findings=(saturated(recommendations=(replace(lower_slots(), current=None),)),)))
    assert ["```diff", "+ --max-num-seqs 96", "```"] == section(made, "### Change")[:3]


@pytest.mark.parametrize(
    ("current", "expected"), [(256.0, "- --num-gpu-blocks-override 256"), (None, "- --num-gpu-blocks-override")]
)
def test_flag_that_goes(current: float | None, expected: str) -> None:
    """A flag to be left out has only the old line."""
    change = replace(drop_override(), current=current)
    made = diagnosis(report(findings=(saturated(recommendations=(change,)),)))
    assert ["```diff", expected, "```"] == section(made, "### Change")[:3]


def test_change_without_argument() -> None:
    """An action outside vLLM has no diff."""
    action = replace(
        lower_slots(), lever="replicas", flag=None, direction="raise", current=3.0, proposed=4.0, argument=None
    )
    made = diagnosis(report(findings=(saturated(recommendations=(action,)),)))
    assert "**replicas 3 -> 4**" == section(made, "### Change")[0]


def test_alternatives() -> None:
    """The other levers are listed in short; one without trade-off has none."""
    bare = replace(lower_slots(), trade_off="")
    made = diagnosis(report(findings=(saturated(recommendations=(lower_slots(), lower_slots(64.0), bare)),)))
    expected = [
        "Alternatives, one at a time:",
        "- `--max-num-seqs 256 -> 64` (low risk) Moves the wait, throughput falls by about 2 %.",
        "- `--max-num-seqs 256 -> 96` (low risk)",
    ]
    assert expected == section(made, "### Change")[-3:]


def test_other_values() -> None:
    """Engines that need another value are named."""
    reports = [
        report(index, findings=(saturated(recommendations=(lower_slots(value),)),))
        for index, value in enumerate((96.0, 64.0))
    ]
    expected = "- Elsewhere: --max-num-seqs 256 -> 64 on llama-3-8b @ 10.0.0.6:8000"
    assert expected == section(diagnosis(*reports), "### Change")[-1]


def test_other_findings() -> None:
    """Symptoms name what explains them, pending findings since when they hold."""
    made = diagnosis(replace(bad_report(), findings=(*bad_report().findings, misses())))
    expected = [
        (
            "- info: Prefix cache does not hit; Prefix hit rate 0.04 < 0.3; `llama-3-8b @ 10.0.0.5:8000`; "
            "pending since 14:03:00 UTC (30 s)"
        ),
        (
            "- info: Time to first token is above the objective; explained by `kv-cache-saturated`; "
            "Time to first token, p99 4.7 s > 1 s; `llama-3-8b @ 10.0.0.5:8000`"
        ),
    ]
    assert expected == section(made, "## Also found")


def test_engines() -> None:
    """Every engine has a row, the worst status first."""
    expected = [
        "| Engine | Status | vLLM | Running | Waiting | KV | TTFT p99 | ITL p99 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| `llama-3-8b @ 10.0.0.6:8000` | idle | - | 0 requests | 0 requests | 0 | - | - |",
        "| `llama-3-8b @ 10.0.0.5:8000` | ok | 0.24.0-0.33.0 | 27.4 requests | 0 requests | 0.41 | 121 ms | 31 ms |",
    ]
    assert expected == section(diagnosis(report(), replace(idle(1), version=None)), "## Engines")[:4]


def test_large_fleet() -> None:
    """A large fleet is cut."""
    assert "and 5 more" in section(diagnosis(*(report(index) for index in range(105))), "## Engines")


def test_not_judged() -> None:
    """What could not be judged stands with its reason."""
    made = diagnosis(report(0, not_applicable=("a",)), unknown(1))
    expected = [
        "- `kv-cache-saturated`, `kv-cache-leak` on llama-3-8b @ 10.0.0.6:8000: no kv_cache_usage (absent)",
        "- `ttft-high` on llama-3-8b @ 10.0.0.6:8000: no ttft_p99 (stale)",
        "Not applicable to this release or configuration: 2 rules.",
    ]
    assert expected == section(made, "## Not judged")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (one_saturated(), "# vLLM: KV cache is full and requests are being preempted"),
        (diagnosis(report()), "# vLLM: nothing to change"),
        (diagnosis(idle()), "# vLLM: no traffic"),
        (diagnosis(report(), unknown(1)), "# vLLM: some engines cannot be judged"),
        (diagnosis(), "# vLLM: no engine found"),
        (unreachable(), "# vLLM: the source is unreachable"),
    ],
)
def test_title(made: Diagnosis, expected: str) -> None:
    """The title says the result."""
    assert expected == render(made).splitlines()[0]


def test_source() -> None:
    """A source that did not answer well says how and why, without credentials."""
    text = render(unreachable())
    assert "**The source is unreachable.** connection refused by http://prometheus:9090 after 3 tries" in text
    assert "secret" not in text
    stale = render(diagnosis(source=SourceInfo("p", "", "stale", age_s=600.0)))
    assert "**The source is stale.** The newest sample is 10 min old. What is missing is unknown, not ok." in stale


def test_source_warnings() -> None:
    """Warnings of the source are listed."""
    made = diagnosis(report(), source=replace(SOURCE, warnings=("partial <b>response</b>",)))
    assert ["- partial &#60;b>response&#60;/b>"] == section(made, "## Warnings of the source")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b `c` *d* _e_ f_g", "a\\|b \\`c\\` \\*d\\* \\_e\\_ f_g"),
        ("[x](http://y)", "\\[x\\](http://y)"),
        ("<script> & &amp; a < b", "&#60;script> & &#38;amp; a < b"),
        ("@team at a @ b", "&#64;team at a @ b"),
        ("a\nb", "a\\\\nb"),
    ],
)
def test_escape(text: str, expected: str) -> None:
    """Text from outside stays text."""
    assert expected == escape(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# no heading", "\\# no heading"),
        ("1. no list", "1\\. no list"),
        ("- no list", "\\- no list"),
        ("> no quote", "\\> no quote"),
        (" --- ", "\\---"),
        ("0.97 of *all*", "0\\.97 of \\*all\\*"),
        ("plain text", "plain text"),
    ],
)
def test_paragraph(text: str, expected: str) -> None:
    """A text that begins a line begins nothing else."""
    assert expected == paragraph(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("m @ h:1", "`m @ h:1`"), ("a`b", "`` a`b ``"), ("``", "``` `` ```"), ("", "`-`"), ("a\nb", "`a\\nb`")],
)
def test_code(text: str, expected: str) -> None:
    """A code span cannot be ended by what it holds."""
    assert expected == code(text)


def test_block_outlasts_its_lines() -> None:
    """A code block cannot be ended by what it holds."""
    assert ["````", "```", "````", ""] == block(["```"])


def test_table() -> None:
    """A table has a head, a rule and rows."""
    assert ["| a | b |", "| --- | --- |", "| 1 | 2 |", ""] == table(["a", "b"], [["1", "2"]])


@given(st.text(st.characters(codec=None), max_size=200))
def test_no_label_breaks_the_table(value: str) -> None:
    """Whatever a label holds, each row has as many cells as the head, and no line is added."""
    made = diagnosis(report(target=target(model_name=value)), report(1, target=Target.of({"x": value})))
    rows = [line for line in render(made).split("\n") if line.startswith("|")]
    assert [9] * 4 == [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
