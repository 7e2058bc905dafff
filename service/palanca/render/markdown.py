"""The diagnosis as Markdown for tickets: one section per problem, the change as a diff.

Names of engines and other text from outside stand in code spans or are escaped, so that a label can neither break a
table nor mention a person nor bring HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from palanca.model import Catalogue, Diagnosis, Recommendation, Target
from palanca.quantities import moment, time_span
from palanca.render.gaps import group_unjudged
from palanca.render.groups import (
    Group,
    cell,
    change,
    details,
    diff,
    evidence_rows,
    group_findings,
    held,
    other_values,
    silenced,
    worst_first,
)
from palanca.render.words import (
    clip,
    group_name,
    listing,
    plural,
    printable,
    some_engines,
    target_names,
    without_credentials,
)

NAME_WIDTH = 80
TARGETS_SHOWN = 100
COLUMNS = (("running", "Running"), ("waiting", "Waiting"), ("kv_cache_usage", "KV"), ("ttft_p99", "TTFT p99"),
           ("itl_p99", "ITL p99"))  # fmt: skip

_SPECIAL = re.compile(r"[\\`*\[\]{}|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITIES = re.compile(r"&(?=[#\w])|<(?=[A-Za-z/!?])|@(?=\w)")
_START = re.compile(r"^(\d*)([#>+=.)-])")


def escape(text: str) -> str:
    """Make a text plain in Markdown: no emphasis, link, HTML, mention, table cell or new line comes of it."""
    safe = _SPECIAL.sub(r"\\\g<0>", printable(text))
    return _ENTITIES.sub(lambda found: f"&#{ord(found[0])};", safe)


def paragraph(text: str) -> str:
    """Escape a text that begins a line: neither does a heading, list or quotation come of it."""
    return _START.sub(r"\1\\\2", escape(text).strip())


def code(text: str) -> str:
    """Put a text into a code span."""
    plain = clip(printable(text), NAME_WIDTH).strip() or "-"
    fence = _fence(plain, 1)
    padding = " " if "`" in plain else ""
    return f"{fence}{padding}{plain}{padding}{fence}"


def block(lines: Sequence[str], language: str = "") -> list[str]:
    """Put lines into a code block that none of them can end."""
    plain = [printable(line) for line in lines]
    fence = _fence("\n".join(plain), 3)
    return [f"{fence}{language}", *plain, fence, ""]


def _fence(text: str, least: int) -> str:
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Write a table of cells that are escaped already, or code spans."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines] + [""]


def render(diagnosis: Diagnosis, catalogue: Catalogue | None = None) -> str:
    """Write a diagnosis as Markdown.

    The catalogue gives the titles of signals; without it they go by their names.
    """
    names = target_names([report.target for report in diagnosis.targets])
    groups = group_findings(diagnosis)
    problems = [group for group in groups if group.headline]
    lines = _head(diagnosis, problems)
    for group in problems:
        lines += _problem(group, diagnosis, names, catalogue)
    lines += _others([group for group in groups if not group.headline], diagnosis, names, catalogue)
    lines += _engines(diagnosis, names)
    lines += _gaps(diagnosis, names)
    if diagnosis.source.warnings:
        lines += ["## Warnings of the source", ""]
        lines += [f"- {paragraph(without_credentials(warning))}" for warning in diagnosis.source.warnings] + [""]
    return "\n".join(lines).rstrip() + "\n"


# --- the parts of the page -----------------------------------------------------------------------


def _head(diagnosis: Diagnosis, problems: Sequence[Group]) -> list[str]:
    source = diagnosis.source
    where = code(without_credentials(source.url)) if source.url else ""
    lines = [f"# {_title(diagnosis, problems)}", ""]
    lines += [f"{moment(diagnosis.time)}, source {escape(source.name)} {where}".rstrip(), ""]
    if source.state != "ok":
        age = f" The newest sample is {time_span(source.age_s)} old." if source.age_s is not None else ""
        error = f" {escape(without_credentials(source.error))}" if source.error else ""
        lines += [f"**The source is {source.state}.**{error}{age} What is missing is unknown, not ok.", ""]
    return lines


def _title(diagnosis: Diagnosis, problems: Sequence[Group]) -> str:
    if problems:
        return f"vLLM: {escape(problems[0].first.title)}"
    statuses = {report.status for report in diagnosis.targets}
    if diagnosis.source.state == "unreachable":
        return "vLLM: the source is unreachable"
    if not statuses:
        return "vLLM: no engine found"
    if "unknown" in statuses:
        return "vLLM: some engines cannot be judged"
    return "vLLM: no traffic" if statuses == {"idle"} else "vLLM: nothing to change"


def _where(group: Group, diagnosis: Diagnosis, names: Mapping[Target, str]) -> str:
    total = len(diagnosis.targets)
    engines = listing([code(names[target]) for target in group.targets])
    text = engines if total == 1 else f"{len(group.targets)} of {total} engines: {engines}"
    labels = group.first.group
    return f"{text} (within {code(group_name(labels))})" if labels else text


def _problem(group: Group, diagnosis: Diagnosis, names: Mapping[Target, str], catalogue: Catalogue | None) -> list[str]:
    finding = group.first
    state = " (pending)" if finding.state == "pending" else ""
    lines = [f"## {finding.severity.capitalize()}{state}: {escape(finding.title)}", ""]
    lines += [
        f"- Where: {_where(group, diagnosis, names)}",
        f"- When: {held(group, diagnosis.time)}",
        f"- Cause: {escape(finding.cause)}, confidence {group.confidence}",
        f"- Rule: {code(finding.rule)}",
    ]
    mute = silenced(group, diagnosis.time)
    lines += [f"- Alert: {escape(mute)}", ""] if mute else [""]
    lines += [paragraph(finding.summary), ""] if finding.summary and len(group.members) == 1 else []
    lines += _evidence(group, catalogue)
    if group.recommendations:
        first, *alternatives = group.recommendations
        lines += ["### Change", "", *_change(first), *_details(first, group, names, catalogue)]
        lines += _alternatives(alternatives)
    return lines


def _evidence(group: Group, catalogue: Catalogue | None) -> list[str]:
    rows = evidence_rows(group, catalogue)
    if not rows:
        return []
    cells = [[escape(text) for text in (row.title, row.value, row.threshold, row.note)] for row in rows]
    head = ["Signal", "Value", "Threshold", "Note"]
    if not any(row.note for row in rows):
        head, cells = head[:-1], [row[:-1] for row in cells]
    queries = [evidence.promql for evidence in group.first.evidence if evidence.promql]
    return ["### Evidence", "", *table(head, cells), *(block(queries, "promql") if queries else [])]


def _change(recommendation: Recommendation) -> list[str]:
    if recommendation.argument is None:
        return [f"**{escape(change(recommendation))}**", ""]
    return block([f"{sign} {text}" for sign, text in diff(recommendation)], "diff")


def _details(
    recommendation: Recommendation, group: Group, names: Mapping[Target, str], catalogue: Catalogue | None
) -> list[str]:
    pairs = [(label, text) for label, text in details(recommendation, catalogue) if label != "Set"]
    elsewhere = other_values(group, names)
    pairs += [("Elsewhere", elsewhere)] if elsewhere else []
    return [f"- {label}: {escape(text)}" for label, text in pairs] + [""]


def _alternatives(recommendations: Sequence[Recommendation]) -> list[str]:
    if not recommendations:
        return []
    lines = ["Alternatives, one at a time:", ""]
    for recommendation in recommendations:
        trade_off = f" {escape(recommendation.trade_off)}" if recommendation.trade_off else ""
        lines.append(f"- {code(change(recommendation))} ({recommendation.risk} risk){trade_off}")
    return [*lines, ""]


def _others(
    groups: Sequence[Group], diagnosis: Diagnosis, names: Mapping[Target, str], catalogue: Catalogue | None
) -> list[str]:
    if not groups:
        return []
    lines = ["## Also found", ""]
    for group in groups:
        finding = group.first
        rows = "; ".join(row.text for row in evidence_rows(group, catalogue))
        symptom = finding.role == "symptom"
        why = f"explained by {', '.join(code(rule) for rule in finding.explained_by)}" if symptom else ""
        when = "" if symptom else held(group, diagnosis.time)
        mute = escape(silenced(group, diagnosis.time))
        parts = [escape(finding.title), why, escape(rows), _where(group, diagnosis, names), when, mute]
        lines.append(f"- {finding.severity}: " + "; ".join(part for part in parts if part))
    return [*lines, ""]


def _engines(diagnosis: Diagnosis, names: Mapping[Target, str]) -> list[str]:
    if not diagnosis.targets:
        return []
    rows = [
        [
            code(names[report.target]).replace("|", "\\|"),
            report.status,
            escape(report.version.text if report.version else "-"),
            *(cell(report, name) for name, _ in COLUMNS),
        ]
        for report in worst_first(diagnosis)[:TARGETS_SHOWN]
    ]
    lines = ["## Engines", "", *table(["Engine", "Status", "vLLM", *(head for _, head in COLUMNS)], rows)]
    rest = len(diagnosis.targets) - TARGETS_SHOWN
    return [*lines, f"and {rest} more", ""] if rest > 0 else lines


def _gaps(diagnosis: Diagnosis, names: Mapping[Target, str]) -> list[str]:
    groups = group_unjudged(diagnosis)
    lines = ["## Not judged", ""] if groups else []
    for group in groups:
        where = some_engines(group.targets, len(diagnosis.targets), names)
        rules = ", ".join(code(rule) for rule in group.rules)
        lines.append(f"- {rules}{' on ' + escape(where) if where else ''}: no {escape(group.lacks)}")
    lines += [""] if groups else []
    most = max((len(report.not_applicable) for report in diagnosis.targets), default=0)
    return [*lines, f"Not applicable to this release or configuration: {plural(most, 'rule')}.", ""] if most else lines
