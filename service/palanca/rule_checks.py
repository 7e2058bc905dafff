"""What one rule must satisfy against the rest of the catalogue: names, units, levers, symptoms."""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING

from palanca import expressions
from palanca.expressions import ExpressionError, nearest
from palanca.units import ANY, RATIO, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from palanca.errors import Fault
    from palanca.loader import Document, Keys
    from palanca.model import Advice, Catalogue, Lever, Rule

Units = dict[str, Unit | str]


def check_expression(
    document: Document, keys: Keys, text: str, units: Mapping[str, Unit | str], *, condition: bool
) -> tuple[Unit | None, list[Fault]]:
    """Parse and check one expression; returns its unit (None for conditions) and its faults."""
    try:
        node = expressions.parse(text)
        if condition:
            expressions.check_condition(node, units)
            return None, []
        return expressions.unit_of(node, units), []
    except ExpressionError as error:
        return None, [document.fault(keys, error.message, error.hint, offset=error.column)]


def unit_of_lever(lever: Lever) -> Unit | None:
    """Unit of a lever's value; None when it is no unit."""
    try:
        return Unit.parse(lever.unit)
    except ValueError:
        return None


def check_rule(
    document: Document, rule: Rule, base: Units, levers: Mapping[str, Lever], symptoms: set[str], every: set[str]
) -> Iterator[Fault]:
    """Yield every fault of a rule. ``base`` are the units of all signals and facts, ``every`` all rule ids."""
    units = dict(base)
    yield from _check_thresholds(document, rule, base, units)
    used: set[str] = set()
    for keys, text in _conditions(rule):
        yield from check_expression(document, keys, text, units, condition=True)[1]
        used |= names_in(text)
        if rule.scope == "target" and fleet_in(text):
            yield document.fault(keys, "fleet functions need scope: model")
    yield from _check_advice(document, rule, units, levers, used)
    for name in rule.thresholds:
        if name not in used:
            yield document.fault(("thresholds", name, "key"), f"threshold {name!r} is used nowhere")
    yield from _check_references(document, rule, base, units, symptoms, every)


def _check_thresholds(document: Document, rule: Rule, base: Units, units: Units) -> Iterator[Fault]:
    """Check the thresholds, and add their units to ``units``."""
    for name, threshold in rule.thresholds.items():
        if name in base:
            yield document.fault(("thresholds", name, "key"), f"{name!r} is already the name of a signal or fact")
        try:
            units[name] = Unit.parse(threshold.unit)
        except ValueError as error:
            yield document.fault(("thresholds", name, "unit"), str(error))
            units[name] = RATIO


def _check_references(
    document: Document, rule: Rule, base: Units, units: Units, symptoms: set[str], every: set[str]
) -> Iterator[Fault]:
    if document.path.stem != rule.id:
        yield document.fault(("id",), f"the file of rule {rule.id!r} must be called {rule.id}.yaml")
    known = symptoms if rule.scope == "target" else every
    for index, other in enumerate(rule.explains):
        if other not in known:
            what = "symptom rule" if rule.scope == "target" else "rule"
            yield document.fault(
                ("explains", index), f"there is no {what} {other!r}", nearest(other, dict.fromkeys(known))
            )
    yield from _check_braces(document, rule.summary, units)
    for index, verify in enumerate(rule.verify):
        if verify.signal not in base:
            yield document.fault(("verify", index, "signal"), f"there is no signal {verify.signal!r}")
    if rule.slo is not None and rule.slo not in base:
        yield document.fault(("slo",), f"there is no objective {rule.slo!r}", nearest(rule.slo, base))
    if rule.symptom and rule.levers:
        yield document.fault(("levers", "key"), "a symptom rule recommends nothing", "give it a cause")


def _check_braces(document: Document, summary: str, units: Units) -> Iterator[Fault]:
    try:
        fields = [field for _, field, _, _ in Formatter().parse(summary) if field is not None]
    except ValueError as error:
        yield document.fault(("summary",), f"braces: {error}", "names of signals go in braces: {waiting}")
        return
    for field in fields:
        if field not in units:
            yield document.fault(("summary",), f"unknown name {field!r} in braces", nearest(field, units))


def _check_computed(document: Document, at: Keys, advice: Advice, units: Units, used: set[str]) -> Iterator[Fault]:
    """Check the expressions in the braces of computed effects and trade-offs."""
    for key in ("effect_computed", "trade_off_computed"):
        try:
            fields = [field for _, field, _, _ in Formatter().parse(getattr(advice, key) or "") if field is not None]
        except ValueError as error:
            yield document.fault((*at, key), f"braces: {error}", "expressions go in braces: {proposed / running}")
            continue
        for field in fields:
            yield from check_expression(document, (*at, key), field, units, condition=False)[1]
            used |= names_in(field)


def lever_unit(lever: Lever | None) -> Unit:
    """Unit of a lever's value, a ratio where it has none."""
    return RATIO if lever is None else unit_of_lever(lever) or RATIO


def units_for(catalogue: Catalogue, rule: Rule) -> Units:
    """Units of everything that an expression of the rule may name."""
    units: Units = {name: Unit.parse(signal.unit) for name, signal in catalogue.signals.items()}
    units |= {name: Unit.parse(fact.unit) for name, fact in catalogue.facts.items() if fact.type == "number"}
    return units | {name: Unit.parse(threshold.unit) for name, threshold in rule.thresholds.items()}


def _conditions(rule: Rule) -> Iterator[tuple[Keys, str]]:
    yield ("when",), rule.when
    for key in ("supports", "contradicts"):
        for index, text in enumerate(getattr(rule, key)):
            yield (key, index), text
    for index, advice in enumerate(rule.levers):
        for key in ("only_if", "unless"):
            text = getattr(advice, key)
            if text is not None:
                yield ("levers", index, key), text


def _check_advice(
    document: Document, rule: Rule, units: Units, levers: Mapping[str, Lever], used: set[str]
) -> Iterator[Fault]:
    for index, advice in enumerate(rule.levers):
        at: Keys = ("levers", index)
        lever = levers.get(advice.lever)
        yield from _check_computed(document, at, advice, units | {"proposed": lever_unit(lever)}, used)
        if advice.value is not None and (lever is None or not lever.values):
            used |= names_in(advice.value)
        if lever is None:
            yield document.fault((*at, "lever"), f"there is no lever {advice.lever!r}", nearest(advice.lever, levers))
            continue
        if advice.value is None:
            continue
        if lever.values:
            if advice.value not in lever.values:
                yield document.fault((*at, "value"), f"{advice.value!r} is not one of {', '.join(lever.values)}")
            continue
        unit, faults = check_expression(document, (*at, "value"), advice.value, units, condition=False)
        yield from faults
        if unit not in {None, ANY} and unit != unit_of_lever(lever):
            yield document.fault((*at, "value"), f"the value has the unit {unit}, the lever {lever.unit}")


def fleet_in(text: str) -> bool:
    """Whether an expression compares engines; False when it cannot be parsed."""
    try:
        return expressions.uses_fleet(expressions.parse(text))
    except ExpressionError:
        return False


def names_in(text: str) -> set[str]:
    """Names that an expression reads; none when it cannot be parsed."""
    try:
        return set(expressions.names(expressions.parse(text)))
    except ExpressionError:
        return set()
