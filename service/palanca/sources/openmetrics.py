"""Read OpenMetrics text with timestamps, as ``promtool tsdb create-blocks-from openmetrics`` reads it.

The samples of a series may stand together or be interleaved with those of others; only the times within one series
must ascend. The reader of ``prometheus_client`` refuses such files.

Speed: a line that begins like the line before it belongs to the same series, so labels are parsed once per series.
"""

from __future__ import annotations

import io
import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from palanca.errors import RecordingError
from palanca.signals.store import Series
from palanca.sources.grammar import NAME, NO_DIGIT, FaultError, decode, foreign, is_number, parse_series, shown

Keep = Callable[[str], bool]

LATEST_TIME_S = 1e11
"""Unix seconds beyond which a time is taken for milliseconds (the year 5138; 1e11 ms was in 1973)."""

_MOMENTS = 100_000
"""Times that are remembered: the series of one scrape share theirs."""

_EOF = b"# EOF"
_EXEMPLAR = b" # {"


@dataclass(slots=True)
class _Column:
    """The samples of one series while they are read: times in milliseconds, values."""

    name: str
    labels: dict[str, str]
    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def series(self) -> Series:
        """Hand the samples over without a copy."""
        times, values = np.frombuffer(self.times, dtype=np.int64), np.frombuffer(self.values, dtype=np.float64)
        return Series(self.name, self.labels, times, values)

    def check_repeated(self, moment: int, value: float) -> None:
        """Accept the last sample once more, as Prometheus does; raise ``FaultError`` for any other."""
        if moment < self.times[-1]:
            raise FaultError(
                f"time goes backwards within the series {_series_text(self)}, from {self.times[-1]} to {moment} ms",
                "sort the samples of each series by time",
            )
        if value != self.values[-1] and not (math.isnan(value) and math.isnan(self.values[-1])):
            raise FaultError(
                f"a second sample of {_series_text(self)} at {moment} ms, {value} after {self.values[-1]}",
                "keep one; recordings of several servers need a label that tells them apart",
            )


class _Table:
    """The series found so far, and which column or dropped name a line belongs to."""

    def __init__(self, keep: Keep | None) -> None:
        self._keep = keep
        self._dropped: dict[bytes, bool] = {}
        self._by_text: dict[bytes, tuple[bytes, _Column | None]] = {}
        self._by_identity: dict[tuple[str, frozenset[tuple[str, str]]], _Column] = {}

    @property
    def empty(self) -> bool:
        """True until a sample was read."""
        return not any(column.times for column in self._by_identity.values())

    def series(self) -> list[Series]:
        """All kept series in the order of their first samples."""
        return [column.series() for column in self._by_identity.values() if column.times]

    def find(self, line: bytes) -> tuple[bytes, _Column | None]:
        """Prefix that the next lines of this series share, and its column; None: drop what has this prefix."""
        found = self._by_text.get(line.rsplit(None, 2)[0])
        if found and line.startswith(found[0]):
            return found
        name = NAME.match(line)
        if name and self._is_dropped(name[0]):
            return line[: name.end() + 1], None
        (metric, labels), end = parse_series(line, name)
        prefix = line[: end + 1]
        if not prefix[end:].isspace():
            raise FaultError(f"no space after the series {shown(line[:end])}", "write: series value time")
        column = None if self._is_dropped(metric.encode()) else self._column(metric, labels)
        self._by_text[line[:end]] = prefix, column
        return prefix, column

    def _is_dropped(self, name: bytes) -> bool:
        if self._keep is None:
            return False
        if name not in self._dropped:
            self._dropped[name] = not self._keep(name.decode())
        return self._dropped[name]

    def _column(self, name: str, labels: dict[str, str]) -> _Column:
        return self._by_identity.setdefault((name, frozenset(labels.items())), _Column(name, labels))


def parse(text: str | Iterable[bytes], *, path: Path | str, keep: Keep | None = None) -> list[Series]:
    r"""Parse OpenMetrics text whose samples have timestamps.

    ``text`` is the whole text, or its lines as UTF-8 bytes with their ``\n`` (then no copy of the text is held).
    ``path`` names the file in messages. ``keep`` says which metric names are wanted; the lines of the others are
    skipped unread.

    Returns the series in the order of their first samples: ``times [samples]`` in milliseconds, truncated from seconds
    as Prometheus does it, and ``values [samples]``. Empty labels are left out, as in Prometheus.
    Raises ``RecordingError`` with file and line.
    """
    if isinstance(text, str):
        text = io.BytesIO(text.encode(errors="surrogatepass"))
    reader = _Reader(text, keep)
    try:
        reader.read()
    except FaultError as fault:
        where = f"{path}:{reader.number}" if reader.number else f"{path}"
        raise RecordingError(f"{where}: {_told_better(fault, reader)}") from None
    return reader.table.series()


class _Reader:
    """Goes once through the lines. ``line`` (with its ``number``) is to be read next, and empty behind the last."""

    def __init__(self, lines: Iterable[bytes], keep: Keep | None) -> None:
        self._rows = enumerate(lines, 1)
        self._moments: dict[bytes, int] = {}
        self.table = _Table(keep)
        self.number = 0
        self.line = b""
        self.ended = False

    def read(self) -> None:
        """Fill the table. Raises ``FaultError``; ``number`` and ``line`` then tell where."""
        self._skip(b"")
        while self.line:
            if self.line.startswith(b"#") or self.line.isspace():
                if self.line.rstrip() == _EOF:
                    return self._expect_nothing()
                decode(self.line)
                self._skip(self.line)
            else:
                prefix, column = self.table.find(self.line)
                if column is None:
                    self._skip(prefix)
                else:
                    self._follow(prefix, column)
        if not self.number:
            raise FaultError("the file is empty", "was the recording stopped before anything was written?")
        raise FaultError("no '# EOF' at the end", "an incomplete copy? If it is complete, add the line # EOF")

    def _skip(self, prefix: bytes) -> None:
        """Go to the next line that does not begin with the prefix; with an empty one, to the next."""
        number, line = self.number, b""
        for number, line in self._rows:  # noqa: B007 -- both are needed below
            if not prefix or not line.startswith(prefix):
                break
        else:
            line = b""
        self.number, self.line = number, line

    def _follow(self, prefix: bytes, column: _Column) -> None:
        """Read lines as long as they have the prefix of the series. This is the inner loop."""
        size, moments = len(prefix), self._moments
        add_time, add_value = column.times.append, column.values.append
        last = column.times[-1] if column.times else -1
        number, line = self.number, self.line
        try:
            for number, line in chain(((number, line),), self._rows):  # noqa: B007, B020 -- they stay for `finally`
                if not line.startswith(prefix):
                    return
                try:
                    text, stamp = line[size:].split()
                    value, moment = float(text.replace(b"_", NO_DIGIT)), moments[stamp]
                except (ValueError, KeyError):
                    value, moment = _sample(line[size:], moments)
                if moment > last:
                    last = moment
                    add_time(moment)
                    add_value(value)
                else:
                    column.check_repeated(moment, value)
            line = b""
        finally:
            self.number, self.line = number, line

    def _expect_nothing(self) -> None:
        self.ended = True
        for row in self._rows:
            self.number, self.line = row
            if self.line.strip():
                raise FaultError("text after '# EOF'", "one recording a file; were two of them joined?")


def _sample(rest: bytes, moments: dict[bytes, int]) -> tuple[float, int]:
    """Value and time in milliseconds of what follows the series on a line; the time is added to ``moments``.

    Raises ``FaultError``.
    """
    words = rest.partition(_EXEMPLAR)[0].split()
    if len(words) != len(("value", "time")) or not all(map(is_number, words)):
        raise _sample_fault(words)
    time = float(words[1])
    if not 0 <= time < LATEST_TIME_S:
        raise _time_fault(time)
    if len(moments) >= _MOMENTS:
        moments.clear()
    moments[words[1]] = int(time * 1000)  # truncated, not rounded: the Prometheus parser has int64(ts * 1000)
    return float(words[0]), moments[words[1]]


def _sample_fault(words: list[bytes]) -> FaultError:
    wrong = next((word for word in words[:2] if not is_number(word)), None)
    if wrong is not None:
        which = "time" if words.index(wrong) else "value"
        return FaultError(f"the {which} {shown(wrong)} is no number", "write: series value time")
    if not words:
        return FaultError("a series without value and time", "write: series value time")
    if len(words) == 1:
        return FaultError(
            "a sample without timestamp",
            "a plain /metrics page is not a recording; scrape it with `palanca diagnose URL`",
        )
    return FaultError(f"text after the time: {shown(b' '.join(words[2:]))}", "write: series value time")


def _time_fault(time: float) -> FaultError:
    if time >= LATEST_TIME_S:
        return FaultError(f"the time {time:.17g} is out of range", "times are unix seconds; are these milliseconds?")
    return FaultError(f"the time {time:.17g} is out of range", "times are unix seconds from 1970 on")


def _told_better(fault: FaultError, reader: _Reader) -> str:
    """What the fault comes from, where the file as a whole is of another kind or breaks off in this line."""
    start = reader.line.lstrip()
    other = foreign(start) if reader.table.empty else None
    if other is not None:
        return "{} ({})".format(*other)
    if reader.number > 1 and reader.line and not reader.line.endswith(b"\n") and not reader.ended:
        return "the recording breaks off here (an incomplete copy? Copy it again)"
    return str(fault)


def _series_text(column: _Column) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in column.labels.items())
    return shown(f"{column.name}{{{labels}}}".encode())
