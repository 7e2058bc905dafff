"""The history as the service sees it: trouble of the database switches it off, with the reason, and it tries again.

Recording and reading are switched apart: a full disk stops the first and not the second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from palanca.errors import HistoryError
from palanca.history.documents import (
    EpisodeDocument,
    EpisodesDocument,
    EventsDocument,
    OneEpisodeDocument,
    StateDocument,
)
from palanca.history.entries import Gap, Recorded
from palanca.history.reader import EpisodeQuery, EventQuery, Page
from palanca.history.store import HistoryStore
from palanca.model import Diagnosis
from palanca.outgoing import Outbox, Tell
from palanca.quantities import rfc3339, time_span

T = TypeVar("T")

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
PATIENCE_S = 10.0
"""Longer than any statement takes, and than a locked file is waited for."""
MUCH_BEHIND_S = 300.0
"""A record so much older than the last one comes from a clock that is wrong, or was."""


@dataclass(frozen=True)
class HistoryState:
    """Whether diagnoses are being recorded, why not, and since when it is so (unix seconds; None before the first)."""

    enabled: bool
    reason: str | None = None
    since: float | None = None


class _Switch:
    """On or off; while off, it is tried again after 1 s, 2 s, 4 s ... up to a minute."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.since: float | None = None
        self._wait, self._next = FIRST_WAIT_S, 0.0
        self.busy: dict[object, float] = {}
        """When what is under way began, in ticks."""
        self.hanging = False

    def due(self, ticks: float) -> bool:
        return self.reason is None or ticks >= self._next

    def off(self, reason: str, now: float, ticks: float | None) -> None:
        """``ticks`` is None where the next try may come at once."""
        if self.reason is None:
            self.since, self._wait = now, FIRST_WAIT_S
        self.reason, self._next = reason, 0.0
        if ticks is not None:
            self._next = ticks + self._wait
            self._wait = min(self._wait * 2, LONGEST_WAIT_S)

    def on(self, now: float) -> None:
        if self.reason is not None or self.since is None:
            self.reason, self.since = None, now


class History:
    """Never raises for trouble of the database, except where a person must know that a note was not kept.

    ``clock`` gives unix seconds, ``ticks`` seconds that never go back. Threads may share it. Before the first use the
    state is enabled; ``open`` finds out at once. ``release`` is called at the end, when others may write.

    A database that does not answer for ``PATIENCE_S`` is off as long as it does not: what comes meanwhile does not
    wait for it.
    """

    def __init__(
        self,
        store: HistoryStore,
        clock: Callable[[], float],
        ticks: Callable[[], float],
        *,
        release: Callable[[], None] | None = None,
    ) -> None:
        self._store, self._clock, self._ticks, self._release = store, clock, ticks, release
        self._lock = threading.Lock()
        self._writes, self._reads = _Switch(), _Switch()

    @property
    def place(self) -> str:
        """The file, or host and name of the database, without credentials."""
        return self._store.place

    @property
    def outbox(self) -> Outbox:
        """What is to be told to people, in the same database. Its methods raise ``HistoryError``."""
        return self._store.outbox

    @property
    def state(self) -> HistoryState:
        """Whether diagnoses are being recorded."""
        with self._lock:
            self._look_at_the_clock(self._writes)
            return HistoryState(self._writes.reason is None, self._writes.reason, self._writes.since)

    def open(self) -> HistoryState:
        """Open and migrate the database now, rather than at the first record."""
        self._write(self._store.open)
        return self.state

    def close(self) -> None:
        """Give the lease back, so that another replica need not wait, and close all connections."""
        lease = self._store.lease
        if lease is not None and self._store.is_open:
            self._write(lambda: self._store.release(lease))
        self._store.close()
        if self._release is not None:
            self._release()

    def record(
        self, now: float, source: str, diagnosis: Diagnosis, keep: Mapping[str, float], tell: Tell | None = None
    ) -> Recorded:
        """Record a diagnosis, as ``HistoryStore.record``; ``off`` where that cannot be done now.

        What could not be recorded is not lost for the episodes: they go on from what is stored.
        """
        with self._lock:
            reason, since = self._writes.reason, self._writes.since
        gap = Gap(since, reason) if reason is not None and since is not None else None
        done = self._guarded(
            self._writes, lambda: self._store.record(now, source, diagnosis, keep, gap, tell), now, self._much_behind
        )
        return Recorded("off") if done is None else done

    def _much_behind(self, done: Recorded) -> str | None:
        if done.behind_s <= MUCH_BEHIND_S:
            return None
        return (
            f"the newest record in {self.place} is {time_span(done.behind_s)} ahead of this clock, and older ones are "
            "not taken; set the clock right, or move the database away"
        )

    def forget(self, before: float) -> int:
        """Delete what is older than a moment; how many rows went, 0 also where the database cannot be used now."""
        return self._write(lambda: self._store.forget(before)) or 0

    def retire(self, configured: tuple[str, ...], now: float, tell: Tell | None = None) -> bool:
        """Resolve what is open at sources other than those configured. False: not done by this replica, or not now."""
        return self._write(lambda: self._store.retire(configured, now, tell), now) is not None

    def acknowledge(self, episode_id: int, who: str, note: str, now: float) -> EpisodeDocument | None:
        """Note who looks after an episode. None: no such episode. Raises ``HistoryError`` where it was not kept."""
        return self._store.acknowledge(episode_id, who, note, now)

    def attach_verification(self, episode_id: int, document: Mapping[str, Any], now: float) -> EpisodeDocument | None:
        """Add a verification. None: no such episode. Raises ``HistoryError`` where it was not kept, ``UsageError``."""
        return self._store.attach_verification(episode_id, document, now)

    def begin(self) -> float | None:
        """Return the first moment of which something is kept, unix seconds; None where there is none, or while off."""
        return self._read(self._store.begin)

    def episodes(self, query: EpisodeQuery | None = None) -> EpisodesDocument:
        """Read a page of episodes, with the state of the history. Raises ``UsageError`` for a wrong limit or cursor."""
        page = self._read(lambda: self._store.episodes(query)) or Page()
        return EpisodesDocument(history=self._document(), episodes=page.items, next=page.next)

    def events(self, query: EventQuery | None = None) -> EventsDocument:
        """Read a page of events, with the state of the history. Raises ``UsageError`` for a wrong limit or cursor."""
        page = self._read(lambda: self._store.events(query)) or Page()
        return EventsDocument(history=self._document(), events=page.items, next=page.next)

    def episode(self, episode_id: int) -> OneEpisodeDocument:
        """Read one episode, with the state of the history."""
        found = self._read(lambda: self._store.episode(episode_id))
        return OneEpisodeDocument(history=self._document(), episode=found)

    def _document(self) -> StateDocument:
        """The state of recording; where that is on and reading failed, the state of reading."""
        with self._lock:
            self._look_at_the_clock(self._writes)
            self._look_at_the_clock(self._reads)
            shown = self._writes if self._writes.reason is not None or self._reads.reason is None else self._reads
            since = None if shown.since is None else rfc3339(shown.since)
            return StateDocument(enabled=shown.reason is None, reason=shown.reason, since=since)

    def _look_at_the_clock(self, switch: _Switch) -> None:
        """Switch off what has been waiting for the database for too long; the lock is held."""
        waited = self._ticks() - min(switch.busy.values(), default=self._ticks())
        switch.hanging = waited > PATIENCE_S
        if switch.hanging and switch.reason is None:
            switch.off(f"{self.place} does not answer: waiting for {waited:.0f} s", self._clock(), None)

    def _write(self, act: Callable[[], T], now: float | None = None) -> T | None:
        return self._guarded(self._writes, act, now)

    def _read(self, act: Callable[[], T]) -> T | None:
        return self._guarded(self._reads, act)

    def _guarded(
        self,
        switch: _Switch,
        act: Callable[[], T],
        now: float | None = None,
        complaint: Callable[[T], str | None] = lambda _: None,
    ) -> T | None:
        """Act where the switch is on or a try is due; None where it failed. ``complaint``: what is wrong even so."""
        mine = object()
        with self._lock:
            self._look_at_the_clock(switch)
            if not switch.due(self._ticks()) or switch.hanging:
                return None
            switch.busy[mine] = self._ticks()
        try:
            done = act()
        except HistoryError as error:
            with self._lock:
                switch.busy.pop(mine)
                switch.off(str(error), self._clock() if now is None else now, self._ticks())
            if switch is self._writes:
                self._store.close()  # the next try begins with a new file, server or session
            return None
        except BaseException:
            with self._lock:
                switch.busy.pop(mine)
            raise
        reason, moment = complaint(done), self._clock() if now is None else now
        with self._lock:
            switch.busy.pop(mine)
            if reason is None:
                switch.on(moment)
            else:
                switch.off(reason, moment, None)
        return done
