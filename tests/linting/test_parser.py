"""The tree with places against promql-parser, which is the authority on what is PromQL."""

from __future__ import annotations

from contextlib import suppress

import promql_parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palanca.linting.parser import parse
from palanca.linting.tokens import PromQLSyntaxError, quoted, tokens, unquoted
from palanca.linting.tree import Aggregation, Binary, Call, Node, Number, Parens, Selector, Text, walk

VALID = [
    "vllm:x", 'vllm:x{le="120.0", a!="b", c=~"d|e", f!~"g"}', "x[5m]", "x[1h30m] offset 5m", "x offset -5m",
    "x @ start()", "x @ 1600000000", "x[5m] @ end() offset 1h", '{__name__=~"a|b"}', '{"vllm:foo", a="b"}',
    '{"vllm:foo"}', "x{a='b'}", 'x{a="b",}', "sum(x)", "sum by (a, b) (x)", "sum(x) by (a)", "sum(x) without ()",
    "avg without(instance)(x)", "topk(5, x)", 'count_values("v", x)', "quantile(0.9, x)", "rate(x[5m])",
    "histogram_quantile(0.99, sum by (le) (rate(x_bucket[5m])))", "x > 1", "x > bool 1", "x > -1", "-x ^ 2", "-1 ^ 2",
    "2 ^ 3 ^ 4", "a + b * c - d", "(a + b) * c", "a and b or c unless d", "a and on (x, y) b",
    "a * on (x) group_left (y) b",
    "a / ignoring (x) group_right b", "a > on () group_left b", "x[5m:1m]", "rate(x[5m])[1h:]",
    "max_over_time(rate(x[5m])[1h:5m] offset 1d)",
    "x == +Inf", "x != NaN", "x > 1e3", "x > 0x1F", "x > .5", "x > 5m", "1h > x", "x atan2 y", "x % 2",
    'absent(x{a="b"})',
    "x # comment\n > 1", 'label_replace(x, "a", "$1", "b", "(.*)")', "time() - x > 5", "vector(1)",
    "scalar(x) > bool 1",
    "SUM BY (a) (x) > BOOL 1 AND y", "sum", "rate", "by_x", "inf_x", 'x{a="b" or c="d"}', "x + fill(0) y",
    "x[5m:30s] @ 5",
    "sum(sum by (a) (x) / 2)", "(((x)))", "- - x", "+x", "x > 1 == 2", "bottomk by (a) (1, x)", "x:y:z", ":x",
    "a or\nb\nor c",
]  # fmt: skip
BROKEN = {
    "": 0, "   ": 0, "vllm:x > 0.9 and": 16, "sum(rate(x[5m]) > 1": 19, "foo bar": 4, "x[5m": 4, '"abc': 0, "x{a=}": 4,
    "x{a}": 3, "rate(x)": 0, "1 + sum by (a (x)": 14, "x > > 1": 4, "x ;": 2, "(x": 2, "x)": 1, "x[5m] > 1": 0,
    'x{a=~"("}': 0, "a + rate(b)": 4, "x !~ y": 2, "and x": 4, "sum()": 4, "x[5m:1m": 7, "rate(x offset 5m [5m])": 17,
}  # fmt: skip


@pytest.mark.parametrize("text", VALID)
def test_what_is_promql_is_read(text: str) -> None:
    """The same parts in the same order as promql-parser's tree, each at its place."""
    tree = parse(text)
    assert shape_of(promql_parser.parse(text)) == shape(tree)
    for one in walk(tree):
        assert text[one.start : one.end].strip() == text[one.start : one.end] != ""


@pytest.mark.parametrize(("text", "at"), BROKEN.items())
def test_what_is_none_is_refused_with_its_place(text: str, at: int) -> None:
    with pytest.raises(PromQLSyntaxError) as caught:
        parse(text)
    assert at == caught.value.at


@given(st.lists(st.sampled_from([
    "x", "vllm:y", "{", "}", "(", ")", "[5m]", "[5m:1m]", "sum", "by (a)", "without (b)", "rate(", "x[5m]",
    ">", "bool", "and",
    "or", "on (a)", "-", "*", "^", "1", "0.5", "5m", '"t"', 'a="b"', ",", "offset 5m", "@ 5",
    "histogram_quantile(", "==", "unless",
    "group_left", "x{a='b'}", "inf", "\n", "#c\n", "topk(1,", "%", "ignoring (c)",
]), max_size=12).map(" ".join))  # fmt: skip
@settings(max_examples=600, deadline=None)
def test_it_agrees_with_promql_parser(text: str) -> None:
    """Whatever promql-parser accepts is read, with the same parts; the rest is refused."""
    try:
        theirs = promql_parser.parse(text)
    except ValueError:
        with pytest.raises(PromQLSyntaxError) as caught:
            parse(text)
        assert 0 <= caught.value.at <= len(text)
    else:
        assert shape_of(theirs) == shape(parse(text))


@given(st.text(max_size=60))
@settings(deadline=None)
def test_no_text_breaks_it(text: str) -> None:
    with suppress(PromQLSyntaxError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["(" * 5000 + "x", "-" * 5000 + "x", "x + " * 5000 + "x", "abs(" * 500 + "x", "x" * 200_000, "x^" * 5000 + "x"],
)
def test_depth_is_bounded(text: str) -> None:
    """Neither Python's stack nor promql-parser's is used up."""
    with pytest.raises(PromQLSyntaxError):
        parse(text)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_quoting(text: str) -> None:
    assert text == unquoted(quoted(text))
    (token,) = tokens(quoted(text.replace("\r", "")))
    assert "text" == token.kind


def test_raw_texts() -> None:
    """Between backticks a backslash is one; promql-parser refuses what Prometheus reads."""
    tree = parse(r"x{a=~`b\d`}")
    assert isinstance(tree, Selector)
    assert r"b\d" == tree.matchers[0].value


def test_escapes() -> None:
    assert 'a"\n\tA\u00e9\U0001f600A' == unquoted(r'"a\"\n\t\x41\u00e9\U0001f600\101"')


def shape(node: Node) -> list[str]:
    """Kinds and names of all parts, children behind their parent."""
    match node:
        case Parens(inner=inner):
            return ["(", *shape(inner)]
        case Number(value=value):
            return [f"number {value:g}"]
        case Text(value=value):
            return [f"text {value}"]
        case Selector(name=name, range_s=range_s):
            return [f"selector {name} {range_s}"]
        case Call(function=function, arguments=arguments):
            return [f"call {function}", *(part for one in arguments for part in shape(one))]
        case Aggregation(by=by, without=without, arguments=arguments):
            clause = f"by {list(by)}" if by else f"without {list(without)}" if without is not None else ""
            return [f"aggregation {clause}", *(part for one in arguments for part in shape(one))]
        case Binary(op=op, left=left, right=right):
            return [f"binary {op}", *shape(left), *shape(right)]
    return [type(node).__name__, *(part for one in node.children for part in shape(one))]


def shape_of(node: object) -> list[str]:
    """The same of promql-parser's tree."""
    if isinstance(node, promql_parser.ParenExpr):
        return ["(", *shape_of(node.expr)]
    if isinstance(node, promql_parser.NumberLiteral):
        return [f"number {node.val:g}"]
    if isinstance(node, promql_parser.StringLiteral):
        return [f"text {node.val}"]
    if isinstance(node, promql_parser.MatrixSelector):
        return [f"selector {_name(node.vector_selector)} {node.range.total_seconds()}"]
    if isinstance(node, promql_parser.VectorSelector):
        return [f"selector {_name(node)} None"]
    if isinstance(node, promql_parser.Call):
        return [f"call {node.func.name}", *(part for one in node.args for part in shape_of(one))]
    if isinstance(node, promql_parser.AggregateExpr):
        clause = ""
        if node.modifier is not None:
            by = node.modifier.type == promql_parser.AggModifierType.By
            clause = (
                f"{'by' if by else 'without'} {list(node.modifier.labels)}" if not by or node.modifier.labels else ""
            )
        parameter = [] if node.param is None else shape_of(node.param)
        return [f"aggregation {clause}", *parameter, *shape_of(node.expr)]
    if isinstance(node, promql_parser.BinaryExpr):
        return [f"binary {node.op}", *shape_of(node.lhs), *shape_of(node.rhs)]
    if isinstance(node, promql_parser.UnaryExpr):
        return ["Unary", *shape_of(node.expr)]
    if isinstance(node, promql_parser.SubqueryExpr):
        return ["Subquery", *shape_of(node.expr)]
    raise AssertionError(type(node))


def _name(selector: promql_parser.VectorSelector) -> str | None:
    given = [
        one.value
        for one in selector.matchers.matchers
        if one.name == "__name__" and one.op == promql_parser.MatchOp.Equal
    ]
    return selector.name or next(iter(given), None)
