"""Completes the OpenAPI document: what every route can answer beside what it says itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from palanca.api.examples import EXAMPLES
from palanca.api.guard import OPEN, READING
from palanca.api.problems import Problem, described

Document = dict[str, Any]

_ALWAYS = (414, 500, 503)
_GUARDED = (401, 421)
_WRITES = (403, 413, 415)


def completed(document: Document) -> Document:
    """Add the answers of the guard, examples, the problem document, and how to show a token."""
    components = document.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = _flat(Problem.model_json_schema())
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token of the settings."},
        "browser": {"type": "http", "scheme": "basic", "description": "Any name; the token as the password."},
    }
    document["security"] = [{}, {"token": []}, {"browser": []}]
    for path, method, operation in _operations(document):
        statuses = {*_ALWAYS}
        if path in OPEN:
            operation["security"] = []
        else:
            statuses |= {*_GUARDED}
        if method.upper() not in READING:
            statuses |= {*_WRITES}
        answers = operation["responses"]
        for status, answer in described(*sorted(statuses)).items():
            answers.setdefault(str(status), answer)
        operation["responses"] = {status: _shared(components, status, answers[status]) for status in sorted(answers)}
        if (method, path) in EXAMPLES:
            answers["200"]["content"]["application/json"]["example"] = EXAMPLES[method, path]
    components["responses"] = dict(sorted(components["responses"].items()))
    return document


def _shared(components: Document, status: str, answer: Document) -> Document:
    """Keep a problem that many routes can answer with in one place, and refer to it."""
    if int(status) < 400 or answer != described(int(status)).get(int(status)):  # noqa: PLR2004  errors begin there
        return answer
    components.setdefault("responses", {})[f"Problem{status}"] = answer
    return {"$ref": f"#/components/responses/Problem{status}"}


def _operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def _flat(schema: Document) -> Document:
    """Put the one definition where it is named: OpenAPI keeps its own elsewhere."""
    schema["properties"]["errors"]["items"] = schema.pop("$defs")["Fault"]
    return schema
