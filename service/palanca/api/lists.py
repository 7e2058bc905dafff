"""The last diagnosis as flat lists, for dashboards and scripts: targets, findings, signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from palanca.api.answers import ETAG, UNCHANGED, answer
from palanca.api.memory import Memory
from palanca.api.paging import HEADERS, paged
from palanca.api.problems import LONGEST_ECHO, described
from palanca.api.selection import LARGEST_PAGE, Text, Where
from palanca.daemon.snapshot import Packed, packed
from palanca.diagnosis import rank
from palanca.errors import UsageError
from palanca.expressions import nearest
from palanca.model import Catalogue, Cause, Diagnosis, Severity, Status
from palanca.quantities import rfc3339
from palanca.render.document import (
    BottleneckDocument,
    FindingDocument,
    Part,
    SignalState,
    SourceDocument,
    TargetDocument,
    Time,
    VllmDocument,
    finding_document,
    labels_document,
    signal_document,
    source_document,
    target_document,
)

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.model import TargetReport


class WorstDocument(Part):
    """The finding that stands first."""

    rule: str = Field(description="Id of the rule.")
    cause: Cause = Field(description="Its cause.")
    severity: Severity = Field(description="Its severity.")
    summary: str = Field(description="One sentence with the numbers of this case.")


class TargetRow(Part):
    """One engine in short."""

    target: dict[str, str] = Field(description="Labels that identify the engine.")
    status: Status = Field(description="As in the diagnosis.")
    vllm: VllmDocument = Field(description="The vLLM release that it runs.")
    findings: int = Field(description="How many findings it has.")
    worst: WorstDocument | None = Field(description="The finding that stands first; null without any.")
    unknown: int = Field(description="How many rules could not be judged.")
    bottleneck: BottleneckDocument = Field(description="Share in use of each resource.")


class Targets(Part):
    """All engines in short."""

    schema_: Literal["palanca.targets/v1"] = Field(default="palanca.targets/v1", alias="schema")
    time: Time = Field(description="Moment of the diagnosis.")
    source: SourceDocument = Field(description="Where the data came from.")
    total: int = Field(description="Engines that fit, on all pages.")
    targets: tuple[TargetRow, ...] = Field(description="One row per engine.")


class FindingRow(FindingDocument):
    """A finding, with the engine at which it holds."""

    target: dict[str, str] = Field(description="Labels that identify the engine.")


class Findings(Part):
    """All findings of all engines."""

    schema_: Literal["palanca.findings/v1"] = Field(default="palanca.findings/v1", alias="schema")
    time: Time = Field(description="Moment of the diagnosis.")
    source: SourceDocument = Field(description="Where the data came from.")
    total: int = Field(description="Findings that fit, on all pages.")
    findings: tuple[FindingRow, ...] = Field(description="The most severe first.")


class ValueRow(Part):
    """The value of a signal at one engine."""

    target: dict[str, str] = Field(description="Labels that identify the engine.")
    value: float | None = Field(description="The number; null where the state is absent, idle or stale.")
    state: SignalState = Field(description="As in the diagnosis.")


class SignalRow(Part):
    """One signal and its values."""

    name: str = Field(description="Name of the signal.")
    title: str = Field(description="What it is.")
    unit: str = Field(description="Unit of its values.")
    window_s: float = Field(description="Window in seconds over which it is computed.")
    values: tuple[ValueRow, ...] = Field(description="One row per engine.")


class Signals(Part):
    """Signals with their values."""

    schema_: Literal["palanca.signals/v1"] = Field(default="palanca.signals/v1", alias="schema")
    time: Time = Field(description="Moment of the diagnosis.")
    source: SourceDocument = Field(description="Where the data came from.")
    total: int = Field(description="Engines that fit, on all pages.")
    signals: tuple[SignalRow, ...] = Field(description="One row per signal.")


Listed = Targets | Findings | Signals


class AskedSignals(Where):
    """Parameters of the list of signals."""

    name: Annotated[list[Text], Field(max_length=LARGEST_PAGE)] = Field(
        default_factory=list,
        description="Only this signal (repeatable: any of them).",
        examples=[["kv_cache_usage", "ttft_p99"]],
    )


RESPONSES: dict[int | str, dict[str, Any]] = {200: {"headers": {**ETAG, **HEADERS}}, **UNCHANGED, **described(422)}


def router(backend: Backend) -> APIRouter:
    """Make the routes."""
    made = APIRouter(prefix="/api/v1", tags=["lists"])
    memory = Memory(backend)

    async def sent(
        request: Request, where: Where, name: str, make: Callable[[Diagnosis, Catalogue], Listed]
    ) -> Response:
        def body(diagnosis: Diagnosis, catalogue: Catalogue) -> tuple[Packed, dict[str, str]]:
            document = make(diagnosis, catalogue)
            return packed(document.model_dump_json(by_alias=True).encode()), paged(request, where, document.total)

        found = await memory.answer((name, request.scope["query_string"].decode("latin-1")), body)
        return answer(found.packed, "application/json", request.headers, found.headers)

    @made.get("/targets", response_model=Targets, responses=RESPONSES)
    async def targets(request: Request, where: Annotated[Where, Query()]) -> Response:
        """All engines with their status, release, worst finding and bottleneck."""
        return await sent(request, where, "targets", lambda diagnosis, _: targets_of(diagnosis, where))

    @made.get("/findings", response_model=Findings, responses=RESPONSES)
    async def findings(request: Request, where: Annotated[Where, Query()]) -> Response:
        """All findings of all engines; those that are firing, severe and at the root first."""
        return await sent(request, where, "findings", lambda diagnosis, _: findings_of(diagnosis, where))

    @made.get("/signals", response_model=Signals, responses=RESPONSES | described(400))
    async def signals(request: Request, where: Annotated[AskedSignals, Query()]) -> Response:
        """Signals with their values at every engine: all of them, or those that are named."""
        return await sent(
            request, where, "signals", lambda diagnosis, catalogue: signals_of(diagnosis, where, catalogue)
        )

    return made


def targets_of(diagnosis: Diagnosis, where: Where) -> Targets:
    """Return the engines that fit, in short."""
    reports = where.reports(diagnosis)
    rows = tuple(_row(report, diagnosis.time) for report in where.page(reports))
    return Targets(
        time=rfc3339(diagnosis.time), source=source_document(diagnosis.source), total=len(reports), targets=rows
    )


def _row(report: TargetReport, time: float) -> TargetRow:
    whole: TargetDocument = target_document(report, time)
    first = whole.findings[0] if whole.findings else None
    worst = None
    if first is not None:
        worst = WorstDocument(rule=first.rule, cause=first.cause, severity=first.severity, summary=first.summary)
    return TargetRow(
        target=whole.target,
        status=whole.status,
        vllm=whole.vllm,
        findings=len(whole.findings),
        worst=worst,
        unknown=len(whole.unknown),
        bottleneck=whole.bottleneck,
    )


def findings_of(diagnosis: Diagnosis, where: Where) -> Findings:
    """Return the findings that fit; paging counts findings."""
    found = [(report, finding) for report in where.reports(diagnosis) for finding in report.findings]
    found.sort(key=lambda one: rank(one[1]))
    rows = tuple(
        FindingRow(**dict(finding_document(finding, diagnosis.time)), target=labels_document(report.target.as_dict()))
        for report, finding in where.page(found)
    )
    return Findings(
        time=rfc3339(diagnosis.time), source=source_document(diagnosis.source), total=len(found), findings=rows
    )


def signals_of(diagnosis: Diagnosis, where: AskedSignals, catalogue: Catalogue) -> Signals:
    """Return the signals that are named, or all; paging counts engines. Raises ``UsageError`` for unknown names."""
    for name in where.name:
        if name not in catalogue.signals:
            near = nearest(name, catalogue.signals)
            raise UsageError(f"there is no signal {name[:LONGEST_ECHO]!r}" + (f" ({near})" if near else ""))
    reports = where.reports(diagnosis)
    page = where.page(reports)
    rows = []
    for name, spec in catalogue.signals.items():
        if where.name and name not in where.name:
            continue
        known = [(report, signal_document(report.signals[name])) for report in page if name in report.signals]
        values = tuple(
            ValueRow(target=labels_document(report.target.as_dict()), value=one.value, state=one.state)
            for report, one in known
        )
        rows.append(SignalRow(name=name, title=spec.title, unit=spec.unit, window_s=spec.window, values=values))
    return Signals(
        time=rfc3339(diagnosis.time),
        source=source_document(diagnosis.source),
        total=len(reports),
        signals=tuple(rows),
    )
