"""Rules in the syntax of Prometheus 1: ``ALERT name IF expression FOR 5m LABELS {...} ANNOTATIONS {...}``.

Prometheus 2 (2017) and newer refuse it, articles still print it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from palanca.errors import Fault, RuleFileError
from palanca.linting.rule import LintRule, Misshape, RuleSource, Source, Words
from palanca.linting.tokens import PromQLSyntaxError, Token, number, tokens, unquoted
from palanca.moments import duration

_ALERT = re.compile(r"^[ \t]*ALERT[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_RECORD = re.compile(r"^[ \t]*([A-Za-z_]\w*:[\w:]*)[ \t]*(?:\{[^{}\n]*\})?[ \t]*=(?![=~])", re.MULTILINE)
_PARTS = ("IF", "FOR", "LABELS", "ANNOTATIONS")


def is_prometheus_1(text: str) -> bool:
    """Whether a text has an alert in this syntax."""
    return _ALERT.search(text) is not None


def read(path: str, text: str) -> RuleSource:
    """Read a file. Raises ``RuleFileError`` where it cannot be cut into words."""
    source = Source(text)
    found = sorted([*_ALERT.finditer(text), *_RECORD.finditer(text)], key=lambda one: one.start())
    ends = [one.start() for one in found[1:]] + [len(text)]
    rules: list[LintRule] = []
    for head, end in zip(found, ends, strict=True):
        try:
            rules.append(_rule(path, source, head, end))
        except PromQLSyntaxError as error:
            line, column = source.locate(error.at)
            raise RuleFileError([Fault(Path(path), line, column, str(error))]) from None
    return RuleSource(path, tuple(rules))


def _rule(path: str, source: Source, head: re.Match[str], end: int) -> LintRule:
    place = source.locate(head.start(1))
    try:
        words = tokens(source.text[head.end() : end])
    except PromQLSyntaxError as error:
        raise PromQLSyntaxError(str(error), error.at + head.end()) from None
    if head.re is _RECORD:
        expression = _words(source, words, head.end())
        return LintRule(
            path, "", head[1], "record", place, expression, faults=_faults(expression, place), prometheus_1=True
        )
    parts = dict(_parts(words))
    expression = _words(source, parts.get("IF", ()), head.end())
    time = parts.get("FOR", ())
    return LintRule(
        path, "", head[1], "alert", place, expression,
        for_s=number(time[0]) if time and time[0].kind in {"duration", "number"} else None,
        labels=_texts(source, parts.get("LABELS", ()), head.end()),
        annotations=_texts(source, parts.get("ANNOTATIONS", ()), head.end()),
        faults=_faults(expression, place), prometheus_1=True,
    )  # fmt: skip


def _faults(expression: Words | None, place: tuple[int, int]) -> tuple[Misshape, ...]:
    return () if expression is not None else (Misshape("the rule has no expression", "give it one behind IF", place),)


def _parts(words: Sequence[Token]) -> Iterator[tuple[str, tuple[Token, ...]]]:
    starts = [index for index, word in enumerate(words) if word.kind == "name" and word.text in _PARTS]
    for start, end in pairwise([*starts, len(words)]):
        yield words[start].text, tuple(words[start + 1 : end])


def _words(source: Source, words: Sequence[Token], base: int) -> Words | None:
    if not words:
        return None
    start, end = base + words[0].start, base + words[-1].end
    return Words(source.text[start:end], source, start, end)


def _texts(source: Source, words: Sequence[Token], base: int) -> Mapping[str, Words]:
    made: dict[str, Words] = {}
    for name, equals, value in zip(words, words[1:], words[2:], strict=False):
        if name.kind == "name" and equals.text == "=" and value.kind == "text":
            start, end = base + value.start + 1, base + value.end - 1
            made[name.text] = Words(unquoted(value.text), source, start, end, '"')
    return made


def as_yaml(rule: LintRule, expression: str) -> str:
    """Write a rule for Prometheus 2 and newer, as an item of ``rules``."""
    lines = [f"- {rule.kind}: {rule.name}", f"  expr: {_block(expression)}"]
    if rule.for_s:
        lines.append(f"  for: {duration(rule.for_s)}")
    for key, texts in (("labels", rule.labels), ("annotations", rule.annotations)):
        if texts:
            lines.append(f"  {key}:")
            lines += [f"    {name}: {json.dumps(text.value, ensure_ascii=False)}" for name, text in texts.items()]
    return "\n".join(lines)


def _block(expression: str) -> str:
    return "|-\n" + "\n".join(f"    {line.strip()}" for line in expression.strip().splitlines())
