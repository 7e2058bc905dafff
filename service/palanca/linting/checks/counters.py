"""Counters and gauges under the functions of the other kind, and ranges that hold too few scrapes."""

from __future__ import annotations

from collections.abc import Iterator

from palanca.linting.analysis import ABSENCE, GAUGE_FUNCTIONS, RATES, above, only_metric, operand, parents, source
from palanca.linting.finding import Context, Edit, Remark
from palanca.linting.rule import LintRule
from palanca.linting.tree import (
    COMPARISONS,
    SETS,
    Aggregation,
    Binary,
    Call,
    Node,
    Selector,
    Subquery,
    bare,
    selectors,
    walk,
)
from palanca.moments import duration

SCRAPES = 4
"""Scrapes that a range needs, so that one lost scrape leaves a rate (Prometheus' rule of thumb)."""
FEWEST = 2
"""Samples without which a rate has no value."""
_RATE_S, _COUNT_S = "5m", "10m"
_FOR_GAUGES = {"rate": "deriv", "irate": "deriv", "increase": "delta"}
_ABOUT_TIME = frozenset({"changes", "resets", "timestamp", "present_over_time", "count_over_time", *ABSENCE, *RATES})
_COUNTING = frozenset({"count", "group", "count_values"})


def _calls(rule: LintRule) -> Iterator[Call]:
    return (one for one in walk(rule.tree) if isinstance(one, Call)) if rule.tree is not None else iter(())


def rate_of_gauge(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``rate`` takes each fall of a gauge for a restart, so that it gives a rise that never was."""
    for call in _calls(rule):
        selector = bare(call.arguments[0]) if call.function in RATES and call.arguments else None
        metric = only_metric(selector, context.vocabulary) if isinstance(selector, Selector) else None
        if metric is None or metric.entry.type not in {"gauge", "info"}:
            continue
        better = _FOR_GAUGES[call.function]
        message = f"{call.function}() of the gauge {metric.full}: each fall counts as a restart and adds to it"
        mend = f"use {better}() for the change, or avg_over_time() for the level"
        yield Remark(message, mend, call.start, (Edit(*call.named, better),))


def gauge_function_on_counter(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``delta`` and its like take a restart, where a counter begins anew at 0, for a fall."""
    for call in _calls(rule):
        selector = bare(call.arguments[0]) if call.function in GAUGE_FUNCTIONS and call.arguments else None
        metric = only_metric(selector, context.vocabulary) if isinstance(selector, Selector) else None
        if metric is None or not metric.cumulative:
            continue
        better = GAUGE_FUNCTIONS[call.function]
        message = f"{call.function}() of the counter {metric.full}: a restart of vLLM looks like a fall"
        mend = f"use {better}()" if better else "take it of a rate(), in a subquery"
        yield Remark(message, mend, call.start, (Edit(*call.named, better),) if better else ())


def lifetime_counter(rule: LintRule, context: Context) -> Iterator[Remark]:
    """A counter counts since the start of the server: once above a threshold it stays there."""
    if rule.tree is None or rule.kind != "alert":
        return
    up = parents(rule.tree)
    found: dict[str, list[Selector]] = {}
    for selector in selectors(rule.tree):
        metric = only_metric(selector, context.vocabulary)
        if metric is not None and metric.cumulative and selector.range_s is None:
            how = _lifetime(selector, up)
            if how:
                found.setdefault(how, []).append(selector)
    for how, every in found.items():
        function, span = ("increase", _COUNT_S) if how == "compared" else ("rate", _RATE_S)
        edits = tuple(_wrapped(rule, one, function, span) for one in every)
        names = " and ".join(dict.fromkeys(one.name or "a counter" for one in every))
        what = {
            "compared": f"{names} counts since the start of the server: once above the threshold, always above it",
            "quantile": f"the quantile of {names} is over all requests since the start of the server",
            "share": f"{names}: a share over the whole life of the server hardly moves any more",
        }[how]
        yield Remark(what, f"use {function}({every[0].name or '...'}[{span}])", every[0].start, edits)


def _lifetime(selector: Selector, up: dict[int, Node]) -> str:
    """How the value since the start is used: ``compared``, ``quantile``, ``share``, or not at all."""
    how, other = "", None
    for parent, child in above(selector, up):
        if isinstance(parent, Subquery) or (isinstance(parent, Aggregation) and parent.op in _COUNTING):
            return ""
        if isinstance(parent, Call) and parent.function in _ABOUT_TIME:
            return ""
        if isinstance(parent, Call) and parent.function == "histogram_quantile":
            return "quantile"
        if isinstance(parent, Binary):
            other = parent.right if child is parent.left else parent.left
            if parent.op in SETS:
                return how
            if parent.op == "-" and _same(selector, other):
                return ""
            if parent.op == "/":
                how = "share"
            elif parent.op in COMPARISONS and not how:
                how = "compared"
    return how


def _same(selector: Selector, other: Node) -> bool:
    """Whether the other side is the same counter at another time."""
    theirs = source(other)
    return theirs is not None and theirs.name == selector.name


def _wrapped(rule: LintRule, selector: Selector, function: str, span: str) -> Edit:
    text = rule.text[selector.start : selector.core]
    behind = rule.text[selector.core : selector.end]
    return Edit(selector.start, selector.end, f"{function}({text}[{span}]{behind})")


def rate_after_aggregation(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``rate(sum(x)[5m:])``: after the sum the restart of one engine is no longer to be seen."""
    for call in _calls(rule):
        inner = bare(call.arguments[0]) if call.function in RATES and call.arguments else None
        if not isinstance(inner, Subquery):
            continue
        summed = bare(inner.inner)
        below = source(summed)
        metric = None if below is None else only_metric(below, context.vocabulary)
        lifelong = below is not None and below.range_s is None and metric is not None and metric.cumulative
        if isinstance(summed, Aggregation) and lifelong:
            message = f"{call.function}() after {summed.op}(): the restart of one engine is a fall of the sum"
            yield Remark(message, f"{summed.op}({call.function}(...)): first the rate, then the sum", call.start)


def short_range(rule: LintRule, context: Context) -> Iterator[Remark]:
    """A rate needs two samples; with fewer than four scrapes in the range one lost scrape leaves a hole."""
    for call in _calls(rule):
        selector = operand(call)
        if call.function not in RATES or not isinstance(selector, Selector) or selector.ranged is None:
            continue
        span, every = selector.range_s or 0.0, context.interval_s
        if span >= SCRAPES * every:
            continue
        told = f"[{duration(span)}] with a scrape every {duration(every)}"
        if span < FEWEST * every:
            message = f"{told}: the range never holds the two samples that {call.function}() needs"
        else:
            message = f"{told}: one lost scrape leaves {call.function}() without a value"
        enough = duration(SCRAPES * every)
        mend = f"use at least [{enough}] (or tell the real interval with --scrape-interval)"
        edit = Edit(*selector.ranged, f"[{enough}]")
        yield Remark(message, mend, selector.ranged[0], (edit,), "error" if span < FEWEST * every else None)
