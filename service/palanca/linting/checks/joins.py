"""Joins by ``on`` and ``ignoring`` that match nothing, or that Prometheus refuses to evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from palanca.linting.analysis import constant
from palanca.linting.checks.aggregation import REPLICA_LABELS
from palanca.linting.finding import Context, Remark
from palanca.linting.matching import TARGET, Several, has, several
from palanca.linting.rule import LintRule
from palanca.linting.tree import SETS, Binary, Node, walk

Side = Literal["left", "right"]
_APART = REPLICA_LABELS - {"engine"}
"""Labels of which each parts all replicas; numbers of engines begin anew at each server."""


def _joins(rule: LintRule) -> Iterator[Binary]:
    """Operators between series with ``on`` or ``ignoring``."""
    for one in walk(rule.tree) if rule.tree is not None else ():
        if not isinstance(one, Binary) or one.matching.at is None:
            continue
        if constant(one.left) is None and constant(one.right) is None:
            yield one


def _clause(one: Binary, rule: LintRule) -> str:
    return " ".join(rule.text[slice(*one.matching.at)].split()) if one.matching.at else ""


def lost_join_label(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Series are matched by a label that an aggregation on one side has dropped: no pair matches."""
    for one in _joins(rule):
        if one.op == "or" or one.matching.filled:
            continue
        lost: dict[Side, list[str]] = {"left": [], "right": []}
        for label in sorted((TARGET | context.vocabulary.own_labels).union(one.matching.labels)):
            if not one.matching.by(label):
                continue
            match (has(one.left, label, context.vocabulary), has(one.right, label, context.vocabulary)):
                case (False, True):
                    lost["left"].append(label)
                case (True, False):
                    lost["right"].append(label)
        for side, labels in lost.items():
            if labels:
                listed = ", ".join(labels)
                what = "it takes nothing away" if one.op == "unless" else "no pair of series matches"
                message = f"{_clause(one, rule)} matches by {listed}, which the {side} side does not have: {what}"
                mend = f"keep {listed} where the {side} side is aggregated, or match by labels that both sides have"
                yield Remark(message, mend, one.matching.at[0] if one.matching.at else one.at[0])


def many_to_many(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Several series of a side have the labels that are matched by, where only one may."""
    for one in _joins(rule):
        if one.op in SETS:
            continue
        sides: dict[Side, Node] = {"left": one.left, "right": one.right}
        found = {side: said for side, node in sides.items() if (said := _doubled(node, one, context))}
        bad = [side for side in found if side != one.matching.many]
        if not bad:
            continue
        always = [side for side in bad if found[side][1] == "always"]
        side = (always or bad)[0]
        label, how = found[side]
        clause = _clause(one, rule)
        when = {"always": "has", "at times": "can have"}[how]
        if label == "instance":
            when = "has, with a second engine,"
        differ = f"the {side} side {when} several series that differ in {label} alone"
        message = f"{differ} for {clause}: Prometheus refuses that"
        mend = f"aggregate the {side} side, or match by {label} as well"
        if one.matching.many is None and len(found) == 1:
            mend = f"{clause} group_{side} for many on the {side}, or {mend}"
        yield Remark(message, mend, one.matching.at[0] if one.matching.at else one.at[0],
                     severity=None if how == "always" else "warning")  # fmt: skip


def _doubled(node: Node, one: Binary, context: Context) -> tuple[str, Several] | None:
    """A label that is not matched by, and in which series of a side differ, with whether they always do."""
    made: dict[str, Several] = {}
    for label in sorted(context.vocabulary.own_labels | {"instance"}):
        if one.matching.by(label):
            continue
        if label == "instance" and (not one.matching.on or _APART & set(one.matching.labels)):
            continue  # what parts the replicas is matched by
        how = several(node, label, context.vocabulary)
        if how is not None:
            made[label] = how
    worst = min(made, key=lambda label: (made[label] != "always", label != "instance"), default=None)
    return None if worst is None else (worst, made[worst])
