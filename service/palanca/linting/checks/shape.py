"""What is wrong with the rule around its expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from palanca.expressions import nearest
from palanca.linting.analysis import ABSENCE
from palanca.linting.finding import Context, Remark
from palanca.linting.prometheus_1 import as_yaml
from palanca.linting.rule import LintRule, RuleSource
from palanca.linting.tree import Call, Node, Selector, walk

_VALUE = re.compile(r"\$value\b|\.Value\b")
_DEEPEST = 3
"""Recorded series of recorded series."""
_LONG_S = 300.0
"""A range of this length holds an alert by itself."""


def malformed_rule(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Keys and values that Prometheus refuses, with the whole file."""
    del context
    for fault in rule.faults:
        yield Remark(fault.message, fault.mend, place=fault.place)


def unparsable(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Expressions that are no PromQL; Prometheus refuses the file."""
    del context
    if rule.error is not None:
        message = f"the expression cannot be read: {rule.error}"
        yield Remark(
            message, "promtool check rules shows the same; nothing else of this rule was checked", rule.error.at
        )


def prometheus_1_syntax(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``ALERT ... IF ...``, which Prometheus 2 and newer refuse."""
    del context
    if rule.prometheus_1:
        message = f"{rule.name} is in the syntax of Prometheus 1, which Prometheus 2 (2017) and newer refuse"
        yield Remark(message, "write it as YAML, in a group", place=rule.place, instead=partial(as_yaml, rule))


def no_for(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Alerts that fire on one bad evaluation."""
    if rule.kind != "alert" or rule.for_s or rule.tree is None:
        return
    spans = _spans(rule.tree, context, _DEEPEST)
    long = bool(spans) and min(spans) >= _LONG_S
    message = "no for: it fires at the first evaluation that is above the threshold, and flaps"
    mend = "add for: 5m, or as long as it may last before somebody has to act"
    severity = rule.labels.get("severity")
    meant = rule.for_s == 0 or (severity is not None and severity.value == "info")
    yield Remark(message, mend, place=rule.place, severity="info" if long or meant else None)


def _spans(tree: Node, context: Context, depth: int) -> list[float]:
    """Ranges that an expression looks back over, in seconds, also through the recorded series that it asks for."""
    made: list[float] = []
    for one in walk(tree):
        if isinstance(one, Selector) and one.range_s:
            made.append(one.range_s)
        elif isinstance(one, Selector) and one.name in context.recorded and depth:
            recorded = [rule.tree for rule in context.rules if rule.kind == "record" and rule.name == one.name]
            made += [span for below in recorded if below is not None for span in _spans(below, context, depth - 1)]
    return made


def value_in_label(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``$value`` in a label makes a new alert at each evaluation, so that for starts anew."""
    del context
    for name, words in rule.labels.items():
        found = _VALUE.search(words.value)
        if found is not None and rule.kind == "alert":
            message = f"the label {name} holds $value: with each new value it is another alert, and for begins anew"
            yield Remark(message, "put the value into an annotation", place=words.place(found.start()))


def incomplete_alert(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Alerts that nobody can route or understand."""
    del context
    if rule.kind != "alert":
        return
    missing = [] if "severity" in rule.labels else ["label severity, by which it is routed"]
    if not {"summary", "description", "message", "title"} & rule.annotations.keys():
        missing.append("annotation summary, which says what it means")
    if missing:
        mend = "labels: {severity: warning}, annotations: {summary: ...}"
        yield Remark(f"it lacks the {' and the '.join(missing)}", mend, place=rule.place)


def absent_guard(rule: LintRule, context: Context) -> Iterator[Remark]:
    """No rule tells that the series are gone, and without series no alert fires."""
    alerts = (one for one in context.rules if one.kind == "alert" and one.tree is not None)
    if next(alerts, None) is not rule or _guards(rule) or any(_guards(one) for one in alerts):
        return
    message = "no rule tells that vLLM's series are gone: without series no alert fires"
    mend = "add one with absent(vllm:num_requests_running), and one with up == 0"
    yield Remark(message, mend, place=rule.place)


def _guards(rule: LintRule) -> bool:
    return any(
        (isinstance(one, Call) and one.function in ABSENCE) or (isinstance(one, Selector) and one.name == "up")
        for one in (walk(rule.tree) if rule.tree is not None else ())
    )


def empty_file(source: RuleSource, context: Context) -> Iterator[Remark]:
    """Files that Prometheus loads and that alert of nothing; any comment in one is about the whole."""
    del context
    if not source.rules and "empty-file" not in dict(source.ignores):
        yield Remark("the file is empty: Prometheus loads it, and no rule with it", "delete it, or see what emptied it")


def unknown_ignore(source: RuleSource, context: Context) -> Iterator[Remark]:
    """Comments that silence a check which does not exist."""
    known = dict.fromkeys(context.known_checks)
    for name, place in source.ignores:
        if name not in known:
            hint = nearest(name, known) or "docs/alerts-check.md lists the checks"
            yield Remark(f"there is no check {name!r} to be ignored", hint, place=place)
