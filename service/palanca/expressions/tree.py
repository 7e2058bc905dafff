"""Expressions as trees: read from text, looked through, and written again."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from palanca.quantities import is_number

if TYPE_CHECKING:
    from collections.abc import Iterator


class ExpressionError(ValueError):
    """What is wrong in an expression, and at which column (from 0) of it."""

    def __init__(self, message: str, column: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.column, self.hint = message, column, hint


class _Part:
    """Base of the nodes of a tree."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Distinct names in order of appearance."""
        return tuple(dict.fromkeys(one.name for one in walk(self) if isinstance(one, Name)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Number(_Part):
    """A literal."""

    value: float
    column: int


@dataclass(frozen=True)
class Name(_Part):
    """A signal, fact, SLO or threshold."""

    name: str
    column: int


@dataclass(frozen=True)
class Arithmetic(_Part):
    """``left op right`` with op one of ``+ - * /``."""

    op: str
    left: Node
    right: Node
    column: int


@dataclass(frozen=True)
class Call(_Part):
    """``min max floor ceil round_down``."""

    function: str
    arguments: tuple[Node, ...]
    column: int


@dataclass(frozen=True)
class Compare(_Part):
    """``left op right`` with op one of ``< <= > >=``."""

    op: str
    left: Node
    right: Node
    column: int


@dataclass(frozen=True)
class Logic(_Part):
    """``and`` / ``or`` over two or more conditions."""

    op: str
    parts: tuple[Node, ...]
    column: int


@dataclass(frozen=True)
class Not(_Part):
    """Negation."""

    part: Node
    column: int


Node = Number | Name | Arithmetic | Call | Compare | Logic | Not
_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
FLEET = ("fleet_min", "fleet_max", "fleet_mean", "fleet_median", "fleet_count")
"""Functions over the engines of one model: those that share a configuration scope."""
_ARITY = {"min": (2, 9), "max": (2, 9), "floor": (1, 1), "ceil": (1, 1), "round_down": (2, 2)}
_ARITY |= {**dict.fromkeys(FLEET, (1, 1)), "default": (2, 2)}
_FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_DEEPEST = 100  # levels of a tree; every function here goes down them by recursion


_GLUED = re.compile(r"(?<![\w.])\.?\d[\w.]*?(?:and|or|not|if|in|is|else)\b")
"""A number with a word behind it: Python reads it, and prints a warning."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Node:
    """Parse one expression. Raises ``ExpressionError`` with the column."""
    if "#" in text:
        message, hint = "a comment inside an expression would hide what follows it", "say it in a note"
        raise ExpressionError(message, text.index("#"), hint)
    glued = _GLUED.search(text)
    if glued is not None:
        message, hint = f"{glued[0]!r} is no number", "put a space before the word"
        raise ExpressionError(message, glued.start(), hint)
    line = re.sub(r"\s", " ", text)  # one line, so that columns count from the start of the text
    source = line.strip()
    shift = line.index(source)
    try:
        tree = ast.parse(source, mode="eval")
    except SyntaxError as error:
        message = f"cannot be read: {error.msg}"
        raise ExpressionError(message, shift + min(max((error.offset or 1) - 1, 0), len(source))) from None
    except (ValueError, RecursionError, MemoryError) as error:
        message = f"cannot be read: {error}"
        raise ExpressionError(message) from None
    level: list[ast.AST] = [tree.body]
    for _ in range(_DEEPEST):
        for one in level:
            if isinstance(one, ast.expr):  # ast counts bytes of UTF-8
                one.col_offset = shift + len(source.encode()[: one.col_offset].decode())
        level = [child for one in level for child in ast.iter_child_nodes(one)]
    if level:
        message, hint = "nested too deeply", "split it into several signals or conditions"
        raise ExpressionError(message, 0, hint)
    return _node(tree.body)


def _node(node: ast.expr) -> Node:
    column = node.col_offset
    match node:
        case ast.Constant(value=value) if is_number(value):
            return _literal(value, column)
        case ast.Name(id=name):
            return Name(name, column)
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            return Name(f"{owner}.{attribute}", column)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if not isinstance(
            value, bool
        ):
            return _literal(-value, column)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Not(_node(operand), column)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return Arithmetic(_ARITHMETIC[type(op)], _node(left), _node(right), column)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return Compare(_COMPARE[type(op)], _node(left), _node(right), column)
        case ast.Compare():
            message, hint = "only one of < <= > >= at a time", "join comparisons with and"
            raise ExpressionError(message, column, hint)
        case ast.BoolOp(op=op, values=values):
            return Logic("and" if isinstance(op, ast.And) else "or", tuple(_node(v) for v in values), column)
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]) if function in _ARITY:
            low, high = _ARITY[function]
            if not low <= len(arguments) <= high:
                message = f"{function} takes {low if low == high else f'{low} or more'} arguments, not {len(arguments)}"
                raise ExpressionError(message, column)
            return Call(function, tuple(_node(argument) for argument in arguments), column)
        case _:
            message = f"{type(node).__name__} is not part of the grammar"
            hint = "numbers, names, + - * /, < <= > >=, and, or, not, min, max, floor, ceil, round_down"
            raise ExpressionError(message, column, hint)


def _literal(value: float, column: int) -> Number:
    try:
        made = float(value) + 0.0  # minus zero is zero
    except OverflowError:
        made = math.inf
    if math.isinf(made):
        message = "the number is too large"
        raise ExpressionError(message, column)
    return Number(made, column)


def children(node: Node) -> tuple[Node, ...]:
    """Direct parts of a node."""
    match node:
        case Arithmetic() | Compare():
            return (node.left, node.right)
        case Call():
            return node.arguments
        case Logic():
            return node.parts
        case Not():
            return (node.part,)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and everything below it, from left to right."""
    yield node
    for child in children(node):
        yield from walk(child)


def names(node: Node) -> tuple[str, ...]:
    """Distinct names in order of appearance."""
    return node.names


def comparisons(node: Node, *, negated: bool = False) -> Iterator[Compare]:
    """Yield the comparisons, flipped under an odd number of ``not``."""
    match node:
        case Compare():
            yield Compare(_FLIPPED[node.op], node.left, node.right, node.column) if negated else node
        case Not(part=part):
            yield from comparisons(part, negated=not negated)
        case Logic(parts=parts):
            for part in parts:
                yield from comparisons(part, negated=negated)
        case _:
            return


def text(node: Node) -> str:
    """Write a node back as an expression."""
    match node:
        case Number(value=value):
            return f"{value:.15g}"
        case Name(name=name):
            return name
        case Arithmetic(op=op, left=left, right=right):
            return f"({_operand(left)} {op} {_operand(right)})"
        case Compare(op=op, left=left, right=right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(text(argument) for argument in arguments)})"
        case Logic(op=op, parts=parts):
            return "(" + f" {op} ".join(text(part) for part in parts) + ")"
        case Not(part=part):
            return f"not {text(part)}"


def _operand(node: Node) -> str:
    """Write what an operator stands beside: what binds less than that keeps its parentheses."""
    return f"({text(node)})" if isinstance(node, Compare | Not) else text(node)


def uses_fleet(node: Node) -> bool:
    """Whether an expression compares engines with each other."""
    return any(isinstance(one, Call) and one.function in FLEET for one in walk(node))
