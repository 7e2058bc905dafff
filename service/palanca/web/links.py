"""Addresses of pages, relative to the first one: behind a proxy the service knows neither its own nor its path."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from palanca.api.selection import LONGEST_VALUE
from palanca.quantities import rfc3339
from palanca.render.words import encodable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palanca.model import Target

Pairs = list[tuple[str, str]]
_MOST = 8 * 1024
"""Characters of a query: half of what is answered."""
_WORST = 3
"""Characters that a byte can become."""


def link(page: str, pairs: Iterable[tuple[str, str]] = ()) -> str:
    """``engine?match=job%3Dvllm``; the first page is the empty text."""
    query = urlencode([(name, encodable(value)) for name, value in pairs if value])
    return f"{page}?{query}" if query else page


def rule_link(rule_id: str) -> str:
    """The page of a rule."""
    return f"rules/{quote(rule_id, safe='')}"


def of_target(target: Target) -> Pairs:
    """What selects an engine: all its labels, save those that are too long for a query."""
    pairs: Pairs = []
    room = _MOST
    for name, value in target.labels:
        text = encodable(f"{name}={value}")
        room -= _WORST * len(text.encode())
        if len(value) <= LONGEST_VALUE and room > 0:
            pairs.append(("match", text))
    return pairs


def at(time: float | None) -> Pairs:
    """The moment of a page, so that links lead to the same one."""
    return [] if time is None else [("time", rfc3339(time))]


def engine_link(target: Target, time: float | None) -> str:
    """The page of an engine."""
    return link("engine", [*of_target(target), *at(time)])
