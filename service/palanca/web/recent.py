"""What was made a moment ago, kept for who asks for the same: pages that refresh ask sources no more often."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The last ``most`` results by key. Who asks for one that is being made waits for it; failures are not kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: OrderedDict[Hashable, asyncio.Future[T]] = OrderedDict()

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Return what is known under the key, or make it. Raises what ``make`` raises."""
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = asyncio.ensure_future(make())
            made.add_done_callback(lambda done: self._forget(key, done))
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return await asyncio.shield(made)  # one that hangs up takes nothing away from the others

    def forget(self, key: Hashable) -> None:
        """Make it anew the next time."""
        self._made.pop(key, None)

    def _forget(self, key: Hashable, done: asyncio.Future[T]) -> None:
        if (done.cancelled() or done.exception() is not None) and self._made.get(key) is done:
            self.forget(key)
