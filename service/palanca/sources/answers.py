"""Answers of a query API: what is wrong with them, and their results as series."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from palanca.errors import SourceError
from palanca.signals.store import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


class AnswerError(SourceError):
    """An answer that is not what the query API promises; the URL is added further out.

    ``too_much``: a smaller question may be answered.
    """

    def __init__(self, message: str, *, too_much: bool = False) -> None:
        self.too_much = too_much
        super().__init__(message)


def document(answer: Answer) -> dict[str, Any]:
    """Read an answer as the query API's JSON. Raises ``AnswerError``."""
    status, body = answer.status_code, answer.content
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


def _check_data(data: object, url: str) -> None:
    if "/api/v1/query" not in url:
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
    return str(text)[:500]


def texts(found: object) -> list[str]:
    """Return a list as texts; empty for anything else."""
    return [str(text) for text in found] if isinstance(found, list) else []


def series(rows: Sequence[object]) -> list[Series]:
    """Read the results of a vector or matrix, whose labels become those of the series.

    Where all have equal times they share them. Raises ``AnswerError`` for wrong types and duplicates.
    """
    metrics: list[dict[str, str]] = []
    try:
        metrics = [row["metric"] for row in cast("Sequence[dict[str, Any]]", rows)]
        keys = {"\0".join([*metric, *metric.values()]) for metric in metrics}  # a server has one order of labels
    except (KeyError, TypeError, AttributeError):
        keys = set()
    if len(keys) < len(rows):
        _refuse(rows)
    made, at = [], 0
    times, values, sizes = _samples(cast("Sequence[Mapping[str, Any]]", rows))
    first = times[: sizes[0]] if len(set(sizes)) == 1 else times[:0]
    alike = bool(first.size) and bool(np.all(times.reshape(-1, first.size) == first))
    for metric, size in zip(metrics, sizes, strict=True):
        own = first if alike else times[at : at + size]
        made.append(Series(metric.pop("__name__", ""), metric, own, values[at : at + size]))
        at += size
    return made


def _refuse(rows: Sequence[object]) -> None:
    """Say what is wrong with the labels. Raises ``AnswerError``."""
    seen = set()
    for row in rows:
        metric = row.get("metric") if isinstance(row, dict) else None
        if not isinstance(metric, dict):
            raise AnswerError(f"a result without labels: {_short(row)}")
        if not all(isinstance(value, str) for value in metric.values()):
            raise AnswerError(f"a label that is no text: {_short(metric)}")
        key = tuple(metric.items())
        if key in seen:
            raise AnswerError(f"the same series twice: {_short(metric)} (a proxy that joins servers must mark them)")
        seen.add(key)


def _samples(rows: Sequence[Mapping[str, Any]]) -> tuple[NDArray[np.int64], NDArray[np.float64], list[int]]:
    """Times and values of all rows, one after another, and how many each row has."""
    pairs: list[Any] = [row["values"] if "values" in row else [row.get("value")] for row in rows]
    try:
        times = np.array([float(time) for row in pairs for time, _ in row]) * 1000
        values = np.array([float(value) for row in pairs for _, value in row])
        sizes = [len(row) for row in pairs]
        if not np.all(np.abs(times) < _LAST_MS):
            raise OverflowError  # noqa: TRY301  told like any other value that is none
    except (TypeError, ValueError, OverflowError):
        if len(rows) == 1:
            raise AnswerError(f"a value that is no pair of time and number: {_short(rows[0])}") from None
        for row in rows:
            _samples([row])
        raise
    if not all(sizes):
        raise AnswerError(f"a series without a sample: {_short(rows[sizes.index(0)])}")
    return np.rint(times).astype(np.int64), values, sizes
