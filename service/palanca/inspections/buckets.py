"""Whether the buckets of histograms can be read as Prometheus reads them, and what a quantile of them can reach."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from palanca import expressions
from palanca.inspections.evidence import Check, Evidence, some

if TYPE_CHECKING:
    from palanca.model import Catalogue


def labels(evidence: Evidence, catalogue: Catalogue) -> Iterator[Check]:
    """Whether buckets can be read as Prometheus reads them, and alike on all instances."""
    texts: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in evidence.series:
        if one.le is not None and one.name.startswith(tuple(catalogue.metrics.prefixes)):
            texts[one.name][one.instance].add(one.le)
    endless, garbled, mixed, different = [], [], [], []
    for name, places in sorted(texts.items()):
        for instance, found in sorted(places.items()):
            garbled += [f"{name} at {instance}: le={le!r}" for le in sorted(found) if math.isnan(_bound(le))]
            if not any(math.isinf(_bound(le)) for le in found):
                endless.append(f"{name} at {instance}")
        spellings: dict[float, set[str]] = defaultdict(set)
        for le in sorted(set().union(*places.values())):
            spellings[_bound(le)].add(le)
        twice = [sorted(found) for bound, found in spellings.items() if len(found) > 1 and not math.isnan(bound)]
        if twice:
            mixed.append(f"{name}: " + ", ".join(" and ".join(f'le="{le}"' for le in one) for one in twice[:2]))
        if len({frozenset(map(_bound, found)) for found in places.values()}) > 1:
            sizes = [f"{instance} {_span(found)}" for instance, found in sorted(places.items())]
            different.append(f"{name}: " + ", ".join(sizes[:3]))
    yield from _le_checks(endless, garbled, mixed, different)
    if texts and not (endless or garbled or mixed or different):
        yield Check("buckets", "ok", f"the buckets of {len(texts)} histograms can be read")


def _le_checks(
    endless: Sequence[str], garbled: Sequence[str], mixed: Sequence[str], different: Sequence[str]
) -> Iterator[Check]:
    if garbled:
        yield Check("buckets-no-number", "warning", "buckets whose bound is no number", some(garbled))
    if endless:
        hint = "histogram_quantile gives NaN without it; is it dropped by relabelling or by a collector?"
        yield Check("buckets-no-inf", "warning", 'histograms without the bucket le="+Inf"', some(endless), hint)
    if mixed:
        hint = "sum by (le) keeps them apart and its quantiles are wrong; Prometheus 3 and OpenMetrics write 10.0"
        yield Check("buckets-mixed", "warning", "the same bound is written in two ways", some(mixed), hint)
    if different:
        hint = "quantiles over these instances together are wrong; palanca reads each engine by itself"
        yield Check("buckets-differ", "note", "instances have different buckets", some(different), hint)


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _span(texts: set[str]) -> str:
    bounds = sorted(bound for bound in map(_bound, texts) if math.isfinite(bound))
    return f"{len(bounds)} bounds, {bounds[0]:g} to {bounds[-1]:g}" if bounds else "no finite bound"


def thresholds(evidence: Evidence, catalogue: Catalogue) -> Iterator[Check]:
    """Whether a quantile can exceed what a rule compares it with: it is never more than the last finite bound.

    Of latencies only: the buckets of lengths end at max_model_len, and so do the lengths.
    """
    found = evidence.discovery
    dead: set[str] = set()
    for rule in catalogue.rules if found is not None else ():
        for one in expressions.comparisons(expressions.parse(rule.when)):
            match one.left, one.right:
                case expressions.Name(name=name), expressions.Name(name=limit) if limit in rule.thresholds:
                    signal, value = catalogue.signals.get(name), rule.thresholds[limit].value
                case _:
                    continue
            timed = signal is not None and signal.quantile is not None and signal.unit == "s"
            family = (signal.family or "") if signal is not None and timed else ""
            lasts = [bounds[family][1] for bounds in found.bounds.values() if family in bounds] if found else []
            if one.op in {">", ">="} and lasts and min(lasts) <= value:
                dead.add(f"{rule.id}: {name} {one.op} {value:g}, last bound {min(lasts):g}")
    if dead:
        hint = "give buckets beyond the threshold (0.32.0 and newer can), or lower the threshold"
        yield Check("buckets-too-low", "warning", "thresholds that the buckets cannot reach", some(sorted(dead)), hint)
