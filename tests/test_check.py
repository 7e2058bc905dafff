"""Whole-matrix checks: each fault is found, and its place is exactly the name that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rule_folders import MINIMAL, SATURATED, TTFT_HIGH, changed, copied, faults, place, written

from palanca.check import RUNBOOK_HEADINGS, check_runbooks, expand_signals, load_catalogue, load_documents
from palanca.errors import RuleFileError
from palanca.model import Expand, Signal

WHEN = "when: kv_cache_usage > full and preemptions_per_minute > many\n"
HINT = "unknown name 'preemptions_per_minut' (did you mean preemptions_per_minute?)"


@pytest.mark.parametrize(
    "when",
    [
        "when: kv_cache_usage > full and preemptions_per_minut > many\n",
        "when:     kv_cache_usage > full and preemptions_per_minut > many\n",
        'when: "kv_cache_usage > full and preemptions_per_minut > many"\n',
        "when: 'kv_cache_usage > full and preemptions_per_minut > many'\n",
        'when: "  kv_cache_usage > full and preemptions_per_minut > many"\n',
        "when: >\n  kv_cache_usage > full and preemptions_per_minut > many\n",
        "when: >-\n  kv_cache_usage > full\n  and preemptions_per_minut > many\n",
        "when: >-   # why\n\n      kv_cache_usage > full\n      and\n      preemptions_per_minut > many\n\n",
        "when: |\n  kv_cache_usage > full\n    and preemptions_per_minut > many\n",
        "when: |2\n    kv_cache_usage > full and\n    preemptions_per_minut > many\n",
        "when: kv_cache_usage > full and\n  preemptions_per_minut\n  > many\n",
        'when: "kv_cache_usage > full\n\n  and preemptions_per_minut > many"\n',
        "when: 'kv_cache_usage\n  > full and   preemptions_per_minut > many'\n",
        "when:\n  kv_cache_usage > full and preemptions_per_minut > many\n",
    ],
)
def test_unknown_names_are_pointed_at(tmp_path: Path, when: str) -> None:
    """The column is that of the name inside the expression, plain, quoted, folded or literal."""
    folder = copied(tmp_path)
    path = changed(folder, SATURATED, WHEN, when)

    assert (
        f"{place(path, 'preemptions_per_minut' + (chr(10) if 'minut' + chr(10) in when else ' '))}: {HINT}"
        in faults(folder)
    )


@pytest.mark.parametrize(
    ("old", "new", "needle", "message"),
    [
        (
            WHEN,
            WHEN.replace("> full", "> 0.85"),
            "0.85 and",
            "bare number 0.85 in a condition (name it under thresholds, with unit and source)",
        ),
        (WHEN, WHEN.replace("> many", "> full"), "kv_cache_usage > full and", None),
        (
            WHEN,
            WHEN.replace("> many", "> full"),
            "preemptions_per_minute > full",
            "units differ: preemption/min > ratio (both sides need the same unit)",
        ),
        (
            WHEN,
            WHEN.replace("> many", "== many"),
            "preemptions_per_minute == many",
            "only one of < <= > >= at a time (join comparisons with and)",
        ),
        (WHEN, WHEN.replace("> many", "> many)"), ")\nfor", "cannot be read: unmatched ')'"),
        (
            "supports: [not prefix_caching]",
            "supports: [not prefix_cachin]",
            "prefix_cachin]",
            "unknown name 'prefix_cachin' (did you mean prefix_caching?)",
        ),
        (
            "supports: [not prefix_caching]",
            "supports: [kv_cache_usage]",
            "kv_cache_usage]",
            "a condition is needed here, not a number (compare it with a threshold)",
        ),
        ("supports: [not prefix_caching]", "contradicts: [x > full]", "x > full]", "unknown name 'x'"),
        (
            "    value: fp8",
            "    value: fp8\n    only_if: prefix_cachin",
            "prefix_cachin\n",
            "unknown name 'prefix_cachin' (did you mean prefix_caching?)",
        ),
        (
            "    value: fp8",
            "    value: fp8\n    unless: kv_cache_usage > 1",
            "1\n  - lever",
            "bare number 1 in a condition (name it under thresholds, with unit and source)",
        ),
        ("  less: {", "  full2: {", "full2", "threshold 'full2' is used nowhere"),
        (
            "  less: {",
            "  spare: {value: 1, unit: s, source: x}\n  less: {",
            "spare",
            "threshold 'spare' is used nowhere",
        ),
        (
            "  less: {",
            "  running: {value: 1, unit: s, source: x}\n  less: {",
            "running",
            "'running' is already the name of a signal or fact",
        ),
        (
            "  less: {",
            "  finished_stop: {value: 1, unit: s, source: x}\n  less: {",
            "finished_stop",
            "'finished_stop' is already the name of a signal or fact",
        ),
        (
            "  less: {",
            "  max_num_seqs: {value: 1, unit: s, source: x}\n  less: {",
            "max_num_seqs: {",
            "'max_num_seqs' is already the name of a signal or fact",
        ),
        ("value: 0.85, unit: ratio", "value: 0.85, unit: percent", "percent", "'percent' in 'percent' is no unit"),
        (
            "explains: [ttft-high]",
            "explains: [ttft-hig]",
            "ttft-hig]",
            "there is no symptom rule 'ttft-hig' (did you mean ttft-high?)",
        ),
        (
            "explains: [ttft-high]",
            "explains: [kv-cache-saturated]",
            "kv-cache-saturated]",
            "there is no symptom rule 'kv-cache-saturated'",
        ),
        ("explains: [ttft-high]", "explains: [ttft-high, x]", "x]\nlevers", "there is no symptom rule 'x'"),
        (
            "lever: max_num_seqs",
            "lever: max_num_seq",
            "max_num_seq\n",
            "there is no lever 'max_num_seq' (did you mean max_num_seqs?)",
        ),
        ("value: fp8", "value: fp4", "fp4", "'fp4' is not one of auto, fp8"),
        (
            "less * max_num_seqs, 8",
            "less * max_num_seq, 8",
            "max_num_seq,",
            "unknown name 'max_num_seq' (did you mean max_num_seqs?)",
        ),
        (
            '"round_down(less * max_num_seqs, 8)"',
            '"less * kv_tokens"',
            "less * kv",
            "the value has the unit token, the lever requests",
        ),
        (
            '"round_down(less * max_num_seqs, 8)"',
            '"less > full"',
            "less > full",
            "a number is needed here, not a condition",
        ),
        ("above {full}", "above {ful}", '"The cache is', "unknown name 'ful' in braces (did you mean full?)"),
        ("above {full}", "above {}", '"The cache is', "unknown name '' in braces"),
        (
            "above {full}",
            "above {full",
            '"The cache is',
            "braces: expected '}' before end of string (names of signals go in braces: {waiting})",
        ),
        (
            "above {full}",
            "above }",
            '"The cache is',
            "braces: Single '}' encountered in format string (names of signals go in braces: {waiting})",
        ),
        (
            "signal: preemptions_per_minute,",
            "signal: preemptions,",
            "preemptions, expect",
            "there is no signal 'preemptions'",
        ),
    ],
)
def test_faults_of_a_rule(tmp_path: Path, old: str, new: str, needle: str, message: str | None) -> None:
    """Each fault is told with its place, message and hint."""
    folder = copied(tmp_path)
    path = changed(folder, SATURATED, old, new)
    found = faults(folder)

    where = place(path, needle)
    line, column = where.rsplit(":", 2)[1:]
    quoted = needle.startswith('"')
    where = f"{path}:{line}:{int(column) + quoted}"
    if message is None:
        assert not any(one.startswith(f"{where}: ") for one in found), found
    else:
        assert f"{where}: {message}" in found


def test_an_unknown_lever_does_not_make_thresholds_unused(tmp_path: Path) -> None:
    """One slip is one fault."""
    folder = copied(tmp_path)
    changed(folder, SATURATED, "lever: max_num_seqs", "lever: max_num_seq")

    assert 1 == len(faults(folder))


def test_the_file_is_called_like_the_rule(tmp_path: Path) -> None:
    """The id predicts the file name."""
    folder = copied(tmp_path)
    path = (folder / SATURATED).rename(folder / "matrix" / "kv-cache" / "other.yaml")

    where = place(path, "kv-cache-saturated")
    assert [f"{where}: the file of rule 'kv-cache-saturated' must be called kv-cache-saturated.yaml"] == faults(folder)


def test_a_symptom_recommends_nothing(tmp_path: Path) -> None:
    """A rule without a cause of its own has no levers."""
    folder = copied(tmp_path)
    path = changed(
        folder,
        TTFT_HIGH,
        "slo: slo.ttft_p99\n",
        "slo: slo.ttft_p99\nlevers:\n  - {lever: replicas, direction: none, order: 3, "
        "risk: low, why: a, effect: b, trade_off: c, no_value: d}\n",
    )

    assert [f"{place(path, 'levers')}: a symptom rule recommends nothing (give it a cause)"] == faults(folder)


def test_an_unknown_objective(tmp_path: Path) -> None:
    """``slo`` names a fact."""
    folder = copied(tmp_path)
    path = changed(folder, TTFT_HIGH, "slo: slo.ttft_p99", "slo: slo.ttft")

    assert [
        f"{place(path, 'slo.ttft' + chr(10))}: there is no objective 'slo.ttft' (did you mean slo.ttft_p99?)"
    ] == faults(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "needle", "message"),
    [
        (
            "signals.yaml",
            "avg: num_requests_running",
            "avg: num_requests_runing",
            "num_requests_runing",
            "there is no family 'num_requests_runing' in metrics.yaml (did you mean num_requests_running?)",
        ),
        (
            "signals.yaml",
            "rate: preemptions,",
            "rate: kv_cache_usage,",
            "kv_cache_usage, times",
            "kv_cache_usage is a gauge; rate needs a counter or histogram",
        ),
        (
            "signals.yaml",
            "avg: num_requests_running",
            "avg: preemptions",
            "preemptions}",
            "preemptions is a counter; avg needs a gauge",
        ),
        (
            "signals.yaml",
            "avg: num_requests_running",
            "mean: preemptions",
            "preemptions}",
            "preemptions is a counter; mean needs a histogram",
        ),
        (
            "signals.yaml",
            "quantile: 0.5, of: time_to_first_token",
            "quantile: 0.5, of: preemptions",
            "preemptions}",
            "preemptions is a counter; of needs a histogram",
        ),
        (
            "signals.yaml",
            "rate: preemptions, times: 60",
            "rate: preemptions, per: request_succes",
            "request_succes}",
            "there is no family 'request_succes' in metrics.yaml (did you mean request_success?)",
        ),
        (
            "signals.yaml",
            "rate: preemptions, times: 60",
            "rate: preemptions, or_gauge: request_success",
            "request_success}",
            "request_success is a counter; rate needs a gauge",
        ),
        (
            "signals.yaml",
            "rate: preemptions, times: 60",
            "rate: preemptions, where: {reason: a}",
            "{reason: a}",
            "preemptions has no label 'reason' of its own",
        ),
        (
            "signals.yaml",
            "label: finished_reason",
            "label: reason",
            None,
            "request_success has no label 'reason' of its own",
        ),
        (
            "signals.yaml",
            "avg: num_requests_running",
            "avg: num_requests_running, fallback: runing",
            "runing}",
            "there is no signal 'runing' (did you mean running?)",
        ),
        (
            "signals.yaml",
            "avg: num_requests_running",
            "avg: num_requests_running, fallback: max_num_seqs",
            "max_num_seqs}",
            "there is no signal 'max_num_seqs'",
        ),
        (
            "signals.yaml",
            '"ttft_p99 / ttft_p50"',
            '"ttft_p99 / ttft_p5"',
            'ttft_p5"',
            "unknown name 'ttft_p5' (did you mean ttft_p50 or ttft_p99?)",
        ),
        (
            "signals.yaml",
            '"ttft_p99 / ttft_p50"',
            '"ttft_p99 / slo.ttft_p99"',
            "slo.ttft_p99",
            "unknown name 'slo.ttft_p99' (did you mean ttft_p99 or ttft_p50?)",
        ),
        ("signals.yaml", '"ttft_p99 / ttft_p50"', '"1"', '1"', "the expression reads no signal"),
        (
            "signals.yaml",
            'unit: ratio, expr: "ttft_p99 / ttft_p50"',
            'unit: s, expr: "ttft_p99 / ttft_p50"',
            "s, expr",
            "the expression has the unit ratio, not s",
        ),
        (
            "signals.yaml",
            'title: "Requests running", unit: requests',
            'title: "Requests running", unit: people',
            "people",
            "'people' in 'people' is no unit",
        ),
        (
            "signals.yaml",
            "  ttft_tail:",
            "  kv_tokens: {title: X, unit: tokens, avg: kv_cache_usage}\n  ttft_tail:",
            None,
            "'kv_tokens' is already a signal",
        ),
        (
            "facts.yaml",
            '"num_gpu_blocks * block_size"',
            '"num_gpu_blocks * block_siz"',
            'block_siz"',
            "unknown name 'block_siz' (did you mean block_size?)",
        ),
        (
            "facts.yaml",
            '"num_gpu_blocks * block_size"',
            '"num_gpu_blocks * running"',
            'running"',
            "unknown name 'running'",
        ),
        (
            "facts.yaml",
            '"num_gpu_blocks * block_size"',
            '"num_gpu_blocks"',
            'num_gpu_blocks"',
            "the expression has the unit block, not tokens",
        ),
        (
            "facts.yaml",
            "unit: tokens/block",
            "unit: tokens per block",
            "tokens per block",
            "'per' in 'tokens per block' is no unit",
        ),
        (
            "levers.yaml",
            "    fact: max_num_seqs",
            "    fact: max_num_seq",
            "max_num_seq\n",
            "there is no fact 'max_num_seq' (did you mean max_num_seqs?)",
        ),
        ("levers.yaml", "    unit: requests", "    unit: people", "people", "'people' is no unit"),
        (
            "levers.yaml",
            "    title: Replicas\n    action: Run more engines.\n",
            "    title: Replicas\n",
            "title: Replicas",
            "a lever has either forms (a flag) or an action (outside vLLM)",
        ),
    ],
)
def test_faults_of_the_catalogue(
    tmp_path: Path, name: str, old: str, new: str, needle: str | None, message: str
) -> None:
    """Signals, facts and levers are checked against each other and against the metrics."""
    folder = copied(tmp_path)
    path = changed(folder, name, old, new)
    found = faults(folder)

    where = f"{place(path, needle)}: " if needle is not None else ""
    assert any(one.startswith(where) and one.endswith(f": {message}") for one in found), found


@pytest.mark.parametrize(
    ("lines", "members"),
    [
        (['a: {title: A, unit: ratio, expr: "a + kv_cache_usage"}'], ["a"]),
        (
            [
                'a: {title: A, unit: ratio, expr: "b"}',
                'b: {title: B, unit: ratio, expr: "c"}',
                'c: {title: C, unit: ratio, expr: "a"}',
            ],
            ["a", "b", "c"],
        ),
        (
            [
                "a: {title: A, unit: ratio, avg: kv_cache_usage, fallback: b}",
                'b: {title: B, unit: ratio, expr: "a"}',
                'd: {title: D, unit: ratio, expr: "b"}',
            ],
            ["a", "b"],
        ),
        (["a: {title: A, unit: ratio, avg: kv_cache_usage, fallback: a}"], ["a"]),
    ],
)
def test_cycles(tmp_path: Path, lines: list[str], members: list[str]) -> None:
    """Every signal of a cycle is named, others that use it are not."""
    path = written(tmp_path / "mine" / "signals.yaml", "signals:\n" + "".join(f"  {line}\n" for line in lines))

    expected = [f"{place(path, f'  {name}: ').rsplit(':', 1)[0]}:3: {name!r} is defined by itself" for name in members]
    assert expected == faults(MINIMAL, tmp_path / "mine")


def test_a_chain_is_no_cycle(tmp_path: Path) -> None:
    """Signals may use each other in any order of the file."""
    written(
        tmp_path / "mine" / "signals.yaml",
        'signals:\n  a: {title: A, unit: ratio, expr: "b + c"}\n'
        '  b: {title: B, unit: ratio, expr: "c"}\n  c: {title: C, unit: ratio, expr: "kv_cache_usage"}\n',
    )

    assert {"a", "b", "c"} <= set(load_catalogue([MINIMAL, tmp_path / "mine"]).signals)


def test_expansion() -> None:
    """A signal with ``expand`` becomes one signal for each value; the others stay."""
    plain = Signal(title="P", unit="s", avg="x")
    many = Signal(
        title="Done ({value})",
        unit="s",
        rate="x",
        where={"a": "b"},
        expand=Expand(label="reason", values=("stop", "length")),
    )
    made = expand_signals({"done": many, "plain": plain})

    assert {"done_stop", "done_length", "plain"} == set(made)
    assert ("Done (stop)", {"a": "b", "reason": "stop"}, None) == (
        made["done_stop"].title,
        made["done_stop"].where,
        made["done_stop"].expand,
    )
    assert plain == made["plain"]


def test_value_zero_fits_every_lever(tmp_path: Path) -> None:
    """The number 0 needs no unit, as a value of a lever too."""
    folder = copied(tmp_path)
    changed(folder, SATURATED, '"round_down(less * max_num_seqs, 8)"', '"0"')
    changed(folder, SATURATED, "  less: {value: 0.75, unit: ratio, source: a test}\n", "")

    assert load_catalogue([folder]).rules


def test_documents_of_rules(tmp_path: Path) -> None:
    """The file of each rule is known by its id; broken files are faults."""
    assert {"kv-cache-saturated": MINIMAL / SATURATED, "ttft-high": MINIMAL / TTFT_HIGH} == load_documents([MINIMAL])

    folder = copied(tmp_path)
    written(folder / TTFT_HIGH, "")
    with pytest.raises(RuleFileError, match="the file is empty"):
        load_documents([folder])


def test_runbooks(tmp_path: Path) -> None:
    """Each rule needs a runbook with four headings in order."""
    catalogue = load_catalogue([MINIMAL])
    written(tmp_path / "kv-cache-saturated.md", "# KV\n\n" + "\n\ntext\n\n".join(RUNBOOK_HEADINGS) + "\n")
    missing = tmp_path / "ttft-high.md"

    (fault,) = check_runbooks(catalogue, tmp_path)
    assert f"{missing}: the runbook is missing (headings: ## Meaning, ## Impact, ## Diagnosis, ## Mitigation)" == str(
        fault
    )

    written(missing, "\n".join(reversed(RUNBOOK_HEADINGS)))
    (fault,) = check_runbooks(catalogue, tmp_path)
    assert f"{missing}:1:1: the headings must be ## Meaning, ## Impact, ## Diagnosis, ## Mitigation" == str(fault)

    written(missing, "\n".join(RUNBOOK_HEADINGS))
    assert [] == check_runbooks(catalogue, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{proposed / runnin}", "unknown name 'runnin'"),
        ("{proposed + preemptions_per_minute}", "units differ"),
        ("{proposed", "braces: expected '}' before end of string"),
    ],
)
def test_computed_effects(tmp_path: Path, text: str, message: str) -> None:
    """Expressions in the braces of an effect are checked like all others."""
    folder = copied(tmp_path)
    old = (folder / SATURATED).read_text(encoding="utf-8")
    first = next(line for line in old.splitlines() if line.strip().startswith("trade_off:"))
    changed(folder, SATURATED, first, f'{first}\n    effect_computed: "{text}"')

    assert any(message in one for one in faults(folder))
