"""The words of a PromQL expression with their places; comments and white space left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["name", "number", "duration", "text", "operator"]

_SPACE = re.compile(r"(?:\s+|#[^\n]*)+")
_DURATION = re.compile(r"(?:\d+(?:ms|[smhdwy]))+(?![A-Za-z0-9_.])")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`")
_OPERATOR = re.compile(r"==|!=|=~|!~|>=|<=|[-+*/%^()\[\]{},<>=@:]")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_LARGEST_CODE = 0x10FFFF
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0}
_PART = re.compile(r"(\d+)(ms|[smhdwy])")


class PromQLSyntaxError(Exception):
    """What is wrong with an expression, and at which character."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True)
class Token:
    """One word: ``start`` and ``end`` count characters of the expression."""

    kind: Kind
    text: str
    start: int
    end: int


def tokens(expression: str) -> tuple[Token, ...]:
    """Cut an expression into words. Raises ``PromQLSyntaxError``."""
    made: list[Token] = []
    at, inside = 0, 0
    while at < len(expression):
        blank = _SPACE.match(expression, at)
        if blank is not None:
            at = blank.end()
            continue
        one = _token(expression, at, colon_apart=inside > 0)
        inside += (one.text == "[") - (one.text == "]")
        made.append(one)
        at = one.end
    return tuple(made)


def _token(expression: str, at: int, *, colon_apart: bool) -> Token:
    letter = expression[at]
    if letter in "\"'`":
        found = _TEXT.match(expression, at)
        if found is None:
            raise PromQLSyntaxError(f"the text that begins with {letter} does not end", at)
        return Token("text", found.group(), at, found.end())
    if letter == ":" and colon_apart:
        return Token("operator", letter, at, at + 1)
    kinds: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("duration", _DURATION), ("number", _NUMBER), ("name", _NAME), ("operator", _OPERATOR),
    )  # fmt: skip
    for kind, pattern in kinds:
        found = pattern.match(expression, at)
        if found is not None:
            return Token(kind, found.group(), at, found.end())
    raise PromQLSyntaxError(f"the character {letter!r} has no meaning here", at)


def unquoted(text: str) -> str:
    """Return what a quoted text says."""
    if text.startswith("`"):
        return text[1:-1]
    return _ESCAPE.sub(_escaped, text[1:-1])


def _escaped(found: re.Match[str]) -> str:
    two, four, eight, octal, letter = found.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(two or four or eight, 16)
    return chr(code) if code <= _LARGEST_CODE else "\ufffd"


def quoted(text: str) -> str:
    """Write a text between double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def number(word: Token) -> float:
    """Value of a number or of a duration in seconds."""
    if word.kind == "duration":
        return sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(word.text))
    return float(int(word.text, 16)) if word.text[:2].lower() == "0x" else float(word.text)
