"""Load a recording: a file of OpenMetrics text with timestamps, plain or packed with gzip.

The text is read piece by piece and never held as a whole; what stays in memory are the samples, 16 bytes each.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palanca.errors import NoTargetsError, RecordingError, UsageError
from palanca.model import SourceInfo
from palanca.moments import rfc3339
from palanca.poll import Opened, grid_for
from palanca.signals.identity import unprefixed
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore
from palanca.sources.openmetrics import Keep, parse

if TYPE_CHECKING:
    from palanca.model import Catalogue, Metrics
    from palanca.poll import Question

MAX_BYTES = 2 * 1024**3
"""Largest text that is read, in bytes after unpacking: weeks of scrapes of one engine, and a bound for gzip bombs."""

MAX_LINE_BYTES = 1024**2
"""Longest line that is read, in bytes; those of vLLM have some hundred."""

_PIECE_BYTES = 1024**2
_GZIP_MAGIC = b"\x1f\x8b"


def load(path: Path, *, keep: Keep | None = None, max_bytes: int = MAX_BYTES) -> SampleStore:
    """Load all series of a recording, or those whose metric names ``keep`` wants.

    Gzip is recognised by its first bytes, whatever the file is called. ``max_bytes`` bounds the unpacked text.
    A recording without any wanted series gives an empty store. Raises ``RecordingError`` for a file that is missing,
    unreadable, damaged, too large, or not OpenMetrics text with timestamps.
    """
    try:
        with path.open("rb") as file:
            return SampleStore(parse(_lines(_pieces(file, path, max_bytes), path), path=path, keep=keep))
    except FileNotFoundError:
        raise RecordingError(f"{path}: no such file (check the path)") from None
    except IsADirectoryError:
        raise RecordingError(f"{path}: this is a directory (name one recording file in it)") from None
    except PermissionError:
        raise RecordingError(f"{path}: permission denied (make the file readable for the user of palanca)") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error} (check the path and the disk)") from error


def _pieces(file: io.BufferedReader, path: Path, max_bytes: int) -> Iterator[bytes]:
    """Yield the text in pieces, unpacked. Raises ``RecordingError`` for damaged gzip and beyond ``max_bytes``."""
    stream: io.BufferedIOBase = file
    if file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
        stream = gzip.GzipFile(fileobj=file, mode="rb")
    size = 0
    while piece := _read(stream, path):
        size += len(piece)
        if size > max_bytes:
            raise RecordingError(
                f"{path}: more than {max_bytes:,} bytes of text (record a shorter time, or only the series of vLLM)"
            )
        yield piece


def _read(stream: io.BufferedIOBase, path: Path) -> bytes:
    try:
        return stream.read(_PIECE_BYTES)
    except EOFError:
        raise RecordingError(f"{path}: the gzip file is cut off (an incomplete copy? Copy it again)") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise RecordingError(f"{path}: the gzip file is damaged: {error} (copy it again; test: gzip -t)") from None


def _lines(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    r"""Yield lines with their ``\n``; only the last may lack it. Raises ``RecordingError`` for an endless line."""
    rest = b""
    number = 0
    for piece in pieces:
        whole, newline, tail = piece.rpartition(b"\n")
        if newline:
            for line in io.BytesIO(rest + whole + newline):
                number += 1
                yield line
            rest = tail
        else:
            rest += tail
        if len(rest) > MAX_LINE_BYTES:
            raise RecordingError(
                f"{path}:{number + 1}: a line of more than {MAX_LINE_BYTES:,} bytes (is this OpenMetrics text?)"
            )
    if rest:
        yield rest


class RecordingSource:
    """A recording as a source: its newest sample is now, unless another moment inside it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store: SampleStore | None = None

    def span(self, catalogue: Catalogue) -> tuple[float, float]:
        """First and last moment with a sample, unix seconds. Raises as ``open`` does."""
        return self._loaded(catalogue).span()

    def _loaded(self, catalogue: Catalogue) -> SampleStore:
        """Load the series that the catalogue knows, once."""
        if self._store is None:
            store = load(self._path, keep=known_names(catalogue.metrics))
            if not _vllm_names(store, catalogue.metrics):
                prefixes = ", ".join(f"{prefix}*" for prefix in catalogue.metrics.prefixes)
                message = f"{self._path}: has no vLLM series (looked for {prefixes})"
                raise NoTargetsError(message)
            self._store = store
        return self._store

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        """Load the series that the catalogue knows. Raises ``RecordingError``, ``NoTargetsError``, ``UsageError``."""
        store = self._loaded(catalogue)
        first, last = store.span()
        end = last if question.at is None else question.at
        if not first <= end <= last:
            message = (
                f"--at {rfc3339(end)} is outside the recording {self._path}, "
                f"which goes from {rfc3339(first)} to {rfc3339(last)}"
            )
            raise UsageError(message)
        grid = grid_for(catalogue, end)
        reader = SampleReader(store, catalogue.metrics, grid, matchers=question.matchers)
        if question.matchers and not reader.discover().targets:
            raise NoTargetsError(nothing_selected(question.matchers, reader.label_values()))
        info = SourceInfo(name="recording", url=str(self._path), age_s=round(last - end, 3))
        return Opened(reader, grid, lambda: info)


def known_names(metrics: Metrics) -> Keep:
    """Return a test for the metric names that some family has, under any live prefix and with any suffix."""
    known: set[str] = set()
    for family in metrics.families.values():
        suffixes = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("",)
        prefixes = metrics.prefixes if family.prefixed else ("",)
        known |= {prefix + name.name + suffix for name in family.names for prefix in prefixes for suffix in suffixes}
    return known.__contains__


def _vllm_names(store: SampleStore, metrics: Metrics) -> list[str]:
    return [name for name in store.names if unprefixed(name, metrics)]


def nothing_selected(matchers: Mapping[str, str], known: Mapping[str, Sequence[str]]) -> str:
    """Say that matchers select nothing, and which labels and values there are."""
    asked = " ".join(f"--match {label}={value}" for label, value in matchers.items())
    lines = [f"{asked} selects nothing; labels that exist:"]
    lines += [f"  {label}: {', '.join(_shown(value) for value in values[:8])}" for label, values in known.items()]
    return "\n".join(lines)


def _shown(value: str, longest: int = 80) -> str:
    plain = value.encode("unicode_escape").decode("ascii") if not value.isprintable() else value
    return plain if len(plain) <= longest else plain[: longest - 3] + "..."
