"""Answers of a query API: what is wrong with them, and their results as series."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from palanca.errors import SourceError
from palanca.signals.store import Columns
from palanca.sources.label_texts import LONGEST_SHOWN, LabelTexts, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.sources.session import Answer

_LAST_MS = 2.0**53
_HINTS = {
    401: "credentials are missing or wrong: give a bearer token, or user and password",
    403: "these credentials may not query here: check their rights, and the tenant (X-Scope-OrgID)",
    404: "no Prometheus API at this URL: check its path (Mimir has /prometheus, VictoriaMetrics' cluster /select/...)",
    405: "no Prometheus API at this URL, or a proxy that forbids POST",
    413: "a proxy refuses questions of this size: raise its limit",
    429: "too many questions: lower the number of threads, or raise the tenant's limit",
}


class Row(msgspec.Struct, gc=False):
    """A result as the API sends it: one sample of an instant, or those of a range."""

    metric: msgspec.Raw
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] | None = None


class _Results(msgspec.Struct):
    resultType: Literal["vector", "matrix"]  # noqa: N815  the name in the API
    result: list[Row]


class _Document(msgspec.Struct):
    status: Literal["success"]
    data: _Results
    warnings: list[str] = []
    infos: list[str] = []


_RESULTS = msgspec.json.Decoder(_Document)
"""Decodes what nearly all answers are, several times as fast as ``json``; the rest says what is wrong with it."""


class AnswerError(SourceError):
    """An answer that is not what the query API promises; the URL is added further out.

    ``too_much``: a smaller question may be answered.
    """

    def __init__(self, message: str, *, too_much: bool = False) -> None:
        self.too_much = too_much
        super().__init__(message)


def document(answer: Answer) -> dict[str, Any]:
    """Read an answer as the query API's JSON; results are ``Row`` where nothing is odd. Raises ``AnswerError``."""
    status, body = answer.status_code, answer.content
    if status == 200 and _is_query(answer.url):  # noqa: PLR2004
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            found = _RESULTS.decode(body)
            if not body.isascii():
                body.decode()  # labels are read later
            return {"data": {"result": found.data.result}, "warnings": found.warnings, "infos": found.infos}
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        read = None
    said = read if isinstance(read, dict) else {}
    if said.get("status") == "error" or (status >= 400 and "error" in said):  # noqa: PLR2004
        hint = f" ({_HINTS[status]})" if status in _HINTS else ""
        text = f"{said.get('errorType', status)}: {_short(said.get('error'))}{hint or _advice(said)}"
        raise AnswerError(text, too_much=_beyond_limit(said))
    if status != 200:  # noqa: PLR2004
        hint = _HINTS.get(status, "the server or a proxy before it fails: see its log" if status >= 500 else "")  # noqa: PLR2004
        raise AnswerError(f"HTTP {status} {answer.reason or ''}".rstrip() + (f" ({hint})" if hint else ""))
    if read is None:
        raise AnswerError(_no_json(body, answer.headers.get("Content-Type", "")))
    if said.get("status") != "success" or "data" not in said:
        raise AnswerError("JSON, but not of the query API: no status and data (is this URL a Prometheus server?)")
    _check_data(said["data"], answer.url)
    return said


def _is_query(url: str) -> bool:
    return "/api/v1/query" in url


def _check_data(data: object, url: str) -> None:
    if not _is_query(url):
        return
    if not isinstance(data, dict) or not isinstance(data.get("result"), list):
        raise AnswerError("the answer's data have no list of results (is this URL a Prometheus server?)")
    kind = data.get("resultType")
    if kind not in {"vector", "matrix"}:
        raise AnswerError(f"the answer is a {_short(kind)} where a vector or matrix was asked for")


def _no_json(body: bytes, content_type: str) -> str:
    start = body[:200].lstrip().lower()
    if start.startswith((b"<", b"\xef\xbb\xbf<")) or "html" in content_type:
        return "an HTML page instead of JSON (a login page or a web interface? Give credentials, or the API's URL)"
    if start.startswith((b"{", b"[")):
        return "the JSON of the answer is cut off or damaged (is a proxy limiting its size?)"
    return "empty answer" if not body else "no JSON in the answer (is this URL a Prometheus server?)"


def _beyond_limit(said: Mapping[str, Any]) -> bool:
    """Whether the question is more than the server is set to load: samples, chunks, series, points."""
    text = str(said.get("error"))
    return any(sign in text for sign in ("too many", "limit", "exceeded maximum resolution", "maxSamples"))


def _advice(said: Mapping[str, Any]) -> str:
    if _beyond_limit(said):
        return " (narrow it down with --match, or raise the server's limit)"
    if said.get("errorType") == "timeout":
        return " (narrow it down with --match, or raise the server's query timeout)"
    return ""


def _short(text: object) -> str:
    return str(text)[:LONGEST_SHOWN]


def texts(found: object) -> list[str]:
    """Return a list as texts; empty for anything else."""
    return [str(text) for text in found] if isinstance(found, list) else []


def series(rows: Iterable[object], url: str) -> Columns:
    """Read the results of a vector or matrix, whose labels become those of the series; ``url`` is where they come from.

    Raises ``SourceError`` for wrong types and duplicates.
    """
    try:
        return _columns([row if isinstance(row, Row) else _row(row) for row in rows], url)
    except AnswerError as error:
        raise SourceError(f"{url}: {error}") from None


def _columns(rows: Sequence[Row], url: str) -> Columns:
    metrics = [bytes(row.metric) for row in rows]
    if len(set(metrics)) < len(metrics):
        twice = next(metric for metric, count in Counter(metrics).items() if count > 1)
        raise AnswerError(f"the same series twice: {shown(twice)} (a proxy that joins servers must mark them)")
    times, values, sizes = _samples(rows)
    return Columns(LabelTexts(metrics, url), times, values, np.array(sizes, dtype=np.intp))


def _row(row: object) -> Row:
    """Read a result that is not as usual. Raises ``AnswerError``."""
    metric = row.get("metric") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(metric, dict):
        raise AnswerError(f"a result without labels: {_short(row)}")
    pairs: Any = row["values"] if "values" in row else [row.get("value")]
    try:
        labels = msgspec.Raw(json.dumps(metric).encode())
        return Row(labels, values=[(float(time), str(float(value))) for time, value in pairs])
    except (TypeError, ValueError, OverflowError):
        raise AnswerError(f"a value that is no pair of time and number: {_short(row)}") from None


def _samples(rows: Sequence[Row]) -> tuple[NDArray[np.int64], NDArray[np.float64], list[int]]:
    """Times and values of all rows, one after another, and how many each row has."""
    sizes = [1 if row.values is None else len(row.values) for row in rows]
    if not all(sizes):
        raise AnswerError(f"a series without a sample: {shown(bytes(rows[sizes.index(0)].metric))}")
    try:
        pairs: list[Any] = [pair for row in rows for pair in ((row.value,) if row.values is None else row.values)]
        times = np.array([time for time, _ in pairs]) * 1000
        values = np.array([float(value) for _, value in pairs])
        if np.all(np.abs(times) < _LAST_MS):
            if len(times) > len(rows):
                _check_order(times, sizes, rows)
            return np.rint(times).astype(np.int64), values, sizes
    except (TypeError, ValueError):
        pass
    odd = next((row for row in rows if len(rows) > 1 and not _readable(row)), rows[0])
    raise AnswerError(f"a value that is no pair of time and number: {shown(msgspec.json.encode(odd))}")


def _check_order(times: NDArray[np.float64], sizes: Sequence[int], rows: Sequence[Row]) -> None:
    ends = np.cumsum(sizes)
    steps = np.diff(times)
    steps[ends[:-1] - 1] = 0.0
    if (steps < 0).any():
        row = rows[int(np.searchsorted(ends, np.argmax(steps < 0), side="right"))]
        raise AnswerError(f"a series whose times go backwards: {shown(msgspec.json.encode(row))}")


def _readable(row: Row) -> bool:
    try:
        return bool(_samples([row]))
    except AnswerError:
        return False
