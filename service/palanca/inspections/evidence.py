"""What doctor gathers, and what an inspection says of it.

A check says what is wrong with the way the metrics arrive, never with the engines: that is the matrix's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from palanca.model import Catalogue

if TYPE_CHECKING:
    from palanca.signals.leaves import Discovery

Level = Literal["ok", "note", "warning", "error"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note", "ok")
"""The worst first."""

SHOWN = 8


@dataclass(frozen=True)
class ServerSeen:
    """One server that was asked: ``seconds`` until its answer, ``size`` of its page in bytes, number of series."""

    url: str
    kind: Literal["prometheus", "vllm", "unknown"]
    seconds: float | None = None
    version: str | None = None
    size: int | None = None
    series: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class SeriesSeen:
    """How many series of one full metric name an instance shows; those of histograms by their ``le``."""

    name: str
    instance: str
    le: str | None = None
    count: int = 1


@dataclass(frozen=True)
class Evidence:
    """Everything that was gathered.

    ``queries`` are the expressions of a Prometheus' rules by the name of the rule; ``recorded`` the names that its
    recording rules make. ``own_scrapes``: palanca scraped, so that the interval is its own. ``failure``: why servers
    that answer cannot be judged. ``end`` is unix seconds. ``unrecorded`` is why recorded series are not read, as of
    ``palanca.poll.Opened``.
    """

    servers: Sequence[ServerSeen]
    end: float
    discovery: Discovery | None = None
    series: Sequence[SeriesSeen] = ()
    queries: Mapping[str, str] = field(default_factory=dict)
    recorded: frozenset[str] = frozenset()
    own_scrapes: bool = False
    failure: str | None = None
    unrecorded: str | None = None


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, the particulars, and what to do."""

    id: str
    level: Level
    title: str
    details: tuple[str, ...] = ()
    hint: str = ""


Inspection = Callable[[Evidence, Catalogue], Iterator[Check]]


def some(items: Sequence[str]) -> tuple[str, ...]:
    """Return the first few, and how many there are besides."""
    more = len(items) - SHOWN
    return (*items[:SHOWN], f"and {more} more") if more > 0 else tuple(items)
