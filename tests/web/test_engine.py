"""One engine as it is arranged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.api.apps import SATURATED, recorded
from tests.engines import shipped
from tests.recorded import AT, read_recording
from tests.web.served import LATE, QUIET, SICK, SILENT, engines

from palanca.diagnosis import diagnose
from palanca.model import Diagnosis, Recommendation, State
from palanca.poll import grid_for
from palanca.web.bars import bars_of
from palanca.web.engine import EngineView, engine_view

ARGUMENTS = "--num-gpu-blocks-override 256 --max-num-seqs=64 --enforce-eager"


def view(diagnosis: Diagnosis, row: int = 0, serve_args: str | None = None) -> EngineView:
    return engine_view(diagnosis, diagnosis.targets[row], shipped(), serve_args)


def test_a_real_incident() -> None:
    """Verdict, evidence, change and alternatives, as the command line tells them."""
    made = view(recorded())
    assert ("critical", "KV cache is full and requests are being preempted") == (made.status, made.verdict)
    assert "424 preemptions/min" in made.sentence
    (problem,) = made.problems
    assert ("kv-cache-saturated", "kv-capacity", "high") == (problem.rule, problem.cause, problem.confidence)
    assert [("KV cache in use", "0.95", "> 0.85")] == [
        (row.title, row.value, row.threshold) for row in problem.evidence if row.note == "full"
    ]
    assert any("kv_cache_usage_perc" in text for text in problem.queries)
    assert problem.change is not None
    assert (("-", "--num-gpu-blocks-override 256"),) == problem.change.diff
    assert {"Why", "Trade-off", "Verify", "Risk"} <= dict(problem.change.details).keys()
    assert "--kv-cache-dtype auto -> fp8" in [text for text, *_ in problem.alternatives]
    assert {"ttft-high", "queue-waiting"} <= {one.rule for one in made.others}
    assert all(("kv-cache-saturated",) == one.explained for one in made.others if one.rule == "ttft-high")
    assert "0.32.0 (inferred)" == made.release


def test_the_whole_command_line() -> None:
    """With what was given, and without it the reason."""
    change = view(recorded(), serve_args=ARGUMENTS).problems[0].change
    assert change is not None
    assert "vllm serve tiny-llama --max-num-seqs=64 --enforce-eager" == change.line
    assert "model_name" in change.note
    change = view(recorded()).problems[0].change
    assert change is not None
    assert change.line is None
    assert "serve_args" in change.note
    broken = view(recorded(), serve_args="--flag 'never closed").problems[0].change
    assert broken is not None
    assert (None, True) == (broken.line, "cannot be read" in broken.note)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"argument": None, "proposed": None}, "Without a value"), ({"flag": None}, ""),
     ({"argument": '--speculative-config \'{"num_speculative_tokens": 3, ...}\''}, "by hand")],
)  # fmt: skip
def test_changes_that_make_no_line(changes: dict[str, object], words: str) -> None:
    """They say why."""
    plain = recorded()
    finding = plain.targets[0].findings[0]
    one: Recommendation = replace(finding.recommendations[0], **changes)  # type: ignore[arg-type]
    report = replace(plain.targets[0], findings=(replace(finding, recommendations=(one,)),))
    change = engine_view(plain, report, shipped(), ARGUMENTS).problems[0].change
    assert change is not None
    assert change.line is None
    assert words in change.note


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [(QUIET, "Nothing to change"), (SILENT, "This engine cannot be judged"),
     ({**QUIET, "running_max": 0, "waiting_max": 0, "requests_per_second": 0}, "No traffic")],
)  # fmt: skip
def test_verdicts(kind: dict[str, object], verdict: str) -> None:
    """Of engines at which no problem is found."""
    made = view(engines(kind))
    assert verdict == made.verdict
    if verdict == "This engine cannot be judged":
        assert "Unknown is not ok: it lacks" in made.sentence


def test_what_holds_without_being_a_problem() -> None:
    """Is named, with how long it is pending: that no rule holds is said only where none does."""
    early = diagnose(shipped(), read_recording(SATURATED, grid_for(shipped(), AT[SATURATED] - 101)))
    made = view(early)
    assert ("ok", "Nothing to change yet") == (made.status, made.verdict)
    assert "KV cache is full and requests are being preempted: pending since" in made.sentence
    assert "For information:" in made.sentence
    plain = recorded()
    report = plain.targets[0]
    root = report.findings[0]
    assert "No rule of the matrix holds" in view(engines(QUIET)).sentence
    for findings, verdict, words in (
        ((replace(root, state="pending", severity="info", since=plain.time - 120, for_s=180.0),),
         "Nothing to change yet", f"{root.title}: pending since"),
        ((replace(root, severity="info"),), "Nothing has to change", f"For information: {root.title}."),
        ((replace(root, severity="info", recommendations=()),), "Nothing to change", f"For information: {root.title}."),
    ):  # fmt: skip
        made = engine_view(plain, replace(report, status="ok", findings=findings), shipped())
        assert verdict == made.verdict
        assert words in made.sentence
        assert "No rule" not in made.sentence
        assert f"{len(report.unknown)} rules could not be judged." in made.sentence


def test_what_binds_it() -> None:
    """The resource that the finding names; unknown ones say what would make them known."""
    bars = {bar.title: bar for bar in bars_of(recorded().targets[0])}
    assert ("95% in use", "5% free", True) == (bars["KV cache"].used, bars["KV cache"].free, bars["KV cache"].binding)
    assert [False] * 5 == [bar.binding for title, bar in bars.items() if title != "KV cache"]
    assert bars["Slots"].share is None
    assert "serve_args" in bars["Slots"].why
    assert "bandwidth" in bars["Decode"].why


def test_what_binds_it_without_a_finding() -> None:
    """The fullest, where that is near its limit."""
    full = engines({**QUIET, "running": 60.0}, max_num_seqs=64.0)
    assert ["Slots"] == [bar.title for bar in bars_of(full.targets[0]) if bar.binding]
    assert not any(bar.binding for bar in bars_of(engines(QUIET).targets[0]))


def test_missing_signals_are_named() -> None:
    """With their state."""
    bars = {bar.title: bar for bar in bars_of(engines(SILENT).targets[0])}
    assert "kv_cache_usage is stale" == bars["KV cache"].why
    assert "frontend_share is absent" == bars["Front end"].why
    bars = {bar.title: bar for bar in bars_of(engines({**QUIET, "iteration_tokens_mean": State.IDLE}).targets[0])}
    assert "iteration_tokens_mean had no traffic" == bars["Token budget"].why


def test_facts_and_signals() -> None:
    """All that is known, with where it comes from."""
    made = view(recorded())
    assert any(one.name == "num_gpu_blocks" and "reported by the engine" in one.note for one in made.facts)
    assert ["127.0.0.1:8000"] == [one.value for one in made.labels if one.name == "instance"]
    assert any(one.name == "KV cache in use" and one.value == "0.95" for one in made.signals)
    assert {"max-model-len-large"} <= {rule for rule, *_ in made.unknown}
    assert made.not_applicable


def test_a_symptom_with_an_objective() -> None:
    """Is a problem by itself, without a change."""
    made = view(engines(LATE, **{"slo.ttft_p99": 1.0}))
    assert ("warning", [None]) == (made.status, [one.change for one in made.problems])
    assert view(engines(SICK)).problems[0].change is not None
