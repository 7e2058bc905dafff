"""The outbox over a database; satisfies ``palanca.outgoing.Outbox``. Every method is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from palanca.history import leases, lines

if TYPE_CHECKING:
    from palanca.history.database import Database
    from palanca.history.leases import Lease
    from palanca.outgoing import Line, Posting, Settlement
    from palanca.render.notice import Remark


class StoredOutbox:
    """Lines in a database. With a ``lease`` only its holder sends. Threads may share it. Raises ``HistoryError``."""

    def __init__(self, database: Database, lease: Lease | None) -> None:
        self._database, self._lease = database, lease

    def post(self, postings: Sequence[Posting], now: float) -> int:
        """Put notices in; how many lines have changed."""
        with self._database.writing() as connection:
            return lines.post(connection, postings, now)

    def remark(self, key: str, remark: Remark, now: float) -> int:
        """Add a remark to the newest lines of a problem; how many there are."""
        with self._database.writing() as connection:
            return lines.remark(connection, key, remark, now)

    def due(self, receiver: str, now: float) -> tuple[Line, ...]:
        """Lines with something to be told to a receiver now, the oldest first; 200 at most."""
        with self._database.reading() as connection:
            return lines.due(connection, receiver, now)

    def next_due(self, now: float) -> float | None:
        """When the next line is due, later than ``now``; None where none is."""
        with self._database.reading() as connection:
            return lines.next_due(connection, now)

    def begin(self, ids: Sequence[int], key: str, now: float) -> bool:
        """Note that a message is being sent, and renew the lease. False: another replica has it."""
        with self._database.writing() as connection:
            if self._lease is not None and not leases.acquire(connection, self._lease, now):
                return False
            lines.begin(connection, ids, key, now)
            return True

    def settle(self, done: Settlement, now: float) -> None:
        """Note that a message has arrived."""
        with self._database.writing() as connection:
            lines.settle(connection, done, now)

    def idle(self, versions: Mapping[int, int]) -> None:
        """Note lines, with their versions, at which nothing is to be told."""
        with self._database.writing() as connection:
            lines.idle(connection, versions)

    def failed(self, ids: Sequence[int], reason: str, again: float | None, *, unsure: bool) -> None:
        """Note that a message did not arrive, and when to try again; None: not before something changes."""
        with self._database.writing() as connection:
            lines.failed(connection, ids, reason, again, unsure=unsure)

    def lost(self, line: int) -> None:
        """Note that the message of a line is not there any more."""
        with self._database.writing() as connection:
            lines.lost(connection, line)

    def abandon(self, known: Sequence[str]) -> int:
        """Give up what is for receivers that are not known any more; how many lines."""
        with self._database.writing() as connection:
            return lines.abandon(connection, known)

    def expire(self, before: float) -> int:
        """Give up what is over since before a moment and still could not be told; how many lines."""
        with self._database.writing() as connection:
            return lines.expire(connection, before)
