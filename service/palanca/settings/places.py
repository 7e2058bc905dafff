"""Where each value of the settings comes from, and how a fault there is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from palanca.errors import Fault
from palanca.loader import Document, Keys

Kind = Literal["flag", "environment", "file", "default"]


@dataclass(frozen=True)
class Origin:
    """Where a value comes from. ``name`` is the flag, the variable or the file; ``line`` counts from 1 in a file."""

    kind: Kind
    name: str = ""
    line: int = 0

    def __str__(self) -> str:
        """``--port``, ``PALANCA_LISTEN__PORT``, ``palanca.yaml:3`` or ``default``."""
        if self.kind == "default":
            return "default"
        return f"{self.name}:{self.line}" if self.line else self.name


def named_fault(name: str, message: str, hint: str = "") -> Fault:
    """Make a fault of something that has a name and no lines: a flag or a variable."""
    return Fault(Path(name), 0, 0, message, hint)


@dataclass
class Merged:
    """Plain data of several origins; ``given`` names the flag or variable that set a value and all below it."""

    document: Document | None = None
    data: dict[str, Any] = field(default_factory=dict)
    given: dict[Keys, tuple[Kind, str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    kept: dict[str, list[int]] = field(default_factory=dict)
    """Elements of a list that have no fault, where others had: what is asked for later counts those alone."""

    def put(self, value: Mapping[str, Any], kind: Kind, name: str) -> None:
        """Lay a layer over what is there: mappings are merged, all else is replaced."""
        self._put(self.data, value, (), (kind, name))

    def _put(self, data: dict[str, Any], value: Mapping[str, Any], keys: Keys, by: tuple[Kind, str]) -> None:
        for key, one in value.items():
            here = (*keys, key)
            if isinstance(one, Mapping) and one and all(str(index).isdecimal() for index in one):
                self._put_elements(data, key, one, here, by)
            elif isinstance(one, Mapping) and one:
                if not isinstance(data.get(key), dict):
                    data[key] = {}
                self._put(data[key], one, here, by)
            else:
                self._own(here, by)
                data[key] = one

    def _put_elements(
        self, data: dict[str, Any], key: str, elements: Mapping[str, Any], keys: Keys, by: tuple[Kind, str]
    ) -> None:
        """Reach into a list by the number of the element, or add one at its end."""
        if not isinstance(data.get(key), list):
            data[key] = []
        whole = data[key]
        for text, one in elements.items():
            index = int(text) if len(text) < 10 else len(whole) + 1  # noqa: PLR2004  no list is that long
            if index > len(whole):
                hint = f"the next one is {len(whole)}"
                self.faults.append(named_fault(by[1], f"{dotted(keys)} has no element {text}", hint))
                continue
            if index == len(whole):
                whole.append({})
            if isinstance(one, Mapping) and isinstance(whole[index], dict):
                self._put(whole[index], {name: _plain(part) for name, part in one.items()}, (*keys, index), by)
            else:
                self._own((*keys, index), by)
                whole[index] = _plain(one)

    def _own(self, keys: Keys, by: tuple[Kind, str]) -> None:
        for other in [other for other in self.given if other[: len(keys)] == keys]:
            del self.given[other]
        self.given[keys] = by

    # --- where a value stands --------------------------------------------------------------------

    def origin(self, keys: Keys) -> Origin:
        """Return where the value at ``keys`` comes from; what nobody gave is a default."""
        keys = self._counted(keys)
        if len(self._there(keys)) < len(keys):
            return Origin("default")
        by = self._by(keys)
        if by is not None:
            return Origin(*by)
        if self.document is None:
            return Origin("default")
        return Origin("file", str(self.document.path), self.document.fault(keys, "").line)

    def fault(self, keys: Keys, message: str, hint: str = "", offset: int = 0) -> Fault:
        """Make a fault at a value: at its place in the file, or at the variable or flag that gave it."""
        keys = self._counted(keys)
        plain = keys[:-1] if keys[-1:] == ("key",) else keys
        by = self._by(self._there(plain)) or self._below(plain)
        if by is not None:
            return named_fault(by[1], f"{dotted(plain)}: {message}" if plain else message, hint)
        if self.document is None:
            return named_fault(dotted(plain) or "settings", message, hint)
        return self.document.fault(keys, message, hint, offset)

    def _counted(self, keys: Keys) -> Keys:
        """Return keys that count the faulty elements of a list too."""
        match keys:
            case (str() as section, int() as index, *rest) if section in self.kept:
                return (section, self.kept[section][index], *rest)
            case _:
                return keys

    def _there(self, keys: Keys) -> Keys:
        """Return the longest part of ``keys`` that was given by anyone."""
        data: Any = self.data
        for length, key in enumerate(keys):
            inside = isinstance(data, dict) and key in data
            inside = inside or (isinstance(data, list) and isinstance(key, int) and key < len(data))
            if not inside:
                return keys[:length]
            data = data[key]
        return keys

    def _by(self, keys: Keys) -> tuple[Kind, str] | None:
        return next((self.given[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in self.given), None)

    def _below(self, keys: Keys) -> tuple[Kind, str] | None:
        """Return who gave something below, where the file says nothing of it."""
        there = self._there(keys)
        if not there or (self.document is not None and there in self.document.marks):
            return None
        return next((by for other, by in self.given.items() if other[: len(there)] == there), None)


def _plain(value: Any) -> Any:  # noqa: ANN401  JSON is anything
    """Read lists and mappings inside the element of a list, which pydantic-settings leaves as text."""
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def dotted(keys: Keys) -> str:
    """``sources[0].prometheus``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")
