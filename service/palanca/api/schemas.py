"""What the OpenAPI document says of the diagnosis."""

from __future__ import annotations

from typing import Any

from palanca.render.document import json_schema


def diagnosis_schema() -> dict[str, Any]:
    """JSON Schema of an answer: that of the diagnosis, in which ``fields`` may leave out keys of a target."""
    schema = json_schema()
    schema.pop("$schema")
    definitions = schema.pop("$defs")
    definitions["TargetDocument"].pop("required", None)
    whole: dict[str, Any] = _inlined(schema, definitions)
    return whole


def _inlined(part: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401  a schema is any JSON
    """Put definitions where they are named: OpenAPI keeps its own elsewhere."""
    if isinstance(part, dict):
        name = str(part.get("$ref", "")).removeprefix("#/$defs/")
        if name in definitions:
            rest = {key: value for key, value in part.items() if key != "$ref"}
            return _inlined({**definitions[name], **rest}, definitions)
        return {key: _inlined(value, definitions) for key, value in part.items()}
    return [_inlined(item, definitions) for item in part] if isinstance(part, list) else part
