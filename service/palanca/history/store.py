"""The history in one database. Every method is one transaction, unless it says otherwise; threads may share a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import select

from palanca.history import codec, leases, notes, reader, recorder, retention
from palanca.history.address import parse_address
from palanca.history.database import Database
from palanca.history.documents import EpisodeDocument, EventDocument
from palanca.history.entries import Gap, HistoryEvent, Recorded
from palanca.history.leases import Held, Lease
from palanca.history.outbox import StoredOutbox
from palanca.history.reader import EpisodeQuery, EventQuery, Page
from palanca.history.tables import sources
from palanca.model import Diagnosis
from palanca.outgoing import Tell

WAIT_S = 5.0


class HistoryStore:
    """Episodes and events in a SQLite file or a PostgreSQL database.

    ``address`` is a path, ``sqlite:///path`` or a ``postgresql://`` URL, whose password may be given apart. With a
    ``lease`` only its holder records. ``wait_s`` is how long to wait for a lock, or for a server to answer. Making a
    store raises ``UsageError`` for an address that cannot be meant and touches nothing; every method opens the database
    where it is not open, and raises ``HistoryError``.
    """

    def __init__(
        self, address: str | Path, *, password: str | None = None, lease: Lease | None = None, wait_s: float = WAIT_S
    ) -> None:
        self._database = Database(parse_address(address, password), wait_s)
        self.lease = lease
        self.outbox = StoredOutbox(self._database, lease)

    @property
    def place(self) -> str:
        """The file, or host and name of the database, without credentials."""
        return self._database.address.place

    @property
    def is_open(self) -> bool:
        """Whether the database was opened and not closed since."""
        return self._database.is_open

    def open(self) -> None:
        """Create folder (0700), file (0600) and tables where they are missing, and migrate to the newest revision."""
        self._database.open()

    def close(self) -> None:
        """Close all connections. The next use opens the database anew."""
        self._database.close()

    # --- recording -------------------------------------------------------------------------------

    def record(
        self,
        now: float,
        source: str,
        diagnosis: Diagnosis,
        keep: Mapping[str, float],
        gap: Gap | None = None,
        tell: Tell | None = None,
    ) -> Recorded:
        """Record a diagnosis of a source, and renew the lease.

        ``now`` is the moment to which the episodes move on, unix seconds; one that is not after the last recorded
        moment of the source changes nothing. ``keep`` is ``keep_firing_for`` by rule (``episodes.keep_firing``).
        ``gap`` is told as an event. ``tell`` says what people shall be told of it, which is put into the outbox.
        """
        with self._database.writing() as connection:
            if self.lease is not None and not leases.acquire(connection, self.lease, now):
                return Recorded("not-holder")
            return recorder.record(connection, now, source, diagnosis, keep, gap, tell)

    def recorded(self, source: str) -> float | None:
        """The last recorded moment of a source, unix seconds; None where there is none."""
        with self._database.reading() as connection:
            return connection.scalar(select(sources.c.recorded).where(sources.c.name == codec.word(source)))

    def retire(
        self, configured: Iterable[str], now: float, tell: Tell | None = None
    ) -> tuple[HistoryEvent, ...] | None:
        """Resolve what is open at sources other than those configured, and remove their targets.

        ``tell`` as for ``record``. None: another replica has the lease, and nothing was changed.
        """
        with self._database.writing() as connection:
            if self.lease is not None and not leases.acquire(connection, self.lease, now):
                return None
            return recorder.retire(connection, configured, now, tell)

    def acknowledge(self, episode_id: int, who: str, note: str, now: float) -> EpisodeDocument | None:
        """Note who looks after an episode, an event the first time. None: there is no such episode."""
        with self._database.writing() as connection:
            found = notes.acknowledge(connection, episode_id, who, note, now)
            return reader.read_episode(connection, episode_id) if found else None

    def attach_verification(self, episode_id: int, document: Mapping[str, Any], now: float) -> EpisodeDocument | None:
        """Add the result of a verification, an event the first time. None: there is no such episode.

        Raises ``UsageError`` too, for a document that is no JSON.
        """
        with self._database.writing() as connection:
            found = notes.attach(connection, episode_id, document, now)
            return reader.read_episode(connection, episode_id) if found else None

    def forget(self, before: float) -> int:
        """Delete events and resolved episodes from before a moment, in many small transactions; how many rows went."""
        total = 0
        for step in retention.STEPS:
            gone = retention.BATCH
            while gone == retention.BATCH:
                with self._database.writing() as connection:
                    gone = step(connection, before)
                total += gone
        if total:
            self._database.shrink()
        return total

    # --- reading ---------------------------------------------------------------------------------

    def begin(self) -> float | None:
        """Return the first moment of which something is kept, unix seconds; None where nothing was recorded."""
        with self._database.reading() as connection:
            return reader.read_begin(connection)

    def episodes(self, query: EpisodeQuery | None = None) -> Page[EpisodeDocument]:
        """Read a page of episodes, the newest first. Raises ``UsageError`` too, for a wrong limit or cursor."""
        with self._database.reading() as connection:
            return reader.read_episodes(connection, query or EpisodeQuery())

    def episode(self, episode_id: int) -> EpisodeDocument | None:
        """Read one episode; None where there is none of that number."""
        with self._database.reading() as connection:
            return reader.read_episode(connection, episode_id)

    def events(self, query: EventQuery | None = None) -> Page[EventDocument]:
        """Read a page of events, the newest first. Raises ``UsageError`` too, for a wrong limit or cursor."""
        with self._database.reading() as connection:
            return reader.read_events(connection, query or EventQuery())

    # --- leases ----------------------------------------------------------------------------------

    def acquire(self, lease: Lease, now: float) -> bool:
        """Take a lease that is free, expired or one's own. False: another replica has it."""
        with self._database.writing() as connection:
            return leases.acquire(connection, lease, now)

    def renew(self, lease: Lease, now: float) -> bool:
        """Prolong one's own lease. False: it has expired, or another replica has it."""
        with self._database.writing() as connection:
            return leases.renew(connection, lease, now)

    def release(self, lease: Lease) -> bool:
        """Give one's own lease back. False: it was not held."""
        with self._database.writing() as connection:
            return leases.release(connection, lease)

    def holder(self, name: str, now: float) -> Held | None:
        """Who holds a lease; None where nobody does."""
        with self._database.reading() as connection:
            return leases.holder(connection, name, now)
