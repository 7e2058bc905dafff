"""The diagnosis as data: ``palanca.diagnosis/v1``, the JSON that the CLI, the REST API and the web page share.

The models below are the contract; ``docs/schema/diagnosis-v1.schema.json`` is made from them. There is never a NaN
or an infinity: a number that does not exist is null, and its state says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from palanca.model import (
    Cause,
    Confidence,
    Diagnosis,
    Direction,
    Evidence,
    Finding,
    Provenance,
    Recommendation,
    Risk,
    Severity,
    SignalValue,
    Silenced,
    SourceInfo,
    State,
    Status,
    TargetReport,
)
from palanca.moments import duration
from palanca.quantities import finite, rfc3339
from palanca.render.words import Setting, encodable, without_credentials

SCHEMA: Literal["palanca.diagnosis/v1"] = "palanca.diagnosis/v1"
BOTTLENECKS = ("slots", "kv", "token_budget", "prefill", "decode", "frontend")

SignalState = Literal["ok", "lower_bound", "interpolated", "absent", "idle", "stale"]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
SettingDocument = StrictBool | int | float | str | None


class Part(BaseModel):
    """Base of every part of the document: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class SourceDocument(Part):
    """Where the data came from and how well that went."""

    name: str = Field(description="Name of the source, as given in the settings or made from its kind.")
    url: str = Field(description="Address or file that was read, without credentials.")
    state: Literal["ok", "partial", "stale", "unreachable"] = Field(
        description="ok; partial: some queries failed; stale: the newest sample is too old; unreachable: no answer.",
    )
    age_s: float | None = Field(description="Age of the newest sample in seconds; null where unknown.")
    warnings: tuple[str, ...] = Field(description="Warnings of the source, such as those of Thanos or Prometheus.")
    error: str | None = Field(description="Why the source could not be read; null where it could.")


class VllmDocument(Part):
    """The vLLM release that a target can be running."""

    release_range: str | None = Field(
        description="One release (0.26.0) or a closed range (0.24.0-0.33.0); null where unknown."
    )
    provenance: Literal["reported", "given", "inferred"] | None = Field(
        description="reported by the server, given by the user, or inferred from the metric names; null where unknown.",
    )


class SignalDocument(Part):
    """One signal of one target at the moment of the diagnosis."""

    value: float | None = Field(description="The number; null where the state is absent, idle or stale.")
    unit: str = Field(description="Unit, such as s, ratio, requests, tokens/s or preemptions/min.")
    state: SignalState = Field(
        description="ok; lower_bound: at least this much (last finite bucket); interpolated: within the first bucket; "
        "absent: no series; idle: no traffic to measure; stale: the newest sample is too old.",
    )
    window_s: float = Field(
        description="Effective window in seconds, shorter for young series; 0 for the newest sample."
    )


class EvidenceDocument(Part):
    """One comparison that held."""

    signal: str = Field(description="Name of the signal.")
    value: float | None = Field(description="Value at the moment of the diagnosis; null where it is not finite.")
    op: str = Field(description="Comparison operator, such as > or <=.")
    threshold: float | None = Field(description="The number that the value was compared with.")
    unit: str = Field(description="Unit of both numbers.")
    promql: str = Field(description="Query that gives the value; empty where the source speaks no PromQL.")


class VerifyDocument(Part):
    """What will prove that the change helped."""

    signal: str = Field(description="Name of the signal to watch.")
    expect: str = Field(description="Comparison that must hold after the change, such as <= 1.")
    within: str = Field(description="Prometheus duration after which it must hold, such as 10m.")


class RecommendationDocument(Part):
    """One change of one lever."""

    lever: str = Field(description="The flag's name in snake_case, or an action outside vLLM such as replicas.")
    direction: Direction = Field(
        description="raise or lower where both values are numbers; none names no flag of the engine.",
    )
    flag: str | None = Field(description="The literal flag of the target's release; null for actions outside vLLM.")
    current: SettingDocument = Field(description="Value now; null where unknown.")
    provenance: Provenance | None = Field(
        description="Where the current value comes from: reported by the engine, given by the user, inferred from the "
        "metrics, or the default of the release; null where unknown.",
    )
    proposed: SettingDocument = Field(
        description="Value to set; null where none can be computed (computed_from says why)."
    )
    argument: str | None = Field(description="Argument for the command line, ready to paste; null where there is none.")
    computed_from: str = Field(description="How the proposed value was computed, or why none can be.")
    why: str = Field(description="Why this lever acts on the cause.")
    effect: str = Field(description="What will become better.")
    trade_off: str = Field(description="What it costs.")
    verify: tuple[VerifyDocument, ...] = Field(description="What to watch after the change.")
    risk: Risk = Field(description="Risk of the change.")
    applies_to: str = Field(description="Engines that share this setting, such as 3 of 8 engines.")


class SilencedDocument(Part):
    """Silences of Alertmanager that mute the alert of a finding."""

    by: tuple[str, ...] = Field(description="Ids of the silences.")
    until: Time = Field(description="When the last of them ends.")


class FindingDocument(Part):
    """A rule that holds at the target."""

    rule: str = Field(description="Id of the rule.")
    cause: Cause = Field(description="Cause, from a closed list.")
    severity: Severity = Field(description="Severity.")
    confidence: Confidence = Field(description="How sure the finding is.")
    role: Literal["root", "symptom"] = Field(description="symptom: explained by another finding (explained_by).")
    state: Literal["pending", "firing"] = Field(description="pending: holds, but not yet for as long as the rule asks.")
    scope: Literal["target", "model"] = Field(description="model: the rule compares the engines of one model.")
    group: dict[str, str] | None = Field(description="Labels of the group that was compared; null for scope target.")
    explained_by: tuple[str, ...] = Field(description="Ids of the rules that explain this symptom.")
    since: Time = Field(description="Since when it holds without interruption.")
    since_at_least: bool = Field(description="True where it may have held earlier than the data reach.")
    silenced: SilencedDocument | None = Field(
        description="Silences of Alertmanager that mute its alert; null where there is none, or none is known."
    )
    title: str = Field(description="Short constant title.")
    summary: str = Field(description="One sentence with the numbers of this case.")
    evidence: tuple[EvidenceDocument, ...] = Field(description="Comparisons that held.")
    recommendations: tuple[RecommendationDocument, ...] = Field(
        description="What to change: the first is the recommendation, the others are alternatives. "
        "Change one at a time.",
    )


class MissingDocument(Part):
    """A signal or fact that a rule lacks."""

    signal: str = Field(description="Name of the signal or fact.")
    state: SignalState = Field(description="Why there is no number.")


class UnjudgedDocument(Part):
    """A rule that could not be judged."""

    rule: str = Field(description="Id of the rule.")
    missing: tuple[MissingDocument, ...] = Field(description="What it lacks.")


class BottleneckDocument(Part):
    """How much of each resource is in use, 0 to 1; null where it cannot be known."""

    slots: float | None = Field(description="Running requests over slots (max_num_seqs).")
    kv: float | None = Field(description="KV cache in use.")
    token_budget: float | None = Field(description="Tokens per engine step over the token budget.")
    prefill: float | None = Field(description="Share of the time to first token spent in prefill.")
    decode: float | None = Field(description="Decode speed over what the memory bandwidth allows.")
    frontend: float | None = Field(description="Share of the time to first token spent outside the engine.")


class TargetDocument(Part):
    """All that a diagnosis says of one vLLM engine."""

    target: dict[str, str] = Field(description="Labels that identify the engine.")
    status: Status = Field(
        description="critical or warning: the worst firing finding; unknown: a core signal is missing; "
        "idle: no traffic; ok.",
    )
    vllm: VllmDocument = Field(description="The vLLM release that it runs.")
    signals: dict[str, SignalDocument] = Field(description="Signals by name.")
    findings: tuple[FindingDocument, ...] = Field(description="Findings, the most important first.")
    unknown: tuple[UnjudgedDocument, ...] = Field(description="Rules that could not be judged, and why.")
    not_applicable: tuple[str, ...] = Field(
        description="Ids of the rules that do not apply to this release or configuration."
    )
    bottleneck: BottleneckDocument = Field(description="Share in use of each resource.")


class Document(Part):
    """A diagnosis of all vLLM engines that the sources know, at one moment."""

    schema_: Literal["palanca.diagnosis/v1"] = Field(default=SCHEMA, alias="schema", description="Name of this format.")
    time: Time = Field(description="Moment of the diagnosis.")
    source: SourceDocument = Field(
        description="Where the data came from; of several sources the worst state and the greatest age."
    )
    sources: tuple[SourceDocument, ...] = Field(description="Each source by itself.")
    targets: tuple[TargetDocument, ...] = Field(description="One report per vLLM engine.")


def document(diagnosis: Diagnosis) -> Document:
    """Write a diagnosis as ``palanca.diagnosis/v1``."""
    return Document(
        time=rfc3339(diagnosis.time),
        source=source_document(diagnosis.source),
        sources=tuple(source_document(one) for one in diagnosis.sources or (diagnosis.source,)),
        targets=tuple(target_document(report, diagnosis.time) for report in diagnosis.targets),
    )


def to_json(diagnosis: Diagnosis) -> str:
    """Write a diagnosis as indented JSON; equal diagnoses give equal text."""
    return document(diagnosis).model_dump_json(by_alias=True, indent=2)


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document, as committed in ``docs/schema/``."""
    schema = Document.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def labels_document(labels: Mapping[str, str]) -> dict[str, str]:
    """Write labels, sorted by name."""
    return {encodable(name): encodable(value) for name, value in sorted(labels.items())}


def source_document(source: SourceInfo) -> SourceDocument:
    """Write where the data came from."""
    return SourceDocument(
        name=encodable(source.name),
        url=encodable(without_credentials(source.url)),
        state=source.state,
        age_s=finite(source.age_s),
        warnings=tuple(encodable(without_credentials(warning)) for warning in source.warnings),
        error=None if source.error is None else encodable(without_credentials(source.error)),
    )


def target_document(report: TargetReport, time: float) -> TargetDocument:
    """Write all that is said of one engine; ``time`` is the moment of the diagnosis, unix seconds."""
    version = report.version
    return TargetDocument(
        target=labels_document(report.target.as_dict()),
        status=report.status,
        vllm=VllmDocument(
            release_range=version.text if version else None, provenance=version.provenance if version else None
        ),
        signals={name: signal_document(value) for name, value in sorted(report.signals.items())},
        findings=tuple(finding_document(finding, time) for finding in report.findings),
        unknown=tuple(
            UnjudgedDocument(
                rule=unjudged.rule,
                missing=tuple(MissingDocument(signal=name, state=_word(state)) for name, state in unjudged.missing),
            )
            for unjudged in report.unknown
        ),
        not_applicable=report.not_applicable,
        bottleneck=BottleneckDocument(**{name: finite(report.bottleneck.get(name)) for name in BOTTLENECKS}),
    )


def _word(state: State) -> SignalState:
    return cast("SignalState", state.word)


def signal_document(signal: SignalValue) -> SignalDocument:
    """Write one signal."""
    value = finite(signal.value) if signal.state < State.ABSENT else None
    state = State.ABSENT if value is None and signal.state < State.ABSENT else signal.state
    return SignalDocument(value=value, unit=signal.unit, state=_word(state), window_s=finite(signal.window_s) or 0.0)


def finding_document(finding: Finding, time: float) -> FindingDocument:
    """Write one finding; ``time`` is the moment of the diagnosis, unix seconds."""
    known = finite(finding.since) is not None
    return FindingDocument(
        rule=finding.rule,
        cause=cast("Cause", finding.cause),
        severity=finding.severity,
        confidence=finding.confidence,
        role=finding.role,
        state=finding.state,
        scope=finding.scope,
        group=None if finding.group is None else labels_document(finding.group),
        explained_by=finding.explained_by,
        since=rfc3339(finding.since if known else time),
        since_at_least=finding.since_at_least or not known,
        silenced=_silenced(finding.silenced),
        title=encodable(finding.title),
        summary=encodable(finding.summary),
        evidence=tuple(evidence_document(evidence) for evidence in finding.evidence),
        recommendations=tuple(_recommendation(recommendation) for recommendation in finding.recommendations),
    )


def _silenced(silenced: Silenced | None) -> SilencedDocument | None:
    if silenced is None:
        return None
    return SilencedDocument(by=tuple(encodable(name) for name in silenced.by), until=rfc3339(silenced.until))


def evidence_document(evidence: Evidence) -> EvidenceDocument:
    """One comparison, infinities as null."""
    return EvidenceDocument(
        signal=evidence.signal,
        value=finite(evidence.value),
        op=evidence.op,
        threshold=finite(evidence.threshold),
        unit=evidence.unit,
        promql=encodable(evidence.promql),
    )


def _recommendation(recommendation: Recommendation) -> RecommendationDocument:
    return RecommendationDocument(
        lever=recommendation.lever,
        direction=recommendation.direction,
        flag=recommendation.flag,
        current=_setting(recommendation.current),
        provenance=recommendation.provenance,
        proposed=_setting(recommendation.proposed),
        argument=None if recommendation.argument is None else encodable(recommendation.argument),
        computed_from=encodable(recommendation.computed_from),
        why=encodable(recommendation.why),
        effect=encodable(recommendation.effect),
        trade_off=encodable(recommendation.trade_off),
        verify=tuple(
            VerifyDocument(signal=verify.signal, expect=verify.expect, within=duration(verify.within))
            for verify in recommendation.verify
        ),
        risk=recommendation.risk,
        applies_to=encodable(recommendation.applies_to),
    )


def _setting(value: Setting) -> SettingDocument:
    """Whole numbers as integers, as on a command line: 96, not 96.0."""
    if isinstance(value, str):
        return encodable(value)
    if value is None or isinstance(value, bool):
        return value
    number = finite(value)
    return int(number) if number is not None and number.is_integer() else number
