"""What OpenMetrics text with timestamps and the page of one scrape have in common: series, labels, numbers, faults."""

from __future__ import annotations

import re

_SHOWN = 80
"""Characters of a faulty text that a message repeats."""

NO_DIGIT = b"?"
"""Put for an underscore: Python takes 1_000 for a number, Prometheus does not."""

NAME = re.compile(rb"[A-Za-z_:][A-Za-z0-9_:]*(?=[{\s]|\Z)")
_LABEL = re.compile(
    rb"""\s*(?: (?P<bare>[A-Za-z_][A-Za-z0-9_]*) | "(?P<quoted>(?:[^"\\]|\\.)*)" )
         \s*(?: =\s*"(?P<value>(?:[^"\\]|\\.)*)"\s* )?
         (?: , | (?=\}) )""",
    re.VERBOSE | re.DOTALL,
)
_CLOSE = re.compile(rb"\s*\}")
_ESCAPE = re.compile(r'\\(["\\n])')

_PACKED = "unpack it, or pack it with gzip"
_FOREIGN = (
    (rb"<", "this is HTML or XML, not OpenMetrics text", "was an error page or a log-in page saved?"),
    (rb'\[|\{\s*("[^"]*"\s*:|$)', "this is JSON, not OpenMetrics text", "an answer of the query API is no recording"),
    (rb"\xff\xfe|\xfe\xff", "this is UTF-16 text", "save it as UTF-8"),
    (rb"\xef\xbb\xbf", "a byte order mark stands before the text", "save it as UTF-8 without one"),
    (rb"\x1f\x8b", "this is gzip in gzip", "unpack it once"),
    (rb"PK\x03\x04", "this is a zip archive", _PACKED),
    (rb"\x28\xb5\x2f\xfd", "this is packed with zstd", _PACKED),
    (rb"\xfd7zXZ", "this is packed with xz", _PACKED),
    (rb"BZh", "this is packed with bzip2", _PACKED),
)
"""What a file that is no OpenMetrics text begins with, what it is then, and what to do."""


class FaultError(Exception):
    """What is wrong with a line, and what to do about it. Never leaves the parsers."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message} ({hint})")


def is_number(word: bytes) -> bool:
    """Tell numbers of Prometheus: Python's, but 1_000 is none."""
    try:
        float(word.replace(b"_", NO_DIGIT))
    except ValueError:
        return False
    return True


def parse_series(line: bytes, name: re.Match[bytes] | None) -> tuple[tuple[str, dict[str, str]], int]:
    """Metric name and labels at the start of a line, and where they end. Raises ``FaultError``."""
    start = name.end() if name else 0
    if not name and not line.startswith(b"{"):
        raise FaultError(f"no metric name: {shown(line)}", "is this OpenMetrics text? Write: series value time")
    metric = name[0].decode() if name else ""
    labels: dict[str, str] = {}
    end = start
    if line[start : start + 1] == b"{":
        metric, end = _parse_labels(line, start + 1, metric, labels)
    if not metric:
        raise FaultError(f"no metric name: {shown(line)}", 'write name{...} or {"name", ...}')
    return (metric, {key: value for key, value in labels.items() if value}), end


def _parse_labels(line: bytes, at: int, metric: str, labels: dict[str, str]) -> tuple[str, int]:
    """Fill in ``labels`` from behind the brace; return the metric name, which may stand there, and the end."""
    while pair := _LABEL.match(line, at):
        key = decode(pair["bare"]) if pair["quoted"] is None else _unescape(pair["quoted"])
        if pair["value"] is None:
            if metric or pair["quoted"] is None:
                raise FaultError(f"the label {key} has no value", 'write name="value"')
            metric = key
        elif key in labels or key == "__name__":
            raise FaultError(f"the label {key} is given twice", "each label once; the name stands before the brace")
        else:
            labels[key] = _unescape(pair["value"])
        at = pair.end()
    close = _CLOSE.match(line, at)
    if not close:
        hint = 'write name="value", with \\\\, \\" and \\n for backslash, quote and newline'
        raise FaultError(f"bad label syntax at column {at + 1}: {shown(line[at:])}", hint)
    return metric, close.end()


def _unescape(text: bytes) -> str:
    """Undo the three escapes; any other backslash stays, as in Prometheus."""
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], decode(text))


def decode(text: bytes) -> str:
    """Text of UTF-8 bytes. Raises ``FaultError`` for bytes that are none, and for NUL."""
    if b"\0" in text:
        raise FaultError("a NUL byte", "is this a binary or damaged file?")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        wrong = text[error.start : error.start + 1].hex()
        raise FaultError(f"invalid UTF-8, byte 0x{wrong}", "is this a binary or damaged file?") from None


def shown(text: bytes) -> str:
    """The start of a text, fit for a message of one line."""
    start = text.strip().decode(errors="backslashreplace")[: _SHOWN + 1]
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in start)
    return plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "..."


def foreign(start: bytes) -> tuple[str, str] | None:
    """Say what a text of another kind is, and what to do, by its first line; None where it may be what it should."""
    for beginning, message, hint in _FOREIGN:
        if re.match(beginning, start):
            return message, hint
    if b"\0" in start:
        return "a NUL byte", "is this a binary or damaged file?"
    return None
