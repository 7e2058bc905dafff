"""Labels that a metric does not have, and values that a label never has."""

from __future__ import annotations

from collections.abc import Iterator

from palanca.linting.analysis import only_metric, source
from palanca.linting.finding import Context, Edit, Remark, Severity
from palanca.linting.rule import LintRule
from palanca.linting.tree import Aggregation, Matcher, Selector, selectors, walk
from palanca.linting.vocabulary import Metric, matches

_ABSENT = frozenset({"__name__", ""})


def unknown_label(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Labels of vLLM that this metric lacks, or that are called otherwise."""
    for selector in selectors(rule.tree) if rule.tree is not None else ():
        metric = only_metric(selector, context.vocabulary)
        if metric is None or metric.entry.type == "info" or (context.live and context.lives(selector.name or "")):
            continue
        for matcher in selector.matchers:
            if matcher.label in _ABSENT or _allows_none(matcher):
                continue
            said = _wrong(matcher.label, metric, context)
            if said is not None:
                right = context.vocabulary.names.label_names.get(matcher.label)
                end = matcher.start + len(matcher.label)
                plain = right is not None and rule.text[matcher.start : end] == matcher.label
                edits = (Edit(matcher.start, end, right),) if plain and right else ()
                yield Remark(said[0], said[1], matcher.start, edits, _severity(matcher.label, context))
    yield from _grouped(rule, context)


def _allows_none(matcher: Matcher) -> bool:
    """Whether a matcher fits series without the label."""
    return matches(matcher, "")


def _wrong(label: str, metric: Metric, context: Context) -> tuple[str, str] | None:
    words = context.vocabulary
    right = words.names.label_names.get(label)
    if right is not None:
        return f"no metric of vLLM has the label {label}", f"it is called {right}"
    guess = words.names.label_guesses.get(label)
    if guess is not None and metric.prefix:
        return f"vLLM gives no label {label}", f"its own is {guess}; {label} is right where your targets have it"
    if label not in words.own_labels or label in metric.labels or not metric.prefix:
        return None
    own = ", ".join(sorted(metric.labels)) or "none of its own"
    return f"{metric.full} has no label {label}", f"its labels are {own}, and those of the target"


def _severity(label: str, context: Context) -> Severity | None:
    """Targets may well have a label of such a name."""
    return "info" if label in context.vocabulary.names.label_guesses else None


def _grouped(rule: LintRule, context: Context) -> Iterator[Remark]:
    for one in walk(rule.tree) if rule.tree is not None else ():
        if not isinstance(one, Aggregation) or not one.by or one.clause is None or one.op == "count_values":
            continue
        selector = source(one.inner)
        metric = None if selector is None else only_metric(selector, context.vocabulary)
        if metric is None or metric.entry.type == "info":
            continue
        for label in one.by:
            if label == "le" and metric.part == "_bucket":
                continue
            said = _wrong(label, metric, context)
            if said is not None:
                at = one.clause[0] + max(0, rule.text[slice(*one.clause)].find(label))
                severity = _severity(label, context) or "warning"
                yield Remark(f"{said[0]}, so that by ({label}) parts nothing", said[1], at, severity=severity)


def unknown_label_value(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Values outside the closed list that vLLM gives a label, such as a reason of finishing."""
    for selector in selectors(rule.tree) if rule.tree is not None else ():
        metric = only_metric(selector, context.vocabulary)
        if metric is None or (context.live and context.lives(selector.name or "")):
            continue
        yield from _values(selector, metric, context)


def _values(selector: Selector, metric: Metric, context: Context) -> Iterator[Remark]:
    words = context.vocabulary
    for matcher in selector.matchers:
        known = words.values(metric.entry, matcher.label)
        if known is None or matcher.op not in {"=", "=~"} or _allows_none(matcher):
            continue
        fitting = [value for value in known if matches(matcher, value)]
        if not fitting:
            shown = ", ".join(known)
            message = f'{metric.full} never has {matcher.label}{matcher.op}"{matcher.value}"'
            yield Remark(message, f"the values are {shown}", matcher.start)
            continue
        late = [span for value in fitting if (span := known[value]) is not None]
        if len(late) == len(fitting) and not any(one in span for span in late for one in words.releases):
            first = min(span.first for span in late)
            message = f'{metric.full} has {matcher.label}="{fitting[0]}" from {first} on'
            yield Remark(message, f"it needs vLLM {first}", matcher.start)
