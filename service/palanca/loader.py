"""YAML files to the frozen model, with every fault as ``file:line:column``.

Faults are collected over all files; unknown keys, duplicate keys and keys out of order are faults.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from palanca.errors import Fault, RuleFileError
from palanca.expressions import nearest
from palanca.model import FactSpec, Identifier, Lever, Metrics, Rule, Signal, Spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Keys = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)
_FEW = 15  # names that fit on a line
_QUOTED = re.compile(r"'([^']*)'")
_LARGEST = 2_000_000  # bytes; a rule file is a page, the catalogue a few


class Signals(Spec):
    """``rules/signals.yaml``."""

    signals: Mapping[Identifier, Signal]


class Facts(Spec):
    """``rules/facts.yaml``."""

    facts: Mapping[str, FactSpec]


class Levers(Spec):
    """``rules/levers.yaml``."""

    levers: Mapping[Identifier, Lever]


@dataclass(frozen=True)
class Document:
    """One YAML file as plain data, with the place of every key and value."""

    path: Path
    data: Any
    marks: Mapping[Keys, tuple[int, int]]
    text: str = ""
    folded: Mapping[Keys, tuple[int, int]] = field(default_factory=dict)
    """Where scalars of several lines begin and end in ``text``."""

    def fault(self, keys: Keys, message: str, hint: str = "", offset: int = 0) -> Fault:
        """Make a fault at the nearest known place above ``keys``; ``offset`` counts columns inside a scalar."""
        where = keys
        while where not in self.marks and where:
            where = where[:-1]
        line, column = self.marks.get(where, (1, 1))
        if where in self.folded:
            line, column = self._place(where, offset)
        else:
            column += offset
        return Fault(self.path, line, column, message, hint)

    def _place(self, keys: Keys, offset: int) -> tuple[int, int]:
        """Line and column of a character of a scalar of several lines: folding changes its spaces, not its words."""
        value: Any = self.data
        for key in keys:
            value = value[key]
        ahead = sum(not char.isspace() for char in str(value)[:offset])
        start, end = self.folded[keys]
        words = [index for index in range(start, end) if not self.text[index].isspace()] or [start]
        index = words[ahead] if ahead < len(words) else words[-1] + 1
        return self.text.count("\n", 0, index) + 1, index - self.text.rfind("\n", 0, index)


def read(path: Path) -> Document:
    """Read one YAML file. Raises ``RuleFileError``."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RuleFileError([Fault(path, 0, 0, f"cannot be read: {error.strerror or error}")]) from None
    if len(raw) > _LARGEST:
        raise RuleFileError([Fault(path, 0, 0, f"larger than {_LARGEST} bytes; this is no rule file")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RuleFileError([Fault(path, line, 1, "not UTF-8 text", "save the file as UTF-8")]) from None
    try:
        loader, node = _composed(text)
        if node is None:
            raise RuleFileError([Fault(path, 1, 1, "the file is empty")])
        reader = _Reader(path, loader, text)
        data = reader.plain(node, ())
    except yaml.reader.ReaderError as error:
        line, column = text.count("\n", 0, error.position) + 1, error.position - text.rfind("\n", 0, error.position)
        raise RuleFileError([Fault(path, line, column, f"not YAML: {error.reason}")]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise RuleFileError([Fault(path, line, column, f"not YAML: {error.problem or error}")]) from None
    except yaml.YAMLError as error:
        raise RuleFileError([Fault(path, 1, 1, f"not YAML: {error}")]) from None
    except RecursionError:
        raise RuleFileError([Fault(path, 1, 1, "nested too deeply")]) from None
    if reader.faults:
        raise RuleFileError(reader.faults)
    return Document(path, data, reader.marks, text, reader.folded)


def _composed(text: str) -> tuple[yaml.SafeLoader, yaml.Node | None]:
    """Compose by libyaml, which is three times as quick; faults are told by the Python parser, which knows columns."""
    quick = getattr(yaml, "CSafeLoader", None)
    if quick is not None:
        with contextlib.suppress(yaml.YAMLError, RecursionError):
            loader = quick(text)
            return loader, loader.get_single_node()
    loader = yaml.SafeLoader(text)
    return loader, loader.get_single_node()


class _Reader:
    """Turns YAML nodes into plain data and remembers where everything stood."""

    def __init__(self, path: Path, loader: yaml.SafeLoader, text: str) -> None:
        self.path, self.loader, self.text = path, loader, text
        self.folded: dict[Keys, tuple[int, int]] = {}
        self.marks: dict[Keys, tuple[int, int]] = {}
        self.faults: list[Fault] = []
        self.seen: set[int] = set()

    def plain(self, node: yaml.Node, keys: Keys) -> Any:  # noqa: ANN401  YAML is anything
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if isinstance(node, yaml.ScalarNode) and node.start_mark.line != node.end_mark.line:
            start = node.start_mark.index + (1 if node.style in {"'", '"'} else 0)
            if node.style in {"|", ">"}:
                start = self.text.index("\n", start) + 1
            self.folded[keys] = (start, node.end_mark.index)
        self.marks[keys] = (line, column + (1 if getattr(node, "style", None) in {"'", '"'} else 0))
        if id(node) in self.seen:
            self.faults.append(Fault(self.path, line, column, "anchors and aliases are not supported", "write it out"))
            return None
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item, (*keys, index)) for index, item in enumerate(node.value)]
        try:
            return self.loader.construct_object(node)
        except (ValueError, LookupError, AttributeError) as error:  # 2024-99-99, !!int x, !!bool x, !!timestamp x
            self.faults.append(Fault(self.path, line, column, f"{node.value!r} cannot be read: {error}", "quote it"))
            return None

    def _mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(Fault(self.path, line, column, "a key must be a word"))
                continue
            key = str(key_node.value)
            if key in made:
                self.faults.append(Fault(self.path, line, column, f"duplicate key {key!r}", "keep one of them"))
            made[key] = self.plain(value_node, (*keys, key))
            self.marks[(*keys, key, "key")] = (line, column)
        return made


def build(model: type[M], document: Document) -> M:
    """Validate one document. Raises ``RuleFileError`` with all its faults."""
    if not isinstance(document.data, dict):
        raise RuleFileError([document.fault((), "keys and values are needed here")])
    faults = list(_order_faults(document, model)) if model is Rule else []
    try:
        made = model.model_validate(document.data)
    except ValidationError as error:
        raise RuleFileError([*faults, *(fault_of(document, model, one) for one in error.errors())]) from None
    if faults:
        raise RuleFileError(faults)
    return made


def _order_faults(document: Document, model: type[BaseModel]) -> Iterator[Fault]:
    order = [field.alias or name for name, field in model.model_fields.items()]
    given = [key for key in document.data if key in order]
    for before, after in pairwise(given):
        if order.index(after) < order.index(before):
            hint = f"the order is {', '.join(key for key in order if key in given)}"
            yield document.fault((after, "key"), f"key {after!r} stands behind {before!r}", hint)
            return


class Placing(Protocol):
    """Knows where the values of some data stand."""

    def fault(self, keys: Keys, message: str, hint: str = "", offset: int = 0) -> Fault:
        """Make a fault at the nearest known place above ``keys``."""


def fault_of(places: Placing, model: type[BaseModel], error: Any) -> Fault:  # noqa: ANN401  pydantic's ErrorDetails
    """Tell one error of the validation of ``model`` as a fault with its place."""
    keys: Keys = tuple(error["loc"])
    message, hint = str(error["msg"]).removeprefix("Value error, "), ""
    if error["type"] == "extra_forbidden":
        known = _keys_beside(model, keys)
        hint = nearest(str(keys[-1]), dict.fromkeys(known)) or (
            f"one of {', '.join(known)}" if len(known) <= _FEW else ""
        )
        return places.fault((*keys, "key"), f"unknown key {keys[-1]!r}", hint)
    if error["type"] == "missing":
        message, keys = f"key {keys[-1]!r} is missing", keys[:-1]
    elif keys[-1:] == ("[key]",):
        keys = (*keys[:-1], "key")
    elif error["type"] == "literal_error":
        expected = error["ctx"]["expected"]
        message = f"{error['input']!r} is not one of {expected}"
        hint = nearest(str(error["input"]), dict.fromkeys(_QUOTED.findall(expected)))
    return places.fault(keys, message, hint)


def _keys_beside(model: type[BaseModel], keys: Keys) -> list[str]:
    """Return the keys that are allowed where ``keys`` ends; all keys of the model where it cannot be followed."""
    here = _model_at(model, keys[:-1])
    known = [] if here is None else [here]
    if here is None:
        known = [model, *_models(model)]
    return [field.alias or name for one in known for name, field in one.model_fields.items()]


def _model_at(model: type[BaseModel], keys: Keys) -> type[BaseModel] | None:
    """Follow keys through fields, lists and mappings to the model that stands there."""
    here: Any = model
    for key in keys:
        arguments = [one for one in get_args(here) if one not in {type(None), Ellipsis}]
        if isinstance(here, type) and issubclass(here, BaseModel):
            fields = {field.alias or name: field.annotation for name, field in here.model_fields.items()}
            here = fields.get(str(key))
        elif arguments:
            here = arguments[-1]
        if isinstance(here, UnionType):
            here = next((one for one in get_args(here) if one is not type(None)), None)
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _models(model: type[BaseModel]) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []
    todo: list[Any] = [field.annotation for field in model.model_fields.values()]
    while todo:
        one = todo.pop()
        if isinstance(one, type) and issubclass(one, BaseModel) and one not in found:
            found.append(one)
            todo += [field.annotation for field in one.model_fields.values()]
        todo += list(getattr(one, "__args__", ()))
    return found


# --- whole folders -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loaded:
    """Every file of one or more rules folders, not yet checked against each other."""

    metrics: tuple[Document, Metrics]
    signals: tuple[tuple[Document, Signals], ...]
    facts: tuple[tuple[Document, Facts], ...]
    levers: tuple[tuple[Document, Levers], ...]
    rules: tuple[tuple[Document, Rule], ...]


def load(folders: Sequence[Path]) -> tuple[Loaded, list[Fault]]:
    """Load the files of the folders; later folders add to or replace what earlier ones say.

    Returns what could be loaded and all faults. Raises ``RuleFileError`` when nothing can be built on the rest.
    """
    faults: list[Fault] = []
    for folder in folders:
        if not folder.is_dir():
            raise RuleFileError([Fault(folder, 0, 0, "is not a folder", "--rules takes a folder of rule files")])

    def each(model: type[M], paths: Iterable[Path]) -> list[tuple[Document, M]]:
        made = []
        for path in paths:
            try:
                document = read(path)
                made.append((document, build(model, document)))
            except RuleFileError as error:
                faults.extend(error.faults)
        return made

    def named(name: str) -> list[Path]:
        return [folder / name for folder in folders if (folder / name).exists()]

    metrics = each(Metrics, named("metrics.yaml"))
    signals, facts = each(Signals, named("signals.yaml")), each(Facts, named("facts.yaml"))
    levers, rules = each(Levers, named("levers.yaml")), each(Rule, _rule_files(folders))
    if not metrics or not signals or not facts or not levers:
        raise RuleFileError(faults or [Fault(folders[0], 0, 0, "has no metrics, signals, facts and levers files")])
    for folder in folders:
        faults += _same_ids([(document, rule) for document, rule in rules if document.path.is_relative_to(folder)])
    last = {rule.id: (document, rule) for document, rule in rules}
    return Loaded(metrics[-1], tuple(signals), tuple(facts), tuple(levers), tuple(last.values())), faults


def _same_ids(rules: Iterable[tuple[Document, Rule]]) -> Iterator[Fault]:
    first: dict[str, Path] = {}
    for document, rule in rules:
        if first.setdefault(rule.id, document.path) != document.path:
            yield document.fault(("id",), f"rule {rule.id!r} is already in {first[rule.id]}")


def _rule_files(folders: Sequence[Path]) -> list[Path]:
    own = {"metrics.yaml", "names.yaml", "signals.yaml", "facts.yaml", "levers.yaml", "hardware.yaml"}
    found: list[Path] = []
    for folder in folders:
        matrix = folder / "matrix"
        root = matrix if matrix.is_dir() else folder
        paths = sorted([*root.rglob("*.yaml"), *root.rglob("*.yml")])
        found += [path for path in paths if not (path.parent == folder and path.name in own)]
    return found
