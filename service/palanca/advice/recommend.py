"""From a rule that holds to the changes it recommends, with values and where they come from."""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING

import numpy as np

from palanca import expressions
from palanca.advice.levers import spell
from palanca.model import Recommendation, Truth
from palanca.quantities import is_number, number
from palanca.rule_checks import lever_unit, units_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.engine import ReadingsEnvironment
    from palanca.model import Advice, Catalogue, Direction, Fact, Lever, Rule, VllmVersion

RISK_ORDER = ("low", "medium", "high")
Value = float | bool | str | None
_WHOLE = ("requests", "tokens", "blocks", "tokens/request")


def recommend(
    rule: Rule,
    row: int,
    environment: ReadingsEnvironment,
    catalogue: Catalogue,
    facts: Mapping[str, Fact],
    version: VllmVersion | None,
) -> tuple[Recommendation, ...]:
    """Recommendations of one finding, the best first: what removes the bottleneck, then by risk, then as listed."""
    made = []
    for advice in sorted(rule.levers, key=lambda one: (one.order, RISK_ORDER.index(one.risk))):
        if not _applies(advice, environment, row):
            continue
        one = _recommendation(advice, rule, row, environment, catalogue, facts, version)
        if one is not None:
            made.append(one)
    return tuple(sorted(made, key=lambda one: one.direction == "none"))


def _applies(advice: Advice, environment: ReadingsEnvironment, row: int) -> bool:
    """``only_if`` must hold; ``unless`` must not hold (unknown counts as not holding)."""

    def true(text: str) -> bool:
        return environment.truth_at(expressions.parse(text), row) is Truth.TRUE

    return (advice.only_if is None or true(advice.only_if)) and (advice.unless is None or not true(advice.unless))


def _recommendation(
    advice: Advice,
    rule: Rule,
    row: int,
    environment: ReadingsEnvironment,
    catalogue: Catalogue,
    facts: Mapping[str, Fact],
    version: VllmVersion | None,
) -> Recommendation | None:
    lever = catalogue.levers[advice.lever]
    fact = facts.get(lever.fact) if lever.fact else None
    current = None if fact is None or fact.value == lever.off else fact.value
    proposed, computed_from = _value(advice, lever, row, environment)
    direction = _direction(advice.direction, current, proposed)
    if direction is None:
        return None
    spelling = spell(
        lever, version, catalogue.metrics.releases, direction, None if proposed is None else word(proposed)
    )
    if spelling is None:
        return None

    def with_numbers(text: str, template: str | None) -> str:
        filled = None if template is None else _filled(template, advice, rule, row, environment, catalogue, proposed)
        return text if filled is None else f"{text}; {filled}"

    if spelling.others:
        computed_from += (
            f"; in older releases of the range {version.text if version else ''}: {', '.join(spelling.others)}"
        )
    return Recommendation(
        lever=advice.lever,
        direction=direction,
        flag=spelling.flag,
        current=current,
        provenance=fact.provenance if fact else None,
        proposed=proposed,
        argument=spelling.argument,
        computed_from=computed_from,
        why=advice.why,
        effect=with_numbers(advice.effect, advice.effect_computed),
        trade_off=with_numbers(advice.trade_off, advice.trade_off_computed),
        verify=rule.verify,
        risk=advice.risk,
        applies_to="this engine",
        order=advice.order,
    )


def _value(advice: Advice, lever: Lever, row: int, environment: ReadingsEnvironment) -> tuple[Value, str]:
    """Return the proposed value and how it was computed, or None and the reason."""
    if advice.direction in {"enable", "disable"}:
        return advice.direction == "enable", "a switch"
    if advice.value is None:
        return None, advice.no_value or ""
    if lever.values:
        return advice.value, "the only value that helps here" if len(lever.values) == 1 else "chosen by the rule"
    node = expressions.parse(advice.value)
    value = environment.value_at(node, row)
    inputs = {name: environment.value_at(expressions.parse(name), row) for name in expressions.names(node)}
    unknown = [name for name, known in inputs.items() if not np.isfinite(known)]
    if not np.isfinite(value):
        reason = f"cannot be computed: {', '.join(unknown) or advice.value} unknown"
        return None, f"{reason}; {advice.no_value}" if advice.no_value else reason
    least, most = (
        (-np.inf if lever.minimum is None else lever.minimum),
        (np.inf if lever.maximum is None else lever.maximum),
    )
    value = float(np.clip(value, least, most))
    if lever.unit in _WHOLE:
        value = float(np.floor(value))
    shown = ", ".join(f"{name} = {known:.6g}" for name, known in inputs.items())
    return round(value, 6), f"{advice.value} with {shown}"


def _filled(
    template: str,
    advice: Advice,
    rule: Rule,
    row: int,
    environment: ReadingsEnvironment,
    catalogue: Catalogue,
    proposed: Value,
) -> str | None:
    """Put numbers into the braces of a template; None when one of them is not known."""
    units = units_for(catalogue, rule) | {"proposed": lever_unit(catalogue.levers[advice.lever])}
    given = float(proposed) if is_number(proposed) else float("nan")
    parts = []
    for literal, field, _, _ in Formatter().parse(template):
        parts.append(literal)
        if field is None:
            continue
        node = expressions.parse(field)
        value = environment.including({"proposed": given}).value_at(node, row)
        if not np.isfinite(value):
            return None
        parts.append(number(value, expressions.unit_of(node, units).plural, digits=2))
    return "".join(parts)


def _direction(wanted: Direction, current: Value, proposed: Value) -> Direction | None:
    """Return the direction to show; None when the change is none, or goes the other way than the rule wants."""
    if current is not None and proposed is not None and current == proposed:
        return None
    if wanted in {"raise", "lower"} and is_number(current) and is_number(proposed):
        return wanted if (proposed > current) == (wanted == "raise") else None
    if wanted in {"set", "change"} and is_number(current) and is_number(proposed):
        return "raise" if proposed > current else "lower"
    return wanted


def word(value: float | bool | str) -> str:  # noqa: FBT001  a value, not an option
    """Write a value as on a command line: ``96``, ``0.92``, ``fp8``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:g}"
    return str(value)
