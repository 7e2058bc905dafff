"""Which part of a diagnosis is asked for. Filters are applied here, to what is known: no query is made of a request."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from palanca.errors import UsageError
from palanca.model import Cause, Severity, Status
from palanca.moments import parse_moment
from palanca.render.document import TargetDocument
from palanca.render.words import encodable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.model import Diagnosis, Finding, TargetReport

T = TypeVar("T")

LONGEST_VALUE = 1024
"""Characters of a label value; Prometheus' own limits are in this range."""
MOST_VALUES = 50
LARGEST_PAGE = 1000
FIELDS = tuple(TargetDocument.model_fields)
_LOST_PLUS = re.compile(r"(:.*\d) (\d\d:\d\d)$")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*=.*", re.DOTALL)

Text = Annotated[str, Field(max_length=LONGEST_VALUE)]


def _matcher(text: str) -> str:
    if not _LABEL.fullmatch(text):
        message = "write LABEL=VALUE, such as namespace=prod"
        raise ValueError(message)
    return text


def _moment(text: str) -> str:
    """A plus sign that was not escaped in the query arrives as a space; RFC 3339 allows t and z too."""
    text = _LOST_PLUS.sub(r"\1+\2", text)
    text = text.upper() if ":" in text else text
    try:
        parse_moment(text, now=0.0 if not text.strip().startswith("-") else 4e9)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return text


def _fields(text: str) -> str:
    wrong = [name for name in text.split(",") if name.strip() not in FIELDS]
    if wrong:
        message = f"no such field: {', '.join(wrong)[:LONGEST_VALUE]} (there are {', '.join(FIELDS)})"
        raise ValueError(message)
    return text


Matcher = Annotated[Text, AfterValidator(_matcher)]
Moment = Annotated[str, Field(max_length=64), AfterValidator(_moment)]
Fields = Annotated[Text, AfterValidator(_fields)]


class NoParameters(BaseModel):
    """Of a route that has none: one that is given is an error, not overlooked."""

    model_config = ConfigDict(extra="forbid")


class Where(BaseModel):
    """Filters that every list has. Values of one parameter are alternatives; different parameters all hold."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[list[Text], Field(max_length=MOST_VALUES)] = Field(
        default_factory=list,
        description="Only targets whose label model_name is this (repeatable: any of them); empty: that lack it.",
        examples=[["llama"]],
    )
    instance: Annotated[list[Text], Field(max_length=MOST_VALUES)] = Field(
        default_factory=list,
        description="Only targets with this instance (repeatable: any of them).",
        examples=[["vllm-0:8000"]],
    )
    match: Annotated[list[Matcher], Field(max_length=MOST_VALUES)] = Field(
        default_factory=list,
        description="Only targets with this label, as LABEL=VALUE (repeatable: all of them).",
        examples=[["namespace=prod"]],
    )
    status: list[Status] = Field(
        default_factory=list,
        max_length=MOST_VALUES,
        description="Only targets of this status (repeatable).",
        examples=[["critical", "warning"]],
    )
    severity: list[Severity] = Field(
        default_factory=list,
        max_length=MOST_VALUES,
        description="Only findings of this severity, and the targets that have one (repeatable).",
        examples=[["critical"]],
    )
    cause: list[Cause] = Field(
        default_factory=list,
        max_length=MOST_VALUES,
        description="Only findings of this cause, and the targets that have one (repeatable).",
        examples=[["kv-capacity"]],
    )
    limit: int | None = Field(
        default=None, ge=1, le=LARGEST_PAGE, description="At most so many; all if not given.", examples=[50]
    )
    offset: int = Field(default=0, ge=0, le=10**9, description="Leave out so many of the first.", examples=[50])

    def keeps(self, report: TargetReport) -> bool:
        """Whether the labels and the status of a target fit."""
        labels = {name: encodable(value) for name, value in report.target.labels}  # as they are shown
        pairs = [text.partition("=") for text in self.match]
        return (
            (not self.model or labels.get("model_name", "") in self.model)
            and (not self.instance or labels.get("instance", "") in self.instance)
            and (not self.status or report.status in self.status)
            and all(labels.get(name, "") == value for name, _, value in pairs)
        )

    def finds(self, finding: Finding) -> bool:
        """Whether a finding fits."""
        return (not self.severity or finding.severity in self.severity) and (
            not self.cause or finding.cause in self.cause
        )

    def reports(self, diagnosis: Diagnosis) -> list[TargetReport]:
        """Return the targets that fit, with the findings that fit; all pages together."""
        kept = [report for report in diagnosis.targets if self.keeps(report)]
        if not (self.severity or self.cause):
            return kept
        narrowed = [replace(one, findings=tuple(filter(self.finds, one.findings))) for one in kept]
        return [report for report in narrowed if report.findings]

    def page(self, rows: Sequence[T]) -> Sequence[T]:
        """Return the rows of the page that is asked for."""
        return rows[self.offset : None if self.limit is None else self.offset + self.limit]


class Asked(Where):
    """Parameters of ``GET /diagnose``."""

    time: Moment | None = Field(
        default=None,
        description="Diagnose that moment instead: RFC 3339, unix seconds, or -30m. "
        "The timestamp of a slow trace says what the server was doing then.",
        examples=["2026-11-29T20:09:11Z", "1795982951", "-30m"],
    )
    fresh: bool = Field(default=False, description="Ask the sources now instead of answering from the last poll.")
    fields: Fields | None = Field(
        default=None,
        description="Only these keys of each target, separated by commas; JSON only.",
        examples=["target,status,findings"],
    )

    @model_validator(mode="after")
    def _one_moment(self) -> Self:
        if self.time is not None and self.fresh:
            message = "time and fresh exclude each other: fresh means now"
            raise ValueError(message)
        return self

    def at(self, now: float) -> float | None:
        """Moment that is asked for; None for now."""
        return None if self.time is None else parse_moment(self.time, now=now)

    @property
    def names(self) -> set[str] | None:
        """Keys of a target that are asked for; None for all."""
        return None if self.fields is None else {name.strip() for name in self.fields.split(",")}
