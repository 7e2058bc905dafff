"""Parse one page of ``/metrics``: Prometheus text 0.0.4 and OpenMetrics, as vLLM's Python and Rust front ends send it.

The parsers of ``prometheus_client`` were measured and not taken: they name no line, the one for text takes duplicates
and torn pages without a word, and the one for OpenMetrics refuses a page for a fault in a metric that nobody reads.
This one shares its grammar with the reader of recordings, and remembers the series of the page before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palanca.errors import SourceError
from palanca.sources.grammar import NAME, NO_DIGIT, FaultError, decode, foreign, is_number, parse_series, shown

if TYPE_CHECKING:
    from palanca.sources.openmetrics import Keep

MOST_SERIES = 500_000
"""Series of one page that are read: a thousand times those of an engine."""

LONGEST_LINE = 64 * 1024
"""Bytes; lines of vLLM have some hundred, and a regular expression over more takes long."""

_Identity = tuple[str, frozenset[tuple[str, str]]]
_Known = dict[bytes, tuple[str, Mapping[str, str], _Identity] | None]
"""What the text of a series means; None for one that is not wanted."""

_EOF = b"# EOF"
_EXEMPLAR = b" # {"
_WRITE = "write: name{label=value} value"
_TYPE_WORDS = 4
_NO_PAGE = (
    ("html", "an HTML page instead of metrics", "a login page or a proxy? Give credentials, or the server's own port"),
    ("json", "JSON instead of metrics", "is this the port of vLLM's API server, and the path /metrics?"),
    ("protobuf", "Prometheus protobuf instead of text", "the server must honour the Accept header"),
)
"""Words of a content type, what the answer is then, and what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the page; NaN and the infinities are values."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Page:
    """One scrape: its samples in the order of the page, and the declared types by family name."""

    samples: tuple[Sample, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    openmetrics: bool = False


class ExpositionParser:
    """Parses the pages of one server, one after another; what stays the same is parsed once.

    ``keep`` says which metric names are wanted; the values of the others are not looked at. ``most`` bounds the series.
    """

    def __init__(self, keep: Keep | None = None, *, most: int = MOST_SERIES) -> None:
        self._keep, self._most = keep, most
        self._known: _Known = {}

    def parse(self, body: bytes, *, content_type: str = "", url: str = "/metrics") -> Page:
        """Read a page. ``url`` names it in messages. Timestamps and exemplars are left out: the page is of now.

        Raises ``SourceError`` with the line for what is no exposition, for duplicates with different values, and for a
        page that breaks off.
        """
        for word, what, hint in _NO_PAGE:
            if word in content_type.partition(";")[0].lower():
                raise SourceError(f"{url}: {what} ({hint})")
        openmetrics = "openmetrics" in content_type.lower() or body.rstrip().endswith(b"\n" + _EOF)
        if not body.strip():
            raise SourceError(f"{url}: an empty page (is the server still starting?)")
        reading = _Reading(self._keep, self._known, self._most)
        try:
            reading.read(body)
            if not body.endswith(b"\n") and not reading.ended:
                raise FaultError("the page breaks off here", "is a proxy limiting its size?")  # noqa: TRY301
            if openmetrics and not reading.ended:
                raise FaultError("no '# EOF' at the end", "the page was cut: is a proxy limiting its size?")  # noqa: TRY301
        except FaultError as fault:
            raise SourceError(f"{url}: line {reading.number}: {_told_better(fault, reading, body)}") from None
        self._known = reading.seen
        return Page(tuple(reading.samples), reading.types, openmetrics)


class _Reading:
    """Goes once through the lines; ``number`` is the one that was read last, from 1 on."""

    def __init__(self, keep: Keep | None, known: _Known, most: int) -> None:
        self._keep, self._known, self._most = keep, known, most
        self.seen: _Known = {}
        self.samples: list[Sample] = []
        self.types: dict[str, str] = {}
        self._values: dict[_Identity, float] = {}
        self.number = 0
        self.ended = False

    def read(self, body: bytes) -> None:
        """Fill samples and types. Raises ``FaultError``."""
        for self.number, raw in enumerate(body.split(b"\n"), 1):
            line = raw.strip()
            if not line:
                continue
            if self.ended:
                raise FaultError("text after '# EOF'", "are several pages joined into one?")
            if len(line) > LONGEST_LINE:
                raise FaultError(f"a line of more than {LONGEST_LINE:,} bytes", "is this a page of metrics?")
            if line.startswith(b"#"):
                self._comment(line)
            else:
                self._sample(line)

    def _comment(self, line: bytes) -> None:
        self.ended = line == _EOF
        words = line.split()
        if len(words) == _TYPE_WORDS and words[1] == b"TYPE":
            self.types[decode(words[2]).strip('"')] = decode(words[3]).lower()

    def _sample(self, line: bytes) -> None:
        """Read one line: usually a series that the page before had too, one space, and a value."""
        text, _, word = line.rpartition(b" ")
        if text not in self._known or text in self.seen or len(word.split()) > 1:  # a tab and a timestamp
            text, word = self._parse(line)
        else:
            self.seen[text] = self._known[text]
        series = self.seen[text]
        if series is None:
            return
        value = _number(word)
        name, labels, identity = series
        old = self._values.setdefault(identity, value)
        if len(self._values) == len(self.samples):  # the series was there before
            if old != value and not (math.isnan(old) and math.isnan(value)):
                hint = "two exporters behind one port, or a stat logger registered twice"
                raise FaultError(f"a second value of {shown(text)}, {value} after {old}", hint)
            return
        if len(self.samples) >= self._most:
            raise FaultError(f"more than {self._most:,} series", "is this the page of one server?")
        self.samples.append(Sample(name, labels, value))

    def _parse(self, line: bytes) -> tuple[bytes, bytes]:
        """Series text, noted in ``seen``, and value of a line that may have a timestamp and an exemplar."""
        start = NAME.match(line)
        if start is None and not line.startswith(b"{"):
            raise FaultError(f"no metric name: {shown(line)}", _WRITE)
        (name, labels), end = parse_series(line, start)
        rest = line[end:].partition(_EXEMPLAR)[0]
        words = rest.split()
        if words and not rest[:1].isspace():
            raise FaultError(f"no space after the series {shown(line[:end])}", _WRITE)
        if not 1 <= len(words) <= len(("value", "time")):
            what = f"text after the value: {shown(rest)}" if words else f"no value: {shown(line)}"
            raise FaultError(what, _WRITE)
        if not all(map(is_number, words)):
            wrong = next(word for word in words if not is_number(word))
            raise FaultError(f"{shown(wrong)} is no number", _WRITE)
        wanted = self._keep is None or self._keep(name)
        self.seen[line[:end]] = (name, labels, (name, frozenset(labels.items()))) if wanted else None
        return line[:end], words[0]


def _number(word: bytes) -> float:
    try:
        return float(word.replace(b"_", NO_DIGIT))
    except ValueError:
        raise FaultError(f"{shown(word)} is no number", _WRITE) from None


def _told_better(fault: FaultError, reading: _Reading, body: bytes) -> str:
    """Say what the fault comes from, where the page as a whole is of another kind or breaks off in this line."""
    if not reading.samples and not reading.types:
        start = body.lstrip()[:1000]
        if start.startswith(b"<"):
            return f"{_NO_PAGE[0][1]} ({_NO_PAGE[0][2]})"
        if start.startswith((b"{", b"[")):
            return f"{_NO_PAGE[1][1]} ({_NO_PAGE[1][2]})"
        other = foreign(start)
        if other is not None:
            return "{} ({})".format(*other)
    last = reading.number == body.count(b"\n") + 1 and not body.endswith(b"\n")
    return "the page breaks off here (is a proxy limiting its size?)" if last else str(fault)
