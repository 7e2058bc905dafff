"""The diagnosis for people at a terminal: the worst problem and its lever first, then the rest in short.

Nothing is wider than the terminal, and nothing from a label reaches it unescaped (see ``words.printable``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from palanca.model import Catalogue, Diagnosis, Recommendation, State, Target, TargetReport
from palanca.quantities import moment, number_range
from palanca.render.gaps import core_gaps, group_unjudged, source_trouble
from palanca.render.groups import (
    KEY_NUMBERS,
    STATUS_ORDER,
    Group,
    cell,
    change,
    details,
    evidence_rows,
    group_findings,
    held,
    other_values,
    silenced,
    worst_first,
)
from palanca.render.words import (
    ELLIPSIS,
    cells,
    clip,
    fit,
    group_name,
    listing,
    plural,
    printable,
    signal_title,
    some_engines,
    target_names,
    without_credentials,
)

MINIMUM_WIDTH = 40
TARGETS_SHOWN = 30
GAPS_SHOWN = 8
WARNINGS_SHOWN = 5
LONGEST_TEXT = 1200
"""Characters of a label or message that are shown at most."""

COLUMNS = (("running", "running"), ("waiting", "waiting"), ("kv_cache_usage", "KV"), ("ttft_p99", "TTFT p99"),
           ("itl_p99", "ITL p99"))  # fmt: skip
"""Signals of the table of engines with their headings; from the right they give way on narrow terminals."""

_WORD = re.compile(r" *[^ ]+(?:(?<=\d) (?:s|ms|min|h|d)\b[^ ]*)*")
"""A word with the spaces before it; a number keeps its unit."""
_STYLES = {
    "critical": "1;31", "warning": "1;33", "unknown": "1;35", "info": "36", "idle": "36", "ok": "1;32",
    "heading": "1", "change": "1;36",
}  # fmt: skip


class Page:
    """Lines of a report, wrapped to a width; the first words of a paragraph can bear a style."""

    def __init__(self, width: int, *, color: bool) -> None:
        self.width = max(width, MINIMUM_WIDTH)
        self.color = color
        self.lines: list[str] = []

    def blank(self) -> None:
        """Add an empty line."""
        self.lines.append("")

    def heading(self, text: str) -> None:
        """Add an empty line and a heading."""
        self.blank()
        self.add("", lead=text, style="heading")

    def add(self, text: str, *, lead: str = "", style: str = "", indent: int = 0, hang: int = 0) -> None:
        """Add a paragraph: ``lead`` styled, then ``text``; later lines are indented by ``hang`` more columns."""
        whole = f"{lead} {text}".strip() if lead else text
        for index, line in enumerate(wrap(_shorten(whole), self.width - indent, hang)):
            painted = self._paint(line, lead.rstrip(), style) if index == 0 else line
            self.lines.append((" " * indent + painted).rstrip())

    def pair(self, label: str, text: str, *, indent: int = 2, column: int = 12) -> None:
        """Add a label and a text beside it."""
        self.add(f"{label:<{column}}{text}", indent=indent, hang=column)

    def _paint(self, line: str, lead: str, style: str) -> str:
        code = _STYLES.get(style) if self.color else None
        if not code or not lead:
            return line
        size = len(lead) if line.startswith(lead) else len(line)
        return f"\x1b[{code}m{line[:size]}\x1b[0m{line[size:]}"

    def text(self) -> str:
        """The whole report, ending with a newline."""
        return "\n".join(self.lines).strip("\n") + "\n"


def wrap(text: str, width: int, hang: int = 0) -> list[str]:
    """Break a text at spaces, and words that are too long anywhere; runs of spaces inside a line stay."""
    hang = min(hang, width // 2)
    lines: list[str] = []
    line, room = "", width
    for word in _WORD.findall(text):
        if cells(line + word) <= room:
            line += word
            continue
        if line:
            lines.append(line)
            room = width - hang
        line = word.lstrip(" ")
        while cells(line) > room:
            head = fit(line, room)
            lines.append(head)
            line, room = line[len(head) :], width - hang
    lines.append(line)
    return [lines[0], *(" " * hang + later for later in lines[1:])]


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + ELLIPSIS


def render(diagnosis: Diagnosis, *, width: int, color: bool, catalogue: Catalogue | None = None) -> str:
    """Write a diagnosis for people.

    The catalogue gives the titles of signals; without it they go by their names.
    """
    page = Page(width, color=color)
    names = target_names([report.target for report in diagnosis.targets])
    groups = group_findings(diagnosis)
    problem = next((group for group in groups[:1] if group.headline), None)
    _header(page, diagnosis)
    if problem:
        _problem(page, problem, diagnosis, names, catalogue)
    elif diagnosis.targets:
        _calm(page, diagnosis, names, catalogue)
    elif diagnosis.source.state != "unreachable":
        page.blank()
        page.add("The source answers, but has no series of a vLLM engine.", lead="No engine found.", style="unknown")
    _others(page, groups, diagnosis, names, catalogue)
    if problem:
        _silent(page, diagnosis, names, catalogue)
    _table(page, diagnosis, names)
    _gaps(page, diagnosis, names)
    _warnings(page, diagnosis)
    return page.text()


# --- the parts of the page -----------------------------------------------------------------------


def _header(page: Page, diagnosis: Diagnosis) -> None:
    counts = Counter(report.status for report in diagnosis.targets)
    total = plural(len(diagnosis.targets), "engine")
    by_status = ", ".join(f"{counts[status]} {status}" for status in STATUS_ORDER if counts[status])
    page.add(f"{moment(diagnosis.time)}, {total}" + (f": {by_status}" if by_status else ""), hang=2)
    versions = dict.fromkeys(
        f"vLLM {report.version.text} ({report.version.provenance})" for report in diagnosis.targets if report.version
    )
    source = diagnosis.source
    where = clip(printable(without_credentials(source.url)), page.width - 12)
    parts = [f"source {printable(source.name)} {where}".rstrip()]
    parts += [listing([printable(version) for version in versions])] if versions else []
    page.add(", ".join(parts), hang=2)
    _source_state(page, diagnosis)


def _source_state(page: Page, diagnosis: Diagnosis) -> None:
    lead, text = source_trouble(diagnosis.source)
    if lead:
        page.blank()
        page.add(text, lead=lead, style="critical" if diagnosis.source.state == "unreachable" else "warning")


def _where(group: Group, diagnosis: Diagnosis, names: Mapping[Target, str]) -> str:
    engines = [clip(names[target], 70) for target in group.targets]
    total = len(diagnosis.targets)
    if total == 1:
        text = engines[0]
    elif len(engines) == total:
        text = f"all {total} engines: {listing(engines)}"
    else:
        text = f"{len(engines)} of {total} engines: {listing(engines)}"
    labels = group.first.group
    return f"{text} (within {clip(group_name(labels), 70)})" if labels else text


def _problem(
    page: Page, group: Group, diagnosis: Diagnosis, names: Mapping[Target, str], catalogue: Catalogue | None
) -> None:
    finding = group.first
    page.blank()
    tag = finding.severity.upper() + (" (pending)" if finding.state == "pending" else "")
    page.add(printable(finding.title), lead=f"{tag}:", style=finding.severity, hang=2)
    page.pair("Where", _where(group, diagnosis, names))
    job = dict.fromkeys(printable(target.get("job")) for target in group.targets if target.get("job"))
    if job:
        page.pair("Job", listing([clip(name, 60) for name in job]))
    page.pair("When", held(group, diagnosis.time))
    page.pair("Cause", f"{printable(finding.cause)}, confidence {group.confidence}")
    mute = silenced(group, diagnosis.time)
    if mute:
        page.pair("Alert", mute)
    if finding.summary and len(group.members) == 1:
        page.add(printable(finding.summary), indent=2)
    rows = evidence_rows(group, catalogue)
    if rows:
        page.heading("Evidence")
        _evidence(page, [(row.title, row.value, row.threshold, row.note) for row in rows])
    _advice(page, group, names, catalogue)
    page.blank()
    page.add(f"More: palanca rules show {printable(finding.rule)}", indent=2)


def _evidence(page: Page, rows: Sequence[tuple[str, str, str, str]]) -> None:
    titles = max(cells(title) for title, *_ in rows)
    values = max(cells(value) for _, value, *_ in rows)
    for title, value, threshold, note in rows:
        line = title + " " * (titles - cells(title) + 2) + value + " " * (values - cells(value) + 2) + threshold
        if cells(line) + 2 > page.width:
            line = f"{title}: {value} {threshold}"
        whole = f"{line}  ({note})" if note else line
        page.add(whole if cells(whole) + 2 <= page.width else line, indent=2, hang=2)


def _advice(page: Page, group: Group, names: Mapping[Target, str], catalogue: Catalogue | None) -> None:
    if not group.recommendations:
        return
    first, *alternatives = group.recommendations
    page.heading("Change this first" if alternatives else "Change this")
    page.add("", lead=change(first), style="change", indent=2, hang=2)
    elsewhere = other_values(group, names)
    if elsewhere:
        page.pair("Elsewhere", elsewhere, indent=4, column=11)
    for label, text in details(first, catalogue):
        page.pair(label, text, indent=4, column=11)
    if alternatives:
        page.heading("Or, one at a time")
        for alternative in alternatives:
            _alternative(page, alternative)


def _alternative(page: Page, recommendation: Recommendation) -> None:
    trade_off = f" {printable(recommendation.trade_off)}" if recommendation.trade_off else ""
    page.add(f"({recommendation.risk} risk){trade_off}", lead=change(recommendation), style="change", indent=2, hang=4)


def _others(
    page: Page,
    groups: Sequence[Group],
    diagnosis: Diagnosis,
    names: Mapping[Target, str],
    catalogue: Catalogue | None,
) -> None:
    """The findings after the worst problem, one paragraph each."""
    problem = groups[0] if groups and groups[0].headline else None
    groups = groups[1:] if problem else groups
    if not groups:
        return
    page.heading("Also found")
    for group in groups:
        finding = group.first
        rows = "; ".join(row.text for row in evidence_rows(group, catalogue))
        parts = [printable(finding.title)]
        parts += [f"explained by {', '.join(finding.explained_by)}"] if finding.role == "symptom" else []
        parts += [rows] if rows else []
        same = "the same engines" if problem and group.targets == problem.targets else ""
        parts += [same or _where(group, diagnosis, names)] if len(diagnosis.targets) > 1 else []
        if finding.role == "root":
            parts += [held(group, diagnosis.time)]
            parts += [f"change {change(group.recommendations[0])}"] if group.recommendations else []
        parts += [silenced(group, diagnosis.time)]
        page.add(
            "; ".join(filter(None, parts)), lead=f"{finding.severity:<8}", style=finding.severity, indent=2, hang=9
        )


def _calm(page: Page, diagnosis: Diagnosis, names: Mapping[Target, str], catalogue: Catalogue | None) -> None:
    """Say that nothing is wrong, with the numbers that show it, or why nothing can be said."""
    well = [report for report in diagnosis.targets if report.status == "ok"]
    if well:
        page.blank()
        some = f"{len(well)} of {len(diagnosis.targets)} engines" if len(diagnosis.targets) > 1 else ""
        every = f"all {len(well)} engines" if len(well) == len(diagnosis.targets) else some
        where = every if some else clip(names[well[0].target], 70)
        page.add(f"Nothing to change on {where}.", lead="OK:", style="ok")
        rows = [(signal_title(name, catalogue), _range(well, name)) for name in KEY_NUMBERS]
        width = max(cells(title) for title, _ in rows) + 2
        for title, text in rows:
            if text:
                page.pair(title, text, column=min(width, page.width - 18))
    _silent(page, diagnosis, names, catalogue)


def _range(reports: Sequence[TargetReport], name: str) -> str:
    found = [report.signals[name] for report in reports if name in report.signals]
    values = [signal.value for signal in found if signal.value is not None and signal.state < State.ABSENT]
    if not values:
        return "no traffic" if any(signal.state is State.IDLE for signal in found) else ""
    bound = "at least " if any(signal.state is State.LOWER_BOUND for signal in found) else ""
    return bound + number_range(values, found[0].unit)


def _silent(page: Page, diagnosis: Diagnosis, names: Mapping[Target, str], catalogue: Catalogue | None) -> None:
    """A sentence for engines that are idle, one for those that cannot be judged."""
    by_status: dict[str, list[TargetReport]] = {}
    for report in diagnosis.targets:
        by_status.setdefault(report.status, []).append(report)
    idle, unknown = by_status.get("idle", []), by_status.get("unknown", [])
    if unknown:
        page.blank()
        missing = dict.fromkeys(text for report in unknown for text in core_gaps(report, catalogue))
        lacks = f": {listing(list(missing), 4)}" if missing else ""
        page.add(
            f"{_engines(unknown, names)} cannot be judged, because a core signal is missing or old{lacks}. "
            "Unknown is not ok: see palanca doctor.",
            lead="UNKNOWN:",
            style="unknown",
        )
    if idle:
        page.blank()
        page.add(
            f"{_engines(idle, names)} had no traffic: no request ran, waited or finished in the window, or the engine "
            "sleeps, so there is nothing to judge.",
            lead="IDLE:",
            style="idle",
        )


def _engines(reports: Sequence[TargetReport], names: Mapping[Target, str]) -> str:
    return f"{plural(len(reports), 'engine')} ({listing([clip(names[report.target], 60) for report in reports])})"


def _table(page: Page, diagnosis: Diagnosis, names: Mapping[Target, str]) -> None:
    reports = worst_first(diagnosis)
    if len(reports) < 2:  # noqa: PLR2004
        return
    columns = COLUMNS[: max(0, min(len(COLUMNS), (page.width - 2 - 10 - 24) // 10))]
    shown = reports[:TARGETS_SHOWN]
    longest = max(cells(names[report.target]) for report in shown)
    room = min(longest, page.width - 2 - 10 - 10 * len(columns))
    page.heading("Engines")
    page.add(f"{'status':<10}{'engine':<{room}}" + "".join(f"{heading:>10}" for _, heading in columns), indent=2)
    for report in shown:
        name = clip(names[report.target], room)
        numbers = "".join(f"{cell(report, signal, bare=True):>10}" for signal, _ in columns)
        status = f"{report.status:<10}"
        page.add(name + " " * (room - cells(name)) + numbers, lead=status[:-1], style=report.status, indent=2)
    if len(reports) > len(shown):
        counts = Counter(report.status for report in reports[TARGETS_SHOWN:])
        rest = ", ".join(f"{counts[status]} {status}" for status in STATUS_ORDER if counts[status])
        page.add(f"and {len(reports) - len(shown)} more: {rest}", indent=2)


def _gaps(page: Page, diagnosis: Diagnosis, names: Mapping[Target, str]) -> None:
    groups = group_unjudged(diagnosis)
    if groups:
        page.heading("Not judged")
    for group in groups[:GAPS_SHOWN]:
        where = some_engines(group.targets, len(diagnosis.targets), names)
        where = f" on {where}" if where else ""
        page.add(f"{listing(list(group.rules), 4)}{where}: no {group.lacks}", indent=2, hang=2)
    if len(groups) > GAPS_SHOWN:
        page.add(f"and {plural(len(groups) - GAPS_SHOWN, 'more gap')}; --format json lists them all", indent=2)
    counts = sorted({len(report.not_applicable) for report in diagnosis.targets})
    if counts and counts[-1]:
        page.blank()
        span = plural(counts[-1], "rule") if len(counts) == 1 else f"{counts[0]}-{counts[-1]} rules per engine"
        page.add(f"Not applicable to this release or configuration: {span}.")


def _warnings(page: Page, diagnosis: Diagnosis) -> None:
    warnings = diagnosis.source.warnings
    if not warnings:
        return
    page.heading("Warnings of the source")
    for warning in warnings[:WARNINGS_SHOWN]:
        page.add(printable(without_credentials(warning)), indent=2, hang=2)
    if len(warnings) > WARNINGS_SHOWN:
        page.add(f"and {len(warnings) - WARNINGS_SHOWN} more", indent=2)
