"""The matrix: every rule with its thresholds, and how it stands at the engines now."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from palanca.api.answers import ETAG, UNCHANGED, answer
from palanca.api.problems import described
from palanca.api.selection import NoParameters
from palanca.daemon.snapshot import packed
from palanca.expressions import nearest
from palanca.model import Area, Cause, Severity
from palanca.moments import duration
from palanca.render.document import Part
from palanca.render.words import encodable
from palanca.resources import shipped

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.model import Diagnosis, Rule

LONGEST_ID = 100
RESPONSES: dict[int | str, dict[str, Any]] = {200: {"headers": ETAG}, **UNCHANGED}


class Standing(Part):
    """At how many engines the rule stands how."""

    firing: int = Field(description="It holds, for as long as the rule asks.")
    pending: int = Field(description="It holds, but not yet for that long.")
    unknown: int = Field(description="It could not be judged.")
    not_applicable: int = Field(description="It does not apply to the release or configuration.")
    quiet: int = Field(description="It does not hold.")


class ThresholdDocument(Part):
    """A named number of a rule."""

    value: float = Field(description="The number.")
    unit: str = Field(description="Its unit.")
    source: str = Field(description="Where the number comes from.")


class RuleRow(Part):
    """One rule in short."""

    id: str = Field(description="Id; also the name of its file and runbook.")
    title: str = Field(description="Short constant title.")
    area: Area = Field(description="Part of the matrix.")
    cause: Cause | None = Field(description="Cause that it names; null for a symptom.")
    severity: Severity = Field(description="Severity when firing.")
    maturity: Literal["stable", "experimental"] = Field(description="How well it has been tried.")
    when: str = Field(description="Condition over signals, facts and thresholds.")
    for_: str = Field(alias="for", description="How long the condition must hold.")
    thresholds: dict[str, ThresholdDocument] = Field(description="Thresholds by name.")
    standing: Standing = Field(description="How it stands now.")


class Rules(Part):
    """The matrix."""

    schema_: Literal["palanca.rules/v1"] = Field(default="palanca.rules/v1", alias="schema")
    rules: tuple[RuleRow, ...] = Field(description="One row per rule.")


class LeverRow(Part):
    """What a rule recommends."""

    lever: str = Field(description="Name of the lever.")
    direction: str = Field(description="What to do with it.")
    order: int = Field(description="1 removes the bottleneck, 2 moves it, 3 works around it.")
    value: str | None = Field(description="Formula of the proposed value; null where none can be computed.")
    why: str = Field(description="Why this lever acts on the cause.")


class WholeRule(RuleRow):
    """One rule as a whole."""

    schema_: Literal["palanca.rule/v1"] = Field(default="palanca.rule/v1", alias="schema")
    scope: Literal["target", "model"] = Field(description="model: the rule compares the engines of one model.")
    supports: tuple[str, ...] = Field(description="Conditions that raise the confidence.")
    contradicts: tuple[str, ...] = Field(description="Conditions that lower the confidence.")
    explains: tuple[str, ...] = Field(description="Symptoms that this cause accounts for.")
    levers: tuple[LeverRow, ...] = Field(description="What it recommends.")
    references: tuple[str, ...] = Field(description="Sources of the logic.")
    runbook: str | None = Field(description="The runbook, Markdown; null where there is none.")


RuleIdInPath = Annotated[
    str, Path(max_length=LONGEST_ID, description="Id of the rule.", examples=["kv-cache-saturated"])
]


def router(backend: Backend) -> APIRouter:
    """Make the routes."""
    made = APIRouter(prefix="/api/v1", tags=["rules"])

    def sent(request: Request, document: Part) -> Response:
        return answer(packed(document.model_dump_json(by_alias=True).encode()), "application/json", request.headers)

    @made.get("/rules", response_model=Rules, responses=RESPONSES | described(422))
    async def rules(request: Request, _: Annotated[NoParameters, Query()]) -> Response:
        """All rules with their thresholds, and at how many engines each is firing, pending, unknown or quiet."""
        diagnosis = backend.snapshot.diagnosis
        standing = standings(diagnosis)
        rows = tuple(RuleRow(**_row(rule, standing, len(diagnosis.targets))) for rule in backend.catalogue.rules)
        return sent(request, Rules(rules=rows))

    @made.get("/rules/{rule_id}", response_model=WholeRule, responses=RESPONSES | described(404, 422))
    async def rule(
        request: Request,
        rule_id: RuleIdInPath,
        _: Annotated[NoParameters, Query()],
    ) -> Response:
        """One rule as a whole, with its runbook."""
        known = {one.id: one for one in backend.catalogue.rules}
        if rule_id not in known:
            near = nearest(rule_id, known)
            raise HTTPException(404, f"no rule {encodable(rule_id)!r}" + (f" ({near})" if near else ""))
        diagnosis = backend.snapshot.diagnosis
        return sent(request, whole(known[rule_id], _row(known[rule_id], standings(diagnosis), len(diagnosis.targets))))

    return made


def standings(diagnosis: Diagnosis) -> dict[str, Counter[str]]:
    """Count engines by rule and by how the rule stands there."""
    found: dict[str, Counter[str]] = {}
    for report in diagnosis.targets:
        for finding in report.findings:
            found.setdefault(finding.rule, Counter())[finding.state] += 1
        for unjudged in report.unknown:
            found.setdefault(unjudged.rule, Counter())["unknown"] += 1
        for rule in report.not_applicable:
            found.setdefault(rule, Counter())["not_applicable"] += 1
    return found


def _row(rule: Rule, standing: dict[str, Counter[str]], targets: int) -> dict[str, Any]:
    count = standing.get(rule.id, Counter())
    return {
        "id": rule.id,
        "title": rule.title,
        "area": rule.area,
        "cause": rule.cause,
        "severity": rule.severity,
        "maturity": rule.maturity,
        "when": " ".join(rule.when.split()),
        "for": duration(rule.for_),
        "thresholds": {
            name: ThresholdDocument(value=one.value, unit=one.unit, source=one.source)
            for name, one in rule.thresholds.items()
        },
        "standing": Standing(
            firing=count["firing"],
            pending=count["pending"],
            unknown=count["unknown"],
            not_applicable=count["not_applicable"],
            quiet=targets - count.total(),
        ),
    }


def whole(rule: Rule, row: dict[str, Any]) -> WholeRule:
    """Return everything that a rule says."""
    return WholeRule(
        **row,
        scope=rule.scope,
        supports=rule.supports,
        contradicts=rule.contradicts,
        explains=rule.explains,
        levers=tuple(
            LeverRow(lever=one.lever, direction=one.direction, order=one.order, value=one.value, why=one.why)
            for one in rule.levers
        ),
        references=rule.references,
        runbook=runbook(rule.id),
    )


def runbook(rule_id: str) -> str | None:
    """Text of the runbook of a shipped rule; None for one without."""
    path = shipped("docs/rules") / f"{rule_id}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else None
