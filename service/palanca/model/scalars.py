"""Words, closed lists and scalar types that the YAML files and the results share."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from palanca.moments import seconds
from palanca.releases import ReleaseRange

_IDENTIFIER = re.compile(r"^[a-z][a-z0-9_]*$")
_RULE_ID = re.compile(r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")


def _identifier(text: str) -> str:
    if not _IDENTIFIER.match(text):
        message = f"{text!r} must be lower case letters, digits and underscores"
        raise ValueError(message)
    return text


def _rule_id(text: str) -> str:
    if not _RULE_ID.match(text):
        message = f"{text!r} must be lower case words joined by hyphens"
        raise ValueError(message)
    return text


def _range(text: object) -> ReleaseRange:
    return text if isinstance(text, ReleaseRange) else ReleaseRange.parse(_quoted(text))


def _ranges(text: object) -> tuple[ReleaseRange, ...]:
    return tuple(ReleaseRange.parse(part) for part in _quoted(text).split(","))


def _quoted(text: object) -> str:
    if not isinstance(text, str):  # YAML reads a bare 0.10 as the number 0.1
        message = f"{text!r} is no text; write releases with three numbers or in quotes"
        raise ValueError(message)  # noqa: TRY004  pydantic turns only ValueError into a fault
    return text


Duration = Annotated[float, BeforeValidator(seconds)]
Identifier = Annotated[str, AfterValidator(_identifier)]
RuleId = Annotated[str, AfterValidator(_rule_id)]
Releases = Annotated[ReleaseRange, BeforeValidator(_range)]
ReleaseRanges = Annotated[tuple[ReleaseRange, ...], BeforeValidator(_ranges)]

Severity = Literal["critical", "warning", "info"]
Confidence = Literal["low", "medium", "high"]
Risk = Literal["low", "medium", "high"]
Status = Literal["critical", "warning", "unknown", "idle", "ok"]
Area = Literal["prefill", "decode", "kv-cache", "scheduling", "speculation", "fleet", "availability"]
Cause = Literal[
    "kv-capacity", "kv-overadmission", "slot-limit", "token-budget", "prefill-capacity", "long-prefill-blocking",
    "prefix-cache-miss", "speculation-ineffective", "speculation-broken", "speculation-overload", "frontend-bound",
    "upstream-or-client", "replica-imbalance", "hang", "kv-leak", "cold-start", "cuda-graph-gap", "decode-bandwidth",
    "deferred-waiting", "overload", "request-too-large", "restart-loop", "errors", "metrics-missing", "configuration",
    "unexplained",
]  # fmt: skip
Direction = Literal["raise", "lower", "set", "enable", "disable", "change", "none"]
Provenance = Literal["reported", "given", "inferred", "default"]

SEVERITY_ORDER: tuple[Severity, ...] = ("critical", "warning", "info")
CONFIDENCE_ORDER: tuple[Confidence, ...] = ("high", "medium", "low")


class Spec(BaseModel):
    """Base of everything that is read from YAML: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
