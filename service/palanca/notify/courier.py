"""For those who have notices of their own: puts them into the outbox, to be sent as routes say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from palanca.notify.routing import Routing, chosen
from palanca.outgoing import Posting

if TYPE_CHECKING:
    from palanca.outgoing import Outbox
    from palanca.render.notice import Notice, Remark


class Courier:
    """Takes notices. ``routing`` gives the routes in force, ``nudge`` wakes the one who sends. Threads may share it."""

    def __init__(self, outbox: Outbox, routing: Callable[[], Routing], nudge: Callable[[], None]) -> None:
        self._outbox, self._routing, self._nudge = outbox, routing, nudge

    def post(self, notice: Notice, now: float, to: Sequence[str] | None = None) -> tuple[str, ...]:
        """Tell of a problem, or that it is over; the receivers that will know, in the order of the routes.

        Once this returns, the notice is stored and will be sent. Notices of one ``key`` are one message: the same again
        changes nothing, another state or content changes that message where the receiver can, and after ``resolved``
        the next one is a new message. ``to`` names receivers in place of the routes. Without any route all
        receivers are told, of whatever severity: somebody has found it worth telling. Raises ``HistoryError`` where it
        could not be stored: then try again later.
        """
        routing = self._routing()
        if to is None and not routing.routes:
            to = routing.receivers
        addressees = routing.addressees(notice, now) if to is None else chosen(routing, to, notice, now)
        if self._outbox.post([Posting(notice, addressees)], now):
            self._nudge()
        return tuple(one.receiver for one in addressees)

    def remark(self, key: str, remark: Remark, now: float) -> bool:
        """Add to what was told of a problem. False: nobody was told of it. Raises ``HistoryError``."""
        added = self._outbox.remark(key, remark, now)
        if added:
            self._nudge()
        return bool(added)
