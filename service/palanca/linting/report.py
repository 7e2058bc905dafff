"""Lints rules: every check over every rule, and what came out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from palanca.linting.finding import (
    SEVERITIES,
    Check,
    Context,
    FileCheck,
    Finding,
    Live,
    Remark,
    Severity,
    edited,
    selector_text,
)
from palanca.linting.rule import LintRule, RuleSource, Source, Words
from palanca.linting.table import ABOUT_VLLM, IDS, OF_FILES, SHAPE
from palanca.linting.tree import selectors
from palanca.linting.vocabulary import Vocabulary
from palanca.signals.identity import unprefixed

_ROUNDS = 4


@dataclass(frozen=True)
class Corrected:
    """A rule whose expression was mended by everything that could be computed."""

    path: str
    group: str
    rule: str
    expression: str


@dataclass(frozen=True)
class LintReport:
    """Findings by file and place. ``rules`` counts the rules, ``judged`` those that are about vLLM."""

    first_release: str
    last_release: str
    interval_s: float
    paths: tuple[str, ...]
    rules: int
    judged: int
    findings: tuple[Finding, ...]
    corrected: tuple[Corrected, ...]

    def count(self, severity: Severity) -> int:
        """Return how many findings have a severity."""
        return sum(one.severity == severity for one in self.findings)

    def worst(self) -> Severity | None:
        """Return the worst severity; None without findings."""
        return next((one for one in SEVERITIES if self.count(one)), None)


def lint(
    sources: Sequence[RuleSource], vocabulary: Vocabulary, *, interval_s: float = 15.0, live: Live | None = None
) -> LintReport:
    """Run every check. ``interval_s``: seconds between scrapes."""
    every = [rule for source in sources for rule in source.rules]
    about = _about_vllm(every, vocabulary)
    recorded = frozenset(rule.name for rule in every if rule.kind == "record")
    judged = [rule for rule in every if id(rule) in about]
    context = Context(vocabulary, interval_s, judged, recorded, live, IDS)
    findings: list[Finding] = []
    corrected: list[Corrected] = []
    for source in sources:
        findings += [
            _finding_of_file(source, check, one) for check in OF_FILES for one in check.examine(source, context)
        ]
        for rule in source.rules:
            checks = (*SHAPE, *ABOUT_VLLM) if id(rule) in about else SHAPE
            remarks = _remarks(rule, checks, context)
            whole = _mended(rule, checks, context)
            findings += [_finding(rule, check, remark, whole) for check, remark in remarks]
            if whole is not None:
                corrected.append(Corrected(rule.path, rule.group, rule.name, whole))
    order = {source.path: index for index, source in enumerate(sources)}
    findings.sort(
        key=lambda one: (order[one.path], one.where == "expression" and (one.group, one.rule), one.line, one.column)
    )
    return LintReport(
        str(vocabulary.releases[0]), str(vocabulary.releases[-1]), interval_s, tuple(order), len(every), len(judged),
        tuple(findings), tuple(corrected),
    )  # fmt: skip


def _remarks(rule: LintRule, checks: Iterable[Check], context: Context) -> list[tuple[Check, Remark]]:
    """Run checks; what is said twice of one rule is said once, with the edits of both."""
    made: dict[tuple[str, str], tuple[Check, Remark]] = {}
    for check in checks:
        for remark in check.examine(rule, context) if check.id not in rule.ignored else ():
            key = (check.id, remark.message)
            _, first = made.get(key, (check, replace(remark, edits=())))
            made[key] = (check, replace(first, edits=(*first.edits, *remark.edits)))
    return list(made.values())


def _mended(rule: LintRule, checks: Iterable[Check], context: Context) -> str | None:
    """Mend all errors of an expression; one that is mended may show another."""
    now = rule
    for _ in range(_ROUNDS):
        remarks = _remarks(now, checks, context)
        errors = [one for check, one in remarks if (one.severity or check.severity) == "error"]
        text = edited(now.text, [edit for remark in errors for edit in remark.edits])
        if text is None:
            break
        now = replace(now, expression=Words(text, Source(text), 0, len(text)))
    return None if now is rule else now.text


def _finding(rule: LintRule, check: Check, remark: Remark, whole: str | None) -> Finding:
    place = remark.place
    if place is None:
        place = rule.place if rule.expression is None else rule.expression.place(remark.at)
    corrected = edited(rule.text, remark.edits) if remark.instead is None else remark.instead(whole or rule.text)
    return Finding(
        check.id, remark.severity or check.severity, rule.path, *place, rule.where, rule.group, rule.name, rule.kind,
        remark.message, remark.mend, corrected,
    )  # fmt: skip


def _finding_of_file(source: RuleSource, check: FileCheck, remark: Remark) -> Finding:
    place = remark.place or (1, 1)
    return Finding(check.id, check.severity, source.path, *place, "file", "", "", "", remark.message, remark.mend, None)


# --- which rules -----------------------------------------------------------------------------------


def _about_vllm(rules: Sequence[LintRule], vocabulary: Vocabulary) -> set[int]:
    """``id`` of the rules that ask for vLLM's series, or for what such rules record."""
    asked = {id(rule): frozenset(_names(rule)) for rule in rules}
    about = {id(rule) for rule in rules if _is_direct(rule, vocabulary)}
    while True:
        recorded = {rule.name for rule in rules if rule.kind == "record" and id(rule) in about}
        more = {id(rule) for rule in rules if asked[id(rule)] & recorded} - about
        if not more:
            return about
        about |= more


def _names(rule: LintRule) -> Iterator[str]:
    if rule.tree is not None:
        yield from (one.name for one in selectors(rule.tree) if one.name is not None)


def _is_direct(rule: LintRule, vocabulary: Vocabulary) -> bool:
    if rule.tree is None:
        return False
    for selector in selectors(rule.tree):
        if selector.name is not None and unprefixed(selector.name, vocabulary.metrics) is not None:
            return True
        if any(one.entry.prefixed for one in vocabulary.metrics_of(selector)):
            return True
        if vocabulary.without_prefix(selector.name or "") is not None:
            return True
        if any("vllm" in matcher.value.lower() for matcher in selector.matchers):
            return True
    return False


def wanted_selectors(sources: Iterable[RuleSource], vocabulary: Vocabulary) -> tuple[str, ...]:
    """Selectors of the rules about vLLM, without doubles, which a Prometheus can be asked for."""
    rules = [rule for source in sources for rule in source.rules]
    about = _about_vllm(rules, vocabulary)
    texts = [
        selector_text(rule, selector)
        for rule in rules
        if id(rule) in about and rule.tree is not None
        for selector in selectors(rule.tree)
    ]
    return tuple(dict.fromkeys(texts))


def without(report: LintReport, below: Severity) -> LintReport:
    """Leave out the findings that are less bad than a severity."""
    kept = SEVERITIES[: SEVERITIES.index(below) + 1]
    return replace(report, findings=tuple(one for one in report.findings if one.severity in kept))
