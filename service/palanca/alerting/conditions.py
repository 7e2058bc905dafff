"""The second reader of a condition: PromQL over recorded series, true where ``expressions.holds`` says true.

Every recorded series of an engine has the same labels, so that conditions need no ``on``. A condition gives the engines
where it is true; false and unknown give nothing, as an alert needs it. So ``and`` and ``or`` are those of PromQL, and
``not`` flips comparisons, since what is missing must stay missing. Numbers are folded, so that only series remain.

One thing PromQL cannot tell apart: a signal that is missing by design from one that is missing otherwise. ``not (a or
b)`` is true in process where ``b`` is not applicable and ``a`` is false; here it needs both. What no chosen release has
is known when the text is written, and is left out as in process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from palanca.alerting import names
from palanca.alerting.faults import NotExportableError
from palanca.expressions import FLEET, Arithmetic, Call, Compare, Logic, Name, Not, Number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palanca.expressions import Node

OR, AND, COMPARE, SUM, PRODUCT, ATOM = range(6)
"""How tightly a text binds, loosest first."""


@dataclass(frozen=True)
class Part:
    """A piece of PromQL and how tightly it binds."""

    text: str
    rank: int = ATOM

    def inside(self, rank: int) -> str:
        """The text as an operand of something that binds as tightly as ``rank``."""
        return self.text if self.rank >= rank else f"({self.text})"


class Never(Enum):
    """A condition that is nowhere true, and nowhere false either."""

    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not applicable"


class Vocabulary(Protocol):
    """What the names of a condition are."""

    def name(self, name: str) -> Part | float | None:
        """A series, a number, or None where it does not exist by design. Raises ``NotExportableError``."""

    def fleet(self, function: str, argument: Node) -> Part | None:
        """A function over the engines of one model, one value for each engine. Raises ``NotExportableError``."""


class Signals:
    """Names that are all signals with recorded series."""

    def __init__(self, series: Callable[[str], str]) -> None:
        self._series = series

    def name(self, name: str) -> Part | float | None:
        """The recorded series."""
        return Part(self._series(name))

    def fleet(self, function: str, argument: Node) -> Part | None:
        """Signals do not compare engines."""
        raise NotExportableError(f"{function} of {argument} in a signal")


_FOLD: dict[str, Callable[..., object]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "min": np.minimum, "max": np.maximum,
    "floor": np.floor, "ceil": np.ceil, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_AGGREGATIONS = {
    "fleet_min": "min by ({0}) (", "fleet_max": "max by ({0}) (", "fleet_mean": "avg by ({0}) (",
    "fleet_median": "quantile by ({0}) (0.5, ", "fleet_count": "count by ({0}) (",
}  # fmt: skip


def promql(node: Node, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Write a condition as PromQL: the parts of its outermost ``and``, one or more.

    Raises ``NotExportableError`` where it cannot be an expression over series.
    """
    made = _condition(node, vocabulary, negated=False)
    if isinstance(made, Never):
        raise NotExportableError("no chosen release has all that it needs")
    if isinstance(made, bool):
        raise NotExportableError(f"it compares numbers only, and is {'always' if made else 'never'} true")
    return tuple(part.inside(AND) for part in made) if len(made) > 1 else (made[0].text,)


# --- conditions --------------------------------------------------------------------------------------

_Condition = tuple[Part, ...] | bool | Never
"""The parts of a conjunction; or what is known without any series."""


def _condition(node: Node, vocabulary: Vocabulary, *, negated: bool) -> _Condition:
    match node:
        case Compare():
            return _compare(_FLIPPED[node.op] if negated else node.op, node, vocabulary)
        case Not(part=part):
            return _condition(part, vocabulary, negated=not negated)
        case Logic(op=op, parts=parts):
            made = [_condition(part, vocabulary, negated=negated) for part in parts]
            if op == "or":  # it ignores what is not applicable
                made = [one for one in made if one is not Never.NOT_APPLICABLE] or [Never.NOT_APPLICABLE]
            return _all(made) if (op == "and") != negated else _any(made)
        case Name(name=name):
            vocabulary.name(name)
            raise NotExportableError(f"{name} is a flag, not a series")
        case _:
            raise TypeError(f"{type(node).__name__} is not a condition")


def _all(made: Sequence[_Condition]) -> _Condition:
    if any(one is False for one in made):
        return False
    lost = [one for one in made if isinstance(one, Never)]
    if lost:
        return max(lost, key=lambda one: one is Never.NOT_APPLICABLE)
    parts = tuple(part for one in made if isinstance(one, tuple) for part in one)
    return parts or True


def _any(made: Sequence[_Condition]) -> _Condition:
    if any(one is True for one in made):
        return True
    branches = [one for one in made if isinstance(one, tuple)]
    if not branches:
        lost = [one for one in made if isinstance(one, Never)]
        return max(lost, key=lambda one: one is Never.NOT_APPLICABLE) if lost else False
    if len(branches) == 1:
        return branches[0]
    return (Part(" or ".join(_together(branch) for branch in branches), OR),)


def _together(branch: tuple[Part, ...]) -> str:
    return " and ".join(part.inside(AND) for part in branch) if len(branch) > 1 else branch[0].inside(OR)


def _compare(op: str, node: Compare, vocabulary: Vocabulary) -> _Condition:
    left, right = number(node.left, vocabulary), number(node.right, vocabulary)
    if left is None or right is None:
        return Never.NOT_APPLICABLE
    if not isinstance(left, Part) and not isinstance(right, Part):
        if np.isnan(left) or np.isnan(right):
            return Never.UNKNOWN
        return bool(_FOLD[op](left, right))
    if not isinstance(left, Part):
        left, right, op = right, left, _MIRRORED[op]
    # Operators of one rank are read from the left: what is compared on the right stands in parentheses.
    return (Part(f"{_operand(left, SUM)} {op} {_operand(right, SUM)}", COMPARE),)


# --- numbers -----------------------------------------------------------------------------------------


def number(node: Node, vocabulary: Vocabulary) -> Part | float | None:
    """Write a numeric expression: a text over series, a number, or None where a name does not exist by design."""
    match node:
        case Number(value=value):
            return value
        case Name(name=name):
            return vocabulary.name(name)
        case Call(function=function, arguments=(argument,)) if function in FLEET:
            return vocabulary.fleet(function, argument)
        case Arithmetic(op=op, left=left, right=right):
            return _arithmetic(op, [number(one, vocabulary) for one in (left, right)])
        case Call(function=function, arguments=arguments):
            return _call(function, [number(one, vocabulary) for one in arguments])
        case _:
            raise TypeError(f"{type(node).__name__} is not a number")


def _folded(function: str, values: Sequence[float]) -> float:
    with np.errstate(all="ignore"):
        made = _FOLD[function](*values[:2])
        for value in values[2:]:
            made = _FOLD[function](made, value)
    return float(made)  # type: ignore[arg-type]


def _arithmetic(op: str, values: Sequence[Part | float | None]) -> Part | float | None:
    left, right = values
    if left is None or right is None:
        return None
    if not isinstance(left, Part) and not isinstance(right, Part):
        return _folded(op, [left, right])
    rank = PRODUCT if op in "*/" else SUM
    return Part(f"{_operand(left, rank)} {op} {_operand(right, rank + 1)}", rank)


def _call(function: str, values: Sequence[Part | float | None]) -> Part | float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    numbers = [value for value in known if not isinstance(value, Part)]
    if function == "round_down":
        return _round_down(known)
    if len(numbers) == len(known):
        return _folded(function, numbers)
    parts = [value for value in known if isinstance(value, Part)]
    if function in {"floor", "ceil"}:
        return Part(f"{function}({parts[0].text})")
    if function not in {"min", "max"}:
        raise NotExportableError(f"{function} has no PromQL")
    made = parts[0]
    for other in parts[1:]:
        made = _extreme(function, made, other)
    clamp = "clamp_max" if function == "min" else "clamp_min"
    return Part(f"{clamp}({made.text}, {literal(_folded(function, [*numbers, numbers[0]]))})") if numbers else made


def _extreme(function: str, a: Part, b: Part) -> Part:
    """Smaller or larger of two series; nothing where one of them is missing or NaN."""
    first, other = ("<=", "<") if function == "min" else (">=", ">")
    left, right = a.inside(SUM), b.inside(SUM)
    return Part(f"({left} {first} {right} or {right} {other} {left})")


def _round_down(values: Sequence[Part | float]) -> Part | float:
    value, multiple = values
    if not isinstance(value, Part):
        if not isinstance(multiple, Part):
            small = value < multiple
            return float(np.floor(value)) if small else float(np.floor(value / multiple) * multiple)
        raise NotExportableError("round_down of a number to a multiple that is a series")
    text, grain = _operand(value, SUM), _operand(multiple, SUM)
    whole = f"floor({_operand(value, PRODUCT)} / {_operand(multiple, ATOM)}) * {_operand(multiple, ATOM)}"
    return Part(f"({whole} and {text} >= {grain} or floor({value.text}) and {text} < {grain})")


def _operand(value: Part | float, rank: int) -> str:
    if isinstance(value, Part):
        return value.inside(rank)
    text = literal(value)
    return f"({text})" if text.startswith("-") and rank > SUM else text


def literal(value: float) -> str:
    """A number as PromQL, exact."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))  # noqa: PLR2004


def fleet(function: str, series: Part) -> str:
    """A function over the engines of one model, for each engine; engines without a number are left out.

    Prometheus' quantile is NaN where one of the numbers is infinite, that of the process is not.
    """
    by = ", ".join(names.SCOPE)
    value = f"{series.inside(SUM)} == {series.inside(SUM)}"
    joined = f"{names.ENGINE}\n* on ({by}) group_left ()\n{_AGGREGATIONS[function].format(by)}{value})"
    return f"{joined}\nor\n0 * {names.ENGINE}" if function == "fleet_count" else joined
