"""Room for answers in memory, shared by all that are under way at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Room:
    """So many bytes, for several threads together."""

    def __init__(self, size: int) -> None:
        self._size, self._taken, self._lock = size, 0, threading.Lock()

    @contextmanager
    def part(self) -> Iterator[Part]:
        """Give out a part that grows, and take it back at the end."""
        part = Part(self)
        try:
            yield part
        finally:
            self.take(-part.size)

    def take(self, count: int) -> bool:
        """Take so many bytes; whether that is more than there are."""
        with self._lock:
            self._taken += count
            return self._taken > self._size


class Part:
    """What one answer takes, in bytes."""

    def __init__(self, room: Room) -> None:
        self._room, self.size = room, 0

    def full(self, count: int) -> bool:
        """Take so many bytes more; whether the room is full."""
        self.size += count
        return self._room.take(count)
