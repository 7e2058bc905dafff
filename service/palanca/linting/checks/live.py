"""What the series of a Prometheus say of the rules."""

from __future__ import annotations

from collections.abc import Iterator

from palanca.linting.analysis import ABSENCE, above, parents
from palanca.linting.finding import Context, Remark, selector_text
from palanca.linting.rule import LintRule
from palanca.linting.tree import Binary, Call, selectors


def dead_series(rule: LintRule, context: Context) -> Iterator[Remark]:
    """Selectors that found no series in the last hour."""
    if rule.tree is None or context.live is None:
        return
    up = parents(rule.tree)
    told: set[str] = set()
    for selector in selectors(rule.tree):
        text = selector_text(rule, selector)
        if text not in context.live.dead or text in told:
            continue
        told.add(text)
        around = [parent for parent, _ in above(selector, up)]
        if any(isinstance(one, Call) and one.function in ABSENCE for one in around):
            continue
        found = context.vocabulary.metrics_of(selector)
        excused = any(one.entry.quiet for one in found) or any(
            isinstance(one, Binary) and one.op in {"or", "unless"} for one in around
        )
        why = "it appears when first counted, or with a feature" if any(one.entry.quiet for one in found) else ""
        mend = f"well possible: {why}" if why else "compare name and labels with what the Prometheus has"
        yield Remark(
            f"{text} found no series in the last hour", mend, selector.start, severity="info" if excused else None
        )
