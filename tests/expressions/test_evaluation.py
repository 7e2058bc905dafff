"""Numbers and three-valued truth of expressions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.expressions import Not, comparisons, holds, number, parse
from palanca.model import Truth

if TYPE_CHECKING:
    from numpy.typing import NDArray

F, T, U, N = Truth.FALSE, Truth.TRUE, Truth.UNKNOWN, Truth.NOT_APPLICABLE


class Given:
    """An environment of given numbers and flags; ``absent`` names do not exist by design."""

    def __init__(
        self,
        numbers: Mapping[str, float | list[list[float]]] | None = None,
        flags: Mapping[str, Truth] | None = None,
        absent: tuple[str, ...] = (),
    ) -> None:
        self.numbers, self.flags, self.absent = dict(numbers or {}), dict(flags or {}), absent

    def number(self, name: str) -> NDArray[np.float64]:
        return np.asarray(self.numbers.get(name, math.nan), dtype=np.float64)

    def flag(self, name: str) -> NDArray[np.uint8]:
        return np.array([[self.flags[name]]], dtype=np.uint8)

    def not_applicable(self, name: str) -> NDArray[np.bool_]:
        return np.asarray(name in self.absent)

    def fleet(self, function: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.broadcast_to(values.max(axis=0) if function == "fleet_max" else len(values), values.shape)


# --- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("a", 6),
        ("a + b", 10),
        ("a - b", 2),
        ("a * b", 24),
        ("a / b", 1.5),
        ("a + b * c", -2),
        ("(a + b) * c", -20),
        ("min(a, b, c)", -2),
        ("max(c, b, a)", 6),
        ("floor(a / b)", 1),
        ("ceil(a / b)", 2),
        ("floor(-1.5)", -2),
        ("round_down(23.9, 8)", 16),
        ("round_down(24, 8)", 24),
        ("round_down(7, 8)", 7),
        ("a / 0", math.inf),
        ("-1 / 0", -math.inf),
        ("0 / 0", math.nan),
        ("nothing", math.nan),
        ("max(nothing, a)", math.nan),
        ("min(a, b, nothing)", math.nan),
        ("nothing + a", math.nan),
        ("round_down(a, 0)", math.nan),
        ("floor(nothing)", math.nan),
    ],
)
def test_numbers(text: str, value: float) -> None:
    """Arithmetic is that of floats; NaN stays NaN and division by zero warns of nothing."""
    np.testing.assert_equal(number(parse(text), Given({"a": 6, "b": 4, "c": -2})), value)


def test_numbers_broadcast() -> None:
    """``[targets, steps]`` and ``[targets, 1]`` go together."""
    environment = Given({"a": [[1, 2, 3], [4, 5, 6]], "b": [[10], [20]]})

    np.testing.assert_array_equal([[11, 12, 13], [24, 25, 26]], number(parse("a + b"), environment))


def test_a_condition_is_no_number() -> None:
    """Evaluating the wrong kind is a mistake of the caller."""
    with pytest.raises(TypeError, match="Compare is not a number"):
        number(parse("a > b"), Given())
    with pytest.raises(TypeError, match="Arithmetic is not a condition"):
        holds(parse("a + b"), Given())


# --- truth -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("a > b", T),
        ("b > a", F),
        ("a >= a", T),
        ("a > a", F),
        ("a <= a", T),
        ("a < a", F),
        ("b < a", T),
        ("a > nothing", U),
        ("nothing > a", U),
        ("nothing <= nothing", U),
        ("a > gone", N),
        ("gone > nothing", N),
        ("a + gone > b", N),
        ("a / zero > b", T),
        ("zero / zero > b", U),
    ],
)
def test_comparison(text: str, truth: Truth) -> None:
    """NaN makes a comparison unknown, a name that does not exist by design not applicable."""
    environment = Given({"a": 6, "b": 4, "zero": 0, "gone": 1}, absent=("gone",))

    assert truth == holds(parse(text), environment)


AND = {(F, F): F, (F, T): F, (F, U): F, (F, N): F, (T, T): T, (T, U): U, (T, N): N, (U, U): U, (U, N): N, (N, N): N}
OR = {(F, F): F, (F, T): T, (F, U): U, (F, N): F, (T, T): T, (T, U): T, (T, N): T, (U, U): U, (U, N): U, (N, N): N}
TABLE = [
    (op, left, right, table.get((left, right), table.get((right, left))))
    for op, table in (("and", AND), ("or", OR))
    for left, right in itertools.product(Truth, repeat=2)
]


@pytest.mark.parametrize(("op", "left", "right", "truth"), TABLE)
def test_logic_is_kleenes(op: str, left: Truth, right: Truth, truth: Truth) -> None:
    """False decides ``and``, true decides ``or``; not applicable is ignored by ``or`` and kept by ``and``."""
    assert truth == holds(parse(f"p {op} q"), Given(flags={"p": left, "q": right}))


@pytest.mark.parametrize(("truth", "opposite"), [(F, T), (T, F), (U, U), (N, N)])
def test_not(truth: Truth, opposite: Truth) -> None:
    """What is not known stays so."""
    assert opposite == holds(parse("not p"), Given(flags={"p": truth}))


@pytest.mark.parametrize("op", ["and", "or"])
@pytest.mark.parametrize("truths", list(itertools.product(Truth, repeat=3)))
def test_logic_does_not_depend_on_order(op: str, truths: tuple[Truth, ...]) -> None:
    """Three parts give the same in every order and grouping."""
    results = set()
    for order in itertools.permutations(truths):
        environment = Given(flags=dict(zip("pqr", order, strict=True)))
        for text in (f"p {op} q {op} r", f"p {op} (q {op} r)"):
            results.add(int(holds(parse(text), environment).item()))

    assert 1 == len(results)


@pytest.mark.parametrize(("left", "right"), list(itertools.product(Truth, repeat=2)))
def test_de_morgan(left: Truth, right: Truth) -> None:
    """``not (p and q)`` is ``not p or not q``, but where not applicable meets another value: ``or`` ignores it."""
    environment = Given(flags={"p": left, "q": right})
    one, other = (holds(parse(text), environment) for text in ("not (p and q)", "not p or not q"))

    assert bool(one == other) or N in {left, right}


@given(st.floats(allow_nan=True), st.floats(allow_nan=True), st.sampled_from(["<", "<=", ">", ">="]))
def test_flipping_is_negation(a: float, b: float, op: str) -> None:
    """``not`` and the flipped comparison agree for all numbers, NaN included."""
    node = parse(f"a {op} b")
    environment = Given({"a": a, "b": b})

    assert holds(Not(node, 0), environment) == holds(next(comparisons(node, negated=True)), environment)


def test_truth_is_an_array_of_codes() -> None:
    """Targets and steps are judged each for itself."""
    environment = Given({"a": [[1, math.nan, 3], [4, 5, 6]], "b": [[2], [5]]})
    truth = holds(parse("a > b"), environment)

    np.testing.assert_array_equal([[F, U, T], [F, F, T]], truth)
    assert np.uint8 == truth.dtype


def test_fleet_functions_ask_the_environment() -> None:
    """The environment knows which engines belong together; every engine gets the number of its model."""
    given = Given({"load": [[1.0], [5.0]]})
    assert [[5.0], [5.0]] == number(parse("fleet_max(load)"), given).tolist()
    assert [[2.0], [2.0]] == number(parse("fleet_count(load)"), given).tolist()


def test_default_stands_in_for_what_is_missing() -> None:
    """A value formula may go on without a number that is not there."""
    assert 7.0 == float(number(parse("default(a, 7)"), Given({"a": math.nan})))
    assert 3.0 == float(number(parse("default(a, 7)"), Given({"a": 3.0})))
