"""All groups of the exported files, and the rule file of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting import guards, itself, objectives, quantiles, text
from palanca.alerting.gaps import gaps
from palanca.alerting.rules import AlertRule, Group, RecordingRule
from palanca.moments import duration

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix


def groups(matrix: Matrix) -> tuple[Group, ...]:
    """The matrix, quantiles besides, the burn rates and the guards, without empty groups."""
    every = [matrix.group(), quantiles.group(matrix), objectives.group(matrix)]
    if matrix.options.guards:
        every += [guards.group(matrix), itself.group(matrix)]
    return tuple(one for one in every if one is not None and one.rules)


def documents(matrix: Matrix) -> list[dict[str, object]]:
    """The groups as rule files have them."""
    return [_group(one) for one in groups(matrix)]


def notes(matrix: Matrix) -> list[str]:
    """What the header says besides where the file is from: what is not in it, and why."""
    made = []
    for gap in gaps(matrix):
        made += ["", gap.title, *(f"  {name}: {reason}" for name, reason in sorted(gap.reasons.items()))]
    return made


def prometheus(matrix: Matrix) -> str:
    """Write the rule file of Prometheus."""
    return text.document({"groups": documents(matrix)}, notes(matrix))


def _group(group: Group) -> dict[str, object]:
    return {"name": group.name, "interval": duration(group.interval), "rules": [_rule(rule) for rule in group.rules]}


def _rule(rule: RecordingRule | AlertRule) -> dict[str, object]:
    if isinstance(rule, RecordingRule):
        labels = {"labels": dict(rule.labels)} if rule.labels else {}
        return {"record": rule.record, "expr": rule.expr, **labels}
    kept = {"keep_firing_for": duration(rule.keep_firing_for)} if rule.keep_firing_for else {}
    return {
        "alert": rule.alert,
        "expr": rule.expr,
        "for": duration(rule.for_),
        **kept,
        "labels": dict(rule.labels),
        "annotations": dict(rule.annotations),
    }
