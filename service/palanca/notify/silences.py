"""Silences of Alertmanager: what they mute, and which findings that are. Pure; the clock is an argument."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from palanca.alerting import names
from palanca.model import Diagnosis, Silenced
from palanca.notify.labels import PUSHED_PREFIX, alert_labels, speaks_of

if TYPE_CHECKING:
    from palanca.model import Finding, Rule, Target, TargetReport

LONGEST_PATTERN, LONGEST_VALUE, MOST_REPEATS, MOST_GROUPS = 1000, 200, 3, 3
"""Beyond these a regular expression is not tried: Python's can take for ever, and all else would wait for it."""
_REPEAT = re.compile(r"(?<!\\)(?:\\\\)*(?:[*+?]|\{\d+,\d*\})")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_NOT_PYTHON = re.compile(r"\[\[:|\\[pPQCzx]|\(\?")
_FOLDED = re.compile(r"^\(\?i\)")


@dataclass(frozen=True)
class Matcher:
    """One matcher of a silence: the label ``name`` is, or is not, equal to ``value`` or matched by it as a whole."""

    name: str
    value: str
    regex: bool = False
    equal: bool = True

    def matches(self, labels: Mapping[str, str]) -> bool | None:
        """Whether labels fit; one that is missing is empty. None where palanca cannot tell."""
        value = labels.get(self.name, "")
        found = _fits(self.value, value) if self.regex else value == self.value
        return None if found is None else found is self.equal


@lru_cache(maxsize=4096)
def _fits(pattern: str, value: str) -> bool | None:
    compiled = _compiled(pattern)
    if compiled is None or len(value) > LONGEST_VALUE:
        return None
    return compiled.fullmatch(value) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The expression, where Python means the same by it as RE2 and surely is quick; else None."""
    folded = _FOLDED.match(pattern)
    plain = pattern[folded.end() :] if folded else pattern
    branches = [plain] if "(" in plain else plain.split("|")
    repeats = max(len(_REPEAT.findall(branch)) for branch in branches)
    if len(plain) > LONGEST_PATTERN or repeats > MOST_REPEATS or plain.count("(") > MOST_GROUPS:
        return None
    if _REPEATED_GROUP.search(plain) or _NOT_PYTHON.search(plain):
        return None
    try:
        return re.compile(plain, re.DOTALL | (re.IGNORECASE if folded else 0))
    except (re.error, OverflowError, RecursionError):
        return None


@dataclass(frozen=True)
class Silence:
    """One silence, from ``starts`` to ``ends`` in unix seconds."""

    id: str
    starts: float
    ends: float
    matchers: tuple[Matcher, ...]

    def mutes(self, labels: Mapping[str, str], now: float) -> bool:
        """Whether it surely mutes an alert with these labels at ``now``."""
        if not self.matchers or not self.starts <= now < self.ends:
            return False
        return all(matcher.matches(labels) is True for matcher in self.matchers)


@dataclass(frozen=True)
class MutedAlert:
    """An alert that Alertmanager itself says is silenced, and by which silences."""

    labels: Mapping[str, str]
    by: tuple[str, ...]


@dataclass(frozen=True)
class Muting:
    """What was read: silences that are in force, and alerts that are silenced. Several Alertmanagers together."""

    silences: tuple[Silence, ...] = ()
    alerts: tuple[MutedAlert, ...] = ()

    @classmethod
    def together(cls, parts: Iterable[Muting]) -> Muting:
        """Everything that any of them says; those of a cluster say the same."""
        silences: dict[str, Silence] = {}
        alerts: dict[tuple[tuple[str, str], ...], MutedAlert] = {}
        for part in parts:
            silences |= {one.id: one for one in part.silences}
            alerts |= {tuple(sorted(one.labels.items())): one for one in part.alerts}
        return cls(tuple(silences.values()), tuple(alerts.values()))


class Marker:
    """Marks the findings whose alerts are silenced.

    ``rules`` are those in force, ``pushed`` the ids of rules whose alerts palanca pushes itself.
    """

    def __init__(self, rules: Sequence[Rule], pushed: Collection[str], muting: Muting, now: float) -> None:
        self._rules, self._pushed, self._now = {rule.id: rule for rule in rules}, pushed, now
        self._silences = [one for one in muting.silences if one.starts <= now < one.ends]
        self._ends = {one.id: one.ends for one in self._silences}
        self._alerts: dict[str, list[MutedAlert]] = {}
        for alert in muting.alerts:
            self._alerts.setdefault(alert.labels.get(names.RULE, ""), []).append(alert)

    def marked(self, diagnosis: Diagnosis) -> Diagnosis:
        """Return the diagnosis with ``silenced`` at its findings; itself where no silence is in force."""
        if not self._silences:
            return diagnosis
        return replace(diagnosis, targets=tuple(self._report(report) for report in diagnosis.targets))

    def _report(self, report: TargetReport) -> TargetReport:
        found = [(finding, self._silenced(finding, report.target)) for finding in report.findings]
        if not any(silenced for _, silenced in found):
            return report
        return replace(report, findings=tuple(replace(finding, silenced=silenced) for finding, silenced in found))

    def _silenced(self, finding: Finding, target: Target) -> Silenced | None:
        rule = self._rules.get(finding.rule)
        if rule is None:
            return None
        by = {name for one in self._alerts.get(rule.id, ()) if speaks_of(one.labels, target) for name in one.by}
        by &= self._ends.keys()
        prefix = PUSHED_PREFIX if rule.id in self._pushed else names.PREFIX
        labels = alert_labels(rule, finding, target, prefix)
        by |= {one.id for one in self._silences if one.mutes(labels, self._now)}
        return Silenced(tuple(sorted(by)), max(self._ends[name] for name in by)) if by else None
