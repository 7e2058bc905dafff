"""The bar: what promtool computes from the exported file is what the process says, at every step."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from tests.alerting.parity import OPTIONAL, Comparison, compare, matrix, readings, rule_file
from tests.alerting.replays import Line, Replay, answers, exposed, joined, promtool, reach, snapped, stretched
from tests.engines import RECORDINGS, ROOT, shipped
from tests.signals import worlds

from palanca import expressions
from palanca.alerting import names
from palanca.alerting.conditions import literal
from palanca.alerting.group import prometheus
from palanca.alerting.matrix import Exported, Matrix
from palanca.alerting.notation import expected, selector
from palanca.alerting.options import Options, Override
from palanca.cases import Case, CaseFile, readings_of
from palanca.engine import evaluate, held
from palanca.loader import build
from palanca.loader import read as read_yaml
from palanca.model import Readings, State, Target
from palanca.signals.store import SampleStore
from palanca.sources.recording import load

BENCHMARK = ROOT / "tests" / "data" / "benchmark"
SLOW = tuple(sorted(path.name.removesuffix(".om.gz") for path in RECORDINGS.glob("*.om.gz") if "h200" not in path.name))
ALL = tuple(sorted(path.name.removesuffix(".om.gz") for path in RECORDINGS.glob("*.om.gz")))
CASES = tuple(sorted(path.name.removesuffix(".om.gz") for path in BENCHMARK.glob("*.om.gz")))
HALF = len(CASES) // 2
TOLERANCE = 1e-9


@cache
def wanted() -> frozenset[str]:
    return exposed(matrix().recorder.metric_names)


def recording(name: str) -> SampleStore:
    return load(RECORDINGS / f"{name}.om.gz", keep=wanted().__contains__)


def named(name: str) -> dict[str, str]:
    """Labels that keep the engines of several recordings apart, as servers and as models."""
    return {"instance": f"{name}:8000", "model_name": name}


def agree(replay: Replay, folder: Path) -> Comparison:
    made = compare(replay, matrix().exported)
    assert promtool(folder, rule_file(), replay.interval, replay.input_series(), made.checks) == ""
    return made


def test_recordings_stretched(tmp_path: Path) -> None:
    """Every rule and every recording, a scrape taken as a step of 15 s."""
    made = agree(joined([stretched(recording(name), wanted(), 15, named(name)) for name in ALL]), tmp_path)
    assert sum(made.compared.values()) > 40_000
    assert {"kv-cache-saturated", "ttft-high", "queue-waiting", "slot-limit"} <= made.rules["firing"]


def test_recordings_as_they_are(tmp_path: Path) -> None:
    """Every recording that is longer than the windows, at its own pace of a scrape every 5 s."""
    made = agree(joined([snapped(recording(name), wanted(), 5, named(name)) for name in SLOW]), tmp_path)
    assert sum(made.compared.values()) > 10_000
    assert made.rules["firing"]


@pytest.mark.parametrize("chosen", [CASES[:HALF], CASES[HALF:]], ids=["first", "second"])
def test_benchmark(chosen: tuple[str, ...], tmp_path: Path) -> None:
    """Cases made from public reports: 40 minutes, so that also what looks back half an hour is compared."""
    stores = [load(BENCHMARK / f"{name}.om.gz") for name in chosen]
    made = agree(joined([snapped(store, wanted(), 30, {}) for store in stores]), tmp_path)
    assert sum(made.compared.values()) > 20_000
    assert len(made.rules["firing"]) > 8


def test_a_fault_would_be_seen(tmp_path: Path) -> None:
    """The checks are not empty words: with one other threshold they fail."""
    replay = stretched(recording("kv-saturated"), wanted(), 15, named("m"))
    made = compare(replay, matrix().exported)
    other = rule_file().replace("palanca:preemptions_per_minute:preemptions_per_minute > 30", "vector(1) > 2", 1)
    assert other != rule_file()
    assert "VllmKvCacheSaturated" in promtool(tmp_path, other, 15, replay.input_series(), made.checks)


def test_overrides(tmp_path: Path) -> None:
    """Thresholds and objectives per model: the alert of the override for it, the base for all others."""
    strict, lax = ("kv-saturated", "healthy")
    rules = {"queue-waiting": {"queued": 30.0}, "ttft-high": {"enough": 5.0}}
    options = Options(guards=False, overrides=(
        Override({"model_name": strict}, thresholds=rules),
        Override({"model_name": strict, "job": "vllm"}, thresholds={"queue-waiting": {"busy_share": 0.1}}),
        Override({"job": "other"}, thresholds=rules),
    ))  # fmt: skip
    made = Matrix(shipped(), options)
    replay = joined([stretched(recording(name), wanted(), 15, named(name)) for name in (strict, lax)])

    def thresholds(target: Target) -> dict[str, dict[str, float]]:
        if target.get("model_name") != strict:
            return {}
        return {"queue-waiting": {"queued": 30.0, "busy_share": 0.1}, "ttft-high": {"enough": 5.0}}

    others = {one.rule.id for one in made.exported if one.cell.matchers}
    assert {"queue-waiting", "ttft-high"} == others
    compared = compare(replay, matrix().exported, thresholds, without=[names.OVERRIDE, names.SEVERITY])
    assert promtool(tmp_path, prometheus(made), 15, replay.input_series(), compared.checks) == ""
    plain = compare(replay, matrix().exported, without=[names.OVERRIDE, names.SEVERITY])
    assert plain.checks != compared.checks
    assert "queue-waiting" in compared.rules["firing"]


def test_engines_that_end(tmp_path: Path) -> None:
    """One that shows no series any more lacks them; one whose server came back under another name is over."""
    old, new, lost = (
        stretched(recording("healthy"), wanted(), 15, {"model_name": model, "instance": f"{instance}:8000"})
        for model, instance in (("old", "again"), ("new", "again"), ("lost", "silent"))
    )
    steps = old.steps + new.steps
    up = [
        Line("up", {"job": "vllm", "instance": f"{instance}:8000"}, np.ones(steps), np.ones(steps, dtype=bool))
        for instance in ("again", "silent")
    ]
    own = [[line for line in one.lines if line.name.startswith("vllm:")] for one in (old, new, lost)]
    after = [
        Line(
            one.name, one.labels, np.append(np.zeros(old.steps), one.values), np.append([False] * old.steps, one.there)
        )
        for one in own[1]
    ]
    replay = Replay(15, steps, (*own[0], *after, *own[2], *up))
    made = agree(replay, tmp_path)

    assert "metrics-missing" in made.rules["firing"]
    told = re.findall(r'\{[^{}]*alertname=\\"VllmMetricsMissing\\"[^{}]*\}', json.dumps(made.checks))
    assert told
    assert all("silent:8000" in labels for labels in told)


# --- the cases of the rules --------------------------------------------------------------------------


def rule_cases() -> Iterator[tuple[Exported, int, Case]]:
    by_rule = {one.rule.id: one for one in matrix().exported}
    for path in sorted((ROOT / "tests" / "rules").rglob("*.yaml")):
        if path.stem in by_rule:
            for number, case in enumerate(build(CaseFile, read_yaml(path)).cases):
                if not any(fact.startswith("slo.") for fact in case.facts):
                    yield by_rule[path.stem], number, case


def recorded_lines(made: Readings, used: set[str], place: dict[str, str]) -> Iterator[dict[str, str]]:
    """Recorded series of the engines of a case; what goes missing goes stale."""
    for row in range(len(made.targets)):
        labels = {**place, "instance": f"{row}:8000"}
        yield {"series": selector(names.ENGINE, labels), "values": f"1+0x{len(made.times)}"}
        for name in sorted(used):
            one = made.signals[name]
            values = [
                literal(float(value)) if state < State.ABSENT else "stale"
                for value, state in zip(one.values[row], one.states[row], strict=True)
            ]
            if any(value != "stale" for value in values):
                yield {"series": selector(matrix().recorder.series(name), labels), "values": " ".join(values)}


def test_cases_of_the_rules(tmp_path: Path) -> None:
    """What each case of each exported rule expects at its end: firing, pending, or nothing, unknown included."""
    content = yaml.safe_load(rule_file())
    fed = {
        matrix().recorder.series(name) for one in matrix().exported for name in matrix().recorder.ordered(one.signals)
    }
    group = content["groups"][0]
    group["rules"] = [
        {key: value for key, value in rule.items() if key != "annotations"}
        for rule in group["rules"]
        if rule.get("record") not in {names.ENGINE, *fed}
    ]
    inputs: list[dict[str, str]] = []
    checks: list[dict[str, object]] = []
    counted = {"firing": 0, "pending": 0, "none": 0}
    for one, number, case in rule_cases():
        made = readings_of(shipped(), case)
        place = {"job": one.rule.id, "model_name": f"case {number}"}
        used = {*one.signals, *(name for _, name in one.fleets)}
        inputs += recorded_lines(made, used, place)
        (verdict,) = evaluate([one.rule], made, OPTIONAL)
        samples = []
        for row in range(len(made.targets)):
            state = held(verdict.when[row], made.times, one.rule.for_, float(made.covered[row]))
            counted["none" if state is None else state.state] += 1
            if state is not None:
                samples.append(({"instance": f"{row}:8000", "alertstate": state.state}, 1.0))
        where = f'alertname="{one.alert.alert}", job="{one.rule.id}", model_name="case {number}"'
        query = f"count by (alertstate, instance) (ALERTS{{{where}}})"
        checks.append(expected(query, float(made.times[-1] - made.times[0]), samples))
    assert promtool(tmp_path, yaml.dump(content), 15, inputs, checks) == ""
    assert counted["firing"] > 150
    assert counted["pending"] > 60
    assert counted["none"] > 300


# --- fleets with everything that can go wrong --------------------------------------------------------


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(world=worlds.worlds)
def test_recorded_series_of_worlds(world: list[worlds.Server], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Resets, gaps, late starts, churn, engines, pids, copies, old and new names, all prefixes: the same values."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "world.om").write_text(worlds.text(world))
    prefixes = shipped().metrics.prefixes
    replay = snapped(load(folder / "world.om"), exposed(matrix(*prefixes).recorder.metric_names), 30, {})
    made = readings(replay, replay.steps)
    steps = range(0, replay.steps, 4)
    checks = [expected('{__name__=~"palanca:.*"}', step * 30.0, []) for step in steps]
    got = answers(promtool(folder, rule_file(*prefixes), 30, replay.input_series(), checks))
    recorder = matrix(*prefixes).recorder
    compared = 0
    for name in recorder.ordered(name for one in matrix().exported for name in one.signals):
        for row, target in enumerate(made.targets):
            for step in steps:
                if not comparable(name, made, row, step):
                    continue
                one = made.signals[name]
                wanted_value = one.values[row, step] if one.states[row, step] < State.ABSENT else np.nan
                value = got.get(step * 30.0, {}).get((recorder.series(name), target), np.nan)
                where = f"{name} of {target} at step {step}: {wanted_value!r}, recorded {value!r}"
                assert np.isclose(wanted_value, value, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True), where
                compared += 1
    assert compared > 1000


def comparable(name: str, made: Readings, row: int, step: int) -> bool:
    """Whether both must agree.

    Not while the engine is younger than the windows; and not where a fallback stands for a family that comes or goes:
    the process takes it for the whole grid or not at all, Prometheus step by step.
    """
    running = made.signals["running_now"].states[row]
    begun = np.flatnonzero(running < State.ABSENT)
    if not begun.size or step < begun[0] or (step - begun[0]) * 30 < reach(name):
        return False
    one = made.signals[name]
    return not (falls_back(name) and one.states[row, step] >= State.ABSENT)


@cache
def falls_back(name: str) -> bool:
    signal = shipped().signals[name]
    parts = expressions.names(expressions.parse(signal.expr)) if signal.expr is not None else ()
    return signal.fallback is not None or any(falls_back(part) for part in parts)
