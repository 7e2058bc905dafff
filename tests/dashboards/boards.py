"""The dashboards as Grafana reads them: their parts, and what it puts in the place of variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.engines import shipped

from palanca.dashboards.export import DASHBOARDS, Exported
from palanca.dashboards.options import Options

PROMETHEUS_BOARDS = tuple(name for name in DASHBOARDS if name != "diagnosis")
Json = Any
Chosen = Mapping[str, str | Sequence[str]]
_VARIABLE = re.compile(r"\$\{(\w+)(?::(\w+))?\}|\$(\w+)")
_SPECIAL = re.compile(r"[$^*{}\[\]'+?.()|]")


@dataclass(frozen=True)
class Asked:
    """One query of a dashboard: where it stands, and how it is asked."""

    board: str
    panel: str
    ref: str
    expr: str
    instant: bool

    @property
    def where(self) -> str:
        return f"{self.board}: {self.panel}: {self.ref}"


@cache
def board(name: str, options: Options | None = None) -> Json:
    """A dashboard as JSON values."""
    return json.loads(Exported.of(shipped(), options or Options()).file(name))


def panels(name: str, options: Options | None = None) -> list[Json]:
    """Its panels without rows."""
    return [one for one in board(name, options)["panels"] if one["type"] != "row"]


def queries(name: str, options: Options | None = None) -> Iterator[Asked]:
    """All queries of panels and annotations."""
    for panel in panels(name, options):
        for target in panel["targets"]:
            yield Asked(name, panel["title"], target["refId"], target["expr"], target["instant"])
    for one in board(name, options).get("annotations", {}).get("list", []):
        yield Asked(name, "annotation", one["name"], one["expr"], instant=False)


def defaults(name: str) -> dict[str, str | Sequence[str]]:
    """What the variables are when a dashboard is opened; where it takes the first value, that is left to the test."""
    chosen: dict[str, str | Sequence[str]] = {"__range": "600s", "__rate_interval": "60s"}
    for one in board(name)["templating"]["list"]:
        match one["type"], one.get("includeAll"):
            case "textbox", _:
                chosen[one["name"]] = one["query"]
            case "query", True:
                chosen[one["name"]] = "$__all"
    return chosen


def filled(expr: str, chosen: Chosen, *, all_value: str = ".*") -> str:
    """Put values in as Grafana's Prometheus data source does: lists as alternatives, each quoted; All as it is.

    What is no variable (``$1`` of ``label_replace``) stays.
    """

    def one(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        if name not in chosen:
            return found[0]
        value = chosen[name]
        if value == "$__all":
            return all_value
        if isinstance(value, str):
            return value
        quoted = [_quoted(part) for part in value]
        return quoted[0] if len(quoted) == 1 else f"({'|'.join(quoted)})"

    return _VARIABLE.sub(one, expr)


def _quoted(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\\\" + found[0], text.replace("\\", "\\\\\\\\"))
