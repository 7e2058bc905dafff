"""Writes what the polls find into the history, and forgets what is too old."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.episodes import keep_firing
from palanca.logs import logger
from palanca.model import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palanca.daemon.snapshot import Snapshot
    from palanca.daemon.watch import Poll, Watch
    from palanca.history.facade import History
    from palanca.model import Catalogue
    from palanca.outgoing import Tell
    from palanca.telemetry import Telemetry

DAY_S = 86400.0


@dataclass(frozen=True)
class Keeping:
    """What can be reloaded: the rules, the names of the sources, the retention in seconds, and what people are told."""

    catalogue: Catalogue
    sources: Sequence[str]
    retention: float
    tell: Tell | None = None


class Recorder:
    """Is told by the daemon in worker threads. ``keeping`` gives what is in force.

    ``nudge`` wakes the one who sends, after something has happened.
    """

    def __init__(
        self,
        history: History,
        telemetry: Telemetry,
        keeping: Callable[[], Keeping],
        nudge: Callable[[], None] = lambda: None,
    ) -> None:
        self._history, self._telemetry, self._keeping, self._nudge = history, telemetry, keeping, nudge
        self._log, self._lock, self._telling = logger("history"), threading.Lock(), threading.Lock()
        self._enabled: bool | None = None
        self._forgotten: float | None = None
        self._retired: tuple[str, ...] | None = None

    def polled(self, watch: Watch, poll: Poll) -> None:
        """Record a poll, also one that failed: that ends no episode."""
        keeping, view = self._keeping(), poll.view
        if poll.result == "error" or view.diagnosis is None:
            now = poll.began
            diagnosis = Diagnosis(now, view.info(now), ())
        else:
            diagnosis = watch.labelled(view.diagnosis)
            now = diagnosis.time
        done = self._history.record(now, watch.name, diagnosis, keep_firing(keeping.catalogue), keeping.tell)
        if done.events:
            self._nudge()
        for event in done.events:
            where = event.target.as_dict() if event.target is not None else None
            self._log.info(event.kind, source=event.source, rule=event.rule, severity=event.severity, target=where)
        if done.outcome in {"recorded", "unreadable"}:  # and not the replica that only stands by
            self._housekeeping(keeping, now)
        self._tell()

    def _housekeeping(self, keeping: Keeping, now: float) -> None:
        """Once a day, and after the sources have changed; by one thread."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            names = tuple(keeping.sources)
            if self._retired != names and self._history.retire(names, now, keeping.tell):
                self._retired = names
            if self._forgotten is None or now - self._forgotten >= DAY_S:
                self._history.forget(now - keeping.retention)
                self._forgotten = now
        finally:
            self._lock.release()

    def open(self) -> None:
        """Open the database, and tell whether that went well; blocks for seconds where a server does not answer."""
        self._history.open()
        self._tell()

    def close(self) -> None:
        """Give the lease back and close the database; may block as ``open``."""
        self._history.close()

    def _tell(self) -> None:
        state = self._history.state
        with self._telling:
            before, self._enabled = self._enabled, state.enabled
        if not state.enabled and before is not False:
            self._log.error("the history cannot be written; diagnoses go on without it", reason=state.reason)
        elif state.enabled and before is False:
            self._log.info("the history is written again", place=self._history.place)
        self._telemetry.history(up=state.enabled)

    def skipped(self, name: str) -> None:
        """Nothing is recorded of a poll that was not made."""

    def published(self, snapshot: Snapshot) -> None:
        """Nothing is recorded of a snapshot."""
