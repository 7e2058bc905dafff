"""Which labels the series of a part surely have or lack, and whether several series differ in one alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from palanca.linting.analysis import ABSENCE, CHOOSING, constant, only_metric, operand
from palanca.linting.tree import (
    COMPARISONS,
    SETS,
    Aggregation,
    Binary,
    Call,
    Node,
    Selector,
    Subquery,
    Unary,
    bare,
)
from palanca.linting.vocabulary import ENGINE_LABELS

if TYPE_CHECKING:
    from palanca.linting.vocabulary import Vocabulary

TARGET = frozenset({"job", "instance"})
"""Labels that every scraped series has."""
BARE_FUNCTIONS = frozenset({"vector", "time", "scalar"})
_RELABELLING = frozenset({"label_replace", "label_join", "info"})
Several = Literal["always", "at times"]


def has(node: Node, label: str, words: Vocabulary) -> bool | None:
    """Whether the series of a part have a label; None where that cannot be known."""
    node = bare(node)
    match node:
        case Selector():
            return _selected(node, label, words)
        case Subquery(inner=inner) | Unary(inner=inner):
            return has(inner, label, words)
        case Aggregation():
            return _aggregated(node, label, words)
        case Call():
            return _called(node, label, words)
        case Binary():
            return _joined(node, label, words)
    return None


def _selected(node: Selector, label: str, words: Vocabulary) -> bool | None:
    for one in node.matchers:
        if one.label == label and one.op == "=":
            return bool(one.value)
    metric = only_metric(node, words)
    if metric is None or metric.entry.type == "info" or any(one.label == label for one in node.matchers):
        return None
    return True if label in TARGET | metric.labels else None


def _aggregated(node: Aggregation, label: str, words: Vocabulary) -> bool | None:
    if node.op == "count_values":
        return None
    if node.op not in CHOOSING and not node.keeps(label):
        return False
    return has(node.inner, label, words)


def _called(node: Call, label: str, words: Vocabulary) -> bool | None:
    if node.function in ABSENCE:
        given = bare(node.arguments[0]) if node.arguments else None
        equal = [one.value for one in given.matchers if one.label == label and one.op == "="] if (
            isinstance(given, Selector)
        ) else []  # fmt: skip
        return bool(equal and equal[0])
    if node.function in BARE_FUNCTIONS:
        return False
    if node.function in _RELABELLING:
        return None
    if node.function.startswith("histogram_") and label == "le":
        return False
    inner = operand(node)
    return None if inner is None else has(inner, label, words)


def _joined(node: Binary, label: str, words: Vocabulary) -> bool | None:
    if constant(node.right) is not None or node.op in {"and", "unless"}:
        return has(node.left, label, words)
    if constant(node.left) is not None:
        return has(node.right, label, words)
    left, right = has(node.left, label, words), has(node.right, label, words)
    if node.op == "or":
        return left if left == right else None
    if node.matching.many is not None:
        return (left if node.matching.many == "left" else right) or None  # the group may have brought it
    return left if node.matching.by(label) else False


# --- several series --------------------------------------------------------------------------------


def several(node: Node, label: str, words: Vocabulary) -> Several | None:
    """Whether there are series that differ in a label; ``at times``: with a second engine, or above a threshold.

    None where that is not certain. ``model_name`` and ``engine`` are taken to have one value at each server.
    """
    node = bare(node)
    match node:
        case Selector():
            return _several_selected(node, label, words)
        case Subquery(inner=inner) | Unary(inner=inner):
            return several(inner, label, words)
        case Aggregation():
            kept = node.keeps(label) and node.op not in CHOOSING | {"count_values"}
            return several(node.inner, label, words) if kept else None
        case Call() if node.function not in ABSENCE | BARE_FUNCTIONS | _RELABELLING:
            inner_node = operand(node)
            if inner_node is None or has(node, label, words) is not True:
                return None
            return several(inner_node, label, words)
        case Binary():
            return _several_joined(node, label, words)
    return None


def _several_selected(node: Selector, label: str, words: Vocabulary) -> Several | None:
    metric = only_metric(node, words)
    if metric is None or metric.entry.type == "info" or any(one.label == label for one in node.matchers):
        return None
    if label == "instance":
        return "at times"
    if label not in metric.labels or label in ENGINE_LABELS:
        return None
    return "always" if label == "le" else "at times"


def _several_joined(node: Binary, label: str, words: Vocabulary) -> Several | None:
    if constant(node.right) is not None or node.op in {"and", "unless"}:
        found = several(node.left, label, words)
    elif constant(node.left) is not None:
        found = several(node.right, label, words)
    elif node.op == "or" or has(node, label, words) is not True:
        return None
    else:
        found = several(node.right if node.matching.many == "right" else node.left, label, words)
    return "at times" if found and node.op in COMPARISONS | SETS else found
