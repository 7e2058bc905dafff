"""What is linted: a rule, its texts with their places, and what is wrong with its shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from palanca.linting.parser import parse
from palanca.linting.tokens import PromQLSyntaxError
from palanca.linting.tree import Node

Kind = Literal["alert", "record", "unknown"]
Where = Literal["file", "expression"]

_NEAR = 5


@dataclass(frozen=True)
class Source:
    """A text that rules were read from; ``outer`` where it stands inside a text of another file."""

    text: str
    outer: Words | None = None

    @cached_property
    def _lines(self) -> tuple[int, ...]:
        return tuple(found.end() for found in re.finditer(r"^|\n", self.text))

    def locate(self, index: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        if self.outer is not None:
            return self.outer.place(index)
        low, high = 0, len(self._lines)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._lines[middle] <= index else (low, middle)
        return low + 1, index - self._lines[low] + 1


@dataclass(frozen=True)
class Words:
    """A text of a rule: ``start`` to ``end`` in its source; ``style`` is YAML's (``|``, ``>``, quotes, None)."""

    value: str
    source: Source
    start: int
    end: int
    style: str | None = None

    @cached_property
    def _indexes(self) -> tuple[int, ...]:
        """Where each character of ``value`` stands: YAML changes space and escapes, not the other characters."""
        raw, at, made = self.source.text, self.start, []
        for letter in self.value:
            if letter.isspace():
                made.append(min(at, self.end))
                continue
            at = self._next(raw, at)
            made.append(min(at, self.end))
            at = min(_behind(raw, at, self.style), self.end)
        return (*made, at)

    def _next(self, raw: str, at: int) -> int:
        while at < self.end:
            if self.style == '"' and raw[at] == "\\" and raw[at + 1 : at + 2] in {"n", "t", "r", " ", "\n"}:
                at += 2
            elif raw[at].isspace():
                at += 1
            else:
                break
        return at

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character of the value."""
        if self.style is None and self.source.text[self.start : self.end] == self.value:
            return self.source.locate(min(self.start + offset, self.end))
        return self.source.locate(self._indexes[min(offset, len(self.value))])


def _behind(raw: str, at: int, style: str | None) -> int:
    """The place behind one written character."""
    if style == '"' and raw[at : at + 1] == "\\":
        return at + {"x": 4, "u": 6, "U": 10}.get(raw[at + 1 : at + 2], 2)
    if style == "'" and raw[at : at + 2] == "''":
        return at + 2
    return at + 1


@dataclass(frozen=True)
class Misshape:
    """A fault in the shape of a rule, which Prometheus would refuse."""

    message: str
    mend: str
    place: tuple[int, int]


@dataclass(frozen=True)
class LintRule:
    """One alert or recording rule. ``for_s`` is None where ``for`` is not given; ``name`` may be empty.

    ``ignored`` are the checks that a comment silences for it, ``prometheus_1`` tells the syntax of Prometheus 1.
    ``where``: whether places count in the file, or in the expression of a rule that a Prometheus told.
    """

    path: str
    group: str
    name: str
    kind: Kind
    place: tuple[int, int]
    expression: Words | None
    for_s: float | None = None
    labels: Mapping[str, Words] = field(default_factory=dict)
    annotations: Mapping[str, Words] = field(default_factory=dict)
    faults: tuple[Misshape, ...] = ()
    ignored: frozenset[str] = frozenset()
    prometheus_1: bool = False
    where: Where = "file"

    @cached_property
    def _parsed(self) -> Node | PromQLSyntaxError | None:
        if self.expression is None:
            return None
        try:
            return parse(self.expression.value)
        except PromQLSyntaxError as error:
            return error
        except RecursionError:
            return PromQLSyntaxError("the expression is nested too deeply", 0)

    @property
    def tree(self) -> Node | None:
        """The expression; None where it cannot be read."""
        return self._parsed if isinstance(self._parsed, Node) else None

    @property
    def error(self) -> PromQLSyntaxError | None:
        """Why the expression cannot be read."""
        return self._parsed if isinstance(self._parsed, PromQLSyntaxError) else None

    @property
    def text(self) -> str:
        """The expression as it is written."""
        return "" if self.expression is None else self.expression.value


@dataclass(frozen=True)
class RuleSource:
    """One file, or one Prometheus: ``wrong_ignores`` are ids that no check has, with their places."""

    path: str
    rules: tuple[LintRule, ...]
    ignores: tuple[tuple[str, tuple[int, int]], ...] = ()
    """Every check id that a comment names."""
