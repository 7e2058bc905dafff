"""The rules as pages show them: thresholds in force, expressions, verdicts, runbook. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup

from palanca import expressions
from palanca.api.rules import runbook, standings
from palanca.model import Diagnosis
from palanca.moments import duration
from palanca.quantities import number
from palanca.render.gaps import lacking
from palanca.render.notice import NAME_WIDTH
from palanca.render.words import clip, signal_title, target_names
from palanca.signals.promql import PromQL
from palanca.web.asked import searched
from palanca.web.links import engine_link, rule_link

if TYPE_CHECKING:
    from palanca.model import Catalogue, Rule
    from palanca.settings.targets import Knowledge
    from palanca.web.asked import AskedRules

STANDINGS = ("firing", "pending", "unknown", "not_applicable")
ENGINES_SHOWN = 50


@dataclass(frozen=True)
class RuleRow:
    """One rule in short; ``standing`` says at how many engines it stands how."""

    id: str
    href: str
    title: str
    area: str
    cause: str
    severity: str
    when: str
    lasts: str
    thresholds: tuple[tuple[str, str], ...]
    standing: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class ThresholdRow:
    """A threshold, and where the settings replace it."""

    name: str
    value: str
    source: str
    others: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class EngineVerdict:
    """How the rule stands at an engine."""

    standing: str
    name: str
    href: str
    words: str


@dataclass(frozen=True)
class RuleView:
    """One rule as a whole."""

    row: RuleRow
    scope: str
    thresholds: tuple[ThresholdRow, ...]
    signals: tuple[tuple[str, str, str], ...]
    supports: tuple[str, ...]
    contradicts: tuple[str, ...]
    explains: tuple[tuple[str, str], ...]
    levers: tuple[tuple[str, str, str], ...]
    references: tuple[str, ...]
    runbook: Markup | None
    verdicts: tuple[EngineVerdict, ...]
    more: int


def rule_rows(diagnosis: Diagnosis, catalogue: Catalogue, wanted: AskedRules) -> tuple[RuleRow, ...]:
    """Return the rules that fit, those that fire first."""
    standing = standings(diagnosis)
    rows = []
    for rule in catalogue.rules:
        fits = (not wanted.area or rule.area in wanted.area) and (
            not wanted.severity or rule.severity in wanted.severity
        )
        if fits and searched(wanted.q, f"{rule.id} {rule.title} {rule.cause} {rule.when}"):
            rows.append(_row(rule, diagnosis, standing.get(rule.id, Counter())))
    return tuple(sorted(rows, key=lambda row: (-dict(row.standing)["firing"], row.area, row.id)))


def _row(rule: Rule, diagnosis: Diagnosis, counts: Counter[str]) -> RuleRow:
    quiet = len(diagnosis.targets) - counts.total()
    return RuleRow(
        id=rule.id,
        href=rule_link(rule.id),
        title=rule.title,
        area=rule.area,
        cause=rule.cause or "symptom",
        severity=rule.severity,
        when=" ".join(rule.when.split()),
        lasts=duration(rule.for_),
        thresholds=tuple((name, number(one.value, one.unit)) for name, one in rule.thresholds.items()),
        standing=(*((name, counts[name]) for name in STANDINGS), ("quiet", quiet)),
    )


def rule_view(rule: Rule, diagnosis: Diagnosis, catalogue: Catalogue, known: Knowledge) -> RuleView:
    """Arrange one rule, with how it stands at each engine."""
    verdicts = _verdicts(rule, diagnosis)
    promql = PromQL(catalogue)
    used = [name for name in expressions.names(expressions.parse(rule.when)) if name in catalogue.signals]
    ids = {one.id for one in catalogue.rules}
    return RuleView(
        row=_row(rule, diagnosis, standings(diagnosis).get(rule.id, Counter())),
        scope=rule.scope,
        thresholds=tuple(
            ThresholdRow(name, number(one.value, one.unit), one.source, _others(rule, name, one.unit, known))
            for name, one in rule.thresholds.items()
        ),
        signals=tuple((name, signal_title(name, catalogue), promql.signal(name)) for name in used),
        supports=rule.supports,
        contradicts=rule.contradicts,
        explains=tuple((one, rule_link(one)) for one in rule.explains if one in ids),
        levers=tuple((one.lever, one.direction, one.why) for one in rule.levers),
        references=rule.references,
        runbook=_runbook(rule.id),
        verdicts=tuple(verdicts[:ENGINES_SHOWN]),
        more=max(len(verdicts) - ENGINES_SHOWN, 0),
    )


def _others(rule: Rule, threshold: str, unit: str, known: Knowledge) -> tuple[tuple[str, str], ...]:
    """Where the settings say another value: labels, and the value."""
    return tuple(
        (", ".join(f"{name}={value}" for name, value in one.match.items()) or "all engines",
         number(one.rules[rule.id][threshold], unit))
        for one in known.overrides if threshold in one.rules.get(rule.id, {})
    )  # fmt: skip


def _verdicts(rule: Rule, diagnosis: Diagnosis) -> list[EngineVerdict]:
    """How the rule stands where it is not quiet, what fires first."""
    names = target_names([report.target for report in diagnosis.targets])
    made = []
    for report in diagnosis.targets:
        name, href = clip(names[report.target], NAME_WIDTH), engine_link(report.target, None)
        made += [EngineVerdict(one.state, name, href, one.summary) for one in report.findings if one.rule == rule.id]
        for one in report.unknown:
            if one.rule == rule.id:
                made.append(EngineVerdict("unknown", name, href, f"lacks {lacking(one.missing)}"))
    return sorted(made, key=lambda one: STANDINGS.index(one.standing))


@cache
def _runbook(rule_id: str) -> Markup | None:
    """The runbook as HTML; HTML in it is shown as text."""
    text = runbook(rule_id)
    if text is None:
        return None
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = text.partition("\n")[2]  # the title is that of the page
    tokens = reader.parse(body)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(int(token.tag[1:]) + 1, 6)}"
    return Markup(reader.renderer.render(tokens, reader.options, {}))  # noqa: S704  made of files that ship, escaped
