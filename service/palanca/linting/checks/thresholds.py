"""Thresholds in the wrong unit, comparisons that are always or never true, divisions by nothing."""

from __future__ import annotations

from collections.abc import Iterator

from palanca.linting.analysis import (
    ABSENCE,
    BUDGET_S,
    Comparison,
    above,
    comparisons,
    constant,
    only_metric,
    parents,
    scale,
    shortest_range,
    source,
)
from palanca.linting.finding import Context, Edit, Remark
from palanca.linting.rule import LintRule
from palanca.linting.tree import COMPARISONS, SETS, Aggregation, Binary, Call, Node, Number, Selector, bare, walk

_PERCENT = 100.0
_CLEARLY = 2.0
"""A bound of little more than 1 keeps impossible values out; from twice that on per cent are meant."""
_RISES = frozenset({">", ">="})
_MILLISECONDS = {"time_to_first_token": 60.0, "inter_token_latency": 20.0, "time_per_output_token": 20.0}
"""Seconds from which on nobody means seconds: a first token after a minute, 20 s between two tokens."""
_MILLISECONDS_OTHERS = 1000.0
_TIMED = frozenset({
    "request_queue_time", "request_prefill_time", "request_decode_time", "request_inference_time",
    "e2e_request_latency",
})  # fmt: skip


def _comparisons(rule: LintRule) -> Iterator[Comparison]:
    return comparisons(rule.tree) if rule.tree is not None else iter(())


def ratio_against_percent(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``usage_perc`` lies between 0 and 1 in spite of its name: above 90 it never is."""
    for one in _comparisons(rule):
        top = scale(one.node, context.vocabulary)
        if top is None or one.op in {"==", "!="}:
            continue
        name = _name(one.node)
        if one.value > top and (one.op in _RISES or one.value >= _CLEARLY * top):
            verdict = "never true" if one.op in _RISES else "always true"
            fits = top == 1.0 and _CLEARLY <= one.value <= _PERCENT
            mend = f"write {one.value / _PERCENT:g}" if fits else f"the threshold must lie between 0 and {top:g}"
            edits = _number(one, one.value / _PERCENT) if fits else ()
            yield Remark(f"{name} lies between 0 and {top:g}: {one.op} {one.value:g} is {verdict}", mend,
                         one.number.start, edits)  # fmt: skip
        elif top == _PERCENT and 0 < one.value < 1:
            message = f"{name} is in per cent here (times 100): {one.op} {one.value:g} is less than one per cent"
            edits = _number(one, one.value * _PERCENT)
            yield Remark(message, f"write {one.value * _PERCENT:g}", one.number.start, edits)
        elif one.value == top and one.op == ">":
            mend = f"a threshold below {top:g}, or >= {top:g}"
            yield Remark(f"{name} is at most {top:g}: > {one.value:g} is never true", mend, one.number.start)


def _number(one: Comparison, value: float) -> tuple[Edit, ...]:
    node = bare(one.number)
    return (Edit(node.start, node.end, f"{value:.12g}"),) if isinstance(node, Number) else ()


def _name(node: Node) -> str:
    selector = source(node)
    divides = any(isinstance(one, Binary) and one.op == "/" and constant(one.right) is None for one in walk(node))
    return "the share" if divides or selector is None else selector.name or "the gauge"


def milliseconds(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Latencies are in seconds; thresholds in the thousands are meant in milliseconds."""
    for one in _comparisons(rule):
        if one.op not in _RISES or not _is_time(one.node):
            continue
        selector = source(one.node if not isinstance(bare(one.node), Binary) else _left(one.node))
        metric = None if selector is None else only_metric(selector, context.vocabulary)
        if metric is None or metric.entry.type != "histogram" or metric.entry.unit != "s":
            continue
        family = metric.entry.family
        limit = _MILLISECONDS.get(family, _MILLISECONDS_OTHERS if family in _TIMED else None)
        if limit is not None and one.value >= limit:
            message = f"{metric.full} is in seconds: {one.op} {one.value:g} means {one.value:g} seconds"
            edits = _number(one, one.value / 1000)
            yield Remark(message, f"if milliseconds are meant, write {one.value / 1000:g}", one.number.start, edits)


def _is_time(node: Node) -> bool:
    """Whether a part is a quantile, or a sum divided by a count, of a histogram."""
    node = bare(node)
    if isinstance(node, Aggregation):
        return _is_time(node.inner)
    if isinstance(node, Binary) and node.op == "/":
        first, second = source(node.left), source(node.right)
        ends = (first.name or "" if first else "", second.name or "" if second else "")
        return ends[0].endswith("_sum") and ends[1].endswith("_count")
    return isinstance(node, Call) and node.function == "histogram_quantile"


def _left(node: Node) -> Node:
    node = bare(node)
    return node.left if isinstance(node, Binary) else node


def always_true(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Alerts without a comparison, or with one that holds whatever happens."""
    if rule.tree is None or rule.kind != "alert":
        return
    top = bare(rule.tree)
    if _fires_always(top, context):
        yield Remark(
            "nothing is compared: it fires as long as there is a series", "compare it with a threshold", top.start
        )
    for one in comparisons(rule.tree):
        selector = source(one.node)
        metric = None if selector is None else only_metric(selector, context.vocabulary)
        if metric is None or metric.entry.name == "gpu_prefix_cache_hit_rate" or _can_fall(one.node):
            continue
        if (one.op == ">=" and one.value <= 0) or (one.op == ">" and one.value < 0):
            message = f"{metric.full} is never below 0: {one.op} {one.value:g} is always true"
            yield Remark(message, "raise the threshold, or compare with > 0", one.number.start)
        elif one.op == "<" and one.value <= 0:
            message = f"{metric.full} is never below 0: {one.op} {one.value:g} is never true"
            yield Remark(message, "compare with == 0 for nothing at all", one.number.start)


_ONE = frozenset({*ABSENCE, "present_over_time"})
_AT_LEAST_ONE = frozenset({"count", "count_over_time"})


def one_or_nothing(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``absent(x) == 0`` and ``count(x) == 0``: without series they give nothing, which is not 0."""
    del context
    for one in _comparisons(rule):
        named, exact = _counted(one.node)
        if not named or one.binary.returns_bool is not None:
            continue
        if exact:
            never = not _holds(1.0, one.op, one.value)
        else:
            never = (one.value < 1 and one.op in {"==", "<", "<="}) or (one.value == 1 and one.op == "<")
        if never:
            gives = "1, or nothing at all" if exact else "at least 1, or nothing at all"
            message = f"{named}() gives {gives}: {one.op} {one.value:g} is never true"
            mend = "absent(...) alone for series that are gone, or (count(...) or vector(0)) to compare with 0"
            yield Remark(message, mend, one.number.start)


def _counted(node: Node) -> tuple[str, bool]:
    """The function that gives no 0, and whether it gives nothing but 1; no name where it is another one."""
    node = bare(node)
    match node:
        case Call(function=function) if function in _ONE:
            return function, True
        case Call(function=function) if function in _AT_LEAST_ONE:
            return function, False
        case Aggregation(op="group"):
            return "group", True
        case Aggregation(op="count"):
            return "count", False
        case Aggregation(op=op) if op in {"sum", "min", "max", "avg"}:
            named, exact = _counted(node.inner)
            return named, exact and (op != "sum" or named in ABSENCE)
    return "", False


def _holds(left: float, op: str, right: float) -> bool:
    return {"==": left == right, "!=": left != right, ">": left > right, "<": left < right, ">=": left >= right,
            "<=": left <= right}[op]  # fmt: skip


def _can_fall(node: Node) -> bool:
    """Whether a part can be below 0 though its series cannot."""
    functions = {"deriv", "delta", "idelta", "predict_linear", "scalar", "ln", "log2", "log10"}
    return any(
        (isinstance(one, Binary) and one.op == "-") or (isinstance(one, Call) and one.function in functions)
        for one in walk(node)
    )


def _fires_always(node: Node, context: Context) -> bool:
    node = bare(node)
    if isinstance(node, Binary):
        if node.op in COMPARISONS:
            return False
        return all(_fires_always(side, context) for side in (node.left, node.right)) and node.op != "unless"
    if isinstance(node, Aggregation):
        return _fires_always(node.inner, context)
    if isinstance(node, Selector):
        return any(one.prefix for one in context.vocabulary.metrics_of(node)) and not _filtered(node)
    if isinstance(node, Call) and node.function not in ABSENCE | {"vector", "changes", "resets"}:
        return any(_fires_always(one, context) for one in node.arguments if constant(one) is None)
    return False


def _filtered(selector: Selector) -> bool:
    """Whether a state is chosen by a label, as in ``engine_sleep_state`` or an info metric."""
    return (selector.name or "").endswith(("_info", "_state"))


def bool_comparison(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``> bool`` gives 0 or 1 and keeps every series, so that the alert always fires."""
    del context
    top = bare(rule.tree) if rule.tree is not None and rule.kind == "alert" else None
    while isinstance(top, Binary):
        if top.op in COMPARISONS:
            if top.returns_bool is not None:
                start, end = top.returns_bool
                while end < len(rule.text) and rule.text[end] == " ":
                    end += 1
                message = "the comparison with bool gives 0 or 1 and drops no series: the alert always fires"
                yield Remark(message, "take bool away", start, (Edit(start, end, ""),))
            return
        if top.op not in SETS:
            return
        top = bare(top.left)


def idle_division(rule: LintRule, context: Context) -> Iterator[Remark]:
    """A share of few requests says little, and of none it is NaN."""
    if rule.tree is None:
        return
    up = parents(rule.tree)
    for one in walk(rule.tree):
        if not isinstance(one, Binary) or one.op != "/" or constant(one.right) is not None:
            continue
        below = source(one.right)
        metric = None if below is None else only_metric(below, context.vocabulary)
        if metric is None or not metric.cumulative or constant(one.left) is not None or _has_floor(one, up):
            continue
        record = rule.kind == "record"
        seldom = record or shortest_range(one) >= BUDGET_S
        message = f"{metric.full} stands still without traffic: 0/0 is NaN, and of few requests one decides"
        mend = "divide by (... > 0)" if record else "add a floor of traffic, such as `and rate(...) > 0.1`"
        yield Remark(message, mend, one.at[0], severity="info" if seldom else None)


def _has_floor(division: Binary, up: dict[int, Node]) -> bool:
    """Whether something keeps a division away from no traffic: ``> 0`` below it, or ``and`` beside it."""
    below = bare(division.right)
    guarded = any(
        (isinstance(one, Binary) and one.op in {">", ">=", "or", "!="})
        or (isinstance(one, Call) and one.function in {"clamp_min", "vector"})
        for one in walk(below)
    )
    return guarded or any(
        isinstance(parent, Binary) and parent.op in {"and", "unless"} for parent, _ in above(division, up)
    )
