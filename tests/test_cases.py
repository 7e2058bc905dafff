"""Cases of rules: what passes, what fails and how it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines import advice, catalogue, rule, shipped

from palanca.cases import Case, CaseFile, lacking_kinds, readings_of, run_cases
from palanca.model import State

LEVERS = [advice(value="running_max * half"), advice(lever="replicas", value=None, no_value="x")]
RULE = rule(
    levers=LEVERS, supports=["waiting > half"], severity="critical", **{"for": "3m"},
    when="kv_cache_usage > half and not speculation",
)  # fmt: skip
SIGNALS = "{kv_cache_usage: 0.9, waiting: 4, running_max: 64}"
FACTS = "{speculation: false}"
WRONG = ":3:5: a-rule: one: expected recommendations"


def case(expect: str, *, signals: str = SIGNALS, facts: str = FACTS, more: str = "", name: str = "one") -> str:
    return f"  - name: {name}\n    signals: {signals}\n    facts: {facts}\n{more}    expect: {expect}\n"


def written(folder: Path, *cases: str, rule_id: str = "a-rule") -> Path:
    path = folder / "a-rule.yaml"
    path.write_text(f"rule: {rule_id}\ncases:\n{''.join(cases)}", encoding="utf-8")
    return path


def faults(folder: Path, *cases: str, rule_id: str = "a-rule") -> list[str]:
    """Faults of a case file, without its name."""
    path = written(folder, *cases, rule_id=rule_id)
    outcomes = run_cases(catalogue(RULE), [path])
    return [str(one.fault).removeprefix(str(path)) for one in outcomes if one.fault is not None]


@pytest.mark.parametrize(
    "text",
    [
        case("{state: firing}"),
        case("{state: firing, severity: critical, confidence: high}"),
        case("{state: firing, recommendations: ['max_num_seqs:raise=32', 'replicas:raise']}"),
        case("{state: firing, recommendations: ['max_num_seqs:raise', 'replicas:raise']}"),
        case("{state: firing, recommendations: ['replicas:raise']}", facts="{speculation: false, max_num_seqs: 40}"),
        case("{state: pending, severity: info}", more="    held_for: 1m\n"),
        case("{state: firing}", more="    held_for: 3m\n"),
        case("{state: pending, severity: critical, confidence: low}", more="    held_for: 1m\n    covered: 60s\n"),
        case("{state: quiet}", signals="{kv_cache_usage: 0.1}"),
        case("{state: quiet}", signals="{kv_cache_usage: 0.1}", facts="{}"),
        case("{state: unknown, missing: [kv_cache_usage]}", signals="{}"),
        case("{state: unknown, missing: [kv_cache_usage]}", signals="{kv_cache_usage: stale}"),
        case("{state: unknown, missing: [kv_cache_usage]}", signals="{kv_cache_usage: idle}"),
        case("{state: unknown, missing: [speculation]}", facts="{}"),
        case("{state: not applicable}", signals="{kv_cache_usage: not applicable}"),
        case("{state: firing}", more="    vllm: 0.8.0-0.33.0\n"),
    ],
)
def test_cases_that_pass(tmp_path: Path, text: str) -> None:
    """States, severities, confidence, recommendations with or without values, and what is missing."""
    assert [] == faults(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (case("{state: quiet}"), ":3:5: a-rule: one: expected quiet, is firing"),
        (case("{state: firing}", signals="{}"), ":3:5: a-rule: one: expected firing, is unknown"),
        (case("{state: firing}", signals="{kv_cache_usage: not applicable}"),
         ":3:5: a-rule: one: expected firing, is not applicable"),
        (case("{state: unknown, missing: [waiting]}", signals="{}"),
         ":3:5: a-rule: one: expected missing waiting, is kv_cache_usage"),
        (case("{state: firing, severity: warning}"), ":3:5: a-rule: one: expected severity warning, is critical"),
        (case("{state: firing, confidence: low}"), ":3:5: a-rule: one: expected confidence low, is high"),
        (case("{state: firing, recommendations: []}"),
         ":3:5: a-rule: one: expected recommendations none, are max_num_seqs:raise=32, replicas:raise"),
        (case("{state: firing, recommendations: ['max_num_seqs:raise=33', 'replicas:raise']}"),
         f"{WRONG} max_num_seqs:raise=33, replicas:raise, are max_num_seqs:raise=32, replicas:raise"),
        (case("{state: firing, recommendations: ['replicas:raise', 'max_num_seqs:raise']}"),
         f"{WRONG} replicas:raise, max_num_seqs:raise, are max_num_seqs:raise=32, replicas:raise"),
        (case("{state: firing}", signals="{kv_cache_usag: 0.9}"),
         ":4:15: there is no signal 'kv_cache_usag' (did you mean "),
        (case("{state: firing}", facts="{speculatio: true}"),
         ":5:13: there is no fact 'speculatio' (did you mean speculation or "),
        (case("{state: unknown}", signals="{kv_cache_usage: idel}"),
         ":4:31: 'idel' is neither a number nor one of absent, idle, stale, not applicable"),
        (case("{state: firing}", more="    vllm: newest\n"), ":6:11: 'newest' is not a vLLM release"),
        (case("{state: firing}", more="    vllm: 0.9.0-0.8.0\n"), ":6:11: the release range '0.9.0-0.8.0' ends before"),
        (case("{state: quiet}", more="    others: [{waiting: 4}, {kv_token: 9}]\n"),
         ":6:29: there is no signal or fact 'kv_token' (did you mean "),
        (case("{state: fires}"), ":6:21: 'fires' is not one of "),
        (case("{state: firing}", more="    held: 1m\n"), ":6:5: unknown key 'held'"),
        ("  - {name: x}\n", ":3:5: key 'expect' is missing"),
    ],
)  # fmt: skip
def test_cases_that_fail(tmp_path: Path, text: str, fault: str) -> None:
    """A fault has file, line and column, what was expected and what is."""
    found = faults(tmp_path, text)
    assert found[0].startswith(fault), found


def test_further_engines_differ_in_signals_and_facts() -> None:
    """What ``others`` names is theirs; the rest is as with the first engine."""
    given = Case.model_validate(
        {
            "name": "x", "signals": {"running": 4, "waiting": 2}, "facts": {"kv_tokens": 100, "block_size": 16},
            "others": [{"waiting": 7, "kv_tokens": 50}], "expect": {"state": "quiet"},
        }
    )  # fmt: skip
    readings = readings_of(shipped(), given)
    assert [4, 4] == readings.signals["running"].values[:, -1].tolist()
    assert [2, 7] == readings.signals["waiting"].values[:, -1].tolist()
    assert [100, 50] == [facts["kv_tokens"].value for facts in readings.facts]
    assert [16, 16] == [facts["block_size"].value for facts in readings.facts]


def test_every_case_has_an_outcome(tmp_path: Path) -> None:
    """Outcomes come in the order of the cases; a failed one hides no other."""
    path = written(tmp_path, case("{state: quiet}"), case("{state: firing}", name="two"))
    outcomes = list(run_cases(catalogue(RULE), [path]))
    assert [("a-rule", "one", True), ("a-rule", "two", False)] == [
        (one.rule, one.case, one.fault is not None) for one in outcomes
    ]


def test_unknown_rule(tmp_path: Path) -> None:
    """A file for a rule that is not there is one failed outcome."""
    assert [":1:7: there is no rule 'b-rule'"] == faults(tmp_path, case("{state: firing}"), rule_id="b-rule")


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    """A file that is no YAML, or not there, is a fault and does not stop the others."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("rule: [", encoding="utf-8")
    paths = [broken, tmp_path / "none.yaml", written(tmp_path, case("{state: firing}"))]
    outcomes = list(run_cases(catalogue(RULE), paths))
    assert [False, False, True] == [one.fault is None for one in outcomes]
    assert ["(the file)", "(the file)", "one"] == [one.case for one in outcomes]


@pytest.mark.parametrize(
    ("states", "lacking"),
    [
        (["firing", "quiet", "unknown"], []),
        (["firing", "quiet", "not applicable"], []),
        (["firing"], ["quiet", "unknown"]),
        (["pending", "quiet", "unknown"], ["firing"]),
        ([], ["firing", "quiet", "unknown"]),
    ],
)
def test_lacking_kinds(states: list[str], lacking: list[str]) -> None:
    """A rule needs a firing, a quiet and a missing-data case."""
    cases = [{"name": "x", "signals": {}, "expect": {"state": state}} for state in states]
    assert lacking == lacking_kinds(CaseFile.model_validate({"rule": "a-rule", "cases": cases}))


# --- readings of a case --------------------------------------------------------------------------


def read(signals: dict[str, object], name: str) -> tuple[float | None, State]:
    case = Case.model_validate({"name": "x", "signals": signals, "expect": {"state": "quiet"}})
    one = readings_of(shipped(), case).signals[name]
    state = State(int(one.states[0, -1]))
    return (None if state >= State.ABSENT else float(one.values[0, -1])), state


@pytest.mark.parametrize(
    ("signals", "name", "value"),
    [
        ({"ttft_p99": 3, "ttft_p50": 0.5}, "ttft_tail", (6.0, State.OK)),
        ({"ttft_p99": 3}, "ttft_tail", (None, State.ABSENT)),
        ({"ttft_p99": 3, "ttft_p50": "idle"}, "ttft_tail", (None, State.IDLE)),
        ({"ttft_p99": "stale", "ttft_p50": "idle"}, "ttft_tail", (None, State.STALE)),
        ({"waiting": 0, "running": 0}, "waiting_share", (None, State.IDLE)),
        ({"ttft_tail": 2, "ttft_p99": 3, "ttft_p50": 0.5}, "ttft_tail", (2.0, State.OK)),
        ({"waiting": 4}, "waiting_capacity", (4.0, State.OK)),
        ({"waiting": 4, "waiting_capacity": 1}, "waiting_capacity", (1.0, State.OK)),
        ({"counter_resets": 2, "process_restarts": 1}, "restarts", (2.0, State.OK)),
        ({}, "running", (None, State.ABSENT)),
        ({"running": "not applicable"}, "running", (None, State.NOT_APPLICABLE)),
    ],
)
def test_signals_of_a_case(signals: dict[str, object], name: str, value: tuple[float | None, State]) -> None:
    """What a case gives is taken; expressions and fallbacks follow from it; the rest is absent."""
    assert value == read(signals, name)
