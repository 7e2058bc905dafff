"""The one expression grammar, for ``expr``, ``when``, ``supports``, ``contradicts`` and value formulas.

Python syntax by ``ast.parse``, with a whitelist::

    number     1.5                          not inside a condition: thresholds are named
    name       ttft_p99, slo.ttft_p99       a signal, a fact or a threshold
    arithmetic + - * /  min max floor ceil round_down(value, multiple)
    missing    default(value, other), in value formulas only
    fleet      fleet_min fleet_max fleet_mean fleet_median fleet_count, over the engines of one model
    comparison <  <=  >  >=                 one at a time
    logic      and  or  not, a flag fact by its name

``round_down`` goes down to a multiple, or below one multiple to a whole number: 21 -> 16, 3.9 -> 3 for multiples of 8.

Numbers are arrays ``[targets, steps]``, ``[targets, 1]`` or scalars; NaN is "no number". Truth is three-valued after
Kleene, with *not applicable* as the fourth: it decides nothing (``or`` ignores it, everything else keeps it).
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from palanca.model import Truth
from palanca.quantities import is_number
from palanca.units import ANY, ENGINES, RATIO, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Truths = NDArray[np.uint8]


class ExpressionError(ValueError):
    """What is wrong in an expression, and at which column (from 0) of it."""

    def __init__(self, message: str, column: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.column, self.hint = message, column, hint


# --- the tree ------------------------------------------------------------------------------------


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
FLAG = "flag"  # the kind of a boolean fact, beside the units of numbers

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


# --- checks --------------------------------------------------------------------------------------


def unit_of(node: Node, units: Mapping[str, Unit | str], *, numbers: bool = True) -> Unit:
    """Return the unit of a numeric expression. Raises ``ExpressionError``.

    ``units`` maps every known name to its unit, or to ``FLAG``. ``numbers=False`` forbids literals.
    """
    match node:
        case Number():
            if not numbers:
                message = f"bare number {node.value:g} in a condition"
                raise ExpressionError(message, node.column, "name it under thresholds, with unit and source")
            return RATIO if node.value else ANY
        case Name(name=name):
            found = units.get(name)
            if isinstance(found, Unit):
                return found
            message = f"unknown name {name!r}" if found is None else f"{name!r} is a flag, not a number"
            raise ExpressionError(message, node.column, nearest(name, units) if found is None else "")
        case Arithmetic():
            left, right = (unit_of(part, units, numbers=numbers) for part in (node.left, node.right))
            if node.op in "*/":
                left, right = (RATIO if part == ANY else part for part in (left, right))
                return left.times(right, 1 if node.op == "*" else -1)
            return _same(node, left, right)
        case Call(function="default") if not numbers:
            message = "default() would make an unknown look known"
            raise ExpressionError(message, node.column, "it is for value formulas only")
        case Call():
            found_units = [unit_of(argument, units, numbers=numbers) for argument in node.arguments]
            if node.function == "round_down":
                return found_units[0]
            if node.function == "fleet_count":
                return ENGINES
            unit = found_units[0]
            for other in found_units[1:]:
                unit = _same(node, unit, other)
            return unit
        case _:
            message = "a number is needed here, not a condition"
            raise ExpressionError(message, node.column)


def check_condition(node: Node, units: Mapping[str, Unit | str]) -> None:
    """Check names, units, and that there is no bare number. Raises ``ExpressionError``."""
    match node:
        case Compare():
            left, right = (unit_of(part, units, numbers=False) for part in (node.left, node.right))
            _same(node, left, right)
        case Logic():
            for part in node.parts:
                check_condition(part, units)
        case Not():
            check_condition(node.part, units)
        case Name(name=name) if units.get(name) == FLAG:
            return
        case Name(name=name) if name not in units:
            message = f"unknown name {name!r}"
            raise ExpressionError(message, node.column, nearest(name, units))
        case _:
            message = "a condition is needed here, not a number"
            raise ExpressionError(message, node.column, "compare it with a threshold")


def _same(node: Arithmetic | Compare | Call, left: Unit, right: Unit) -> Unit:
    if ANY in {left, right}:
        return right if left == ANY else left
    if left != right:
        what = node.function if isinstance(node, Call) else node.op
        message = f"units differ: {left} {what} {right}"
        raise ExpressionError(message, node.column, "both sides need the same unit")
    return left


def nearest(name: str, known: Mapping[str, object], alike: float = 0.6) -> str:
    """Return a hint that names the closest known names, or an empty text; ``alike`` is 1 for equal ones."""
    import difflib  # noqa: PLC0415  only when something is wrong

    close = difflib.get_close_matches(name, known, n=2, cutoff=alike)
    return f"did you mean {' or '.join(close)}?" if close else ""


# --- evaluation ----------------------------------------------------------------------------------


def uses_fleet(node: Node) -> bool:
    """Whether an expression compares engines with each other."""
    return any(isinstance(one, Call) and one.function in FLEET for one in walk(node))


class Environment(Protocol):
    """What an expression is evaluated against."""

    def fleet(self, function: str, values: Numbers) -> Numbers:
        """Apply one of ``FLEET`` over the engines of each model: ``[targets, steps]`` to the same shape."""

    def number(self, name: str) -> Numbers:
        """Values, broadcastable to ``[targets, steps]``; NaN where there is none."""

    def flag(self, name: str) -> Truths:
        """Truth of a flag fact, ``[targets, 1]``; names that are no flags give an empty array."""

    def not_applicable(self, name: str) -> NDArray[np.bool_]:
        """Where the name does not exist by design, broadcastable to ``[targets, steps]``."""


_FUNCTIONS: dict[str, Callable[..., Numbers]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
    "min": np.minimum, "max": np.maximum, "floor": np.floor, "ceil": np.ceil,
    "default": lambda value, other: np.asarray(np.where(np.isnan(value), other, value), dtype=np.float64),
    "round_down": lambda value, multiple: np.where(
        value < multiple, np.floor(value), np.floor(value / multiple) * multiple
    ),
}  # fmt: skip
_COMPARISONS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def number(node: Node, environment: Environment) -> Numbers:
    """Evaluate a numeric expression; division by zero gives NaN or infinity, as in Prometheus."""
    match node:
        case Number():
            return np.asarray(node.value)
        case Name():
            return environment.number(node.name)
        case Arithmetic(op=op, left=left, right=right):
            with np.errstate(all="ignore"):
                return _FUNCTIONS[op](number(left, environment), number(right, environment))
        case Call(function=function, arguments=(argument,)) if function in FLEET:
            return environment.fleet(function, number(argument, environment))
        case Call(function=function, arguments=arguments):
            values = [number(argument, environment) for argument in arguments]
            with np.errstate(all="ignore"):
                result = _FUNCTIONS[function](*values[:2]) if len(values) > 1 else _FUNCTIONS[function](values[0])
                for extra in values[2:]:
                    result = _FUNCTIONS[function](result, extra)
            return result
        case _:
            message = f"{type(node).__name__} is not a number"
            raise TypeError(message)


def holds(node: Node, environment: Environment) -> Truths:
    """Evaluate a condition to ``Truth`` codes, broadcastable to ``[targets, steps]``."""
    match node:
        case Compare(op=op, left=left, right=right):
            a, b = number(left, environment), number(right, environment)
            truth = _COMPARISONS[op](a, b).astype(np.uint8)
            truth = np.where(np.isnan(a) | np.isnan(b), np.uint8(Truth.UNKNOWN), truth)
            for name in names(node):
                truth = np.where(environment.not_applicable(name), np.uint8(Truth.NOT_APPLICABLE), truth)
            return truth
        case Name(name=name):
            return environment.flag(name)
        case Not(part=part):
            truth = holds(part, environment)
            return np.where(truth <= Truth.TRUE, np.uint8(1) - truth, truth).astype(np.uint8)
        case Logic(op=op, parts=parts):
            result = holds(parts[0], environment)
            for part in parts[1:]:
                result = (_and if op == "and" else _or)(result, holds(part, environment))
            return result
        case _:
            message = f"{type(node).__name__} is not a condition"
            raise TypeError(message)


def _and(a: Truths, b: Truths) -> Truths:
    return np.where((a == Truth.FALSE) | (b == Truth.FALSE), np.uint8(Truth.FALSE), np.maximum(a, b)).astype(np.uint8)


def _or(a: Truths, b: Truths) -> Truths:
    either = np.where(a == Truth.NOT_APPLICABLE, b, np.where(b == Truth.NOT_APPLICABLE, a, np.maximum(a, b)))
    return np.where((a == Truth.TRUE) | (b == Truth.TRUE), np.uint8(Truth.TRUE), either).astype(np.uint8)
