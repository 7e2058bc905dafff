"""Expressions over arrays: numbers, and truth of four values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palanca.expressions.tree import FLEET, Arithmetic, Call, Compare, Logic, Name, Node, Not, Number, names
from palanca.model import Truth

if TYPE_CHECKING:
    from collections.abc import Callable

Numbers: TypeAlias = NDArray[np.float64]
Truths: TypeAlias = NDArray[np.uint8]


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
