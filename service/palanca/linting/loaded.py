"""Rules as ``/api/v1/rules`` tells them; places count inside the expression, as Prometheus writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from palanca.linting.rule import LintRule, RuleSource, Source, Words


def read(groups: Sequence[Mapping[str, Any]]) -> tuple[RuleSource, ...]:
    """Read the groups of an answer, by the file that each was loaded from."""
    files: dict[str, list[LintRule]] = {}
    for group in groups:
        path = str(group.get("file") or "rules")
        files.setdefault(path, []).extend(_rules(path, group))
    return tuple(RuleSource(path, tuple(rules)) for path, rules in files.items())


def _rules(path: str, group: Mapping[str, Any]) -> Iterator[LintRule]:
    rules = group.get("rules")
    for rule in rules if isinstance(rules, list) else ():
        if not isinstance(rule, Mapping):
            continue
        recording = rule.get("type") == "recording"
        duration = rule.get("duration")
        yield LintRule(
            path, str(group.get("name", "")), str(rule.get("name", "")), "record" if recording else "alert", (1, 1),
            _words(str(rule.get("query", ""))),
            for_s=float(duration) if isinstance(duration, int | float) and duration > 0 and not recording else None,
            labels=_texts(rule.get("labels")), annotations=_texts(rule.get("annotations")), where="expression",
        )  # fmt: skip


def _texts(given: object) -> Mapping[str, Words]:
    return {str(name): _words(str(text)) for name, text in given.items()} if isinstance(given, Mapping) else {}


def _words(text: str) -> Words:
    return Words(text, Source(text), 0, len(text))
