"""Sends what lies in the outbox, to each receiver in a thread of its own: one that hangs delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from palanca.errors import HistoryError
from palanca.notify.periodic import Pause, Periodic
from palanca.notify.sender import Pace, Sender

if TYPE_CHECKING:
    from collections.abc import Callable

    from palanca.notify.sender import Clocks, Reporter
    from palanca.outgoing import Mailbox, Outbox

EXPIRE_S = 3600.0
LONGEST_AGE_S = 3 * 86400.0
"""What is over for so long and could not be told is given up."""
TROUBLE_S = 10.0
STOP_S = 1.5
HOUSE = ""
"""Who gives up what nobody can be told any more; no receiver has that name."""


class Dispatcher:
    """``turn`` sends what can be sent now; ``start`` does that in threads until ``stop``.

    The receivers may be replaced at any time. The thread of one that is gone ends, but not before its last message has
    arrived or failed: it may come back meanwhile, and two threads would send it twice.
    """

    def __init__(self, outbox: Outbox, mailboxes: Sequence[Mailbox], clocks: Clocks, reporter: Reporter) -> None:
        self._outbox, self._clocks, self._reporter = outbox, clocks, reporter
        self._stopping, self._lock = threading.Event(), threading.Lock()
        self._giving_up = threading.Lock()
        self._started = False
        self._paces: dict[str, Pace] = {}
        self._senders: dict[str, Sender] = {}
        self._threads: dict[str, Periodic] = {}
        self._troubled: set[str] = set()
        self._names: tuple[str, ...] = ()
        self._abandoned: tuple[str, ...] | None = None
        self._expired: float | None = None
        self._add(HOUSE, self._keep_house)
        self.replace(mailboxes)

    # --- turns -----------------------------------------------------------------------------------

    def turn(self) -> float:
        """Send one message to each receiver that has any and may be sent one now; seconds until the next turn.

        Raises ``HistoryError`` where the outbox cannot be used; nothing is lost then.
        """
        waits = [self._keep_house()]
        for name, sender in tuple(self._senders.items()):
            waits.append(sender.turn())
            self._retire(name)
        return min(waits)

    def _keep_house(self) -> float:
        timed = self._clocks.timer()
        with self._giving_up:
            names = self._names
            if self._abandoned != names:
                self._outbox.abandon(names)
                self._abandoned = names
        if self._expired is None or timed - self._expired >= EXPIRE_S:
            self._outbox.expire(self._clocks.wall() - LONGEST_AGE_S)
            self._expired = timed
        return EXPIRE_S

    # --- threads ---------------------------------------------------------------------------------

    def replace(self, mailboxes: Sequence[Mailbox]) -> None:
        """Send to other receivers from now on. It may wait for the outbox.

        What is written for a new receiver afterwards is not given up as that of an unknown one.
        """
        names = tuple(box.name for box in mailboxes)
        with self._giving_up, self._lock:
            for box in mailboxes:
                pace = self._paces.setdefault(box.lane, Pace(self._clocks.timer))
                known = self._senders.get(box.name)
                if known is not None:
                    known.use(box, pace)
                    continue
                made = Sender(self._outbox, box, pace, self._clocks, self._reporter, self._stopping)
                self._senders[box.name] = made
                self._add(box.name, made.turn)
            for name in self._senders.keys() - set(names):
                self._senders[name].rest()
                self._threads[name].news()
            self._names = names
        self._threads[HOUSE].news()
        self.nudge()

    def nudge(self) -> None:
        """Look at the outbox now."""
        with self._lock:
            for name in self._names:
                self._threads[name].news()

    def start(self) -> None:
        """Send in threads."""
        with self._lock:
            self._started = True
            for thread in self._threads.values():
                thread.start()

    def stop(self) -> None:
        """Stop sending, within 2 s: a message under way then is looked for, or sent again, by the next process."""
        self._stopping.set()
        with self._lock:
            self._started = False
            threads = tuple(self._threads.values())
        for thread in threads:
            thread.stop()
        deadline = time.monotonic() + STOP_S
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _add(self, name: str, turn: Callable[[], float]) -> None:
        made = self._threads[name] = Periodic(
            f"palanca-notify {name}".rstrip(), partial(self._taken, name, turn), partial(self._trouble, name)
        )
        if self._started:
            made.start()

    def _taken(self, name: str, turn: Callable[[], float]) -> Pause:
        """Take one turn in a thread."""
        try:
            wait = turn()
        except HistoryError as error:
            self._trouble(name, str(error))
            return Pause(TROUBLE_S)
        with self._lock:
            self._troubled.discard(name)
        self._retire(name)
        return Pause(wait)

    def _retire(self, name: str) -> None:
        """After a turn: let go of a receiver that is gone."""
        with self._lock:
            if name in self._senders and name not in self._names:
                del self._senders[name]
                self._threads.pop(name).stop()

    def _trouble(self, name: str, reason: str) -> None:
        """Say that nothing is sent; once, however many would send."""
        with self._lock:
            first = not self._troubled
            self._troubled.add(name)
        if first:
            self._reporter.trouble(reason)
