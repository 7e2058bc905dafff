"""The one exception tree.

    PalancaError
    ├── UsageError            exit 2: a parameter that cannot be meant
    ├── BusyError             too much is under way already; the same question may be answered later
    ├── RuleFileError         exit 2: one or more faults in rule files, each with file:line:column
    ├── HistoryError          exit 2: the database of the history cannot be read or written
    ├── NotifyError           exit 1: a message to people did not arrive
    └── SourceError           exit 3: the data could not be read
        ├── RecordingError    file:line where it is known
        ├── TooMuchError      more than the server is willing to load; a smaller question may be answered
        └── NoTargetsError    readable, but without any vLLM series that was asked for

Every message says what is wrong, where, and how to mend it. Errors of libraries are converted at the adapter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_NOTHING_JUDGED = 3


class PalancaError(Exception):
    """Base of everything that palanca raises on purpose."""

    exit_code = EXIT_USAGE


class UsageError(PalancaError):
    """A parameter that cannot be meant."""


class BusyError(PalancaError):
    """Too much is under way already; the same question may be answered later."""


@dataclass(frozen=True, order=True)
class Fault:
    """One fault in a file. ``line`` and ``column`` count from 1; 0 means the whole file."""

    path: Path
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """Render as ``file:line:column: message (hint)``."""
        place = f"{self.path}:{self.line}:{self.column}" if self.line else f"{self.path}"
        return f"{place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class RuleFileError(PalancaError):
    """Faults in rule, signal, metric, lever or case files; all of them, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(sorted(faults))
        super().__init__("\n".join(str(fault) for fault in self.faults))


class HistoryError(PalancaError):
    """The database of the history cannot be opened, read or written. The message never holds a password."""


class NotifyError(PalancaError):
    """A message to people did not arrive. The message never holds a token or the address of a webhook.

    ``about``: the ``receiver`` as a whole, this one ``message``, or the ``place`` of a message that is gone.
    ``retry_after`` is in seconds, where the receiver said so. ``unsure``: it may have arrived even so.
    """

    exit_code = EXIT_FINDINGS

    def __init__(
        self,
        message: str,
        *,
        about: Literal["receiver", "message", "place"] = "receiver",
        retry_after: float | None = None,
        unsure: bool = False,
    ) -> None:
        self.about, self.retry_after, self.unsure = about, retry_after, unsure
        super().__init__(message)


class SourceError(PalancaError):
    """The data could not be read."""

    exit_code = EXIT_NOTHING_JUDGED


class RecordingError(SourceError):
    """A recording that is missing, damaged or not OpenMetrics text."""

    exit_code = EXIT_USAGE


class TooMuchError(SourceError):
    """More than the server is willing to load for one question; a smaller one may be answered."""


class NoTargetsError(SourceError):
    """The source answers, but has no vLLM series for what was asked."""
