"""What the query of a page asks for. Names as in ``GET /diagnose``; a field that a form leaves empty is not given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_args, get_origin

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palanca.advice.serve_line import NEWEST
from palanca.api.guard import LONGEST_QUERY
from palanca.api.selection import LARGEST_PAGE, MOST_VALUES, Matcher, Moment, Text, Where
from palanca.errors import UsageError
from palanca.model import Area, Cause, Severity
from palanca.moments import parse_moment
from palanca.quantities import rfc3339

if TYPE_CHECKING:
    from starlette.requests import Request

PAGE_ROWS = 100
LONGEST_CONFIG = LONGEST_QUERY
CLOCKS_APART_S = 60.0
"""A moment so little ahead is now by another clock."""
Spelt = TypeVar("Spelt", bound=BaseModel)
Values = Annotated[list[Text], Field(max_length=MOST_VALUES)]


def searched(q: str, text: str) -> bool:
    """Whether all words of a search occur in a text, in whatever case."""
    text = text.casefold()
    return all(word in text for word in q.casefold().split())


class AskedTime(BaseModel):
    """A page that can look at the past."""

    model_config = ConfigDict(extra="forbid")

    time: Moment | None = None

    def at(self, now: float) -> float | None:
        """Moment that is asked for, unix seconds; None for now. Raises ``UsageError`` for the future."""
        if self.time is None:
            return None
        moment = parse_moment(self.time, now=now)
        if moment > now + CLOCKS_APART_S:
            raise UsageError(f"{rfc3339(moment)} is in the future; it is {rfc3339(now)}")
        return min(moment, now)


class AskedFleet(Where, AskedTime):
    """Parameters of the fleet; ``q`` is searched for in labels, rules and causes."""

    limit: int | None = Field(default=PAGE_ROWS, ge=1, le=LARGEST_PAGE)
    q: Text = ""


class AskedEngine(Where, AskedTime):
    """Parameters of an engine: what selects it."""


class AskedTimeline(AskedTime):
    """Parameters of the timeline: it ends at ``time`` and is ``span`` long."""

    span: Literal["24h", "7d"] = "24h"
    model: Text = ""
    instance: Text = ""
    match: Annotated[list[Matcher], Field(max_length=MOST_VALUES)] = Field(default_factory=list)
    source: Values = Field(default_factory=list)
    rule: Values = Field(default_factory=list)
    severity: list[Severity] = Field(default_factory=list, max_length=MOST_VALUES)
    cause: list[Cause] = Field(default_factory=list, max_length=MOST_VALUES)
    cursor: str | None = Field(default=None, max_length=100)

    @property
    def labels(self) -> dict[str, str]:
        """Labels that an engine must have."""
        named = {"model_name": self.model, "instance": self.instance}
        pairs = (text.partition("=") for text in self.match)
        return {name: value for name, value in named.items() if value} | {name: value for name, _, value in pairs}


class AskedRules(BaseModel):
    """Parameters of the matrix."""

    model_config = ConfigDict(extra="forbid")

    area: list[Area] = Field(default_factory=list, max_length=MOST_VALUES)
    severity: list[Severity] = Field(default_factory=list, max_length=MOST_VALUES)
    q: Text = ""


class AskedSize(BaseModel):
    """Parameters of the calculator; ``config`` is the text of a ``config.json``, ``reference`` names one known here."""

    model_config = ConfigDict(extra="forbid")

    reference: Text = ""
    config: str = Field(default="", max_length=LONGEST_CONFIG)
    gpu: Text = ""
    gpus: int = Field(default=1, ge=1, le=1024)
    vllm: Text = NEWEST.text
    users: int | None = Field(default=None, ge=1)
    context: int | None = Field(default=None, ge=1)
    kv_cache_dtype: Literal["auto", "fp8"] = "auto"
    utilization: float | None = Field(default=None, ge=0.05, le=1)
    weight_bytes: float | None = Field(default=None, ge=1)


class AskedSignIn(BaseModel):
    """Parameters of the form of a token: the page to go to afterwards."""

    model_config = ConfigDict(extra="forbid")

    to: str = Field(default="", max_length=LONGEST_QUERY)


class AskedNothing(BaseModel):
    """Of a page without parameters."""

    model_config = ConfigDict(extra="forbid")


def asked(kind: type[Spelt], request: Request) -> Spelt:
    """Read the query of a request. Raises ``RequestValidationError`` with every fault."""
    return of_pairs(kind, request.query_params.multi_items())


def of_pairs(kind: type[Spelt], pairs: list[tuple[str, str]]) -> Spelt:
    """Read pairs of name and value. Raises ``RequestValidationError`` with every fault."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if value:
            found.setdefault(name, []).append(value)
    lists = {name for name, field in kind.model_fields.items() if _is_list(field.annotation)}
    try:
        return kind.model_validate({name: some if name in lists else some[-1] for name, some in found.items()})
    except ValidationError as error:
        faults = [{**one, "loc": ("query", *one["loc"])} for one in error.errors()]
        raise RequestValidationError(faults) from None


def _is_list(annotation: object) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_list(get_args(annotation)[0])
    return get_origin(annotation) is list
