"""Files made of the settings in force, each written once, when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from palanca.daemon.snapshot import Packed, packed

if TYPE_CHECKING:
    from palanca.model import Catalogue

Chosen = TypeVar("Chosen")
"""What a user can choose about the files."""


class _File:
    """One file of one choice: who asks while it is being written waits for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: Packed | None = None

    def packed(self, write: Callable[[], str]) -> Packed:
        with self._lock:
            if self._made is None:
                self._made = packed(write().encode())
            return self._made


class Files(Generic[Chosen]):
    """The files of the newest choice, from any thread. ``write`` makes the text of a name."""

    def __init__(
        self, choice: Callable[[], tuple[Catalogue, Chosen]], write: Callable[[str, Catalogue, Chosen], str]
    ) -> None:
        self._choice, self._write, self._lock = choice, write, Lock()
        self._chosen: tuple[Catalogue, Chosen] | None = None
        self._files: dict[str, _File] = {}

    def packed(self, name: str) -> Packed:
        """Write a file, or give the one that was written. Raises ``UsageError``."""
        catalogue, options = self._choice()
        with self._lock:
            if self._chosen is None or self._chosen[0] is not catalogue or self._chosen[1] != options:
                self._chosen, self._files = (catalogue, options), {}
            file = self._files.setdefault(name, _File())
        return file.packed(lambda: self._write(name, catalogue, options))
