"""Rules out of YAML and JSON: Prometheus' own files, PrometheusRule objects, Helm values, mixins, ConfigMaps.

A group is whatever has ``rules``, and stands in a list under ``groups``, however deep that is.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from palanca.errors import Fault, RuleFileError
from palanca.expressions import nearest
from palanca.linting.rule import Kind, LintRule, Misshape, RuleSource, Source, Words
from palanca.linting.tokens import PromQLSyntaxError, number, tokens

HOLDS_NONE = "holds no rules"
"""What is wrong with a file that is something else."""
_RULE_KEYS = ("record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations")
_OTHER_KEYS = frozenset({"debug", "update_entries_limit", "params"})
"""Of VictoriaMetrics' rules."""
_IGNORE = re.compile(r"#\s*palanca:ignore(?P<file>-file)?(?::|\s)\s*(?P<ids>[\w-]+(?:\s*,\s*[\w-]+)*)")
_COMMENT = re.compile(r"^\s*#")
_EMBEDDED = re.compile(r"^\s*groups\s*:", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{-?\s*(?:if|range|with|include|end|\.Values|template)\b|\{\{-?\s*\.Values")
_NULL = "tag:yaml.org,2002:null"
_DEEPEST = 3
"""Texts inside texts."""


def read(path: str, text: str) -> RuleSource:
    """Read a file; one that Prometheus takes for an empty one has no rules.

    Raises ``RuleFileError`` with the place where it cannot be read, or where it is something else.
    """
    made = _Reader(path, Source(text))
    made.read()
    if not made.rules and not made.empty:
        message, hint = HOLDS_NONE, "a rule file has groups, each with rules that have alert or record, and expr"
        raise RuleFileError([Fault(Path(path), 0, 0, message, hint)])
    return RuleSource(path, tuple(made.rules), tuple(made.ignores))


def _composed(path: str, text: str) -> list[yaml.Node]:
    """Make YAML nodes of all documents. Raises ``RuleFileError``."""
    if text.lstrip()[:1] in {"{", "["} and "\t" in text:
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(text)
            text = text.replace("\t", " ")  # JSON may be indented with tabs, which YAML refuses
    quick = getattr(yaml, "CSafeLoader", None)
    if quick is not None:
        with contextlib.suppress(yaml.YAMLError, RecursionError):
            return list(yaml.compose_all(text, quick))
    try:
        return list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.reader.ReaderError as error:
        line, column = Source(text).locate(error.position)
        raise RuleFileError([Fault(Path(path), line, column, f"not YAML: {error.reason}")]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        hint = "render the template first: helm template CHART" if _TEMPLATE.search(text) else ""
        raise RuleFileError([Fault(Path(path), line, column, f"not YAML: {error.problem or error}", hint)]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise RuleFileError([Fault(Path(path), 1, 1, f"not YAML: {error}")]) from None


@dataclass
class _Reader:
    path: str
    source: Source
    depth: int = 0
    empty: bool = False
    """Whether it is blank, or a rule file whose groups have no rules."""
    rules: list[LintRule] = field(default_factory=list)
    ignores: list[tuple[str, tuple[int, int]]] = field(default_factory=list)

    def read(self) -> None:
        """Read all documents."""
        self._lines = self.source.text.split("\n")
        self._comments = dict(self._ignore_comments())
        documents = _composed(self.path, self.source.text)
        for document in documents:
            self._search(document)
        self.empty = not self.rules and all(map(_is_blank, documents))

    def _ignore_comments(self) -> Iterator[tuple[int, frozenset[str]]]:
        """Ids by the number of the line (from 0) that names them; -1 for the whole file."""
        whole: set[str] = set()
        at = 0
        for number_, line in enumerate(self._lines):
            found = _IGNORE.search(line)
            if found is not None:
                ids = frozenset(re.split(r"\s*,\s*", found["ids"]))
                place = self.source.locate(at + found.start("ids"))
                self.ignores += [(one, place) for one in sorted(ids)]
                if found["file"]:
                    whole |= ids
                else:
                    yield number_, ids
            at += len(line) + 1
        yield -1, frozenset(whole)

    # --- finding groups --------------------------------------------------------------------------

    def _search(self, document: yaml.Node) -> None:
        todo: list[yaml.Node] = [document]
        seen: set[int] = set()
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.SequenceNode) and node.value and _is_rule(node.value[0]):
                self._loose(node.value)
            elif isinstance(node, yaml.SequenceNode):
                todo.extend(reversed(node.value))
            elif isinstance(node, yaml.MappingNode):
                todo.extend(reversed(self._mapping(node)))
            elif isinstance(node, yaml.ScalarNode) and self.depth < _DEEPEST and _EMBEDDED.search(node.value):
                self._embedded(node)

    def _mapping(self, node: yaml.MappingNode) -> list[yaml.Node]:
        """Read the groups of a mapping, and give what else is to be searched."""
        more: list[yaml.Node] = []
        for key, value in _pairs(node):
            if _word(key) == "groups" and isinstance(value, yaml.SequenceNode):
                for group in value.value:
                    self._group(group)
            else:
                more.append(value)
        return more

    def _loose(self, rules: Sequence[yaml.Node]) -> None:
        """Read a list of rules that stands in no group, as articles print it."""
        made = [self._rule("", rule) for rule in rules]
        fault = Misshape("these rules stand in no group", "groups: [{name: vllm, rules: [...]}]", made[0].place)
        self.rules += [replace(made[0], faults=(fault, *made[0].faults)), *made[1:]]

    def _embedded(self, node: yaml.ScalarNode) -> None:
        inner = _Reader(self.path, Source(node.value, self._words(node)), self.depth + 1)
        with contextlib.suppress(RuleFileError):
            inner.read()
            self.rules += inner.rules
            self.ignores += inner.ignores

    def _group(self, group: yaml.Node) -> None:
        if not isinstance(group, yaml.MappingNode):
            return
        named = {_word(key): value for key, value in _pairs(group)}
        rules = named.get("rules")
        if isinstance(rules, yaml.SequenceNode):
            for rule in rules.value:
                self.rules.append(self._rule(_word(named.get("name")), rule))

    # --- rules -----------------------------------------------------------------------------------

    def _rule(self, group: str, node: yaml.Node) -> LintRule:
        place = self._place(node)
        if not isinstance(node, yaml.MappingNode):
            fault = Misshape("a rule has keys and values", "alert or record, and expr", place)
            return LintRule(self.path, group, "", "unknown", place, None, faults=(fault,))
        faults: list[Misshape] = []
        given: dict[str, yaml.Node] = {}
        for key, value in _pairs(node):
            word = _word(key)
            if word in given and not _merged(node, key):
                faults.append(Misshape(f"duplicate key {word!r}", "keep one of them", self._place(key)))
            given.setdefault(word, value)
            if word not in _RULE_KEYS and word not in _OTHER_KEYS:
                hint = nearest(word, dict.fromkeys(_RULE_KEYS)) or f"one of {', '.join(_RULE_KEYS)}"
                faults.append(Misshape(f"unknown key {word!r}", hint, self._place(key)))
        kind: Kind = "alert" if "alert" in given else "record" if "record" in given else "unknown"
        if kind == "unknown" or {"alert", "record"} <= given.keys():
            faults.append(Misshape("a rule has either alert or record", "give one of them", place))
        expression = self._scalar(given.get("expr"), "expr", faults)
        if expression is None and not any("expr" in one.message for one in faults):
            faults.append(Misshape("the rule has no expr", "give it an expression", place))
        return LintRule(
            self.path, group, _word(given.get(kind)), kind, place, expression,
            for_s=self._duration(given.get("for"), faults),
            labels=self._texts(given.get("labels"), "labels", faults),
            annotations=self._texts(given.get("annotations"), "annotations", faults),
            faults=tuple(faults), ignored=self._ignored(node),
        )  # fmt: skip

    def _scalar(self, node: yaml.Node | None, key: str, faults: list[Misshape]) -> Words | None:
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL:
            faults.append(Misshape(f"{key} is no text", "write an expression", self._place(node)))
            return None
        return self._words(node)

    def _duration(self, node: yaml.Node | None, faults: list[Misshape]) -> float | None:
        if node is None or node.tag == _NULL:
            return None
        try:
            words = tokens(_word(node))
        except PromQLSyntaxError:
            words = ()
        if len(words) == 1 and (words[0].kind == "duration" or words[0].text == "0"):
            return number(words[0])
        faults.append(Misshape(f"for is no duration: {_word(node)!r}", "such as 5m", self._place(node)))
        return None

    def _texts(self, node: yaml.Node | None, key: str, faults: list[Misshape]) -> Mapping[str, Words]:
        if node is None or node.tag == _NULL:
            return {}
        if not isinstance(node, yaml.MappingNode):
            faults.append(Misshape(f"{key} has names and texts", f"such as {key}: {{name: text}}", self._place(node)))
            return {}
        made: dict[str, Words] = {}
        for name, value in _pairs(node):
            if isinstance(value, yaml.ScalarNode):
                made.setdefault(_word(name), self._words(value))
            else:
                message = f"{key}: {_word(name)!r} is no text"
                faults.append(Misshape(message, "quote it", self._place(value)))
        return made

    def _words(self, node: yaml.ScalarNode) -> Words:
        start, end = node.start_mark.index, node.end_mark.index
        if node.style in {'"', "'"}:
            start, end = start + 1, end - 1
        elif node.style in {"|", ">"}:
            start = self.source.text.find("\n", start) + 1
        return Words(node.value, self.source, start, end, node.style or None)

    def _place(self, node: yaml.Node) -> tuple[int, int]:
        return self.source.locate(node.start_mark.index)

    # --- comments --------------------------------------------------------------------------------

    def _ignored(self, node: yaml.Node) -> frozenset[str]:
        """Checks that a comment in the rule, or directly above it, or one for the file, silences."""
        first, last = node.start_mark.line, _last_line(node)
        while first > 0 and _COMMENT.match(self._lines[first - 1]):
            first -= 1
        named = [ids for line, ids in self._comments.items() if line == -1 or first <= line <= last]
        return frozenset().union(*named)


def _is_rule(node: yaml.Node) -> bool:
    keys = {_word(key) for key, _ in _pairs(node)} if isinstance(node, yaml.MappingNode) else set()
    return "expr" in keys and bool(keys & {"alert", "record"})


def _is_blank(document: yaml.Node) -> bool:
    """Whether a document says nothing, or no more than groups without rules."""
    if not isinstance(document, yaml.MappingNode):
        return document.tag == _NULL
    keys = {_word(key): value for key, value in _pairs(document)}
    groups = keys.get("groups")
    held = groups.value if isinstance(groups, yaml.SequenceNode) else [groups] if groups is not None else []
    return keys.keys() <= {"groups"} and all(isinstance(one, yaml.MappingNode) or one.tag == _NULL for one in held)


def _word(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _pairs(node: yaml.MappingNode, depth: int = 0) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Keys and values, those of merged mappings (``<<``) behind the own ones."""
    merged: list[yaml.Node] = []
    for key, value in node.value:
        if _word(key) == "<<" and depth < _DEEPEST:
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
        else:
            yield key, value
    for one in merged:
        if isinstance(one, yaml.MappingNode):
            yield from _pairs(one, depth + 1)


def _merged(node: yaml.MappingNode, key: yaml.Node) -> bool:
    return all(own is not key for own, _ in node.value)


def _last_line(node: yaml.Node) -> int:
    """Number of the last line with something of a node: the end mark of a block is behind what follows it."""
    last, todo, seen = node.start_mark.line, [node], {id(node)}
    while todo:
        one = todo.pop()
        if isinstance(one, yaml.ScalarNode):
            end = one.end_mark
            last = max(last, end.line - (end.column == 0 and end.line > one.start_mark.line))
            continue
        for child in one.value:
            for part in child if isinstance(child, tuple) else (child,):
                if id(part) not in seen and part.start_mark.line >= node.start_mark.line:
                    seen.add(id(part))
                    todo.append(part)
    return last
