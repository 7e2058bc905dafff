"""What the tests of the exported files share: names of series, labels that fit the selector, one expected answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from palanca.alerting.conditions import literal
from palanca.moments import duration
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from palanca.alerting.options import Matcher

PLAIN = {"instance": "a:8000", "job": "vllm", "model_name": "m"}
"""Labels of an engine in tests."""


def selector(name: str, labels: Mapping[str, str]) -> str:
    """A series as text; empty labels are none."""
    inside = ", ".join(f"{label}={quote(value)}" for label, value in sorted(labels.items()) if value)
    return f"{name}{{{inside}}}"


def line(name: str, labels: Mapping[str, str], values: str) -> dict[str, str]:
    """One series of a test, its values in promtool's notation."""
    return {"series": selector(name, labels), "values": values}


def constant(value: float, steps: int) -> str:
    """The same value at each of ``steps`` steps and at 0."""
    return f"{literal(value)}+0x{steps}"


def rising(slope: float, steps: int) -> str:
    """A counter that begins with 0 and grows by ``slope`` a step."""
    return f"0+{literal(slope)}x{steps}"


def expected(query: str, moment: float, samples: Iterable[tuple[Mapping[str, str], float]]) -> dict[str, object]:
    """What a query must answer, ``moment`` seconds after the beginning."""
    listed = [{"labels": selector("", labels), "value": value} for labels, value in samples]
    return {"expr": query, "eval_time": duration(moment), "exp_samples": listed}


def fitting(matchers: Sequence[Matcher], plain: Mapping[str, str]) -> dict[str, str] | None:
    """Labels like the plain ones that fit all matchers; None where none are found."""
    labels = dict(plain)
    for one in matchers:
        candidates = [labels.get(one.label, ""), one.value, *one.value.split("|"), labels.get(one.label, "") + "x", ""]
        value = next((value for value in candidates if _fits(one, value)), None)
        if value is None:
            return None
        labels[one.label] = value
    return labels if all(_fits(one, labels.get(one.label, "")) for one in matchers) else None


def _fits(matcher: Matcher, value: str) -> bool:
    if matcher.op in {"=", "!="}:
        return (matcher.value == value) == (matcher.op == "=")
    return (re.fullmatch(matcher.value, value) is not None) == (matcher.op == "=~")
