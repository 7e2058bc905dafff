"""Work that is done again and again in a thread of its own, and at once when there is news."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


FAULT_PAUSE_S = 60.0


class Periodic:
    """Calls ``work`` in a thread. It returns after how many seconds it wants to be called again, at the latest.

    ``news`` calls it earlier, unless it returned with ``patient``: then it waits those seconds out. ``failed`` is told
    of errors that ``work`` should have caught; the thread goes on.
    """

    def __init__(self, name: str, work: Callable[[], Pause], failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._work, self._wake, self._stopped = work, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin at once."""
        self._thread.start()

    def news(self) -> None:
        """Let it work soon."""
        self._wake.set()

    def stop(self) -> None:
        """Let it end after what it does just now; returns at once."""
        self._stopped.set()
        self._wake.set()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                pause = self._work()
            except Exception as error:  # noqa: BLE001  a thread that died would never be missed
                self._failed(f"a fault of palanca: {error!r}")
                pause = Pause(FAULT_PAUSE_S, patient=True)
            (self._stopped if pause.patient else self._wake).wait(pause.seconds)


class Pause:
    """How long to wait; ``patient`` means that news are no reason to come earlier."""

    __slots__ = ("patient", "seconds")

    def __init__(self, seconds: float, *, patient: bool = False) -> None:
        self.seconds, self.patient = seconds, patient
