"""Metric names: gone, hidden, not there yet, never there, without their suffix."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from palanca.linting.analysis import ABSENCE, above, parents
from palanca.linting.finding import Context, Edit, Remark
from palanca.linting.names_file import Successor
from palanca.linting.rule import LintRule
from palanca.linting.tree import COMPARISONS, SETS, Binary, Call, Node, Selector, Unary, selectors, walk
from palanca.linting.vocabulary import PARTS, Entry, Metric, written
from palanca.releases import Release
from palanca.signals.identity import unprefixed

_CLOSE = 0.8
_OWN_PREFIX = "vllm:"


def _named(rule: LintRule, context: Context) -> Iterator[tuple[Selector, tuple[Metric, ...]]]:
    """Selectors of vLLM's metrics that are not known to be there, and that no ``or`` replaces."""
    if rule.tree is None:
        return
    up = parents(rule.tree)
    for selector in selectors(rule.tree):
        found = context.vocabulary.metrics_of(selector)
        if found and not (selector.name and context.lives(selector.name)) and not _replaced(selector, up, context):
            yield selector, found


def _replaced(selector: Selector, up: dict[int, Node], context: Context) -> bool:
    """Whether another side of an ``or`` has a name that is shown: old names stand beside new ones on purpose."""
    for parent, child in above(selector, up):
        if isinstance(parent, Binary) and parent.op == "or":
            other = parent.right if child is parent.left else parent.left
            if any(_shown(one, context) for one in selectors(other)):
                return True
    return False


def _shown(selector: Selector, context: Context) -> bool:
    if selector.name is not None and context.lives(selector.name):
        return True
    return any(context.vocabulary.shows(one.entry) for one in context.vocabulary.metrics_of(selector))


def _asked(context: Context) -> str:
    first, last = context.vocabulary.releases[0], context.vocabulary.releases[-1]
    return str(first) if first == last else f"{first} to {last}"


def _written(rule: LintRule, selector: Selector) -> str:
    start, end = selector.named
    return selector.name or rule.text[start:end]


def removed_name(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Names that releases before had, and none that is looked at has."""
    words = context.vocabulary
    for selector, found in _named(rule, context):
        latest = max(found, key=lambda one: one.entry.last)
        gone = words.after(latest.entry.last)
        shown = [one for metric in found for one in words.shows(metric.entry)]
        hidden = [one for metric in found for one in words.hides(metric.entry)]
        if gone is None or gone > words.releases[-1]:
            continue
        if shown or hidden:
            partly = f"is gone from {gone} on, and {_asked(context)} are looked at"
            yield _gone(rule, selector, latest, context, partly, partly=True)
        elif latest.entry.last < words.releases[0]:
            yield _gone(rule, selector, latest, context, f"was removed in {gone}{_hidden_since(latest.entry)}")


def _hidden_since(entry: Entry) -> str:
    since = [one.first for one in entry.hidden]
    return f" (hidden since {max(since)})" if since else ""


def _gone(
    rule: LintRule, selector: Selector, metric: Metric, context: Context, what: str, *, partly: bool = False
) -> Remark:
    mend, edits = instead(rule, selector, metric, context)
    up = parents(rule.tree) if rule.tree is not None else {}
    fires = any(isinstance(one, Call) and one.function in ABSENCE for one, _ in above(selector, up))
    effect = ": absent() of it is always true" if fires and not partly else ""
    return Remark(
        f"{_written(rule, selector)} {what}{effect}", mend, selector.named[0], edits, "warning" if partly else None
    )


def instead(rule: LintRule, selector: Selector, metric: Metric, context: Context) -> tuple[str, tuple[Edit, ...]]:
    """Say what to ask instead of a name, and the edits where that is sure."""
    successor = context.vocabulary.successor(metric.entry)
    if successor is None:
        return "nothing took its place: take the rule out", ()
    return replaced(rule, selector, successor, metric.prefix, metric.part)


def replaced(
    rule: LintRule, selector: Selector, successor: Successor, prefix: str, part: str
) -> tuple[str, tuple[Edit, ...]]:
    """Say what to write for a selector, and the edits."""
    note = f" ({successor.note})" if successor.note else ""
    if successor.name is not None:
        full = prefix + successor.name + part
        start, end = selector.named
        quote = rule.text[start] if start < len(rule.text) and rule.text[start] in "\"'`" else ""
        edits = () if selector.name is None else (Edit(start, end, f"{quote}{full}{quote}"),)
        return f"use {full}{note}", edits
    if successor.expression is None:
        return successor.note or "take the rule out", ()
    matchers = "" if selector.braces is None else rule.text[selector.braces[0] : selector.braces[1]]
    text = written(successor.expression, prefix, matchers)
    plain = selector.name is not None and selector.range_s is None and not selector.modifiers and not part
    if not plain or (selector.braces is not None and selector.named[0] > selector.braces[0]):
        return f"use {text}{note}", ()
    return f"use {text}{note}", (Edit(selector.start, selector.end, _guarded(rule, selector, text)),)


def _guarded(rule: LintRule, selector: Selector, text: str) -> str:
    """Put an expression into parentheses where what stands around it would take it apart."""
    up = parents(rule.tree) if rule.tree is not None else {}
    parent = up.get(id(selector))
    apart = isinstance(parent, Unary) or (isinstance(parent, Binary) and parent.op not in COMPARISONS | SETS)
    return f"({text})" if apart else text


def hidden_name(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Names that are only shown with a flag."""
    words = context.vocabulary
    for selector, found in _named(rule, context):
        if any(words.shows(one.entry) for one in found) or not any(words.hides(one.entry) for one in found):
            continue
        metric = next(one for one in found if words.hides(one.entry))
        mend, edits = instead(rule, selector, metric, context)
        message = (
            f"{_written(rule, selector)} is only shown with --show-hidden-metrics-for-version in {_asked(context)}"
        )
        yield Remark(message, mend, selector.named[0], edits)


def newer_name(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Names that a later release brings."""
    words = context.vocabulary
    for selector, found in _named(rule, context):
        first = min(one.entry.first for one in found)
        if first <= words.releases[0]:
            continue
        partly = first <= words.releases[-1]
        message = f"{_written(rule, selector)} exists from {first} on, and {_asked(context)} is looked at"
        older = _older(found[0], words.releases[0], context)
        mend = f"before that it is {older}" if older else f"it needs vLLM {first}"
        yield Remark(message, mend, selector.named[0], severity="info" if partly else None)


def _older(metric: Metric, release: Release, context: Context) -> str:
    """Return the name that the family of a metric has in an older release."""
    family = [one for one in context.vocabulary.entries.values() if one.family == metric.entry.family]
    older = [one.name for one in family if any(release in span for span in one.shown)]
    return metric.prefix + older[0] + metric.part if older else ""


def deprecated_name(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Names that are shown and that go."""
    words = context.vocabulary
    for selector, found in _named(rule, context):
        if len(found) != 1 or not words.shows(found[0].entry):
            continue
        entry = found[0].entry
        marked = words.names.deprecated.get(entry.name)
        gone = words.after(entry.last)
        mend, edits = instead(rule, selector, found[0], context)
        if marked is not None and words.releases[-1] in marked:
            message = f"{_written(rule, selector)} is marked as deprecated since {marked.first}"
            yield Remark(message, mend, selector.named[0], edits)
        elif gone is not None and gone > words.releases[-1]:
            message = f"{_written(rule, selector)} is gone from {gone} on"
            ready = entry.successor is None or len(words.shows(words.entries[entry.successor])) == len(words.releases)
            yield Remark(message, mend, selector.named[0], edits if ready else ())


def unknown_name(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Names under vLLM's prefix that no release had."""
    words = context.vocabulary
    for selector in selectors(rule.tree) if rule.tree is not None else ():
        full = selector.name
        if full is None or context.lives(full) or words.metrics_of(selector):
            continue
        split = unprefixed(full, words.metrics)
        if split is None or ":" in split[1] or split[1] in words.elsewhere or f"{split[1]}_total" in words.entries:
            continue
        yield _unknown(rule, selector, full, split, context)


def _unknown(rule: LintRule, selector: Selector, full: str, split: tuple[str, str], context: Context) -> Remark:
    words = context.vocabulary
    prefix, name = split
    message = f"{full} never existed: vLLM {words.known[0]} to {words.known[-1]} has no such metric"
    meant = words.mistaken(name)
    if meant is not None:
        mend, edits = replaced(rule, selector, meant[0], prefix, meant[1])
        return Remark(message, mend, selector.named[0], edits)
    shown = [one.name for one in words.entries.values() if one.prefixed and words.shows(one)]
    part = next((part for part in PARTS if name.endswith(part)), "")
    near = get_close_matches(name.removesuffix(part), shown, n=2, cutoff=0.6)
    if near:
        close = get_close_matches(name.removesuffix(part), near, n=1, cutoff=_CLOSE)
        other = prefix != _OWN_PREFIX and not close
        mend = f"did you mean {' or '.join(prefix + one + part for one in near)}?"
        return Remark(message, mend, selector.named[0], severity="info" if other else None)
    mend = "if another program exposes it, silence this check for the rule"
    return Remark(message, mend, selector.named[0], severity=None if prefix == _OWN_PREFIX else "info")


def unknown_record(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Names of recording rules that are not among the rules that are looked at."""
    for selector in selectors(rule.tree) if rule.tree is not None else ():
        split = None if selector.name is None else unprefixed(selector.name, context.vocabulary.metrics)
        if split is not None and ":" in split[1] and not context.lives(selector.name or ""):
            message = f"{selector.name} has the name of a recording rule, and none of the rules here records it"
            yield Remark(message, "give the file that records it as well", selector.named[0])


def missing_prefix(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Names of vLLM without its prefix."""
    words = context.vocabulary
    for selector in selectors(rule.tree) if rule.tree is not None else ():
        name = selector.name
        if name is None or context.lives(name):
            continue
        if words.without_prefix(name) is not None:
            start, end = selector.named
            message = f"{name} lacks the prefix: vLLM exposes {_OWN_PREFIX}{name}"
            edits = (Edit(start, end, _OWN_PREFIX + name),) if rule.text[start:end] == name else ()
            yield Remark(message, f"write {_OWN_PREFIX}{name}, unless a collector cuts the prefix off", start, edits)


def mixed_prefixes(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Names under different prefixes on both sides of an operator, which are different series of targets."""
    if rule.tree is None:
        return
    for one in walk(rule.tree):
        if not isinstance(one, Binary) or one.op == "or":
            continue
        sides = [{_prefix(name, context) for name in selectors(side)} - {""} for side in (one.left, one.right)]
        if all(len(side) == 1 for side in sides) and sides[0] != sides[1]:
            first, second = (next(iter(side)) for side in sides)
            message = f"{first}* and {second}* on the two sides of {one.op!r}: an engine shows one of these prefixes"
            yield Remark(message, "use one prefix, or put `or` between whole expressions of each", one.at[0])


def _prefix(selector: Selector, context: Context) -> str:
    found = context.vocabulary.metrics_of(selector)
    return found[0].prefix if found else ""


def counter_without_total(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Counters as vLLM's code and documentation call them; on the page they end in ``_total``."""
    words = context.vocabulary
    for selector in selectors(rule.tree) if rule.tree is not None else ():
        split = None if selector.name is None else unprefixed(selector.name, words.metrics)
        if selector.name is None or split is None or split[1] in words.entries or context.lives(selector.name):
            continue
        entry = words.entries.get(f"{split[1]}_total")
        if entry is not None and entry.type == "counter":
            start, end = selector.named
            message = f"{selector.name} is a counter, and counters are exposed with _total: no series has this name"
            full = f"{selector.name}_total"
            edits = (Edit(start, end, rule.text[start:end].replace(selector.name, full)),)
            yield Remark(message, f"use {full}", start, edits)


def histogram_without_part(rule: LintRule, context: Context) -> Iterator[Remark]:
    """The bare name of a histogram, which no series has."""
    for selector, found in _named(rule, context):
        if selector.name is None or not found[0].is_partless_histogram:
            continue
        up = parents(rule.tree) if rule.tree is not None else {}
        quantile = any(isinstance(one, Call) and one.function == "histogram_quantile" for one, _ in above(selector, up))
        message = f"{selector.name} is a histogram: its series end in _bucket, _sum and _count"
        start, end = selector.named
        full = f"{selector.name}_bucket"
        edits = (Edit(start, end, rule.text[start:end].replace(selector.name, full)),) if quantile else ()
        mend = f"use {full}" if quantile else f"use {full} in histogram_quantile, or _sum / _count for the mean"
        yield Remark(message, mend, start, edits)
