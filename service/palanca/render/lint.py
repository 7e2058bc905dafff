"""The findings of ``palanca alerts check`` for people, for GitHub, and as data (``palanca.lint/v1``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from palanca.errors import Fault
from palanca.linting import SEVERITIES, Finding, LintReport
from palanca.render.words import encodable, plural, printable

SCHEMA = "palanca.lint/v1"
_COLORS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "info": "\x1b[1;36m"}
_PLAIN = "\x1b[0m"
_GITHUB = {"error": "error", "warning": "warning", "info": "notice"}


def text(report: LintReport, unreadable: Sequence[Fault] = (), *, color: bool) -> str:
    """Write one line a finding, ``file:line:column: severity: rule: message [check]``, and how to mend it.

    The last line counts them, and the files that are ``unreadable``.
    """
    lines: list[str] = []
    for one in report.findings:
        severity = f"{_COLORS[one.severity]}{one.severity}{_PLAIN}" if color else one.severity
        rule = _named(one, printable(one.rule))
        lines.append(f"{_place(one)}: {severity}: {rule}{printable(one.message)} [{one.check}]")
        lines.append(f"    -> {printable(one.mend)}")
    if report.corrected:
        lines += ["", "Expressions with their errors mended, as far as that can be computed:"]
        for mended in report.corrected:
            lines.append(f"  {printable(mended.rule)} ({printable(mended.path)})")
            lines += [f"      {printable(line)}" for line in mended.expression.splitlines()]
    if lines:
        lines.append("")
    missing = len({fault.path for fault in unreadable})
    rest = f"; {plural(missing, 'file')} could not be read" if missing else ""
    return "\n".join([*lines, _summary(report) + rest])


def _named(one: Finding, rule: str) -> str:
    """The rule before a message; nothing where that is about the file."""
    return f"{rule}: " if one.rule else ""


def _place(one: Finding) -> str:
    path = printable(one.path)
    if one.where == "file":
        return f"{path}:{one.line}:{one.column}"
    return f"{path}: {printable(one.group)}/{printable(one.rule)}: expression {one.line}:{one.column}"


def _summary(report: LintReport) -> str:
    first, last = report.first_release, report.last_release
    releases = first if first == last else f"{first} to {last}"
    words = {"error": "error", "warning": "warning", "info": "note"}
    counts = [plural(report.count(severity), words[severity]) for severity in SEVERITIES if report.count(severity)]
    about = f"{report.judged} about vLLM, checked for {releases}" if report.judged else "none about vLLM"
    return f"{plural(report.rules, 'rule')}, {about}: {', '.join(counts) or 'nothing found'}"


def github(report: LintReport, unreadable: Sequence[Fault] = ()) -> str:
    """Write commands that GitHub shows as annotations of the lines."""
    lines = []
    for fault in unreadable:
        place = f"file={_property(str(fault.path))},line={max(fault.line, 1)}"
        hint = f" ({fault.hint})" if fault.hint else ""
        lines.append(f"::error {place},title=unreadable::{_data(fault.message + hint)}")
    for one in report.findings:
        place = f"file={_property(one.path)}"
        if one.where == "file":
            place += f",line={one.line},col={one.column}"
        message = f"{_named(one, one.rule)}{one.message} -> {one.mend}"
        lines.append(f"::{_GITHUB[one.severity]} {place},title={_property(one.check)}::{_data(message)}")
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def to_json(report: LintReport, unreadable: Sequence[Fault] = ()) -> str:
    """Write the report as JSON."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "vllm": {"first": report.first_release, "last": report.last_release},
        "scrape_interval_s": report.interval_s,
        "files": list(report.paths),
        "rules": report.rules,
        "judged": report.judged,
        "counts": {severity: report.count(severity) for severity in SEVERITIES},
        "findings": [_finding(one) for one in report.findings],
        "corrected": [
            {"file": one.path, "group": one.group, "rule": one.rule, "expression": one.expression}
            for one in report.corrected
        ],
        "unreadable": [
            {"file": str(one.path), "line": one.line, "column": one.column, "message": one.message, "hint": one.hint}
            for one in unreadable
        ],
    }
    return encodable(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2))


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "check": one.check,
        "severity": one.severity,
        "file": one.path,
        "where": one.where,
        "line": one.line,
        "column": one.column,
        "group": one.group,
        "rule": one.rule,
        "kind": one.kind or None,
        "message": one.message,
        "mend": one.mend,
        "corrected": one.corrected,
    }
