"""What an entry point is: bytes from outside go in, and a result or an error of palanca's own comes out.

``tests/fuzz/test_entries.py`` feeds each with made-up bytes, ``make fuzz`` with those that reach new code.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

LONGEST_MESSAGE = 20_000


@dataclass(frozen=True)
class Entry:
    """One entry point.

    ``run`` takes what comes from outside and returns whether it was accepted; whatever it raises is a defect.
    ``seeds`` are good inputs to start from, ``words`` pieces that are worth putting in.
    """

    name: str
    run: Callable[[bytes], bool]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[str, ...] = field(default=())


def told(error: Exception, place: str) -> bool:
    """Check what an error says: where, something, and not without end. Returns False, since nothing was accepted."""
    text = str(error)
    assert text.startswith(place), text[:LONGEST_MESSAGE]
    assert len(place) < len(text) < LONGEST_MESSAGE, len(text)
    return False


@cache
def _folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="palanca-fuzz-")
    atexit.register(made.cleanup)
    return Path(made.name)


def room(name: str) -> Path:
    """Return a folder of this process for the files of an entry; it goes with the process."""
    made = _folder() / name
    made.mkdir(exist_ok=True)
    return made
