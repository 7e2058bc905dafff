"""A JSON schema of dashboards out of the SDK's types, which are generated from Grafana's own definitions.

The SDK reads whatever it is given. Here every object has the fields of its type and no others, every value has its
type, and what depends on the kind of panel or data source (options, custom, targets) is that kind's.
"""

from __future__ import annotations

import ast
import enum
import inspect
import sys
import textwrap
import types
import typing
from typing import Any

from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.models import (
    bargauge,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)

Schema = dict[str, Any]
PANELS: dict[str, types.ModuleType] = {
    "bargauge": bargauge, "stat": stat, "state-timeline": statetimeline, "table": table, "timeseries": timeseries,
}  # fmt: skip
MORE: dict[str, Schema] = {
    # The SDK has Grafana's own annotations only; these are fields of those of the Prometheus data source.
    "AnnotationQuery": {
        "step": {"type": "string"}, "titleFormat": {"type": "string"}, "textFormat": {"type": "string"},
        "tagKeys": {"type": "string"}, "useValueForTime": {"type": "boolean"},
    },
}  # fmt: skip
INFINITY: Schema = {
    "type": "object",
    "required": ["refId", "datasource", "type", "parser", "source", "format", "url", "root_selector", "columns"],
    "properties": {
        "type": {"const": "json"},
        "columns": {"type": "array", "items": {
            "type": "object", "additionalProperties": False, "required": ["selector", "text", "type"],
            "properties": {
                "selector": {"type": "string"}, "text": {"type": "string"},
                "type": {"enum": ["string", "number", "timestamp", "boolean"]},
            },
        }},
    },
}  # fmt: skip


class Derived:
    """Writes the schema; ``definitions`` grow as types are met."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def schema(self) -> Schema:
        """Of a whole dashboard."""
        return {**self.of(dashboard.Dashboard), "$defs": self.definitions}

    def of(self, kind: Any) -> Schema:  # noqa: ANN401  a type
        """Of values of a type."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in {typing.Union, types.UnionType}:
            return {"anyOf": [self.of(one) for one in arguments]}
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if origin is list:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if kind in {Any, object}:
            return {}
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if kind is variants.Dataquery:
            return {"anyOf": [self.of(prometheus.Dataquery), INFINITY]}
        if issubclass(kind, enum.Enum):
            return {"enum": [one.value for one in kind]}
        return self._object(kind)

    def _object(self, kind: type) -> Schema:
        name = f"{kind.__module__.rsplit('.', 1)[1]}.{kind.__name__}"
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self._panel() if kind is dashboard.Panel else self._fields(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _fields(self, kind: type) -> Schema:
        hints = typing.get_type_hints(kind, vars(sys.modules[kind.__module__]))
        keys, required = keys_of(kind)
        made: Schema = {
            "type": "object",
            "additionalProperties": False,
            "required": required,
            "properties": {key: self.of(hints[attribute]) for key, attribute in keys.items()},
        }
        made["properties"] |= MORE.get(kind.__name__, {})
        return made

    def _panel(self) -> Schema:
        """Of a panel: that of its kind."""
        plain = self._fields(dashboard.Panel)
        return {"oneOf": [self._panel_of(plain, kind, module) for kind, module in PANELS.items()]}

    def _panel_of(self, plain: Schema, kind: str, module: types.ModuleType) -> Schema:
        config = self._fields(dashboard.FieldConfig)
        custom = getattr(module, "FieldConfig", None)
        if custom is not None:
            config["properties"]["custom"] = self.of(custom)
        source = self._fields(dashboard.FieldConfigSource)
        source["properties"]["defaults"] = config
        changed = {"type": {"const": kind}, "options": self.of(module.Options), "fieldConfig": source}
        return {**plain, "properties": {**plain["properties"], **changed}}


_PLAIN: dict[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
}  # fmt: skip


def keys_of(kind: type) -> tuple[dict[str, str], list[str]]:
    """Keys of a type in JSON with the attributes that they show, and those that are always there.

    ``to_json`` puts what is always there in one literal, and assigns the rest.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind.to_json)))  # type: ignore[attr-defined]
    keys: dict[str, str] = {}
    required: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Attribute):
                    keys[str(key.value)] = value.attr
                    required.append(str(key.value))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            key, value = node.targets[0].slice, node.value
            if isinstance(key, ast.Constant) and isinstance(value, ast.Attribute):
                keys[str(key.value)] = value.attr
    return keys, required
