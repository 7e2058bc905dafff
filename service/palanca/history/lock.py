"""One process writes a SQLite file. The lock is the kernel's: it goes with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from palanca.errors import HistoryError


class FileLock:
    """Holds ``<file>.lock`` until ``release``. Raises ``HistoryError`` where another process has it.

    A folder that cannot be written locks nothing: the database itself will tell.
    """

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + ".lock")
        self._file: int | None = None
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if self._file is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._file, 20, 0).decode(errors="replace").strip() or "unknown"
            self.release()
            message = (
                f"another palanca (process {owner}) writes {database}; end it, or name another file with --database"
            )
            raise HistoryError(message) from None
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let another process have the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
