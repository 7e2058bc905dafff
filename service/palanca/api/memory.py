"""Answers that were asked for before, kept until the next poll: dashboards ask the same again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from palanca.daemon.snapshot import Packed
from palanca.model import Catalogue, Diagnosis

if TYPE_CHECKING:
    from palanca.api.backend import Backend

Make = Callable[[Diagnosis, Catalogue], tuple[Packed, Mapping[str, str]]]
"""Writes a body, and gives its own headers."""

KEPT_BYTES = 32 * 1024**2
OVERHEAD_BYTES = 1024
"""About what an entry takes beside its texts."""


@dataclass(frozen=True)
class Made:
    """A body, the moment of its diagnosis (unix seconds), and its own headers."""

    packed: Packed
    time: float
    headers: Mapping[str, str]


class _Shelf:
    """What was made, and is being made, of one diagnosis under one catalogue."""

    def __init__(self, diagnosis: Diagnosis, catalogue: Catalogue) -> None:
        self.diagnosis, self.catalogue = diagnosis, catalogue
        self.kept: dict[tuple[str, ...], Made] = {}
        self.making: dict[tuple[str, ...], asyncio.Future[Made]] = {}
        self.size = 0


class Memory:
    """Makes answers of the newest snapshot in threads, equal ones once. ``most`` is how many bytes are kept."""

    def __init__(self, backend: Backend, most: int = KEPT_BYTES) -> None:
        self._backend, self._most = backend, most
        self._shelf: _Shelf | None = None

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return 0 if self._shelf is None else self._shelf.size

    def known(self, key: tuple[str, ...]) -> Made | None:
        """Return what was made of the newest snapshot under this key; None where nothing was, or is not kept."""
        return self._newest().kept.get(key)

    async def answer(self, key: tuple[str, ...], make: Make) -> Made:
        """Return what was made of the newest snapshot under this key, or make it; ``make`` runs in a thread."""
        shelf = self._newest()
        if key in shelf.kept:
            return shelf.kept[key]
        making = shelf.making.get(key)
        if making is None:
            making = shelf.making[key] = asyncio.ensure_future(self._make(shelf, key, make))
        return await asyncio.shield(making)  # one that hangs up takes nothing away from the others

    def _newest(self) -> _Shelf:
        shelf, diagnosis, catalogue = self._shelf, self._backend.snapshot.diagnosis, self._backend.catalogue
        if shelf is None or shelf.diagnosis is not diagnosis or shelf.catalogue is not catalogue:
            shelf = self._shelf = _Shelf(diagnosis, catalogue)
        return shelf

    async def _make(self, shelf: _Shelf, key: tuple[str, ...], make: Make) -> Made:
        try:
            packed, headers = await run_in_threadpool(make, shelf.diagnosis, shelf.catalogue)
        finally:
            del shelf.making[key]
        made = Made(packed, shelf.diagnosis.time, headers)
        size = len(packed.body) + len(packed.gzip or b"") + sum(map(len, key)) + OVERHEAD_BYTES
        if shelf.size + size <= self._most:
            shelf.kept[key] = made
            shelf.size += size
        return made
