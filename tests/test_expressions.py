"""The expression grammar: what it reads, what it refuses and where, units, and three-valued truth."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.expressions import (
    FLAG,
    Arithmetic,
    Call,
    Compare,
    ExpressionError,
    Logic,
    Name,
    Node,
    Not,
    Number,
    check_condition,
    children,
    comparisons,
    holds,
    names,
    nearest,
    number,
    parse,
    unit_of,
    uses_fleet,
    walk,
)
from palanca.expressions import text as write
from palanca.model import Truth
from palanca.units import RATIO, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNITS: dict[str, Unit | str] = {
    "a": RATIO,
    "b": RATIO,
    "c": RATIO,
    "ttft_p99": Unit.parse("s"),
    "itl_p99": Unit.parse("s"),
    "running": Unit.parse("requests"),
    "rate": Unit.parse("requests/s"),
    "slo.ttft_p99": Unit.parse("s"),
    "chunked_prefill": FLAG,
}
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


def shape(node: Node) -> str:
    """Write a tree with all its parentheses."""
    match node:
        case Number(value=value):
            return f"{value:g}"
        case Name(name=name):
            return name
        case Arithmetic() | Compare():
            return f"({shape(node.left)} {node.op} {shape(node.right)})"
        case Call():
            return f"{node.function}({', '.join(map(shape, node.arguments))})"
        case Logic():
            return f"({f' {node.op} '.join(map(shape, node.parts))})"
        case Not():
            return f"(not {shape(node.part)})"


def fault_of(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return caught.value


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1.5", "1.5"),
        ("-2", "-2"),
        ("- 2.5", "-2.5"),
        ("-0.0", "0"),
        ("ttft_p99", "ttft_p99"),
        ("slo.ttft_p99", "slo.ttft_p99"),
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b / c", "((a / b) / c)"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a - -1", "(a - -1)"),
        ("a + b > c", "((a + b) > c)"),
        ("a < b", "(a < b)"),
        ("a <= b", "(a <= b)"),
        ("a >= b", "(a >= b)"),
        ("a > b and b > c or c > a", "(((a > b) and (b > c)) or (c > a))"),
        ("a > b and b > c and c > a", "((a > b) and (b > c) and (c > a))"),
        ("a > b or b > c and c > a", "((a > b) or ((b > c) and (c > a)))"),
        ("not a > b and c > b", "((not (a > b)) and (c > b))"),
        ("not (a > b or not c > b)", "(not ((a > b) or (not (c > b))))"),
        ("not not chunked_prefill", "(not (not chunked_prefill))"),
        ("min(a, b)", "min(a, b)"),
        ("max(a, b, c, 0)", "max(a, b, c, 0)"),
        ("floor(a) + ceil(b)", "(floor(a) + ceil(b))"),
        ("round_down(0.9 * a, 8)", "round_down((0.9 * a), 8)"),
        ("  a > b  ", "(a > b)"),
        ("a > b\n  and b > c", "((a > b) and (b > c))"),
        ("a\n\n> b", "(a > b)"),
        ("min", "min"),
    ],
)
def test_grammar(text: str, read: str) -> None:
    """Precedence and grouping are Python's; line breaks are spaces."""
    assert read == shape(parse(text))


@pytest.mark.parametrize(
    "read", ["a < (b < c)", "(a < b) < c", "(not a) < b", "not a < b", "((a < b) + c)", "(1 - (not a))"]
)
def test_what_is_written_keeps_its_parentheses(read: str) -> None:
    """Found by fuzzing: the text of a comparison of a comparison could not be read, or meant something else."""
    assert read == write(parse(read))
    assert shape(parse(read)) == shape(parse(write(parse(read))))


@pytest.mark.parametrize("text", ["a > 1and b > 2", "a > 0xfor b > 2", "a > .5or b > 2", "1not"])
def test_a_number_and_a_word_without_a_space(text: str) -> None:
    """Found by fuzzing: Python reads some of them, and prints a warning to stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "is no number" in str(fault_of(text))
    assert "(a1and > b_2or)" == shape(parse("a1and > b_2or"))


FORBIDDEN = [
    "a == b",
    "a != b",
    "a is b",
    "a is not b",
    "a in b",
    "a not in b",
    "a < b < c",
    "a < b == c",
    "a % b",
    "a // b",
    "a ** b",
    "a @ b",
    "a << b",
    "a >> b",
    "a & b",
    "a | b",
    "a ^ b",
    "~a",
    "-a",
    "+a",
    "+1",
    "--1",
    "'text'",
    '"text"',
    "b'text'",
    "f'{a}'",
    "f'text'",
    "1j",
    "True",
    "False",
    "None",
    "...",
    "-True",
    "-False",
    "-1j",
    "-'a'",
    "a if b else c",
    "lambda: a",
    "lambda a: a",
    "(a := b)",
    "a, b",
    "()",
    "[]",
    "[a]",
    "{}",
    "{a}",
    "{a: b}",
    "(a,)",
    "[x for x in a]",
    "{x for x in a}",
    "{x: x for x in a}",
    "(x for x in a)",
    "min(x for x in a)",
    "a[0]",
    "a[b]",
    "a[0:1]",
    "a[...]",
    "a.b.c",
    "a().b",
    "(a + b).c",
    "1.5.real",
    "'a'.b",
    "a()",
    "abs(a)",
    "sum(a, b)",
    "print(a)",
    "__import__('os')",
    "open('x')",
    "a.b()",
    "min(a)(b)",
    "eval('a')",
    "min()",
    "min(a)",
    "floor()",
    "floor(a, b)",
    "ceil(a, b)",
    "round_down(a)",
    "round_down(a, b, c)",
    "min(a, b, c, a, b, c, a, b, c, a)",
    "min(*a)",
    "min(*a, b)",
    "min(a, key=b)",
    "min(a, b, key=c)",
    "min(**a)",
    "(yield)",
    "(yield a)",
    "(yield from a)",
    "await a",
    "(await a)",
    "*a",
    "a = b",
    "a; b",
    "import os",
    "def f(): pass",
    "pass",
    "del a",
    "return a",
    "a: int",
    "assert a",
    "raise a",
    "",
    " ",
    "\n",
    "#",
    "a > b # why",
    "a > b #\n and c > b",
    "a >",
    "> b",
    "a > > b",
    "(a",
    "a)",
    "a) + (b",
    "((",
    "a b",
    "a &&  b",
    "a || b",
    "!a",
    "a > 5m",
    "5m",
    "$a",
    "a?",
    "a`",
    "\\",
    "a\\\nb",
    "'",
    '"',
    "'''",
    "a\x00b",
    "\x00",
    "\ufeffa",
    "\ud800",
    "a > \u2028",
    "0777",
    "1_",
    "0x",
    "1e",
    "..",
    "1__0",
    "9" * 400,
    "-" + "9" * 400,
    "9" * 5000,
    "1e999",
    "-1e999",
    "(" * 5000 + "a",
    "not " * 300 + "a",
    "not " * 5000 + "a",
    "-" * 900 + "1",
    " + ".join(["a"] * 400),
    " + ".join(["a"] * 900),
    " + ".join(["a"] * 20000),
    "floor(" * 90 + "floor(" * 50 + "a" + ")" * 140,
    "a" + ".b" * 900,
    "a" + "[0]" * 900,
    "a" + "()" * 900,
]


@pytest.mark.parametrize("text", FORBIDDEN, ids=[f"{index}-{text[:12]!a}" for index, text in enumerate(FORBIDDEN)])
def test_everything_else_is_refused(text: str) -> None:
    """Any other Python, broken text and absurd depth or size give an ``ExpressionError`` inside the text."""
    fault = fault_of(text)

    assert fault.message
    assert 0 <= fault.column <= len(text)


def test_long_sums_are_read() -> None:
    """The limit of depth leaves room for every sum that a person writes."""
    assert 80 == sum(isinstance(one, Name) for one in walk(parse(" + ".join(["a"] * 80))))


@given(st.text(max_size=60))
def test_random_text_never_crashes(text: str) -> None:
    """Whatever the text, it is read or refused with a column inside it."""
    try:
        parse(text)
    except ExpressionError as error:
        assert 0 <= error.column <= len(text)  # noqa: PT017


PIECES = [
    "a",
    "b",
    "ttft_p99",
    "slo",
    ".",
    "1",
    "0.5",
    "e9",
    " ",
    "\n",
    "(",
    ")",
    "[",
    "]",
    ",",
    "+",
    "-",
    "*",
    "/",
    "<",
    ">",
    "=",
    " and ",
    " or ",
    " not ",
    "min",
    "floor",
    "round_down",
    "'",
    "#",
    "é",
    "in ",
    "if ",
    "else ",
    "lambda ",
    ":",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_random_pieces_never_crash(text: str) -> None:
    """Text that looks like an expression is read or refused, and what is read has its columns in the text."""
    try:
        node = parse(text)
    except ExpressionError as error:
        assert 0 <= error.column <= len(text)  # noqa: PT017
        return
    for one in walk(node):
        assert 0 <= one.column < len(text)
        if isinstance(one, Name) and "." not in one.name:
            assert text[one.column :].startswith(one.name)


def trees() -> st.SearchStrategy[str]:
    """Valid expressions over ``a`` and ``b``, with all parentheses."""
    atoms = st.sampled_from(["a", "b", "2", "0.5", "slo.ttft_p99"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
            st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "round_down"]), inner, inner),
            st.builds("{}({})".format, st.sampled_from(["floor", "ceil"]), inner),
        )

    return st.recursive(atoms, larger, max_leaves=12)


@given(trees())
def test_written_trees_are_read_back(text: str) -> None:
    """A tree that is written with all its parentheses is read as the same tree."""
    assert text == shape(parse(text))


@given(trees(), trees(), st.sampled_from(["{} > {}", "not {} <= {}", "a < b and ({0} > b or not {1} < a)"]))
def test_written_expressions_are_read_back(one: str, other: str, form: str) -> None:
    """``text`` writes an expression that means the same."""
    node = parse(form.format(one, other))

    assert shape(node) == shape(parse(write(node)))


def test_numbers_are_written_in_full() -> None:
    """Large and small numbers keep their digits."""
    assert "(a * 1048577)" == write(parse("a * 1048577"))
    assert "(a * 0.123456789)" == write(parse("a * 0.123456789"))


# --- columns and hints -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("a > b == c", 0),
        ("a > b and a == b", 10),
        ("a > b and  f(a) > b", 11),
        ("a > [b]", 4),
        ("   a > [b]", 7),
        ("a\n > [b]", 5),
        ("a > b\n and [b]", 11),
        ("é > [b]", 4),
        ("ñandú + é > [b]", 12),
        ("a + min(b)", 4),
        ("a > $", 4),
        ("  a > $", 6),
        ("a > b # why", 6),
        ("a > " + "9" * 400, 4),
    ],
)
def test_columns_point_at_the_fault(text: str, column: int) -> None:
    """The column counts characters of the text as given, also behind spaces, line breaks and accents."""
    assert column == fault_of(text).column


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a == b", "only one of < <= > >= at a time", "join comparisons with and"),
        ("a < b < c", "only one of < <= > >= at a time", "join comparisons with and"),
        ("[a]", "List is not part of the grammar", "numbers, names, + - * /"),
        ("min(a)", "min takes 2 or more arguments, not 1", ""),
        ("floor(a, b)", "floor takes 1 arguments, not 2", ""),
        ("a >", "cannot be read: ", ""),
        ("not " * 300 + "a", "nested too deeply", "split"),
        ("a > b # why", "a comment", "note"),
    ],
)
def test_messages_say_what_is_wrong(text: str, message: str, hint: str) -> None:
    """Each refusal has a message, and a hint where there is a way out."""
    fault = fault_of(text)

    assert message in fault.message
    assert hint in fault.hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ttft_p9", "did you mean ttft_p99 or itl_p99?"),
        ("runing", "did you mean running?"),
        ("zzz", ""),
    ],
)
def test_nearest(name: str, hint: str) -> None:
    """A name with a slip gets the names that look like it."""
    assert hint.split(" or ", maxsplit=1)[0].rstrip("?") in nearest(name, UNITS)
    assert bool(hint) == bool(nearest(name, UNITS))


# --- the tree --------------------------------------------------------------------------------------


def test_names_are_distinct_and_in_order() -> None:
    """Each name once, from left to right, those inside calls too."""
    assert ("b", "a", "slo.ttft_p99", "c") == names(parse("b > a and max(slo.ttft_p99, b) > c or a > b"))


def test_walk_yields_every_node() -> None:
    """The node itself comes first, then everything below it."""
    node = parse("not (a + 1 > min(b, c))")

    assert [Not, Compare, Arithmetic, Name, Number, Call, Name, Name] == [type(one) for one in walk(node)]
    assert () == children(parse("a"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > b", [("a", ">", "b")]),
        ("not a > b", [("a", "<=", "b")]),
        ("not not a > b", [("a", ">", "b")]),
        ("not (a < b and not b >= c)", [("a", ">=", "b"), ("b", ">=", "c")]),
        ("chunked_prefill or a <= b", [("a", "<=", "b")]),
        ("not (a > b or b < c)", [("a", "<=", "b"), ("b", ">=", "c")]),
        ("chunked_prefill", []),
    ],
)
def test_comparisons_flip_under_not(text: str, expected: list[tuple[str, str, str]]) -> None:
    """Under an odd number of ``not`` the operator is flipped."""
    assert expected == [(shape(one.left), one.op, shape(one.right)) for one in comparisons(parse(text))]


# --- units -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1.5", "ratio"),
        ("ttft_p99", "s"),
        ("slo.ttft_p99 - itl_p99", "s"),
        ("ttft_p99 / itl_p99", "ratio"),
        ("running / ttft_p99", "requests/s"),
        ("rate * ttft_p99", "requests"),
        ("2 * ttft_p99", "s"),
        ("1 / ttft_p99", "1/s"),
        ("ttft_p99 + 0", "s"),
        ("0 + ttft_p99", "s"),
        ("max(ttft_p99 - itl_p99, 0)", "s"),
        ("max(0, ttft_p99 - itl_p99)", "s"),
        ("max(0, 0, ttft_p99)", "s"),
        ("0 * ttft_p99", "s"),
        ("ttft_p99 + 0 * itl_p99", "s"),
        ("min(running, running)", "requests"),
        ("round_down(0.9 * running, 8)", "requests"),
        ("floor(running)", "requests"),
        ("ceil(ttft_p99 / itl_p99)", "ratio"),
    ],
)
def test_units(text: str, unit: str) -> None:
    """Products multiply units, sums keep them, and 0 fits everything."""
    assert Unit.parse(unit) == unit_of(parse(text), UNITS)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("ttft_p99 + running", "units differ: s + request", 0),
        ("1 + ttft_p99", "units differ: ratio + s", 0),
        ("2 * (ttft_p99 - running)", "units differ: s - request", 5),
        ("min(ttft_p99, running)", "units differ: s min request", 0),
        ("max(0, ttft_p99, running)", "units differ: s max request", 0),
        ("a + ttft_p9", "unknown name 'ttft_p9'", 4),
        ("a + chunked_prefill", "'chunked_prefill' is a flag, not a number", 4),
        ("a > b", "a number is needed here, not a condition", 0),
        ("1 + (a > b)", "a number is needed here, not a condition", 5),
        ("a + (b and c)", "a number is needed here, not a condition", 5),
        ("floor(not a)", "a number is needed here, not a condition", 6),
    ],
)
def test_unit_faults(text: str, message: str, column: int) -> None:
    """Units that differ, unknown names and conditions are refused where a number is needed."""
    with pytest.raises(ExpressionError) as caught:
        unit_of(parse(text), UNITS)

    assert (message, column) == (caught.value.message, caught.value.column)


@pytest.mark.parametrize(
    "text",
    [
        "ttft_p99 > slo.ttft_p99",
        "ttft_p99 / itl_p99 > a",
        "chunked_prefill",
        "not chunked_prefill and a > b",
        "a > b or not (b > c and c > a)",
        "max(a, b) > c",
    ],
)
def test_conditions(text: str) -> None:
    """Comparisons of one unit and flags make conditions."""
    check_condition(parse(text), UNITS)


@pytest.mark.parametrize(
    ("text", "message", "column", "hint"),
    [
        ("ttft_p99 > running", "units differ: s > request", 0, "both sides need the same unit"),
        ("a > 0.85", "bare number 0.85 in a condition", 4, "name it under thresholds"),
        ("a > 0", "bare number 0 in a condition", 4, "name it under thresholds"),
        ("a > b * 2", "bare number 2 in a condition", 8, "name it under thresholds"),
        ("a > b and a > -1", "bare number -1 in a condition", 14, "name it under thresholds"),
        ("a > b and ttft_p9 > c", "unknown name 'ttft_p9'", 10, "did you mean ttft_p99"),
        ("a > b and chunked_prefil", "unknown name 'chunked_prefil'", 10, "did you mean chunked_prefill?"),
        ("a", "a condition is needed here, not a number", 0, "compare it with a threshold"),
        ("a > b and running", "a condition is needed here, not a number", 10, "compare it with a threshold"),
        ("1", "a condition is needed here, not a number", 0, "compare it with a threshold"),
        ("a + b", "a condition is needed here, not a number", 0, "compare it with a threshold"),
        ("not max(a, b)", "a condition is needed here, not a number", 4, "compare it with a threshold"),
        ("a > (b > c)", "a number is needed here, not a condition", 5, ""),
        ("chunked_prefill > a", "'chunked_prefill' is a flag, not a number", 0, ""),
    ],
)
def test_condition_faults(text: str, message: str, column: int, hint: str) -> None:
    """Bare numbers, mixed units, unknown names and numbers are no conditions."""
    with pytest.raises(ExpressionError) as caught:
        check_condition(parse(text), UNITS)

    assert (message, column) == (caught.value.message, caught.value.column)
    assert hint in caught.value.hint
    assert bool(hint) == bool(caught.value.hint)


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


# --- fleets and defaults -------------------------------------------------------------------------


def test_fleet_functions_ask_the_environment() -> None:
    """The environment knows which engines belong together; every engine gets the number of its model."""
    given = Given({"load": [[1.0], [5.0]]})
    assert [[5.0], [5.0]] == number(parse("fleet_max(load)"), given).tolist()
    assert [[2.0], [2.0]] == number(parse("fleet_count(load)"), given).tolist()


def test_fleet_functions_have_units() -> None:
    """A count is of engines, everything else keeps its unit."""
    units = {"load": Unit.parse("requests")}
    assert Unit.parse("requests") == unit_of(parse("fleet_median(load)"), units)
    assert Unit.parse("engines") == unit_of(parse("fleet_count(load)"), units)
    assert uses_fleet(parse("load > fleet_mean(load)"))
    assert not uses_fleet(parse("load > load"))


def test_default_stands_in_for_what_is_missing() -> None:
    """A value formula may go on without a number that is not there."""
    assert 7.0 == float(number(parse("default(a, 7)"), Given({"a": math.nan})))
    assert 3.0 == float(number(parse("default(a, 7)"), Given({"a": 3.0})))


def test_default_is_no_condition() -> None:
    """In a condition it would make unknown look known."""
    with pytest.raises(ExpressionError, match="would make an unknown look known"):
        check_condition(parse("default(a, b) > b"), {"a": Unit(), "b": Unit()})
