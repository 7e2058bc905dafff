"""Answers that were asked for before, kept until the next poll: dashboards ask the same again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from palanca.daemon.snapshot import Packed
from palanca.model import Catalogue, Diagnosis

if TYPE_CHECKING:
    from palanca.api.backend import Backend

Make = Callable[[Diagnosis, Catalogue], tuple[Packed, int]]
"""Writes a body, and says how many rows there are on all pages."""

KEPT_BYTES = 32 * 1024**2
OVERHEAD_BYTES = 1024
"""About what an entry takes beside its texts."""


@dataclass(frozen=True)
class Made:
    """A body, the moment of its diagnosis (unix seconds), and how many rows there are on all pages."""

    packed: Packed
    time: float
    total: int


class Memory:
    """Makes answers of the newest snapshot in threads, equal ones once."""

    def __init__(self, backend: Backend, most: int = KEPT_BYTES) -> None:
        self._backend, self._most = backend, most
        self._of: tuple[Diagnosis, Catalogue] | None = None
        self._kept: dict[tuple[str, ...], Made] = {}
        self._making: dict[tuple[str, ...], asyncio.Future[Made]] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._size

    async def answer(self, key: tuple[str, ...], make: Make) -> Made:
        """Return what was made of the newest snapshot under this key, or make it; ``make`` runs in a thread."""
        diagnosis, catalogue = self._backend.snapshot.diagnosis, self._backend.catalogue
        of = self._of
        if of is None or of[0] is not diagnosis or of[1] is not catalogue:
            of = self._of = diagnosis, catalogue
            self._kept, self._making, self._size = {}, {}, 0
        known = self._kept.get(key)
        if known is not None:
            return known
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = asyncio.ensure_future(self._make(of, key, make))
        return await asyncio.shield(making)  # one that hangs up takes nothing away from the others

    async def _make(self, of: tuple[Diagnosis, Catalogue], key: tuple[str, ...], make: Make) -> Made:
        try:
            packed, total = await run_in_threadpool(make, *of)
        finally:
            if self._of is of:
                del self._making[key]
        made = Made(packed, of[0].time, total)
        size = len(packed.body) + len(packed.gzip or b"") + sum(map(len, key)) + OVERHEAD_BYTES
        if self._of is of and self._size + size <= self._most:
            self._kept[key] = made
            self._size += size
        return made
