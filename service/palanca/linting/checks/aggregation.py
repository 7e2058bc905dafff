"""Aggregations that hide an engine, labels that go lost, and sides that never match."""

from __future__ import annotations

import re
from collections.abc import Iterator

from palanca.linting.analysis import (
    BUDGET_S,
    above,
    comparisons,
    constant,
    labels_of,
    only_metric,
    parents,
    shortest_range,
    source,
)
from palanca.linting.finding import Context, Edit, Remark, Severity
from palanca.linting.rule import LintRule
from palanca.linting.tree import COMPARISONS, Aggregation, Binary, Call, Node, bare, walk

REPLICA_LABELS = frozenset({
    "instance", "pod", "engine", "replica", "ReplicaId", "pod_name", "kubernetes_pod_name", "exported_instance",
    "exported_pod", "host", "hostname", "node", "server", "container_id", "replica_id", "endpoint", "ip", "address",
})  # fmt: skip
"""Labels that part the replicas of a model."""
TAIL = 0.9
"""Quantile from which on a slow replica among ten shows in the quantile of all."""
_TEMPLATE_LABEL = re.compile(r"\$labels\.([A-Za-z_]\w*)|\.Labels\.([A-Za-z_]\w*)|index \$labels \"(\w+)\"")
_KEPT = "model_name, instance, engine"


def hides_replica(rule: LintRule, context: Context) -> Iterator[Remark]:
    """The average or sum over replicas: a bad one among eight good ones is not to be seen in it."""
    if rule.tree is None or rule.kind != "alert":
        return
    up = parents(rule.tree)
    for one in comparisons(rule.tree):
        found = [part for part in walk(one.node) if isinstance(part, Aggregation) and _hides(part, one.op, context)]
        outer = [part for part in found if not any(parent in found for parent, _ in above(part, up))]
        if not outer:
            continue
        severity = _how_bad(one.node)
        names = " and ".join(dict.fromkeys(f"{part.op}()" for part in outer))
        message = f"{names} over all replicas: one bad engine among good ones is not seen"
        mend = f"keep the replicas apart with by ({_KEPT}), and count those that are bad"
        yield Remark(message, mend, outer[0].start, tuple(_apart(part) for part in outer), severity)


def _hides(part: Aggregation, op: str, context: Context) -> bool:
    above_threshold = op in {">", ">="}
    if (part.op in {"max", "topk"} and above_threshold) or (part.op in {"min", "bottomk"} and not above_threshold):
        return False
    if part.op not in {"sum", "avg", "quantile", "max", "min", "stddev"}:
        return False
    if any(isinstance(one, Binary) and one.op in COMPARISONS for one in walk(part.inner)):
        return False
    selector = source(part)
    metric = None if selector is None else only_metric(selector, context.vocabulary)
    if selector is None or metric is None or metric.entry.family == "up":
        return False
    if any(matcher.label in REPLICA_LABELS and matcher.op == "=" for matcher in selector.matchers):
        return False
    if part.without is not None:
        return bool({"instance", "pod"} & set(part.without))
    return not REPLICA_LABELS & set(part.by or ())


def _how_bad(node: Node) -> Severity:
    """A total, and the tail of all requests, do say something; an average and a share do not."""
    node = bare(node)
    if isinstance(node, Call) and node.function == "histogram_quantile":
        level = constant(node.arguments[0])
        return "info" if level is not None and level >= TAIL else "warning"
    divides = any(isinstance(one, Binary) and one.op == "/" and constant(one.right) is None for one in walk(node))
    averages = any(isinstance(one, Aggregation) and one.op not in {"sum", "max", "min"} for one in walk(node))
    return "warning" if (divides or averages) and shortest_range(node) < BUDGET_S else "info"


def _apart(part: Aggregation) -> Edit:
    labels = [one.strip() for one in _KEPT.split(",")]
    if part.clause is None:
        return Edit(part.named[1], part.named[1], f" by ({_KEPT}) ")
    if part.by is not None:
        kept = [*part.by, *(label for label in labels if label not in part.by)]
        return Edit(*part.clause, f"by ({', '.join(kept)})")
    left = [label for label in part.without or () if label not in REPLICA_LABELS]
    return Edit(*part.clause, f"without ({', '.join(left)})")


def sum_of_ratios(rule: LintRule, context: Context) -> Iterator[Remark]:
    """The sum of ratios over engines exceeds 1 with the second engine."""
    for one in walk(rule.tree) if rule.tree is not None else ():
        selector = source(one.inner) if isinstance(one, Aggregation) and one.op == "sum" else None
        metric = None if selector is None else only_metric(selector, context.vocabulary)
        plain = isinstance(one, Aggregation) and not any(
            isinstance(part, Binary | Aggregation) or (isinstance(part, Call) and part.function.startswith("count"))
            for part in walk(one.inner)
        )
        if isinstance(one, Aggregation) and metric is not None and metric.ratio and plain and not _counts(one, rule):
            message = f"sum() of the ratio {metric.full}: two engines at 0.5 make 1"
            yield Remark(
                message, "max() for the worst engine, or no aggregation", one.start, (Edit(*one.named, "max"),)
            )


def _counts(one: Aggregation, rule: LintRule) -> bool:
    """Whether the sum of states is meant, as in how many engines sleep; or the sum is divided by a count."""
    selector = source(one)
    if selector is not None and (selector.name or "").endswith("_state"):
        return True
    up = parents(rule.tree) if rule.tree is not None else {}
    return any(isinstance(parent, Binary) and parent.op == "/" for parent, _ in above(one, up))


def never_matches(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Two sides of an operator whose series have different labels: no pair matches."""
    for one in walk(rule.tree) if rule.tree is not None else ():
        if not isinstance(one, Binary) or one.matching.at or one.op == "or":
            continue
        if constant(one.left) is not None or constant(one.right) is not None:
            continue
        left, right = labels_of(one.left, context.vocabulary), labels_of(one.right, context.vocabulary)
        if left is None or right is None:
            continue
        apart = left.names ^ right.names
        if left.exact and right.exact:
            lost = apart
        elif left.exact or right.exact:
            exact = left if left.exact else right
            lost = apart | ({"job", "instance"} - exact.names)
        else:
            lost = apart
        if lost:
            listed = ", ".join(sorted(lost))
            message = f"the two sides of {one.op!r} differ in the labels {listed}: no pair of series matches"
            mend = f"{one.op} ignoring ({listed}), or aggregate both sides alike"
            yield Remark(message, mend, one.at[0])


def lost_label(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Annotations that show a label which the aggregation dropped: the message has a hole."""
    if rule.tree is None:
        return
    labels = labels_of(rule.tree, context.vocabulary)
    if labels is None or not labels.exact:
        return
    for key, words in (*rule.labels.items(), *rule.annotations.items()):
        for found in _TEMPLATE_LABEL.finditer(words.value):
            name = next(group for group in found.groups() if group)
            if name not in labels.names and name not in rule.labels and name != "alertname":
                message = f"{key} shows the label {name}, which the expression does not keep: it stays empty"
                yield Remark(message, f"keep it with by ({name})", place=words.place(found.start()))
