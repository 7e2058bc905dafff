"""How often somebody may try: a bucket of attempts for each address, which fills again with time."""

from __future__ import annotations

from collections import OrderedDict

MOST_ADDRESSES = 4096
"""Beyond that the address that tried longest ago is forgotten."""


class Attempts:
    """``most`` attempts at once, and one more every ``seconds``."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """How many were used, as of when."""

    def wait(self, address: str, now: float) -> float:
        """Return the seconds until the next attempt is allowed; 0 where it is now."""
        return max(self._level(address, now) + 1 - self._most, 0.0) * self._seconds

    def failed(self, address: str, now: float) -> None:
        """Count an attempt that failed."""
        self._used[address] = (self._level(address, now) + 1, now)
        self._used.move_to_end(address)
        while len(self._used) > MOST_ADDRESSES:
            self._used.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Forget what failed before."""
        self._used.pop(address, None)

    def _level(self, address: str, now: float) -> float:
        used, then = self._used.get(address, (0.0, now))
        return max(used - max(now - then, 0.0) / self._seconds, 0.0)
