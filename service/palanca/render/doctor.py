"""The report of ``palanca doctor`` for people, and as data (``palanca.doctor/v1``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from palanca.doctor import DoctorReport, Gap, TargetSeen
from palanca.inspections.evidence import Check, ServerSeen
from palanca.model import Target
from palanca.quantities import finite, moment, number, rfc3339
from palanca.render.text import Page
from palanca.render.words import encodable, listing, plural, printable, target_names
from palanca.render.words import without_credentials as bare

SCHEMA = "palanca.doctor/v1"
_WORDS = {"error": "ERROR", "warning": "WARNING", "note": "note", "ok": "ok"}
_STYLES = {"error": "critical", "warning": "warning", "note": "info", "ok": "ok"}
_COLUMN = 9


def text(report: DoctorReport, *, width: int, color: bool) -> str:
    """Write the report for people: the worst check first, then the engines and what cannot be judged there."""
    page = Page(width, color=color)
    page.add(f"{moment(report.time)}, doctor: {_summary(report)}", hang=2)
    for server in report.servers:
        page.add(_server(server), hang=2)
    page.heading("Checks")
    for check in report.checks:
        _check(page, check)
    if report.targets:
        _targets(page, report.targets)
    return page.text()


def _summary(report: DoctorReport) -> str:
    counts = [(level, sum(check.level == level for check in report.checks)) for level in ("error", "warning", "note")]
    told = [plural(count, level) for level, count in counts if count]
    return ", ".join(told) or "nothing to remark"


def _server(server: ServerSeen) -> str:
    kind = {"prometheus": "Prometheus", "vllm": "vLLM", "unknown": "unknown server"}[server.kind]
    parts = [f"{kind} {printable(server.version or '')}".strip(), printable(bare(server.url))]
    if server.seconds is not None:
        parts.append(f"answered in {number(server.seconds, 's')}")
    if server.series is not None:
        parts.append(f"{server.series:,} series")
    if server.size is not None:
        parts.append(number(server.size, "bytes"))
    return ", ".join(parts)


def _check(page: Page, check: Check) -> None:
    lead = f"{_WORDS[check.level]:<{_COLUMN - 1}}"
    page.add(printable(check.title), lead=lead, style=_STYLES[check.level], indent=2, hang=_COLUMN)
    for detail in check.details:
        page.add(printable(bare(detail)), indent=2 + _COLUMN, hang=2)
    if check.hint:
        page.add(f"-> {printable(check.hint)}", indent=2 + _COLUMN, hang=3)


def _targets(page: Page, seen: Sequence[TargetSeen]) -> None:
    names = target_names([one.target for one in seen])
    page.heading("Engines")
    groups: dict[tuple[str, tuple[Gap, ...], tuple[str, ...]], list[TargetSeen]] = {}
    for one in seen:
        version = f"vLLM {one.version.text} ({one.version.provenance})" if one.version else "release unknown"
        groups.setdefault((version, one.gaps, one.not_applicable), []).append(one)
    for (version, gaps, absent), members in groups.items():
        _group(page, members, version, names)
        for gap in gaps:
            page.add(f"not judged: {listing(gap.rules, shown=6)}", indent=4, hang=2)
            for why in gap.reasons:
                page.add(printable(why), indent=6, hang=2)
        if absent:
            page.add(f"not applicable: {listing(absent, shown=6)}", indent=4, hang=2)


def _group(page: Page, members: Sequence[TargetSeen], version: str, names: Mapping[Target, str]) -> None:
    where = listing([names[one.target] for one in members])
    every = sorted({one.interval_s for one in members if one.interval_s is not None})
    parts = [version, plural(members[0].signals, "signal")]
    if every:
        parts.append(f"a sample every {number(every[-1], 's')}")
    page.add(f"{where}: {', '.join(parts)}", indent=2, hang=2)


# --- data ------------------------------------------------------------------------------------------


def to_json(report: DoctorReport) -> str:
    """Write the report as JSON; there is never a NaN or an infinity."""
    source = report.source
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "time": rfc3339(report.time),
        "level": report.level,
        "source": {
            "name": source.name,
            "url": bare(source.url),
            "state": source.state,
            "age_s": finite(source.age_s),
            "warnings": list(source.warnings),
            "error": None if source.error is None else bare(source.error),
        },
        "servers": [
            {**vars(one), "url": bare(one.url), "error": None if one.error is None else bare(one.error)}
            for one in report.servers
        ],
        "checks": [
            {
                "id": one.id,
                "level": one.level,
                "title": one.title,
                "details": list(map(bare, one.details)),
                "hint": one.hint,
            }
            for one in report.checks
        ],
        "names": dict(report.names),
        "targets": [_target(one) for one in report.targets],
    }
    return encodable(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2))


def _target(one: TargetSeen) -> dict[str, Any]:
    version = one.version
    return {
        "target": {"labels": one.target.as_dict()},
        "vllm": {
            "release_range": None if version is None else version.text,
            "provenance": None if version is None else version.provenance,
        },
        "interval_s": finite(one.interval_s),
        "signals": one.signals,
        "unknown": [{"rules": list(gap.rules), "reasons": list(gap.reasons)} for gap in one.gaps],
        "not_applicable": list(one.not_applicable),
    }
