"""Questions that belong together, such as those of one diagnosis, and what their answers say beside the data.

Polls and diagnoses on demand share a client and its connections, but not the warnings, nor the time they have.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from palanca.model import SourceInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from palanca.signals.store import Series

MOST_WARNINGS = 20
CLOCKS_DIFFER_S = 60.0
"""More than a slow network and a header of whole seconds explain."""
_LONGEST_WARNING = 300
_NOT_PARTIAL = "PromQL "
"""Begins the remarks of Prometheus 3 on an expression; any other warning means that data are missing."""


class Notes:
    """What answers said; may be shared by threads. ``ahead`` is by how many seconds the server's clock is before ours.

    It is None where the newest answer had no date.
    """

    def __init__(self) -> None:
        self._lock, self._warnings = threading.Lock(), dict[str, None]()
        self.ahead: float | None = None

    def add(self, warnings: Iterable[str], ahead: float | None) -> None:
        """Note the warnings and the clock of one answer."""
        with self._lock:
            self.ahead = ahead
            for text in warnings:
                if len(self._warnings) < MOST_WARNINGS:
                    self._warnings[text[:_LONGEST_WARNING]] = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Distinct warnings and infos of all answers so far, the first ``MOST_WARNINGS`` of them."""
        with self._lock:
            return tuple(self._warnings)

    def info(self, name: str, url: str) -> SourceInfo:
        """Describe the source after it was read.

        Partial if an answer came with a warning that data are missing. Stale where the server's clock is not ours:
        samples bear its time, so that the moment they were asked for is another one.
        """
        warnings, ahead = self.warnings, self.ahead
        if ahead is not None and abs(ahead) > CLOCKS_DIFFER_S:
            side = "ahead of" if ahead > 0 else "behind"
            error = (
                f"{url}: the clock of the server is {abs(ahead):.0f} s {side} ours, so that what it has of now "
                "cannot be told (set both clocks by NTP)"
            )
            return SourceInfo(name, url, "stale", warnings=warnings, error=error)
        partial = any(not text.startswith(_NOT_PARTIAL) for text in warnings)
        return SourceInfo(name, url, "partial" if partial else "ok", warnings=warnings)


class Client(Protocol):
    """A client of a query API, whose answers can be noted elsewhere while a thread is in ``noting``."""

    url: str

    def noting(self, notes: Notes, patience: float | None) -> AbstractContextManager[None]:
        """Note what answers of this thread say, and give each question no more than ``patience`` seconds."""

    def query(self, text: str, time: float) -> Sequence[Series]:
        """As ``palanca.signals.asking.Queries``."""

    def query_range(self, text: str, start: float, end: float, step: float) -> Sequence[Series]:
        """As ``palanca.signals.asking.Queries``."""


class Conversation:
    """Satisfies ``palanca.signals.asking.Queries``; may be shared by threads.

    ``patience`` in seconds bounds each question where it is shorter than the timeout of the client.
    """

    def __init__(self, client: Client, patience: float | None = None) -> None:
        self._client, self._patience, self.notes = client, patience, Notes()

    def info(self) -> SourceInfo:
        """Describe the source after it was read."""
        return self.notes.info("prometheus", self._client.url)

    def query(self, text: str, time: float) -> Sequence[Series]:
        """Ask for an instant. Raises ``SourceError``."""
        return self._noted(lambda: self._client.query(text, time))

    def query_range(self, text: str, start: float, end: float, step: float) -> Sequence[Series]:
        """Ask for a range with both ends. Raises ``SourceError``."""
        return self._noted(lambda: self._client.query_range(text, start, end, step))

    def _noted(self, ask: Callable[[], Sequence[Series]]) -> Sequence[Series]:
        with self._client.noting(self.notes, self._patience):
            return ask()
