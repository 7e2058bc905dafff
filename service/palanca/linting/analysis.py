"""What a part of an expression is: constant, counter, ratio, and which labels its series have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from palanca.linting.tree import (
    COMPARISONS,
    SETS,
    Aggregation,
    Binary,
    Call,
    Node,
    Number,
    Parens,
    Selector,
    Subquery,
    Text,
    Unary,
    bare,
    walk,
)
from palanca.linting.vocabulary import Metric, Vocabulary

RATES = frozenset({"rate", "increase", "irate"})
GAUGE_FUNCTIONS: Mapping[str, str] = {
    "delta": "increase", "idelta": "irate", "deriv": "rate", "predict_linear": "", "holt_winters": "",
    "double_exponential_smoothing": "",
}  # fmt: skip
"""Functions that take a counter's reset for a fall, and what a counter needs instead."""
ABSENCE = frozenset({"absent", "absent_over_time"})
_RELABELLED = frozenset({"label_replace", "label_join", "info", "vector", "scalar", "time", *ABSENCE})
_SAME_RANGE = frozenset({
    "avg_over_time", "max_over_time", "min_over_time", "last_over_time", "first_over_time", "quantile_over_time",
    "mad_over_time", "clamp", "clamp_min", "clamp_max", "abs", "sort", "sort_desc", "label_replace", "label_join",
})  # fmt: skip
_SAME_RANGE_AGGREGATIONS = frozenset({"avg", "min", "max", "topk", "bottomk", "quantile", "limitk", "limit_ratio"})
CHOOSING = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
SHARES = (
    ("prefix_cache_hits", "prefix_cache_queries"),
    ("external_prefix_cache_hits", "external_prefix_cache_queries"),
    ("mm_cache_hits", "mm_cache_queries"),
    ("spec_accepted_tokens", "spec_draft_tokens"),
)
"""Families of which the first divided by the second lies between 0 and 1."""
BUDGET_S = 3600.0
"""Over an hour and more a share is an error budget: of all requests on purpose, and of many."""
FLIPPED = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}


def parents(tree: Node) -> dict[int, Node]:
    """Return the parent of every part, by ``id`` of the part."""
    return {id(child): one for one in walk(tree) for child in one.children}


def above(node: Node, up: Mapping[int, Node]) -> Iterator[tuple[Node, Node]]:
    """Each part above a node with the child on the way to it, nearest first."""
    child = node
    while id(child) in up:
        parent = up[id(child)]
        yield parent, child
        child = parent


def constant(node: Node) -> float | None:
    """The number that a part is, whatever the series say."""
    node = bare(node)
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Unary):
        inner = constant(node.inner)
        return None if inner is None else -inner if node.op == "-" else inner
    if isinstance(node, Binary) and node.op in {"+", "-", "*", "/"}:
        left, right = constant(node.left), constant(node.right)
        if left is None or right is None or (node.op == "/" and right == 0):
            return None
        return {"+": left + right, "-": left - right, "*": left * right}.get(node.op, left / (right or 1.0))
    return None


@dataclass(frozen=True)
class Comparison:
    """``node op value``, also where the number stands on the left; ``number`` is the part that is the number."""

    node: Node
    op: str
    value: float
    number: Node
    binary: Binary


def comparisons(tree: Node) -> Iterator[Comparison]:
    """All comparisons of something with a number."""
    for one in walk(tree):
        if not isinstance(one, Binary) or one.op not in COMPARISONS:
            continue
        left, right = constant(one.left), constant(one.right)
        if right is not None and left is None:
            yield Comparison(one.left, one.op, right, one.right, one)
        elif left is not None and right is None:
            yield Comparison(one.right, FLIPPED[one.op], left, one.left, one)


def only_metric(selector: Selector, vocabulary: Vocabulary) -> Metric | None:
    """Return the metric of a selector, where that is certain; of several those that are alike stand for all."""
    found = vocabulary.metrics_of(selector)
    alike = {(one.entry.type, one.part, one.ratio) for one in found}
    return found[0] if len(alike) == 1 else None


def operand(call: Call) -> Node | None:
    """Return the argument of a function that has series."""
    return next((one for one in call.arguments if constant(one) is None and not isinstance(bare(one), Text)), None)


def source(node: Node) -> Selector | None:
    """Return the selector that a part takes its values from through parentheses, functions and aggregations."""
    node = bare(node)
    while not isinstance(node, Selector):
        match node:
            case Parens(inner=inner) | Subquery(inner=inner) | Unary(inner=inner):
                node = inner
            case Aggregation():
                node = node.inner
            case Call():
                inner_node = operand(node)
                if inner_node is None:
                    return None
                node = inner_node
            case Binary(op=op, left=left, right=right) if (
                op in COMPARISONS | {"*", "/"} and constant(right) is not None
            ):
                node = left
            case Binary(op=op, left=left) if op in {"and", "unless"}:
                node = left
            case _:
                return None
        node = bare(node)
    return node


def shortest_range(node: Node) -> float:
    """Return the shortest range that a part looks back over, in seconds; 0 without any."""
    return min((one.range_s for one in walk(node) if isinstance(one, Selector) and one.range_s), default=0.0)


# --- scale -----------------------------------------------------------------------------------------


def scale(node: Node, vocabulary: Vocabulary) -> float | None:
    """The largest value that a share can have: 1 for a ratio, 100 for one in per cent; None for other things."""
    node = bare(node)
    match node:
        case Selector():
            metric = only_metric(node, vocabulary)
            return 1.0 if metric is not None and metric.ratio else None
        case Subquery(inner=inner):
            return scale(inner, vocabulary)
        case Call(function=function) if function in _SAME_RANGE:
            inner_node = operand(node)
            return None if inner_node is None else scale(inner_node, vocabulary)
        case Aggregation(op=op) if op in _SAME_RANGE_AGGREGATIONS:
            return scale(node.inner, vocabulary)
        case Binary():
            return _scale(node, vocabulary)
    return None


def _scale(node: Binary, vocabulary: Vocabulary) -> float | None:
    left, right = constant(node.left), constant(node.right)
    if node.op in SETS | COMPARISONS:
        return scale(node.left, vocabulary)
    if node.op == "-" and left is not None:
        inner = scale(node.right, vocabulary)
        return inner if inner == left else None
    if node.op in {"*", "/"} and right is not None and right > 0:
        inner = scale(node.left, vocabulary)
        return None if inner is None else inner * right if node.op == "*" else inner / right
    if node.op == "*" and left is not None and left > 0:
        inner = scale(node.right, vocabulary)
        return None if inner is None else inner * left
    if node.op == "/" and is_share(node, vocabulary):
        return 1.0
    return None


def is_share(node: Binary, vocabulary: Vocabulary) -> bool:
    """Whether a division is a part of a whole: hits of queries, a label value of all, a bucket of the count."""
    above_, below = source(node.left), source(node.right)
    if above_ is None or below is None:
        return False
    first, second = only_metric(above_, vocabulary), only_metric(below, vocabulary)
    if first is None or second is None or not (first.cumulative and second.cumulative):
        return False
    if (first.entry.family, second.entry.family) in SHARES:
        return True
    if first.entry.family != second.entry.family:
        return False
    narrower = {(one.label, one.op, one.value) for one in below.matchers} <= {
        (one.label, one.op, one.value) for one in above_.matchers
    }
    same = first.part == second.part and len(above_.matchers) > len(below.matchers)
    return narrower and (same or (first.part == "_bucket" and second.part == "_count"))


# --- labels ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels:
    """Labels of the series of a part: with ``exact`` these and no others, else those of the target besides."""

    names: frozenset[str]
    exact: bool


def labels_of(node: Node, vocabulary: Vocabulary) -> Labels | None:
    """Labels of the series that a part gives; None where that cannot be known."""
    node = bare(node)
    match node:
        case Selector():
            metric = only_metric(node, vocabulary)
            return None if metric is None or metric.entry.type == "info" else Labels(metric.labels, exact=False)
        case Subquery(inner=inner) | Unary(inner=inner):
            return labels_of(inner, vocabulary)
        case Call(function=function) if function not in _RELABELLED:
            inner_node = operand(node)
            found = None if inner_node is None else labels_of(inner_node, vocabulary)
            if found is None or not function.startswith("histogram_"):
                return found
            return Labels(found.names - {"le"}, found.exact)
        case Aggregation():
            return _aggregated(node, vocabulary)
        case Binary():
            return _labels(node, vocabulary)
    return None


def _aggregated(node: Aggregation, vocabulary: Vocabulary) -> Labels | None:
    if node.op == "count_values":
        return None
    if node.op in CHOOSING:
        return labels_of(node.inner, vocabulary)
    if node.without is not None:
        inner = labels_of(node.inner, vocabulary)
        return None if inner is None else Labels(inner.names - set(node.without), inner.exact)
    return Labels(frozenset(node.by or ()), exact=True)


def _labels(node: Binary, vocabulary: Vocabulary) -> Labels | None:
    if constant(node.right) is not None:
        return labels_of(node.left, vocabulary)
    if constant(node.left) is not None:
        return labels_of(node.right, vocabulary)
    left = labels_of(node.left, vocabulary)
    if node.op == "or":
        return left if left == labels_of(node.right, vocabulary) else None
    if node.op in {"and", "unless"} or node.matching.at is None:
        return left
    return None
