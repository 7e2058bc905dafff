"""The expression grammar: what it reads, what it refuses and where, and what it writes."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.expressions import (
    Arithmetic,
    Call,
    Compare,
    ExpressionError,
    Logic,
    Name,
    Node,
    Not,
    Number,
    children,
    comparisons,
    names,
    parse,
    walk,
)
from palanca.expressions import text as write


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
