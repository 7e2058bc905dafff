"""The effective settings as YAML, each value with its origin; secrets only as the names of their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import AfterValidator, SecretStr
from pydantic.fields import FieldInfo

from palanca.model import Spec
from palanca.moments import duration
from palanca.settings.scalars import Address, Between, Database

if TYPE_CHECKING:
    from palanca.loader import Keys
    from palanca.settings.load import Effective

HIDDEN = "<hidden>"
_COLUMN = 48


def shown(value: object, field: FieldInfo | None = None) -> Any:  # noqa: ANN401  YAML is anything
    """Return a value as it may be shown: spans of time as text, nothing secret."""
    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, Address | Database | Path):
        return str(value)
    if isinstance(value, float):
        return duration(value) if field is not None and is_span(field) else int(value) if value.is_integer() else value
    if isinstance(value, tuple):
        return [shown(one) for one in value]
    if isinstance(value, Mapping):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, Spec):
        return {one.alias or name: shown(getattr(value, name), one) for name, one in type(value).model_fields.items()}
    return value


def is_span(field: FieldInfo) -> bool:
    """Whether a field is a span of time in seconds."""
    return any(isinstance(one, AfterValidator) and isinstance(one.func, Between) for one in field.metadata)


def show(made: Effective) -> str:
    """Write the settings as YAML with the origin of each value as a comment."""
    return "\n".join(_section(made.settings, (), made, "")) + "\n"


def _section(value: Spec, keys: Keys, made: Effective, indent: str) -> Iterator[str]:
    for name, field in type(value).model_fields.items():
        key = field.alias or name
        here, one = (*keys, key), getattr(value, name)
        inside_list = any(isinstance(part, int) for part in keys)
        if inside_list and one in (None, (), {}) and made.origin(*here).kind == "default":
            continue
        if isinstance(one, Spec):
            yield f"{indent}{key}:"
            yield from _section(one, here, made, indent + "  ")
        elif isinstance(one, tuple) and one and isinstance(one[0], Spec):
            yield f"{indent}{key}:"
            for index, element in enumerate(one):
                first, *rest = _section(element, (*here, index), made, indent + "    ")
                yield f"{indent}  - {first.strip()}"
                yield from rest
        elif isinstance(one, Mapping) and one:
            yield f"{indent}{key}:"
            yield from _mapping(one, here, made, indent + "  ")
        else:
            yield _line(f"{indent}{key}: {_yaml(shown(one, field))}", made, here)


def _mapping(value: Mapping[str, object], keys: Keys, made: Effective, indent: str) -> Iterator[str]:
    for key, one in value.items():
        if isinstance(one, Mapping) and one:
            yield f"{indent}{_yaml(key)}:"
            yield from _mapping(one, (*keys, key), made, indent + "  ")
        else:
            yield _line(f"{indent}{_yaml(key)}: {_yaml(shown(one))}", made, (*keys, key))


def _line(text: str, made: Effective, keys: Keys) -> str:
    return f"{text.ljust(_COLUMN)}  # {made.origin(*keys)}"


def _yaml(value: object) -> str:
    """Write a value on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
