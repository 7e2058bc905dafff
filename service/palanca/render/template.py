"""Templates of a generic webhook: plain data with ``{placeholders}`` in its texts, which become JSON.

A text that is one placeholder and nothing else becomes its value, of whatever kind; in all other texts placeholders
become text. What is filled in is never read again, so that no label can end a string or add a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from palanca.errors import UsageError

DOTTED = ("labels", "links")
"""Placeholders of which one entry can be asked for: ``{labels.model_name}``."""


NAMES = (
    "schema", "kind", "id", "key", "state", "severity", "title", "what", "where", "text", "news", "labels", "affected",
    "total", "engines", "evidence", "rule", "cause", "confidence", "source", "symptoms", "reason", "since", "ended",
    "lasted_s", "time", "change", "proposal", "alternatives", "remarks", "episode", "links", "notices",
)  # fmt: skip
"""Placeholders; a test compares them with ``palanca.notify.values``."""


def filled(template: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401  JSON is anything
    """Fill a template in. Raises ``UsageError`` for one that ``check`` refuses."""
    if isinstance(template, str):
        return _filled(template, given)
    if isinstance(template, Mapping):
        return {key: filled(one, given) for key, one in template.items()}
    if isinstance(template, Sequence):
        return [filled(one, given) for one in template]
    return template


def check(template: Any) -> None:  # noqa: ANN401  the same
    """Find what is wrong with a template. Raises ``UsageError``."""
    if isinstance(template, str):
        for _, name in _parts(template):
            if name is not None and name not in NAMES and name.partition(".")[0] not in DOTTED:
                raise UsageError(f"there is no placeholder {{{name}}}; one of {', '.join(NAMES)}, or labels.NAME")
    elif isinstance(template, Mapping):
        for one in template.values():
            check(one)
    elif isinstance(template, Sequence):
        for one in template:
            check(one)


def _filled(text: str, given: Mapping[str, Any]) -> Any:  # noqa: ANN401  the same
    parts = list(_parts(text))
    if len(parts) == 1 and parts[0][1] is not None and not parts[0][0]:
        return _value(parts[0][1], given)
    return "".join(literal + ("" if name is None else _word(_value(name, given))) for literal, name in parts)


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Literal text with the placeholder that follows it. Raises ``UsageError``."""
    try:
        for literal, name, form, conversion in Formatter().parse(text):
            if form or conversion:
                raise UsageError(f"{{{name}}} in {text!r} has a format, and placeholders have none; write {{{name}}}")
            yield literal, name
    except ValueError as error:
        raise UsageError(f"{text!r} is no template: {error}; write {{{{ and }}}} for braces") from None


def _value(name: str, given: Mapping[str, Any]) -> Any:  # noqa: ANN401  the same
    first, dot, rest = name.partition(".")
    if dot and first in DOTTED:
        return given[first].get(rest)
    check(f"{{{name}}}")
    return given[name]


def _word(value: Any) -> str:  # noqa: ANN401  the same
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_word(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(_word(one) for one in value)
    return str(value)
