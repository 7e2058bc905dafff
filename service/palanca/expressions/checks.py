"""What names and units of an expression must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.expressions.tree import Arithmetic, Call, Compare, ExpressionError, Logic, Name, Node, Not, Number
from palanca.units import ANY, ENGINES, RATIO, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

FLAG = "flag"
"""The kind of a boolean fact, beside the units of numbers."""


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
