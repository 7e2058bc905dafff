"""One engine as a page shows it: verdict, what binds it, evidence, the change to make, what it is not. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.advice.command_line import changed, switches, whole
from palanca.errors import UsageError
from palanca.model import State
from palanca.quantities import number
from palanca.render.gaps import STATE_WORDS, core_gaps, lacking
from palanca.render.groups import (
    PROVENANCE,
    Group,
    change,
    details,
    diff,
    evidence_rows,
    held,
    silenced,
)
from palanca.render.words import group_name, listing, plural, setting, signal_title
from palanca.web.bars import Bar, bars_of
from palanca.web.links import rule_link

if TYPE_CHECKING:
    from palanca.model import Catalogue, Diagnosis, Finding, Recommendation, TargetReport
    from palanca.render.groups import EvidenceRow


@dataclass(frozen=True)
class Change:
    """A recommended change: as a diff, in the whole command line where that is known, and all that is said of it."""

    text: str
    diff: tuple[tuple[str, str], ...]
    line: str | None
    note: str
    details: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FindingView:
    """A finding with its evidence."""

    severity: str
    state: str
    title: str
    summary: str
    when: str
    scope: str
    cause: str
    confidence: str
    rule: str
    href: str
    mute: str
    evidence: tuple[EvidenceRow, ...]
    queries: tuple[str, ...]
    change: Change | None
    alternatives: tuple[tuple[str, str, str], ...]
    explained: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A name with its value and a remark."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class EngineView:
    """Everything that the page shows of an engine, save what it asks a source or the history for."""

    status: str
    verdict: str
    sentence: str
    bars: tuple[Bar, ...]
    problems: tuple[FindingView, ...]
    others: tuple[FindingView, ...]
    unknown: tuple[tuple[str, str, str], ...]
    not_applicable: tuple[str, ...]
    labels: tuple[Cell, ...]
    release: str
    facts: tuple[Cell, ...]
    signals: tuple[Cell, ...]

    @property
    def advised(self) -> FindingView | None:
        """The first problem for which there is something to change."""
        return next((one for one in self.problems if one.change is not None), None)


def engine_view(
    diagnosis: Diagnosis, report: TargetReport, catalogue: Catalogue, serve_args: str | None = None
) -> EngineView:
    """Arrange the report of an engine. ``serve_args`` are the arguments it was started with, where they are known."""
    made = [_finding(report, one, diagnosis.time, catalogue, serve_args) for one in report.findings]
    problems = [view for view, one in zip(made, report.findings, strict=True) if one.problem]
    verdict, sentence = _verdict(report, catalogue, diagnosis.time)
    version = report.version
    return EngineView(
        status=report.status,
        verdict=verdict,
        sentence=sentence,
        bars=bars_of(report),
        problems=tuple(problems),
        others=tuple(view for view in made if view not in problems),
        unknown=tuple((one.rule, rule_link(one.rule), lacking(one.missing)) for one in report.unknown),
        not_applicable=report.not_applicable,
        labels=tuple(Cell(name, value) for name, value in report.target.labels),
        release="unknown" if version is None else f"{version.text} ({version.provenance})",
        facts=tuple(
            Cell(name, setting(fact.value), f"{PROVENANCE[fact.provenance]}: {fact.source}")
            for name, fact in sorted(report.facts.items())
        ),
        signals=tuple(
            Cell(signal_title(name, catalogue), number(one.value, one.unit), _state(one.state))
            for name, one in report.signals.items()
        ),
    )


def _verdict(report: TargetReport, catalogue: Catalogue, now: float) -> tuple[str, str]:
    """The verdict in a few words, and sentences of numbers or reasons, with what holds and is no problem."""
    worst = next((one for one in report.findings if one.problem), None)
    if worst is not None:
        return worst.title, worst.summary
    match report.status:
        case "unknown":
            gaps = core_gaps(report, catalogue)
            why = f"it lacks {listing(gaps)}" if gaps else "what is known of it is old"
            return "This engine cannot be judged", _sentences(f"Unknown is not ok: {why}", *_quiet(report, now))
        case "idle":
            why = "No request ran, waited or finished in the window, or the engine sleeps"
            return "No traffic", _sentences(why, *_quiet(report, now))
        case _:
            holding = _quiet(report, now) or ["No rule of the matrix holds"]
            gaps = [f"{plural(len(report.unknown), 'rule')} could not be judged"] if report.unknown else []
            return _nothing(report), _sentences(*holding, *gaps)


def _nothing(report: TargetReport) -> str:
    """That there is no problem, and no more than that."""
    if any(one.state == "pending" for one in report.findings):
        return "Nothing to change yet"
    return "Nothing has to change" if any(one.recommendations for one in report.findings) else "Nothing to change"


def _quiet(report: TargetReport, now: float) -> list[str]:
    """What holds and is no problem: what is pending, each since when, and what is for information."""
    pending = [one for one in report.findings if one.state == "pending"]
    others = [one.title for one in report.findings if one.state != "pending"]
    said = [f"{one.title}: {held(Group(((report, one),)), now)}" for one in pending]
    return [*said, *([f"For information: {listing(others)}"] if others else [])]


def _sentences(*texts: str) -> str:
    return " ".join(f"{text}." for text in texts)


def _finding(
    report: TargetReport, finding: Finding, now: float, catalogue: Catalogue, serve_args: str | None
) -> FindingView:
    group = Group(((report, finding),))
    first = next(iter(finding.recommendations), None)
    return FindingView(
        severity=finding.severity,
        state=finding.state,
        title=finding.title,
        summary=finding.summary,
        when=held(group, now),
        scope="" if finding.group is None else group_name(finding.group),
        cause=finding.cause,
        confidence=finding.confidence,
        rule=finding.rule,
        href=rule_link(finding.rule),
        mute=silenced(group, now),
        evidence=tuple(evidence_rows(group, catalogue)),
        queries=tuple(dict.fromkeys(one.promql for one in finding.evidence if one.promql)),
        change=None if first is None else _change(first, report, catalogue, serve_args),
        alternatives=tuple((change(one), one.risk, one.trade_off) for one in finding.recommendations[1:]),
        explained=finding.explained_by,
    )


def _change(
    recommendation: Recommendation, report: TargetReport, catalogue: Catalogue, serve_args: str | None
) -> Change:
    line, note = _line(recommendation, report, catalogue, serve_args)
    return Change(
        text=change(recommendation),
        diff=tuple(diff(recommendation)),
        line=line,
        note=note,
        details=tuple((label, text) for label, text in details(recommendation, catalogue) if label != "Set"),
    )


def _line(
    recommendation: Recommendation, report: TargetReport, catalogue: Catalogue, serve_args: str | None
) -> tuple[str | None, str]:
    """The whole command line with the change in it, and a remark; None with the reason where it cannot be had."""
    if recommendation.flag is None:
        return None, ""
    if recommendation.argument is None:
        return None, "Without a value there is no command line to copy."
    if serve_args is None:
        return None, (
            "The whole command line is not known: no metric shows how the engine was started. "
            "With targets[].serve_args in the settings it stands here, ready to copy."
        )
    try:
        line = changed(serve_args, recommendation.argument, switches(catalogue))
        if line is None:
            return None, "This flag holds more than is known here; change that part of it by hand."
        text, from_label = whole(line, report.target.get("model_name"))
    except UsageError as error:
        return None, f"The given arguments cannot be read: {error}"
    return text, "The model is that of the label model_name: put in what you serve." if from_label else ""


def _state(state: State) -> str:
    return "" if state is State.OK else STATE_WORDS[state]
