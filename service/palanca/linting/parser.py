"""Reading PromQL into a tree.

promql-parser decides what is valid, but its tree has no places; ours is made from the words beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

import promql_parser

from palanca.linting.tokens import PromQLSyntaxError, Token, number, quoted, tokens, unquoted
from palanca.linting.tree import (
    Aggregation,
    Binary,
    Call,
    Matcher,
    Matching,
    Node,
    Number,
    Parens,
    Selector,
    Subquery,
    Text,
    Unary,
)

_AGGREGATIONS = frozenset({
    "sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk", "count_values", "quantile",
    "limitk", "limit_ratio",
})  # fmt: skip
_PRECEDENCE = {
    "or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, ">": 3, "<": 3, ">=": 3, "<=": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "atan2": 5, "^": 6,
}  # fmt: skip
_UNARY = 5
_LARGEST, _DEEPEST = 100_000, 80
_FUNCTION = re.compile(r"call to function '(\w+)'")


@lru_cache(maxsize=4096)
def parse(expression: str) -> Node:
    """Read an expression. Raises ``PromQLSyntaxError`` with what is wrong and where."""
    if len(expression) > _LARGEST:
        raise PromQLSyntaxError(f"the expression is longer than {_LARGEST} characters", 0)
    words = tokens(expression)
    if not words:
        raise PromQLSyntaxError("there is no expression", 0)
    made = _Parser(expression, words).whole()
    try:
        promql_parser.parse(_without_raw(expression, words))
    except ValueError as error:
        raise PromQLSyntaxError(str(error), _place(str(error), words)) from None
    return made


def _without_raw(expression: str, words: tuple[Token, ...]) -> str:
    """Write texts between backticks with double quotes: promql-parser looks for escapes in them."""
    made = expression
    for word in reversed(words):
        if word.kind == "text" and word.text.startswith("`"):
            made = made[: word.start] + quoted(unquoted(word.text)) + made[word.end :]
    return made


def _place(message: str, words: tuple[Token, ...]) -> int:
    """Where a message of promql-parser is about."""
    found = _FUNCTION.search(message)
    wanted = found.group(1) if found else None
    return next((word.start for word in words if word.text == wanted), words[0].start)


@dataclass
class _Parser:
    """Reads words from left to right; what it cannot read it refuses with the place."""

    expression: str
    words: tuple[Token, ...]
    at: int = 0
    depth: int = field(default=0)

    # --- words -----------------------------------------------------------------------------------

    def look(self) -> Token | None:
        return self.words[self.at] if self.at < len(self.words) else None

    def text(self) -> str:
        """Return the next word, names in lower case; empty at the end."""
        word = self.look()
        return "" if word is None else word.text.lower() if word.kind == "name" else word.text

    def take(self) -> Token:
        word = self.look()
        if word is None:
            raise PromQLSyntaxError("the expression ends where something is missing", len(self.expression))
        self.at += 1
        return word

    def expect(self, text: str, after: str) -> Token:
        word = self.look()
        if word is None or word.text != text:
            raise self.refused(f"{text!r} is missing {after}")
        return self.take()

    def refused(self, message: str) -> PromQLSyntaxError:
        word = self.look()
        if word is None:
            return PromQLSyntaxError(f"{message}: the expression ends here", len(self.expression.rstrip()))
        return PromQLSyntaxError(f"{message}, found {word.text!r}", word.start)

    # --- expressions -----------------------------------------------------------------------------

    def whole(self) -> Node:
        made = self.binary(0)
        if self.look() is not None:
            raise self.refused("an operator or the end is missing here")
        return made

    def binary(self, least: int) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise PromQLSyntaxError(
                "the expression is nested too deeply", self.words[min(self.at, len(self.words) - 1)].start
            )
        left, chain = self.unary(), 0
        while (precedence := _PRECEDENCE.get(self.text(), 0)) > least:
            chain += 1
            if chain > _DEEPEST:
                raise PromQLSyntaxError("the expression has too many operators in a row", left.start)
            operator = self.take()
            op = operator.text.lower()
            returns_bool, matching = self.modifiers()
            right = self.binary(precedence - 1 if op == "^" else precedence)
            place = operator.start, operator.end
            left = Binary(left.start, right.end, op, left, right, place, returns_bool, matching)
        self.depth -= 1
        return left

    def modifiers(self) -> tuple[tuple[int, int] | None, Matching]:
        """Read ``bool``, ``on``, ``ignoring``, ``group_left``, ``group_right`` and ``fill`` behind an operator."""
        returns_bool, matching = None, Matching()
        while self.text() in {"bool", "on", "ignoring", "group_left", "group_right", "fill", "fill_left", "fill_right"}:
            word = self.text()
            if word not in {"bool", "group_left", "group_right"} and not self.followed_by("("):
                break
            taken = self.take()
            if word == "bool":
                returns_bool = (taken.start, taken.end)
            elif word in {"on", "ignoring"}:
                labels = self.labels()
                place = taken.start, self.words[self.at - 1].end
                matching = replace(matching, labels=labels, on=word == "on", at=place)
            elif word.startswith("fill"):
                matching = replace(matching, filled=True)
                self.take()
                while self.text() not in {")", ""}:
                    self.take()
                self.expect(")", "behind the value to fill in")
            else:
                matching = replace(matching, many="left" if word == "group_left" else "right")
                if self.text() == "(":
                    self.labels()
        return returns_bool, matching

    def followed_by(self, text: str) -> bool:
        return self.at + 1 < len(self.words) and self.words[self.at + 1].text == text

    def labels(self) -> tuple[str, ...]:
        self.expect("(", "before the list of labels")
        made: list[str] = []
        while self.text() != ")":
            word = self.look()
            if word is None or word.kind not in {"name", "text"}:
                raise self.refused("a label is missing")
            made.append(unquoted(word.text) if word.kind == "text" else word.text)
            self.take()
            if self.text() != ")":
                self.expect(",", "between labels")
        self.take()
        return tuple(made)

    def unary(self) -> Node:
        word = self.look()
        if word is not None and word.text in {"+", "-"}:
            self.take()
            inner = self.binary(_UNARY)
            if isinstance(inner, Number):
                return Number(word.start, inner.end, -inner.value if word.text == "-" else inner.value)
            return inner if word.text == "+" else Unary(word.start, inner.end, word.text, inner)
        return self.ranged(self.primary())

    def ranged(self, node: Node) -> Node:
        """Read what may stand behind: a range, a subquery, offset and @."""
        while True:
            word = self.text()
            if word == "[":
                node = self.range_of(node)
            elif word in {"offset", "@"} and isinstance(node, Selector | Subquery | Parens | Call | Aggregation):
                node = self.shifted(node)
            else:
                return node

    def range_of(self, node: Node) -> Node:
        opening = self.take()
        range_s = self.duration()
        if self.text() == ":":
            self.take()
            if self.text() != "]":
                self.duration()
            closing = self.expect("]", "behind the subquery")
            return Subquery(node.start, closing.end, node, range_s)
        closing = self.expect("]", "behind the range")
        if not isinstance(node, Selector) or node.range_s is not None:
            raise PromQLSyntaxError(
                "a range needs a selector before it; an expression needs a subquery such as [5m:1m]", opening.start
            )
        if node.modifiers:
            raise PromQLSyntaxError("the range must stand before offset and @", opening.start)
        return Selector(
            node.start, closing.end, node.name, node.matchers, node.named, node.braces, node.core,
            range_s, (opening.start, closing.end),
        )  # fmt: skip

    def shifted(self, node: Node) -> Node:
        first = self.take()
        if self.text() in {"-", "+"}:
            self.take()
        last = self.take()
        if first.text == "@" and last.text in {"start", "end"}:
            self.expect("(", f"behind {last.text}")
            last = self.expect(")", f"behind {last.text}(")
        elif last.kind not in {"number", "duration"}:
            raise PromQLSyntaxError(f"a duration or number is missing behind {first.text}", last.start)
        if isinstance(node, Selector):
            return Selector(
                node.start, last.end, node.name, node.matchers, node.named, node.braces, node.core,
                node.range_s, node.ranged, f"{node.modifiers} {self.expression[first.start:last.end]}".strip(),
            )  # fmt: skip
        if isinstance(node, Subquery):
            return Subquery(node.start, last.end, node.inner, node.range_s)
        raise PromQLSyntaxError(f"{first.text} must stand behind a selector or a subquery", first.start)

    def duration(self) -> float:
        word = self.take()
        if word.kind not in {"duration", "number"}:
            raise PromQLSyntaxError("a duration such as 5m is missing", word.start)
        return number(word)

    def primary(self) -> Node:
        word = self.look()
        if word is None:
            raise PromQLSyntaxError("the expression ends where a value is missing", len(self.expression.rstrip()))
        if word.text == "(":
            self.take()
            inner = self.binary(0)
            closing = self.expect(")", "to close the parenthesis")
            return Parens(word.start, closing.end, inner)
        if word.kind in {"number", "duration"}:
            self.take()
            return Number(word.start, word.end, number(word))
        if word.kind == "text":
            self.take()
            return Text(word.start, word.end, unquoted(word.text))
        if word.text == "{":
            return self.selector(None)
        if word.kind == "name":
            return self.named()
        raise self.refused("a value is missing")

    def named(self) -> Node:
        word = self.take()
        lower = word.text.lower()
        if lower in {"inf", "nan"} and self.text() not in {"{", "["}:
            return Number(word.start, word.end, float(lower))
        if lower in _AGGREGATIONS and self.text() in {"(", "by", "without"}:
            return self.aggregation(word, lower)
        if self.text() == "(":
            arguments, closing = self.arguments(word.text)
            return Call(word.start, closing.end, word.text, arguments, (word.start, word.end))
        return self.selector(word)

    def arguments(self, owner: str) -> tuple[tuple[Node, ...], Token]:
        self.expect("(", f"behind {owner}")
        made: list[Node] = []
        while self.text() != ")":
            made.append(self.binary(0))
            if self.text() != ")":
                self.expect(",", f"or ')' in the arguments of {owner}")
        return tuple(made), self.take()

    def aggregation(self, word: Token, op: str) -> Node:
        by, without, clause = self.grouping()
        arguments, closing = self.arguments(op)
        if not arguments:
            raise PromQLSyntaxError(f"{op} of nothing", closing.start)
        end = closing.end
        if clause is None:
            by, without, clause = self.grouping()
            end = clause[1] if clause else end
        return Aggregation(word.start, end, op, by, without, arguments, (word.start, word.end), clause)

    def grouping(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[int, int] | None]:
        word = self.look()
        if word is None or self.text() not in {"by", "without"}:
            return None, None, None
        self.take()
        labels = self.labels()
        place = (word.start, self.words[self.at - 1].end)
        return (labels, None, place) if word.text.lower() == "by" else (None, labels, place)

    def selector(self, word: Token | None) -> Selector:
        opening = self.look() if self.text() == "{" else None
        matchers: tuple[Matcher, ...] = ()
        place = None if word is None else (word.start, word.end)
        name = None if word is None else word.text
        end = 0 if word is None else word.end
        braces = None
        if opening is not None:
            matchers, quoted_name, closing = self.matchers()
            braces, end = (opening.start, closing.end), closing.end
            if name is None and quoted_name is not None:
                name, place = unquoted(quoted_name.text), (quoted_name.start, quoted_name.end)
            given = next((one for one in matchers if one.label == "__name__" and one.op == "="), None)
            if name is None and given is not None:
                name, place = given.value, given.at
        start = opening.start if word is None and opening is not None else word.start if word is not None else 0
        return Selector(start, end, name, matchers, place or (start, end), braces, end)

    def matchers(self) -> tuple[tuple[Matcher, ...], Token | None, Token]:
        """Read what stands between braces: the matchers, a quoted name, the closing brace."""
        self.take()
        made: list[Matcher] = []
        name: Token | None = None
        while self.text() != "}":
            label = self.take()
            if label.kind not in {"name", "text"}:
                raise PromQLSyntaxError(f"a label is missing between braces, found {label.text!r}", label.start)
            if label.kind == "text" and self.text() in {",", "}"}:
                name = label
            else:
                made.append(self.matcher(label))
            if self.text() == "or":
                self.take()
            elif self.text() != "}":
                self.expect(",", "or '}' between matchers")
        return tuple(made), name, self.take()

    def matcher(self, label: Token) -> Matcher:
        op = self.take()
        if op.text not in {"=", "!=", "=~", "!~"}:
            raise PromQLSyntaxError(f"one of = != =~ !~ is missing behind {label.text}, found {op.text!r}", op.start)
        value = self.look()
        if value is None or value.kind != "text":
            raise self.refused(f"the value of {label.text} must stand in quotes")
        self.take()
        plain = unquoted(label.text) if label.kind == "text" else label.text
        return Matcher(plain, op.text, unquoted(value.text), label.start, (value.start, value.end))
