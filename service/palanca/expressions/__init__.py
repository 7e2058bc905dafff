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

from palanca.expressions.checks import FLAG, check_condition, nearest, unit_of
from palanca.expressions.evaluation import Environment, Numbers, Truths, holds, number
from palanca.expressions.tree import (
    FLEET,
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
    text,
    uses_fleet,
    walk,
)

__all__ = [
    "FLAG",
    "FLEET",
    "Arithmetic",
    "Call",
    "Compare",
    "Environment",
    "ExpressionError",
    "Logic",
    "Name",
    "Node",
    "Not",
    "Number",
    "Numbers",
    "Truths",
    "check_condition",
    "children",
    "comparisons",
    "holds",
    "names",
    "nearest",
    "number",
    "parse",
    "text",
    "unit_of",
    "uses_fleet",
    "walk",
]
