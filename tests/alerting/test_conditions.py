"""The second reader of conditions: its text, what it refuses, and that Prometheus agrees with ``holds``."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.servers import prometheus

from palanca import expressions
from palanca.alerting import conditions, names
from palanca.alerting.conditions import Part
from palanca.alerting.faults import NotExportableError
from palanca.engine import ReadingsEnvironment
from palanca.expressions import Name, Node, parse
from palanca.model import Readings, SignalReadings, SourceInfo, State, Target, Truth
from palanca.sources.prometheus import Prometheus

NUMBERS = {"one": 1.0, "half": 0.5, "low": -2.0, "none": 0.0}
SIGNALS = ("a", "b", "c", "d")
FINITE = SIGNALS[:2]
"""What engines are compared by: an infinite number makes Prometheus' median NaN."""
ABSENT = ("gone",)
"""Signals that no chosen release has."""


class Words:
    """Signals that are series of their own name; functions over engines stand where they are used."""

    def name(self, name: str) -> Part | float | None:
        if name in ABSENT:
            return None
        if name in SIGNALS:
            return Part(f"palanca:{name}")
        if name in NUMBERS:
            return NUMBERS[name]
        raise NotExportableError(f"no series shows {name}")

    def fleet(self, function: str, argument: Node) -> Part | None:
        if not isinstance(argument, Name):
            raise NotExportableError("no signal")
        series = self.name(argument.name)
        return Part(f"({conditions.fleet(function, series)})") if isinstance(series, Part) else None


def compiled(text: str) -> str:
    return " & ".join(conditions.promql(parse(text), Words()))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a > one", "palanca:a > 1"),
        ("a > one and b <= half", "palanca:a > 1 & palanca:b <= 0.5"),
        ("a > one or b <= half", "palanca:a > 1 or palanca:b <= 0.5"),
        ("a > one and (b > one or c > one)", "palanca:a > 1 & (palanca:b > 1 or palanca:c > 1)"),
        ("(a > one and b > one) or c > one", "palanca:a > 1 and palanca:b > 1 or palanca:c > 1"),
        ("not (a > one and b > one)", "palanca:a <= 1 or palanca:b <= 1"),
        ("not (a > one or b >= one)", "palanca:a <= 1 & palanca:b < 1"),
        ("not not a > one", "palanca:a > 1"),
        ("one < a", "palanca:a > 1"),
        ("one >= a", "palanca:a <= 1"),
        ("half * a > b", "0.5 * palanca:a > palanca:b"),
        ("a > (one + half) * b", "palanca:a > 1.5 * palanca:b"),
        ("a - (b - c) > low * half", "palanca:a - (palanca:b - palanca:c) > -1"),
        ("a * low > b / (c / d)", "palanca:a * (-2) > palanca:b / (palanca:c / palanca:d)"),
        ("(a + b) / c > one", "(palanca:a + palanca:b) / palanca:c > 1"),
        ("max(a, b) > one", "(palanca:a >= palanca:b or palanca:b > palanca:a) > 1"),
        ("min(a, one, half) > b", "clamp_max(palanca:a, 0.5) > palanca:b"),
        ("floor(a / one) > ceil(half)", "floor(palanca:a / 1) > 1"),
        ("a > one and half > none", "palanca:a > 1"),
        ("a > one or half > one", "palanca:a > 1"),
        ("a > one or gone > one", "palanca:a > 1"),
        ("not (a > one or gone > one)", "palanca:a <= 1"),
        ("not (a > one and gone > one) or b > one", "palanca:a <= 1 or palanca:b > 1"),
    ],
)
def test_text(condition: str, expected: str) -> None:
    """It reads like the condition; numbers are folded, and what no release has is left out as in process."""
    assert expected == compiled(condition)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("slots > one", "no series shows slots"),
        ("not caching", "no series shows caching"),
        ("a > one and caching", "no series shows caching"),
        ("one > half", "always true"),
        ("one < half", "never true"),
        ("none / none > half", "no chosen release"),
        ("gone > one", "no chosen release has all that it needs"),
        ("a > one and gone > one", "no chosen release"),
        ("round_down(one, a) > half", "round_down of a number"),
    ],
)
def test_refused(condition: str, reason: str) -> None:
    """With the reason."""
    with pytest.raises(NotExportableError, match=reason):
        compiled(condition)


def test_never_unless() -> None:
    """What is missing stays missing."""
    assert "unless" not in compiled("not (a > one and not (b > one or c > half))")


# --- against Prometheus ------------------------------------------------------------------------------

ENGINES = (
    {"model_name": "m", "instance": "a"},
    {"model_name": "m", "instance": "b"},
    {"model_name": "n", "instance": "c"},
)
STEPS, STEP_S, BEGIN = 25, 600, 1_800_000_000
"""Further apart than the lookback, so that a gap is a gap."""
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -2.0, -0.5, 8.0, float("nan"), float("inf"), None)

numbers = st.recursive(
    st.sampled_from([*SIGNALS, *SIGNALS, *NUMBERS]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("{}({}, {}, {})".format, st.sampled_from(["min", "max"]), inner, inner, inner),
        st.builds("{}({})".format, st.sampled_from(["floor", "ceil"]), inner),
        st.builds("{}({})".format, st.sampled_from(expressions.FLEET), st.sampled_from(FINITE)),
        st.builds("round_down({}, {})".format, inner, st.sampled_from(["one", "half", "b"])),
    ),
    max_leaves=4,
)
comparisons = st.builds("{} {} {}".format, numbers, st.sampled_from(["<", "<=", ">", ">="]), numbers)
whole_conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
        st.builds("({0} {1} {2} {1} {3})".format, inner, st.sampled_from(["and", "or"]), inner, inner),
        st.builds("(not {})".format, inner),
    ),
    max_leaves=5,
)
tables = st.lists(
    st.sampled_from(VALUES), min_size=STEPS * len(SIGNALS) * len(ENGINES), max_size=STEPS * len(SIGNALS) * len(ENGINES)
)


def exposition(table: Mapping[str, NDArray[np.object_]]) -> str:
    lines = []
    for name, rows in table.items():
        for labels, row in zip(ENGINES, rows, strict=True):
            inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
            for step, value in enumerate(row):
                if value is not None:
                    lines.append(f"{name}{{{inside}}} {conditions.literal(float(value))} {BEGIN + step * STEP_S}")
    return "\n".join([*lines, "# EOF\n"])


def held(node: Node, table: Mapping[str, NDArray[np.object_]]) -> NDArray[np.bool_]:
    """Where the process says that it holds, ``[engines, steps]``."""
    shape = (len(ENGINES), STEPS)
    signals = {}
    for name in SIGNALS:
        values = np.array([[np.nan if value is None else value for value in row] for row in table[f"palanca:{name}"]])
        states = np.where(np.isnan(values), State.ABSENT, State.OK).astype(np.uint8)
        signals[name] = SignalReadings(values, states, np.zeros(shape))
    read = Readings(
        targets=tuple(Target.of(labels) for labels in ENGINES), times=np.arange(STEPS, dtype=float), signals=signals,
        covered=np.zeros(len(ENGINES)), facts=({},) * len(ENGINES), versions=(None,) * len(ENGINES),
        source=SourceInfo("made up", ""),
    )  # fmt: skip
    truth = expressions.holds(node, ReadingsEnvironment(read, dict(NUMBERS)))
    return np.equal(np.broadcast_to(truth, shape), Truth.TRUE)


@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(written=st.lists(whole_conditions, min_size=80, max_size=80, unique=True), values=tables)
def test_prometheus_agrees(written: list[str], values: list[float | None]) -> None:
    """Random conditions over random values, NaN, infinity and gaps: the engines and steps where ``holds`` says true."""
    cut = np.array(values, dtype=object).reshape(len(SIGNALS), len(ENGINES), STEPS)
    for index in range(len(FINITE)):
        cut[index] = np.where(np.equal(cut[index], float("inf")), 4.0, cut[index])
    table = {f"palanca:{name}": rows for name, rows in zip(SIGNALS, cut, strict=True)}
    table[names.ENGINE] = np.ones((len(ENGINES), STEPS), dtype=object)
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.om"
        path.write_text(exposition(table))
        with prometheus(path, Path(folder) / "server") as url, Prometheus(url) as client:
            for text in written:
                try:
                    query = "\nand ".join(conditions.promql(parse(text), Words()))
                except NotExportableError:
                    continue
                found = np.zeros((len(ENGINES), STEPS), dtype=bool)
                for row in client.query_range(query, BEGIN, BEGIN + (STEPS - 1) * STEP_S, STEP_S):
                    labels = {label: row.labels[label] for label in ("model_name", "instance")}
                    found[ENGINES.index(labels), (row.times // 1000 - BEGIN) // STEP_S] = True
                assert np.array_equal(held(parse(text), table), found), (text, query)
                compared += 1
    assert compared > 40
