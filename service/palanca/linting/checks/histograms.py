"""Histograms: buckets that do not exist, quantiles that cannot be, averages of quantiles."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from prometheus_client.utils import floatToGoString

from palanca.linting.analysis import comparisons, constant, only_metric, source
from palanca.linting.finding import Context, Edit, Remark
from palanca.linting.rule import LintRule
from palanca.linting.tokens import quoted
from palanca.linting.tree import Aggregation, Binary, Call, Matcher, Node, Number, Selector, bare, selectors, walk
from palanca.linting.vocabulary import Metric, is_one_two_five

_QUANTILE = "histogram_quantile"
_PERCENT = 100.0
_BOUND = r"(?:\d+(?:\\?\.\d+)?(?:[eE]\\?\+?\d+)?|\\?\+?Inf)"
_LISTED = re.compile(rf"\(?({_BOUND}(?:\|{_BOUND})*)\)?")
_ABOVE, _BELOW = frozenset({">", ">="}), frozenset({"<", "<="})


def _quantiles(tree: Node | None) -> Iterator[Call]:
    for one in walk(tree) if tree is not None else ():
        if isinstance(one, Call) and one.function == _QUANTILE and len(one.arguments) == 2:  # noqa: PLR2004
            yield one


def quantile_without_le(rule: LintRule, context: Context) -> Iterator[Remark]:
    """An aggregation below the quantile that drops ``le``: nothing is left to take a quantile of."""
    del context
    for call in _quantiles(rule.tree):
        inner = bare(call.arguments[1])
        if not isinstance(inner, Aggregation) or inner.op not in {"sum", "avg", "max", "min"}:
            continue
        if inner.by is not None and "le" not in inner.by and inner.clause is not None:
            start, end = inner.clause
            clause = f"by ({', '.join(['le', *inner.by])})"
            message = f"{inner.op} by ({', '.join(inner.by)}) drops le, without which there is no quantile"
            yield Remark(message, f"{inner.op} {clause}", start, (Edit(start, end, clause),))
        elif inner.without is not None and "le" in inner.without and inner.clause is not None:
            start, end = inner.clause
            clause = f"without ({', '.join(label for label in inner.without if label != 'le')})"
            yield Remark("without (le) drops the buckets", f"{inner.op} {clause}", start, (Edit(start, end, clause),))
        elif inner.by is None and inner.without is None:
            message = f"{inner.op}() without by (le) drops the buckets, without which there is no quantile"
            edit = Edit(inner.named[1], inner.named[1], " by (le) ")
            yield Remark(message, f"{inner.op} by (le) (...)", inner.start, (edit,))


def quantile_of_no_buckets(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``histogram_quantile`` of something that is no ``_bucket``."""
    for call in _quantiles(rule.tree):
        selector = source(call.arguments[1])
        metric = None if selector is None else only_metric(selector, context.vocabulary)
        if selector is None or metric is None or metric.part == "_bucket" or metric.is_partless_histogram:
            continue
        message = f"histogram_quantile of {metric.full}, which has no buckets"
        start, end = selector.named
        if metric.entry.type == "histogram" and selector.name is not None:
            full = f"{metric.prefix}{metric.entry.name}_bucket"
            edit = Edit(start, end, rule.text[start:end].replace(selector.name, full))
            yield Remark(message, f"use {full}", start, (edit,))
        else:
            yield Remark(message, "it is no histogram: take avg_over_time or max_over_time of it", start)


def quantile_level(rule: LintRule, context: Context) -> Iterator[Remark]:
    """The quantile is a number from 0 to 1; beyond, the answer is an infinity."""
    del context
    for call in _quantiles(rule.tree):
        level = constant(call.arguments[0])
        if level is None or 0 <= level <= 1:
            continue
        number = bare(call.arguments[0])
        fits = isinstance(number, Number) and 1 < level <= _PERCENT
        edits = (Edit(number.start, number.end, f"{level / _PERCENT:g}"),) if fits else ()
        mend = f"write {level / _PERCENT:g}" if fits else "write a number from 0 to 1, such as 0.99"
        yield Remark(f"the quantile {level:g} is not from 0 to 1: the answer is an infinity", mend, number.start, edits)


# --- le --------------------------------------------------------------------------------------------


def missing_bucket(rule: LintRule, context: Context) -> Iterator[Remark]:
    """``le`` is a text: ``le="120"`` finds nothing where the bucket is ``le="120.0"``."""
    for selector in selectors(rule.tree) if rule.tree is not None else ():
        metric = only_metric(selector, context.vocabulary)
        if metric is None or metric.part != "_bucket":
            continue
        for matcher in selector.matchers:
            if matcher.label == "le" and matcher.op in {"=", "=~"}:
                yield from _missing(metric, matcher, context)


def _missing(metric: Metric, matcher: Matcher, context: Context) -> Iterator[Remark]:
    texts = [matcher.value]
    if matcher.op == "=~":
        found = _LISTED.fullmatch(matcher.value)
        if found is None:
            return
        texts = [text.replace("\\", "") for text in found.group(1).split("|")]
    known = _texts(metric, context)
    right = {text: _right(text, metric, known, context) for text in texts}
    found_bounds = {_number(text) for text in texts if right[text][0] == text}
    wrong = [text for text in texts if right[text][0] != text and _number(text) not in found_bounds]
    if not wrong:
        return
    sure = all(right[text][0] is not None for text in wrong)
    changed = [right[text][0] or text if text in wrong else text for text in texts]
    mends = [right[text][1] for text in wrong]
    faults = [f'le="{text}"' for text in wrong]
    joined = "|".join(re.sub(r"[.+]", lambda one: "\\" + one.group(), one) for one in changed)
    value = changed[0] if matcher.op == "=" else joined
    edits = (Edit(*matcher.at, quoted(value)),) if sure else ()
    message = f"{metric.full} has no bucket {' or '.join(faults)}"
    settable = context.live is None and context.vocabulary.settable(metric.entry) and not sure
    tail = ", unless --custom-histogram-buckets gives it" if settable else ""
    yield Remark(message + tail, "; ".join(mends), matcher.at[0], edits, "warning" if settable else None)


def _texts(metric: Metric, context: Context) -> frozenset[str] | None:
    """Every ``le`` that there is: what Prometheus has, else what the releases give; None where nothing is known."""
    live = context.live.names.get(metric.full) if context.live is not None else None
    if live:
        return live
    bounds = context.vocabulary.bounds(metric.entry)
    if not bounds:
        return None
    return frozenset({"+Inf"}).union(*({le_text(one) for one in every} for every in bounds))


def _right(text: str, metric: Metric, known: frozenset[str] | None, context: Context) -> tuple[str | None, str]:
    """How a bound is written; None where there is no such bucket, with what there is."""
    try:
        bound = float(text)
    except ValueError:
        return None, "le is a number, or +Inf"
    spelled = le_text(bound)
    if known is None:
        length = context.vocabulary.is_length(metric.entry)
        if length and math.isfinite(bound) and not is_one_two_five(bound):
            return None, "the bounds are 1, 2, 5, 10, 20, 50, ..."
        return (text, "") if not length and math.isnan(bound) else (spelled, f'le is written "{spelled}"')
    same = next((one for one in known if _number(one) == bound), None)
    if same is not None:
        return (text, "") if text in known else (same, f'le is written "{same}"')
    return None, f"near are {' and '.join(_near(bound, known))}"


def le_text(bound: float) -> str:
    """Write a bound as vLLM's pages do: ``120.0``, ``1e+06``, ``+Inf``."""
    return str(floatToGoString(float(bound)))  # type: ignore[no-untyped-call]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _near(bound: float, known: frozenset[str]) -> list[str]:
    numbers = sorted((number, text) for text in known if not math.isnan(number := _number(text)))
    below = [text for number, text in numbers if number < bound][-1:]
    return [f'le="{text}"' for text in below + [text for number, text in numbers if number > bound][:1]]


# --- thresholds and averages -----------------------------------------------------------------------


def quantile_beyond_buckets(rule: LintRule, context: Context) -> Iterator[Remark]:
    """A quantile is at most the last finite bound, and below the first one it is a guess."""
    for one in comparisons(rule.tree) if rule.tree is not None else ():
        metric = _quantile_metric(one.node, context)
        bounds = [] if metric is None else _bounds(metric, context)
        if metric is None or not bounds or any(not every for every in bounds):
            continue
        last, first = max(every[-1] for every in bounds), min(every[0] for every in bounds)
        settable = context.live is None and context.vocabulary.settable(metric.entry)
        tail = " unless --custom-histogram-buckets gives others" if settable else ""
        if one.op in _ABOVE and (one.value > last or (one.value == last and one.op == ">")):
            message = f"a quantile of {metric.full} is at most {last:g}, the last bound, so never above {one.value:g}"
            yield Remark(message + tail, "lower the threshold, or give wider buckets", one.number.start)
        elif one.op in _BELOW and one.value >= last:
            message = f"a quantile of {metric.full} is at most {last:g}, the last bound, so always below {one.value:g}"
            yield Remark(message + tail, "lower the threshold", one.number.start)
        elif 0 < one.value < first:
            message = (
                f"the first bucket of {metric.full} ends at {first:g}: a quantile below is a guess between 0 and that"
            )
            mend = "compare the mean, rate(..._sum) / rate(..._count), or take a threshold above the first bound"
            yield Remark(message + tail, mend, one.number.start, severity="warning")


def _quantile_metric(node: Node, context: Context) -> Metric | None:
    """Return the histogram whose quantile, unchanged, is compared."""
    node = bare(node)
    while isinstance(node, Aggregation) and node.op in {"max", "min", "avg", "topk", "bottomk"}:
        node = bare(node.inner)
    if isinstance(node, Binary) and node.op in {"and", "unless"}:
        return _quantile_metric(node.left, context)
    if not isinstance(node, Call) or node.function != _QUANTILE:
        return None
    selector = source(node)
    selector = source(node.arguments[1]) if len(node.arguments) > 1 else selector
    return None if selector is None else only_metric(selector, context.vocabulary)


def _bounds(metric: Metric, context: Context) -> list[Sequence[float]]:
    live = context.live.names.get(metric.full) if context.live is not None else None
    if live:
        return [sorted(number for number in map(_number, live) if math.isfinite(number))]
    return list(context.vocabulary.bounds(metric.entry))


def average_of_quantiles(rule: LintRule, context: Context) -> Iterator[Remark]:
    """The average of quantiles is no quantile: one slow engine of eight hardly moves it."""
    del context
    for one in walk(rule.tree) if rule.tree is not None else ():
        if isinstance(one, Aggregation) and one.op in {"avg", "sum"} and _is_quantile(one.inner):
            message = f"{one.op}() of quantiles is no quantile"
            mend = "sum the buckets by (le, ...) and take one quantile of that, or max() for the worst engine"
            yield Remark(message, mend, one.start)
        elif isinstance(one, Call) and one.function == "avg_over_time" and _is_quantile(one.arguments[0]):
            message = "avg_over_time() of a quantile is no quantile of the longer time"
            yield Remark(message, "take the quantile of rate(..._bucket[longer range])", one.start, severity="info")


def _is_quantile(node: Node) -> bool:
    node = bare(node)
    inner = getattr(node, "inner", None)
    if not isinstance(node, Selector | Aggregation) and isinstance(inner, Node):
        return _is_quantile(inner)
    return isinstance(node, Call) and node.function == _QUANTILE
