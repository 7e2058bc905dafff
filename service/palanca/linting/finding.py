"""What checks say, and what they know beside the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from palanca.linting.parser import parse
from palanca.linting.rule import LintRule, RuleSource, Where
from palanca.linting.tokens import PromQLSyntaxError
from palanca.linting.tree import Selector
from palanca.linting.vocabulary import Vocabulary

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The worst first. error: the rule cannot do what it says; warning: it does so wrongly at times; info: worth a look."""


@dataclass(frozen=True)
class Edit:
    """Characters ``start`` to ``end`` of an expression become ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Remark:
    """What a check says of a rule.

    ``at`` is the character of the expression that it is about; ``place`` is given instead where it is about something
    else. ``edits`` mend the expression. ``severity`` replaces that of the check; ``instead`` makes the whole text to
    write out of the mended expression.
    """

    message: str
    mend: str
    at: int = 0
    edits: tuple[Edit, ...] = ()
    severity: Severity | None = None
    place: tuple[int, int] | None = None
    instead: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Live:
    """What a Prometheus has: full metric names with the bounds (``le``) of those that have some, and dead selectors.

    ``asked`` are the selectors that were looked for, as ``selector_text`` writes them; ``dead`` found no series.
    """

    names: Mapping[str, frozenset[str]]
    asked: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Context:
    """What checks know beside the rule. ``interval_s`` is the time between scrapes in seconds."""

    vocabulary: Vocabulary
    interval_s: float
    rules: Sequence[LintRule] = ()
    recorded: frozenset[str] = field(default_factory=frozenset)
    live: Live | None = None
    known_checks: tuple[str, ...] = ()

    def lives(self, full: str) -> bool:
        """Whether a name is known to be there: the Prometheus has it, or a rule records it."""
        return full in self.recorded or (self.live is not None and full in self.live.names)


@dataclass(frozen=True)
class Check:
    """One check: ``examine`` gives what it has to say of a rule."""

    id: str
    severity: Severity
    title: str
    examine: Callable[[LintRule, Context], Iterator[Remark]]


@dataclass(frozen=True)
class FileCheck:
    """One check of a file as a whole."""

    id: str
    severity: Severity
    title: str
    examine: Callable[[RuleSource, Context], Iterator[Remark]]


@dataclass(frozen=True)
class Finding:
    """One finding with its place; ``corrected`` is the whole expression, mended as far as this finding goes."""

    check: str
    severity: Severity
    path: str
    line: int
    column: int
    where: Where
    group: str
    rule: str
    kind: str
    message: str
    mend: str
    corrected: str | None


def edited(text: str, edits: Iterable[Edit]) -> str | None:
    """Apply edits; None where the result is no PromQL, or nothing is to be done. Of two that overlap one is made."""
    made, before = text.rstrip(), len(text) + 1
    for edit in sorted(set(edits), key=lambda one: (one.start, one.end), reverse=True):
        if edit.end <= before:
            made, before = made[: edit.start] + edit.text + made[edit.end :], edit.start
    if made == text.rstrip():
        return None
    try:
        parse(made)
    except (PromQLSyntaxError, RecursionError):
        return None
    return made


def selector_text(rule: LintRule, selector: Selector) -> str:
    """Name and matchers of a selector as they are written, without range and offset."""
    return rule.text[selector.start : selector.core]
