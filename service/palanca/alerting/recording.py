"""Signals as recorded series: one per signal and engine, with the same labels whatever it is read from.

What ``signals.readings`` does with samples stands here in PromQL: the choice among names, the join of server-wide
series, values that are impossible, older gauges and fallbacks.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from palanca import expressions
from palanca.alerting import conditions, names
from palanca.alerting.conditions import Part
from palanca.releases import Release
from palanca.signals.identity import COPY_LABELS, PROCESS_LABEL
from palanca.signals.leaves import Leaf, compose, possible_range
from palanca.signals.promql import PromQL
from palanca.signals.samples import HEARTBEAT
from palanca.signals.versions import counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from palanca.alerting.options import Options
    from palanca.model import Catalogue, Family, MetricName, Signal

ENGINE_LABELS = ("engine", "ReplicaId")
"""Labels that tell the engines of one server apart."""
_LAST_HOUR = "1h"


class Recorder:
    """Writes the recorded series of a catalogue for the releases, prefixes and targets that were chosen."""

    def __init__(self, catalogue: Catalogue, options: Options) -> None:
        self._catalogue, self._options = catalogue, options

    # --- what there is ---------------------------------------------------------------------------

    @cached_property
    def metric_names(self) -> frozenset[str]:
        """Full metric names of the chosen releases and prefixes; histograms without ``_bucket``."""
        return frozenset(
            prefix + name.name
            for family in self._catalogue.metrics.families.values()
            for name in family.names
            if self._exists(name)
            for prefix in (self._options.prefixes if family.prefixed else ("",))
        )

    def _exists(self, name: MetricName) -> bool:
        chosen = self._options.releases
        if chosen is None:
            return True
        known = [Release(one) for one in self._catalogue.metrics.releases]
        spans = [span for span in (name.v0, name.v1, name.hidden_v0, name.hidden_v1) if span is not None]
        return any(one in chosen and one in span for one in known for span in spans)

    def _has_family(self, name: str | None) -> bool:
        return name is None or any(self._exists(one) for one in self._catalogue.metrics.families[name].names)

    def _counts(self, family: str | None, where: Mapping[str, str]) -> bool:
        """Whether some chosen release has the family and the label values that are asked for."""
        if family is None or not self._has_family(family):
            return family is None
        return counts(self._catalogue.metrics.families[family], where, self._options.releases)

    def available(self, name: str) -> bool:
        """Whether a signal exists in the chosen releases."""
        signal = self._catalogue.signals[name]
        if signal.expr is not None:
            own = all(self.available(part) for part in expressions.names(expressions.parse(signal.expr)))
        else:
            own = self._measured_here(signal)
        return own or (signal.fallback is not None and self.available(signal.fallback))

    def _measured_here(self, signal: Signal) -> bool:
        return self._counted(signal) or (signal.or_gauge is not None and self._has_family(signal.or_gauge))

    def _counted(self, signal: Signal) -> bool:
        return self._counts(signal.family, signal.where) and self._counts(signal.per, signal.per_where)

    # --- names and dependencies ------------------------------------------------------------------

    def series(self, name: str) -> str:
        """Name of the recorded series of a signal."""
        return names.recorded(name, self._catalogue.signals[name].unit)

    def needs(self, name: str) -> tuple[str, ...]:
        """Other signals whose recorded series a signal is computed from, in order."""
        signal = self._catalogue.signals[name]
        if signal.expr is not None:
            return expressions.names(expressions.parse(signal.expr))
        fallback = signal.fallback
        return (fallback,) if fallback is not None and self.available(fallback) else ()

    def on_servers(self, name: str) -> bool:
        """Whether a signal is joined onto the engines (so that ``names.ENGINE`` is needed)."""
        signal = self._catalogue.signals[name]
        return signal.present is not None or (signal.expr is None and self._family(signal).scope == "server")

    def ordered(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Return the signals and all that they need, each after what it needs."""
        done: dict[str, None] = {}

        def add(name: str) -> None:
            for part in self.needs(name):
                add(part)
            done.setdefault(name)

        chosen = frozenset(wanted)
        for name in self._catalogue.signals:
            if name in chosen:
                add(name)
        return tuple(done)

    # --- PromQL ----------------------------------------------------------------------------------

    def engines(self) -> str:
        """PromQL of ``names.ENGINE``."""
        family = self._catalogue.metrics.families[HEARTBEAT]
        gone = ", ".join([*family.labels, PROCESS_LABEL, *COPY_LABELS])
        inside = self._inside(family)
        texts = [f"last_over_time({name}{inside}[{_LAST_HOUR}])" for name in self._writer(family).exposed(family)]
        return f"group without ({gone}) ({' or '.join(texts)})"

    def engine_labels(self) -> tuple[str, ...]:
        """Labels that the engines, processes and copies of one server differ by."""
        family = self._catalogue.metrics.families[HEARTBEAT]
        return (*family.labels, *ENGINE_LABELS, PROCESS_LABEL, *COPY_LABELS)

    def buckets(self, family: str) -> tuple[str, ...]:
        """Names of the bucket series of a histogram in the chosen releases; empty where it does not exist."""
        if not self._has_family(family):
            return ()
        spec = self._catalogue.metrics.families[family]
        return tuple(f"{name}_bucket" for name in self._writer(spec).exposed(spec))

    def bucket_counts(self, families: Iterable[str]) -> str:
        """PromQL of ``names.BUCKETS``: how many series of histograms of engines have each ``le``."""
        every = "|".join(name for family in sorted(families) for name in self.buckets(family))
        selector = ", ".join([f'__name__=~"{every}"', *map(str, self._options.selector)])
        counted = f"count by (__name__, le) ({{{selector}}})"
        return f'label_replace({counted}, "{names.HISTOGRAM}", "$1", "__name__", "(.+)")'

    def preferred(self, family: str) -> str | None:
        """Full name of a family that is read first; None where no chosen release has it."""
        spec = self._catalogue.metrics.families[family]
        return self._writer(spec).exposed(spec)[0] if self._has_family(family) else None

    def running_names(self) -> tuple[str, ...]:
        """Names of the gauge that every engine has."""
        family = self._catalogue.metrics.families[HEARTBEAT]
        return tuple(self._writer(family).exposed(family))

    def text(self, name: str) -> str:
        """PromQL of a signal, over metrics and the recorded series of other signals."""
        signal = self._catalogue.signals[name]
        parts: list[str] = []
        if signal.expr is not None:
            parts.append(self._expression(signal.expr))
        elif self._measured_here(signal):
            parts.append(self._measured(name))
        if signal.fallback is not None and self.available(signal.fallback):
            parts.append(self.series(signal.fallback))
        return "\nor\n".join(parts)

    def _expression(self, text: str) -> str:
        made = conditions.number(expressions.parse(text), conditions.Signals(self.series))
        if not isinstance(made, Part):
            raise TypeError(f"{text!r} is a number, not a signal")
        return made.text

    def _family(self, signal: Signal) -> Family:
        return self._catalogue.metrics.families[signal.family or ""]

    def _writer(self, family: Family) -> PromQL:
        return PromQL(self._catalogue, self.metric_names, self._matchers(family))

    def _matchers(self, family: Family) -> tuple[str, ...]:
        """Matchers of the selector; server-wide series surely have only the labels that they are joined by."""
        wide = family.scope == "server"
        return tuple(str(one) for one in self._options.selector if not wide or one.label in names.SERVER_JOIN)

    def _inside(self, family: Family) -> str:
        matchers = self._matchers(family)
        return "{" + ", ".join(matchers) + "}" if matchers else ""

    def _leaf(self, leaf: Leaf) -> str:
        return self._writer(self._catalogue.metrics.families[leaf.family]).leaf(leaf)

    def _measured(self, name: str) -> str:
        signal, families = self._catalogue.signals[name], self._catalogue.metrics.families
        composition = compose(signal, histogram=lambda family: families[family].type == "histogram")
        if composition is None:
            raise TypeError("an expression has no leaves")
        texts = []
        if self._counted(signal):
            texts.append(self._joined(signal, [self._leaf(leaf) for leaf in composition.leaves]))
        if signal.or_gauge is not None and self._has_family(signal.or_gauge):
            gauge = self._leaf(Leaf("avg", signal.or_gauge, signal.window, offset=signal.offset))
            texts.append(f"{_whole(gauge)} >= 0")
        text = "\nor\n".join(texts)
        if signal.present is not None:
            replaced = f"unless on ({', '.join(names.SERVER_JOIN)})\n  {_whole(text)}"
            return f"(\n  {names.ENGINE}\nand\n  {_whole(text)}\n)\nor\n0 * ({names.ENGINE}\n  {replaced})"
        if self.on_servers(name):
            on = ", ".join(_join(families[signal.family or ""]))
            text = f"{names.ENGINE}\n* on ({on}) group_left ()\nmax by ({on}) ({text})"
        if signal.since is not None:
            text = f"time() - ({text})"
        bounds = _bounds(signal)
        return f"({text}){bounds}" if bounds and _several(text) else text + bounds

    def _joined(self, signal: Signal, leaves: list[str]) -> str:
        """Join leaves as ``signals.leaves.compose`` says."""
        scale = signal.times * (signal.window if signal.increase is not None else 1.0)
        factor = "" if scale == 1 else f"{scale:.15g} * "
        if len(leaves) == 1:
            return f"{factor}{_whole(leaves[0]) if factor else leaves[0]}"
        above, below = (_whole(leaf) for leaf in leaves)
        if signal.mean is None:
            return f"{factor}{above}\n/\n{below}"
        ratio = f"{factor}{above}\n/\n({below} > 0)"
        # Where nothing is observed there is a mean (of no number) all the same, so that no fallback is taken.
        return f"{ratio}\nor\nNaN * {below}" if signal.fallback is not None else ratio


def _join(family: Family) -> tuple[str, ...]:
    """Labels to join a server-wide family by; vLLM's own have the model as well."""
    return (*names.SERVER_JOIN, "model_name") if family.prefixed else names.SERVER_JOIN


def _several(text: str) -> bool:
    """Whether a text is several expressions joined by ``or``."""
    return " or " in text or "\nor\n" in text


def _whole(text: str) -> str:
    return f"({text})" if _several(text) else text


def _bounds(signal: Signal) -> str:
    """Comparisons that leave impossible values out."""
    low, high = possible_range(signal)
    return (f" >= {low:g}" if low is not None else "") + (f" <= {high!r}" if high is not None else "")
