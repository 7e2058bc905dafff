"""Findings, labels and facts as JSON text, and back. What is read equals what was written, infinities included.

The text holds neither a lone surrogate nor a NUL, which databases refuse: the first becomes U+FFFD, the second an
escape.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from palanca.errors import HistoryError
from palanca.model import Evidence, Fact, Finding, Severity, Target
from palanca.render.words import encodable

T = TypeVar("T")

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

FINDING: Final = TypeAdapter(Finding)
PEAK: Final = TypeAdapter(tuple[Evidence, ...])
WORSENED: Final = TypeAdapter(tuple[tuple[float, Severity], ...])
FACTS: Final = TypeAdapter(dict[str, Fact])


def written(adapter: TypeAdapter[T], value: T) -> str:
    """Write a value of the adapter's type as JSON text."""
    return plain(adapter.dump_python(value))


def read(adapter: TypeAdapter[T], text: str, what: str) -> T:
    """Read a value back; ``what`` names it in the error. Raises ``HistoryError``."""
    try:
        return adapter.validate_python(json.loads(text))
    except (ValueError, ValidationError):
        message = (
            f"the history holds {what} in a form that this release cannot read; upgrade palanca, or use a new file"
        )
        raise HistoryError(message) from None


def plain(value: object) -> str:
    """JSON text of plain data, keys in the order given."""
    return encodable(_ENCODER.encode(value))


def word(text: str) -> str:
    """Text that every database takes as it is."""
    return encodable(text).replace("\0", "\ufffd")


def labels_text(target: Target) -> str:
    """Labels of a target as a JSON object."""
    return plain(target.as_dict())


def target_of(text: str) -> Target:
    """Make the target of such labels."""
    return Target.of(json.loads(text))


def stored_form(target: Target) -> Target:
    """The target as it is read back, so that both are equal: itself, unless a label cannot be written."""
    return target_of(labels_text(target))


def digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def facts_text(facts: Mapping[str, Fact]) -> str:
    """Facts in the order of their names: equal facts give equal text."""
    return written(FACTS, dict(sorted(facts.items())))
