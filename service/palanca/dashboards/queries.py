"""PromQL of the panels: signals as the alerts have them, for the engines that the variables of a dashboard choose.

Nothing is recorded by default, so a signal is written out where the recorder names the series of another one. All live
prefixes are matched by one selector on the name: an engine has its metrics under one of them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from palanca.alerting import names
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Matcher
from palanca.alerting.recording import Recorder
from palanca.signals.identity import COPY_LABELS, PROCESS_LABEL
from palanca.signals.leaves import Leaf

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from palanca.alerting.options import Options as AlertingOptions
    from palanca.dashboards.options import Options
    from palanca.model import Catalogue

VARIABLES: Mapping[str, str] = {"job": "Job", "model_name": "Model", "instance": "Instance"}
"""Variables of a dashboard, named like the labels that they choose by, and what people read."""
FINDING = "palanca_finding_active"
FINDING_LABELS = ("severity", "rule", "cause", "role", "state", "confidence")
INFO, START, TOKENS = "cache_config_info", "process_start_time", "prompt_tokens"
"""Families of which annotations are made."""
_ANY_PREFIX = "any_live_prefix:"
_NAME = re.compile(re.escape(_ANY_PREFIX) + r"([a-zA-Z0-9_:]+)(\{)?")
_CHANGE_S = 120.0
_LAST_HOUR = "1h"


class _Written(Recorder):
    """Signals whose series are not recorded."""

    def __init__(
        self, catalogue: Catalogue, options: AlertingOptions, recorded: frozenset[str], matchers: tuple[Matcher, ...]
    ) -> None:
        super().__init__(catalogue, options)
        self._recorded, self._inside_recorded = recorded, "{" + ", ".join(str(one) for one in matchers) + "}"

    def series(self, name: str) -> str:
        """The recorded series, or what it would be recorded from."""
        recorded = super().series(name)
        return recorded + self._inside_recorded if recorded in self._recorded else f"({self.text(name)})"

    def is_recorded(self, series: str) -> bool:
        """Whether there is a recorded series of this name."""
        return series in self._recorded

    def selected(self, series: str) -> str:
        """A recorded series of the chosen engines."""
        return series + self._inside_recorded

    def of_leaf(self, leaf: Leaf) -> str:
        """One leaf of the chosen engines."""
        return self._leaf(leaf)

    def of_family(self, name: str) -> tuple[str, ...]:
        """Full names of a family with the matchers that its series can have; empty where no chosen release has it."""
        if not self._has_family(name):
            return ()
        family = self._catalogue.metrics.families[name]
        inside = self._inside(family)
        return tuple(one + inside for one in self._writer(family).exposed(family))


class Queries:
    """Writes the PromQL of panels, variables and annotations."""

    def __init__(self, catalogue: Catalogue, options: Options) -> None:
        """Raises ``UsageError`` for options that do not fit the catalogue."""
        chosen = options.alerting(catalogue)
        self._catalogue = catalogue
        self._prefixes = chosen.prefixes
        recorded = frozenset(
            rule.record for rule in (Matrix(catalogue, chosen).recordings() if options.recorded else ())
        )
        self._unchosen = tuple(chosen.selector)
        matchers = (*(Matcher(label, "=~", f"${label}") for label in VARIABLES), *self._unchosen)
        self._recorder = self._made(chosen, recorded, matchers)
        self._everywhere = self._made(chosen, frozenset(), self._unchosen)

    def _made(self, chosen: AlertingOptions, recorded: frozenset[str], matchers: tuple[Matcher, ...]) -> _Written:
        catalogue, options = self._catalogue, replace(chosen, selector=matchers)
        if len(self._prefixes) > 1:
            options = replace(options, prefixes=(_ANY_PREFIX,))
            catalogue = replace(catalogue, metrics=catalogue.metrics.model_copy(update={"prefixes": (_ANY_PREFIX,)}))
        return _Written(catalogue, options, recorded, matchers)

    # --- engines ---------------------------------------------------------------------------------

    def available(self, signal: str) -> bool:
        """Whether a signal exists in the chosen releases."""
        return self._recorder.available(signal)

    def signal(self, name: str) -> str:
        """A signal, one series for each chosen engine; its name must be ``available``."""
        recorder = self._recorder
        series = names.recorded(name, self._catalogue.signals[name].unit)
        return recorder.selected(series) if recorder.is_recorded(series) else self._spelled(recorder.text(name))

    def engines(self) -> str:
        """1 for each chosen engine that had series within the last hour."""
        return self._spelled(names.ENGINE)

    def most_in_range(self, family: str) -> str:
        """The most that a gauge has shown within the range of the dashboard."""
        texts = [f"max_over_time({one}[$__range])" for one in self._recorder.of_family(family)]
        spec = self._catalogue.metrics.families[family]
        gone = ", ".join([*spec.labels, PROCESS_LABEL, *COPY_LABELS])
        return self._spelled(f"max without ({gone}) ({' or '.join(texts)})")

    def servers(self, family: str) -> str:
        """Series of a server-wide family, as they are; empty where no chosen release has it."""
        return self._spelled(" or ".join(self._recorder.of_family(family)))

    def variable(self, label: str, chosen: Iterable[str] = ()) -> str:
        """Values of a label of the engines; ``chosen`` are the variables that come before it."""
        (name,) = self._everywhere.running_names()
        matchers = [*(f'{one}=~"${one}"' for one in chosen), *(str(one) for one in self._unchosen)]
        selector = f"{name}{{{', '.join(matchers)}}}" if matchers else name
        return f"label_values({self._spelled(selector)}, {label})"

    def _spelled(self, text: str) -> str:
        """Put in what has no series of its own: the engines, and the names under any prefix."""
        if names.ENGINE in text:
            recorder = self._recorder
            known = recorder.selected(names.ENGINE) if recorder.is_recorded(names.ENGINE) else recorder.engines()
            text = text.replace(names.ENGINE, known)
        prefixes = f"({'|'.join(self._prefixes)})"
        return _NAME.sub(
            lambda found: f'{{__name__=~"{prefixes}{found[1]}"' + (", " if found[2] else "}"),
            text,
        )

    # --- what happened ---------------------------------------------------------------------------

    def started(self) -> str:
        """When each server process began, in milliseconds; empty where nothing shows it."""
        join = ", ".join(names.SERVER_JOIN)
        servers = self.servers(START)
        return f"1000 * max by ({join}) ({servers})\nand on ({join}) {self.engines()}" if servers else ""

    def counters_reset(self) -> str:
        """Engines whose counters began anew although their server process did not: it restarts them by itself."""
        leaf = self._recorder.of_leaf(Leaf("resets", TOKENS, _CHANGE_S))
        began = " or ".join(f"changes({one}[{_CHANGE_S * 2:g}s])" for one in self._recorder.of_family(START))
        text = f"({leaf}) > 0"
        return self._spelled(text + (f"\nunless on ({', '.join(names.SERVER_JOIN)}) ({began}) > 0" if began else ""))

    def settings_changed(self) -> str:
        """Servers that show settings which they did not show in the hour before: those that a flag sets."""
        labels = [fact.label for fact in self._catalogue.facts.values() if fact.label and fact.flag]
        by = ", ".join([*names.SERVER_JOIN, *dict.fromkeys(labels)])
        info = self._recorder.of_family(INFO)
        now = " or ".join(info)
        before = " or ".join(f"last_over_time({one}[{_LAST_HOUR}] offset {_CHANGE_S:g}s)" for one in info)
        join = ", ".join(names.SERVER_JOIN)
        return self._spelled(
            f"group by ({by}) ({now})\nunless group by ({by}) ({before})\nand on ({join}) group by ({join}) ({before})"
        )

    def settings(self) -> tuple[str, dict[str, str]]:
        """Settings that servers show: the query, and the labels that have them with what they mean."""
        shown = {fact.label: fact.title for fact in self._catalogue.facts.values() if fact.label}
        by = ", ".join([*names.SERVER_JOIN, "engine", *shown])
        info = self.servers(INFO)
        return (f"group by ({by}) ({info})" if info else ""), shown

    # --- palanca's findings ----------------------------------------------------------------------

    def findings(self, *matchers: str) -> str:
        """Findings at the chosen engines, once each however many replicas of palanca there are.

        A Prometheus that scrapes palanca renames labels of engines that are its own too (``exported_job``), unless the
        scrape honours labels; both are read.
        """
        clashing = [label for label in names.SERVER_JOIN if label in VARIABLES]
        others = [f'{label}=~"${label}"' for label in VARIABLES if label not in clashing] + list(matchers)
        renamed = [f'exported_{label}=~"${label}"' for label in clashing] + ['exported_instance!=""', *others]
        honoured = [f'{label}=~"${label}"' for label in clashing] + ['exported_instance=""', *others]
        text = f"{FINDING}{{{', '.join(renamed)}}} or {FINDING}{{{', '.join(honoured)}}}"
        for label in names.SERVER_JOIN:
            text = f'label_replace({text}, "{label}", "$1", "exported_{label}", "(.+)")'
        # The namespace may be that of the replica of palanca, where engines have none.
        kept = [label for label in names.IDENTITY if label != "namespace"]
        return f"max by ({', '.join([*FINDING_LABELS, *kept])}) ({text})"

    def roots(self) -> str:
        """Findings that fire and that nothing else explains: those to act on."""
        return self.findings('state="firing"', 'role="root"')
