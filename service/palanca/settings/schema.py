"""The JSON Schema of a settings file, and the table of all settings for the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import UnionType
from typing import Any, get_args

from pydantic_core import PydanticUndefined

from palanca.model import Spec
from palanca.settings.show import shown
from palanca.settings.spec import Settings


def to_json_schema() -> str:
    """Render the JSON Schema (draft 2020-12), for editors."""
    made = Settings.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Settings of palanca"}
    return json.dumps({**head, **_without_titles({**made, "title": None})}, indent=2) + "\n"


def _without_titles(value: Any) -> Any:  # noqa: ANN401  JSON is anything
    """Drop the titles that pydantic makes up of the names, and defaults that are whole sections."""
    if isinstance(value, list):
        return [_without_titles(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_titles(one)
        for key, one in value.items()
        if not (key == "title" and not isinstance(one, dict)) and not (key == "default" and isinstance(one, dict))
    }


def to_markdown() -> str:
    """Render the table of all settings: key, default, meaning."""
    rows = [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in reference(Settings)]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows]) + "\n"


def reference(model: type[Spec], key: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield key, default and meaning of every setting; ``[]`` stands for the elements of a list."""
    for name, field in model.model_fields.items():
        here = f"{key}.{field.alias or name}".removeprefix(".")
        inner, many = _inner(field.annotation)
        yield f"{here}[]" if many and inner else here, _default(field), field.description or ""
        if inner is not None:
            yield from reference(inner, f"{here}[]" if many else here)


def _default(field: Any) -> str:  # noqa: ANN401  pydantic's FieldInfo
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or isinstance(value, Spec) or value in ((), {}):
        return ""
    plain = shown(value, field)
    return f"`{json.dumps(plain) if isinstance(plain, bool) else plain}`"


def _inner(annotation: Any) -> tuple[type[Spec] | None, bool]:  # noqa: ANN401  a type
    """Return the section that a setting holds, and whether it is a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return annotation, False
    for one in get_args(annotation):
        if isinstance(one, type) and issubclass(one, Spec):
            return one, not isinstance(annotation, UnionType)
    return None, False
