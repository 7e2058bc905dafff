"""The fleet as a page shows it: counts, problems, models, engines with the worst first, and what is unknown. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from palanca.api.selection import LARGEST_PAGE
from palanca.model import Diagnosis
from palanca.render.gaps import core_gaps, group_unjudged
from palanca.render.groups import STATUS_ORDER, cell, change, group_findings, held, worst_first
from palanca.render.markdown import COLUMNS
from palanca.render.notice import NAME_WIDTH, where
from palanca.render.words import clip, encodable, listing, plural, some_engines, target_names
from palanca.web.asked import searched
from palanca.web.links import Pairs, at, engine_link, link, rule_link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palanca.model import Catalogue, Target, TargetReport
    from palanca.render.gaps import UnjudgedGroup
    from palanca.render.groups import Group
    from palanca.web.asked import AskedFleet

PROBLEMS_SHOWN = 12
GAPS_SHOWN = 30
MODELS_SHOWN = 50


@dataclass(frozen=True)
class Count:
    """How many engines have a status; ``chosen``: the list shows only those."""

    status: str
    number: int
    href: str
    chosen: bool


@dataclass(frozen=True)
class Problem:
    """Equal findings of some engines, and the change to make first."""

    severity: str
    title: str
    where: str
    when: str
    cause: str
    change: str
    href: str


@dataclass(frozen=True)
class ModelRow:
    """The engines of one model by status."""

    name: str
    href: str
    engines: int
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class EngineRow:
    """One engine in short."""

    status: str
    name: str
    href: str
    release: str
    what: str
    change: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Gap:
    """Rules that lack the same signals."""

    rules: tuple[tuple[str, str], ...]
    lacks: str
    where: str


@dataclass(frozen=True)
class FleetView:
    """Everything that the page shows. ``pages`` are words and links; ``shown`` says which rows these are.

    ``filters`` are names and values that are asked for, ``everything`` is the address without them.
    """

    verdict: str
    worst: str
    counts: tuple[Count, ...]
    problems: tuple[Problem, ...]
    more_problems: int
    models: tuple[ModelRow, ...]
    columns: tuple[str, ...]
    rows: tuple[EngineRow, ...]
    total: int
    fitting: int
    shown: str
    pages: tuple[tuple[str, str], ...]
    gaps: tuple[Gap, ...]
    more_gaps: int
    unjudged: int
    rules: int
    warnings: tuple[str, ...]
    filters: Pairs
    everything: str

    @property
    def filtered(self) -> bool:
        """Whether only some engines are asked for."""
        return bool(self.filters)


def fleet_view(diagnosis: Diagnosis, catalogue: Catalogue, wanted: AskedFleet, time: float | None = None) -> FleetView:
    """Arrange a diagnosis for the page. ``time`` is the moment in the past that is looked at; None for now."""
    names = target_names([report.target for report in diagnosis.targets])
    query = _Query(wanted, time)
    fitting = wanted.reports(replace(diagnosis, targets=_found(diagnosis, wanted, names)))
    ranked = worst_first(replace(diagnosis, targets=tuple(fitting)))
    rows = wanted.page(ranked)
    everything = Counter[str](report.status for report in diagnosis.targets)
    part = replace(diagnosis, targets=tuple(ranked))
    problems = [group for group in group_findings(part) if group.headline]
    gaps = group_unjudged(part)
    return FleetView(
        verdict=_verdict(diagnosis, everything, time),
        worst=next((status for status in STATUS_ORDER if everything[status]), "unknown"),
        counts=tuple(
            Count(status, everything[status], query.toggled("status", status), status in wanted.status)
            for status in STATUS_ORDER
        ),
        problems=tuple(_problem(one, diagnosis, names, time) for one in problems[:PROBLEMS_SHOWN]),
        more_problems=max(len(problems) - PROBLEMS_SHOWN, 0),
        models=_models(diagnosis, query),
        columns=tuple(title for _, title in COLUMNS),
        rows=tuple(_row(report, names, catalogue, time) for report in rows),
        total=len(diagnosis.targets),
        fitting=len(ranked),
        shown=_shown(wanted.offset, len(rows), len(ranked), len(diagnosis.targets)),
        pages=query.pages(len(ranked)),
        gaps=tuple(_gap(one, len(ranked), names) for one in gaps[:GAPS_SHOWN]),
        more_gaps=max(len(gaps) - GAPS_SHOWN, 0),
        unjudged=len({rule for one in gaps for rule in one.rules}),
        rules=len(catalogue.rules),
        warnings=tuple(diagnosis.source.warnings),
        filters=query.filters,
        everything=link("", at(time)),
    )


def _found(diagnosis: Diagnosis, wanted: AskedFleet, names: Mapping[Target, str]) -> tuple[TargetReport, ...]:
    """Targets in which all words of the search occur: in their names, labels, rules, causes or titles."""
    if not wanted.q:
        return diagnosis.targets
    return tuple(one for one in diagnosis.targets if searched(wanted.q, _text(one, names[one.target])))


def _text(report: TargetReport, name: str) -> str:
    labels = [encodable(f"{label}={value}") for label, value in report.target.labels]
    findings = [f"{one.rule} {one.cause} {one.title}" for one in report.findings]
    return "\n".join([name, report.status, *labels, *findings])


def _verdict(diagnosis: Diagnosis, counts: Counter[str], time: float | None) -> str:
    """One sentence for the whole fleet."""
    total = len(diagnosis.targets)
    if not total:
        return "No engine is known." if time is None else "No engine is known of that moment."
    wrong = counts["critical"] + counts["warning"]
    if wrong:
        text = f"{wrong:,} of {plural(total, 'engine')} {'needs' if wrong == 1 else 'need'} attention"
    elif counts["unknown"] == total:
        return f"Nothing can be said: {'the engine' if total == 1 else f'all {total:,} engines'} cannot be judged."
    elif counts["idle"] == total:
        text = f"No traffic at {'the engine' if total == 1 else f'all {total:,} engines'}"
    else:
        text = f"Nothing to change at {counts['ok'] + counts['idle']:,} of {plural(total, 'engine')}"
    return f"{text}; {counts['unknown']:,} cannot be judged." if counts["unknown"] else f"{text}."


def _problem(group: Group, diagnosis: Diagnosis, names: Mapping[Target, str], time: float | None) -> Problem:
    first, targets = group.first, group.targets
    href = (
        engine_link(targets[0], time)
        if len(targets) == 1
        else link("", [("cause", first.cause), ("severity", first.severity), *at(time)])
    )
    recommended = group.recommendations
    return Problem(
        severity=first.severity,
        title=first.title,
        where=where(targets, len(diagnosis.targets), names),
        when=held(group, diagnosis.time),
        cause=first.cause,
        change=change(recommended[0]) if recommended else "",
        href=href,
    )


def _models(diagnosis: Diagnosis, query: _Query) -> tuple[ModelRow, ...]:
    by_model: dict[str, Counter[str]] = {}
    for report in diagnosis.targets:
        by_model.setdefault(report.target.get("model_name"), Counter())[report.status] += 1
    rows = [
        ModelRow(
            name or "(no model_name)",
            query.toggled("model", name) if name else "",
            counts.total(),
            tuple((status, counts[status]) for status in STATUS_ORDER if counts[status]),
        )
        for name, counts in by_model.items()
    ]
    worst = [[dict(row.counts).get(status, 0) for status in STATUS_ORDER] for row in rows]
    ranked = sorted(zip(worst, rows, strict=True), key=lambda one: ([-count for count in one[0][:3]], one[1].name))
    return tuple(row for _, row in ranked[:MODELS_SHOWN])


def _row(report: TargetReport, names: Mapping[Target, str], catalogue: Catalogue, time: float | None) -> EngineRow:
    problems = [one for one in report.findings if one.problem]
    recommended = next((one.recommendations for one in problems if one.recommendations), ())
    lacking = core_gaps(report, catalogue) if report.status == "unknown" else []
    what = problems[0].title if problems else f"lacks {listing(lacking)}" if lacking else ""
    return EngineRow(
        status=report.status,
        name=clip(names[report.target], NAME_WIDTH),
        href=engine_link(report.target, time),
        release=report.version.text if report.version else "",
        what=what,
        change=change(recommended[0]) if recommended else "",
        cells=tuple(cell(report, name, bare=True) for name, _ in COLUMNS),
    )


def _gap(one: UnjudgedGroup, total: int, names: Mapping[Target, str]) -> Gap:
    place = some_engines(one.targets, total, names)
    return Gap(tuple((rule, rule_link(rule)) for rule in one.rules), one.lacks, place)


def _shown(offset: int, rows: int, fitting: int, total: int) -> str:
    if not total:
        return ""
    some = f"{fitting:,}" if fitting == total else f"{fitting:,} of {total:,}"
    if rows == fitting:
        return f"{some} engines" if total != 1 else "1 engine"
    return (
        f"{offset + 1:,} to {offset + rows:,} of {fitting:,} engines"
        if rows
        else f"none of {plural(fitting, 'engine')} here"
    )


class _Query:
    """Links that keep what is asked for."""

    def __init__(self, wanted: AskedFleet, time: float | None) -> None:
        self._wanted = wanted
        self.filters: Pairs = [
            (name, value)
            for name in ("status", "model", "instance", "match", "severity", "cause")
            for value in getattr(wanted, name)
        ]
        self.filters += [("q", wanted.q)] if wanted.q else []
        self._rest = at(time)

    def toggled(self, name: str, value: str) -> str:
        """Only what has this value; without the filter where it is set already."""
        others = [pair for pair in self.filters if pair[0] != name]
        chosen = [] if (name, value) in self.filters else [(name, value)]
        return link("", [*others, *chosen, *self._rest])

    def pages(self, fitting: int) -> tuple[tuple[str, str], ...]:
        wanted = self._wanted
        size = wanted.limit or LARGEST_PAGE
        if fitting <= size and not wanted.offset:
            return ()
        made = []
        last = max(fitting - 1, 0) // size * size
        if wanted.offset >= fitting:
            made.append(("Last page", self._page(last, size)))
        elif wanted.offset:
            made.append(("Previous page", self._page(max(wanted.offset - size, 0), size)))
        if wanted.offset + size < fitting:
            made.append(("Next page", self._page(wanted.offset + size, size)))
        if size < LARGEST_PAGE and fitting > size:
            made.append((f"Show {min(fitting, LARGEST_PAGE):,}", self._page(0, LARGEST_PAGE)))
        return tuple(made)

    def _page(self, offset: int, size: int) -> str:
        more = [("offset", str(offset))] if offset else []
        return link("", [*self.filters, *more, ("limit", str(size)), *self._rest])
