"""Signals as PromQL text: the same aggregation that the sample reader does, in Prometheus' own language."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palanca import expressions
from palanca.expressions import Arithmetic, Call, Name, Number
from palanca.moments import duration
from palanca.signals.identity import COPY_LABELS, PROCESS_LABEL
from palanca.signals.leaves import Leaf, compose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from palanca.expressions import Node
    from palanca.model import Catalogue, Family, Signal

_OVER_TIME = {"avg": "avg_over_time", "max": "max_over_time", "min": "min_over_time", "count": "count_over_time"}

UNOBSERVED = -1.0
"""No quantile of a duration, a length or a count is negative."""


def quote(value: str) -> str:
    """Quote a label value for PromQL: double quotes, backslash, newline escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def matchers(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Equality matchers for labels, sorted."""
    return tuple(f"{name}={quote(value)}" for name, value in sorted(labels.items()))


class PromQL:
    """Writes the PromQL of leaves and signals for the metric names that a source has.

    ``names`` are the full metric names to use (``ray_vllm_num_requests_running``); a family none of whose names is
    among them is written with its newest name under the first live prefix. ``extra`` are matchers added everywhere.
    """

    def __init__(self, catalogue: Catalogue, names: Collection[str] = (), extra: Iterable[str] = ()) -> None:
        self._catalogue, self._names, self._extra = catalogue, frozenset(names), tuple(extra)

    def signal(self, name: str, *, window: float | None = None) -> str:
        """PromQL of one signal, e.g. for a link from a finding."""
        return self._signal(self._catalogue.signals[name], window)

    def _signal(self, signal: Signal, window: float | None) -> str:
        if signal.expr is not None:
            text = self._node(expressions.parse(signal.expr), window)
        else:
            text = self._measured(signal, window)
        if signal.fallback is not None:
            text = f"({text}) or ({self.signal(signal.fallback, window=window)})"
        return text

    def _measured(self, signal: Signal, window: float | None) -> str:
        families = self._catalogue.metrics.families
        composition = compose(signal, window=window, histogram=lambda name: families[name].type == "histogram")
        if composition is None:
            message = "an expression has no leaves"
            raise TypeError(message)
        parts = [self.leaf(leaf) for leaf in composition.leaves]
        text = " / ".join(f"({part})" if len(parts) > 1 else part for part in parts)
        scale = signal.times * ((window or signal.window) if signal.increase is not None else 1.0)
        if scale != 1:
            text = f"{scale:g} * ({text})" if " or " in text or "/" in text else f"{scale:g} * {text}"
        if signal.since is not None:
            text = f"time() - ({text})"
        if signal.present is not None:
            text = f"clamp_max(count without ({', '.join(self._gone(families[signal.present]))}) ({text}), 1)"
        if signal.or_gauge is not None:
            gauge = self.leaf(Leaf("avg", signal.or_gauge, window or signal.window, offset=signal.offset))
            text = f"({text}) or (({gauge}) >= 0)"
        return text

    def leaf(self, leaf: Leaf) -> str:
        """PromQL of one leaf: one value per target."""
        family = self._catalogue.metrics.families[leaf.family]
        suffix = "_bucket" if leaf.function == "quantile" else f"_{leaf.part}" if leaf.part else ""
        names = [name + suffix for name in self.exposed(family, suffix)]
        texts = [self._aggregated(leaf, family, name) for name in names]
        if family.sparse and leaf.where:
            texts += [f"0 * {self._aggregated(replace(leaf, where=()), family, name)}" for name in names]
        return texts[0] if len(texts) == 1 else " or ".join(f"({text})" for text in texts)

    def unobserved(self, leaf: Leaf) -> str:
        """PromQL of ``UNOBSERVED`` where the quantile of a leaf has nothing to judge.

        Prometheus says NaN there, and VictoriaMetrics leaves NaN out of its answers, as if there were no series.
        """
        family = self._catalogue.metrics.families[leaf.family]
        counted = replace(leaf, function="rate", where=(*leaf.where, ("le", "+Inf")))
        parts = [self._aggregated(counted, family, name + "_bucket") for name in self.exposed(family, "_bucket")]
        return " or ".join(f"(max without (le) ({part}) == 0) + {UNOBSERVED:g}" for part in parts)

    def exposed(self, family: Family, suffix: str = "") -> list[str]:
        """Full names of a family that the source has, the preferred one first; never empty."""
        prefixes = self._catalogue.metrics.prefixes if family.prefixed else ("",)
        every = [prefix + name.name for name in family.names for prefix in prefixes]
        return [name for name in every if name in self._names or name + suffix in self._names] or every[:1]

    @staticmethod
    def _gone(family: Family) -> list[str]:
        return [*family.labels, PROCESS_LABEL, *COPY_LABELS]

    def _aggregated(self, leaf: Leaf, family: Family, metric: str) -> str:
        needs = [f'{family.needs_label}!=""'] if family.needs_label else []
        inside = ", ".join([*matchers(dict(leaf.where)), *needs, *self._extra])
        selector = f"{metric}{{{inside}}}" if inside else metric
        offset = f" offset {duration(leaf.offset)}" if leaf.offset else ""
        ranged, selector = f"{selector}[{duration(leaf.window)}]{offset}", selector + offset
        copies = ", ".join(COPY_LABELS)
        own = list(family.labels)
        if leaf.function == "quantile":
            gone = ", ".join([*own, PROCESS_LABEL, *COPY_LABELS])
            return f"histogram_quantile({leaf.quantile:g}, sum without ({gone}) (rate({ranged})))"
        if leaf.function in {"rate", "resets", "changes"}:
            inner = f"sum without ({', '.join([*own, PROCESS_LABEL])}) ({leaf.function}({ranged}))"
            return f"max without ({copies}) ({inner})"
        value = selector if leaf.function == "now" else f"{_OVER_TIME[leaf.function]}({ranged})"
        if own:
            value = f"sum without ({', '.join(own)}) ({value})"
        return f"max without ({PROCESS_LABEL}, {copies}) ({value})"

    def _node(self, node: Node, window: float | None) -> str:
        match node:
            case Number(value=value):
                return f"{value:.15g}"
            case Name(name=name):
                return f"({self.signal(name, window=window)})"
            case Arithmetic(op=op, left=left, right=right):
                return f"({self._node(left, window)} {op} {self._node(right, window)})"
            case Call(function="floor" | "ceil", arguments=(argument,)):
                return f"{node.function}({self._node(argument, window)})"
            case Call(function="min" | "max", arguments=arguments):
                ordered = sorted(arguments, key=lambda one: isinstance(one, Number))  # a clamp needs a vector first
                return self._extreme(node.function, [self._node(one, window) for one in ordered], ordered)
            case Call(function="round_down", arguments=(value, multiple)):
                below = self._node(multiple, window)
                whole = self._node(value, window)
                return f"((floor({whole} / {below}) * {below} > 0) or floor({whole}))"
            case _:
                message = f"{type(node).__name__} has no PromQL"
                raise TypeError(message)

    @staticmethod
    def _extreme(function: str, texts: list[str], nodes: list[Node]) -> str:
        result, sign = texts[0], "<=" if function == "min" else ">="
        for text, node in zip(texts[1:], nodes[1:], strict=True):
            if isinstance(node, Number):
                result = f"clamp_{'max' if function == 'min' else 'min'}({result}, {text})"
            else:
                result = f"(({result} {sign} {text}) or {text})"
        return result
