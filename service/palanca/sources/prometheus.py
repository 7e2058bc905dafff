"""Any Prometheus-compatible query API: Prometheus, Thanos, Mimir, VictoriaMetrics."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_api_client import PrometheusConnect
from urllib3.util.retry import Retry

from palanca.errors import SourceError
from palanca.signals.store import Series
from palanca.sources.conversation import Notes
from palanca.sources.session import Access, Answer, CarefulSession, split_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from palanca.model import SourceInfo

_HINTS = {
    401: "credentials are missing or wrong: give a bearer token, or user and password",
    403: "these credentials may not query here: check their rights, and the tenant (X-Scope-OrgID)",
    404: "no Prometheus API at this URL: check its path (Mimir has /prometheus, VictoriaMetrics' cluster /select/...)",
    405: "no Prometheus API at this URL, or a proxy that forbids POST",
    413: "a proxy refuses questions of this size: raise its limit",
    429: "too many questions: lower the number of threads, or raise the tenant's limit",
}
_UNMOVED = {"nocache": "1"}
"""VictoriaMetrics moves the points of a longer range to multiples of the step, for its cache; others ignore this."""


@dataclass(frozen=True)
class Asked:
    """How much a server was asked so far: queries, and the series and samples of their answers."""

    queries: int = 0
    series: int = 0
    samples: int = 0


class _AnswerError(SourceError):
    """An answer that is not what the query API promises; the URL is added further out."""


class _Session(CarefulSession):
    """Checks every answer and keeps its warnings, which ``PrometheusConnect`` drops."""

    def __init__(self, access: Access, url: str) -> None:
        super().__init__(access, url)
        self._own, self._local = (Notes(), None), threading.local()

    @property
    def _now(self) -> tuple[Notes, float | None]:
        """Where this thread notes what answers say, and the time that it gives a question."""
        now: tuple[Notes, float | None] = getattr(self._local, "now", self._own)
        return now

    @property
    def notes(self) -> Notes:
        return self._now[0]

    @property
    def patience(self) -> float:
        patience = self._now[1]
        return super().patience if patience is None else min(patience, super().patience)

    @contextmanager
    def noting(self, notes: Notes, patience: float | None) -> Iterator[None]:
        before = self._now
        self._local.now = notes, patience
        try:
            yield
        finally:
            self._local.now = before

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **options: Any) -> Answer:  # noqa: ANN401
        answer = super().request(method, url, *args, **options)
        try:
            answer.document = said = document(answer)
        except _AnswerError as error:
            raise SourceError(f"{answer.url.partition('?')[0]}: {error}") from None
        self.notes.add([*_texts(said.get("warnings")), *_texts(said.get("infos"))], answer.ahead)
        return answer


class Prometheus:
    """Asks a query API; satisfies ``palanca.signals.queries.Queries``. May be shared by threads.

    ``url`` is the part before ``/api/v1``; user and password in it are used and never shown.
    Raises ``UsageError`` for a URL that is none.
    """

    def __init__(self, url: str, access: Access | None = None) -> None:
        self.url, access = split_url(url, access or Access())
        self._session = _Session(access, self.url)
        self._connect = PrometheusConnect(self.url, session=self._session, retry=Retry(0), method="POST")
        self._session.use_transport(self.url)  # PrometheusConnect has put its own in the way
        self._counting, self._asked = threading.Lock(), Asked()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connect.close()

    def stop(self) -> None:
        """End what is under way with a ``SourceError``; nothing can be asked afterwards."""
        self._session.stop()

    @property
    def asked(self) -> Asked:
        """How much was asked so far."""
        return self._asked

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings and infos of the answers to what was asked outside of conversations."""
        return self._session.notes.warnings

    def noting(self, notes: Notes, patience: float | None) -> AbstractContextManager[None]:
        """Note what answers of this thread say, and give each question no more than ``patience`` seconds."""
        return self._session.noting(notes, patience)

    def info(self, name: str = "prometheus") -> SourceInfo:
        """Describe the source after it was read, as in ``Notes.info``."""
        return self._session.notes.info(name, self.url)

    def version(self) -> str:
        """Release of the server, for information only; empty where it does not say. Raises ``SourceError``."""
        answer = self._session.request("GET", f"{self.url}/api/v1/status/buildinfo")
        data = answer.json()["data"]
        return str(data.get("version", "")) if isinstance(data, dict) else ""

    def rule_groups(self) -> list[dict[str, Any]]:
        """Groups of the loaded rules, as ``/api/v1/rules`` tells them.

        Raises ``SourceError``, also where the API has no rules.
        """
        data = self._session.request("GET", f"{self.url}/api/v1/rules").json()["data"]
        groups = data.get("groups") if isinstance(data, dict) else None
        return [group for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []

    def rules(self) -> tuple[dict[str, str], frozenset[str]]:
        """Expressions of the loaded rules by ``group/name``, and the names that recording rules make.

        Raises ``SourceError``, also where the API has no rules.
        """
        queries: dict[str, str] = {}
        recorded: set[str] = set()
        for group in self.rule_groups():
            rules = group.get("rules")
            for rule in rules if isinstance(rules, list) else ():
                if isinstance(rule, dict):
                    name = str(rule.get("name", ""))
                    queries[f"{group.get('name', '')}/{name}"] = str(rule.get("query", ""))
                    recorded |= {name} if rule.get("type") == "recording" else set()
        return queries, frozenset(recorded)

    def query(self, text: str, time: float) -> list[Series]:
        """Ask for an instant; a range vector gives all its samples. Raises ``SourceError``."""
        rows = self._connect.custom_query(text, params={"time": _exact(time)})
        return self._series(rows)

    def query_range(self, text: str, start: float, end: float, step: float) -> list[Series]:
        """Ask for a range with both ends. Raises ``SourceError``."""
        whole = [datetime.fromtimestamp(at, UTC) for at in (start, end)]  # rounded there: `params` has the exact times
        exact = {"start": _exact(start), "end": _exact(end), "step": _exact(step), **_UNMOVED}
        rows = self._connect.custom_query_range(text, whole[0], whole[1], exact["step"], params=exact)
        return self._series(rows)

    def _series(self, rows: Sequence[object]) -> list[Series]:
        try:
            made = series(rows)
        except _AnswerError as error:
            raise SourceError(f"{self.url}: {error}") from None
        samples = sum(one.times.size for one in made)
        with self._counting:
            old = self._asked
            self._asked = Asked(old.queries + 1, old.series + len(made), old.samples + samples)
        return made


def _exact(seconds: float) -> str:
    return f"{seconds:.3f}"


def document(answer: Answer) -> dict[str, Any]:
    """Read an answer as the query API's JSON. Raises ``SourceError`` that says what is wrong with it."""
    status, body = answer.status_code, answer.content
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        read = None
    said = read if isinstance(read, dict) else {}
    if said.get("status") == "error" or (status >= 400 and "error" in said):  # noqa: PLR2004
        hint = f" ({_HINTS[status]})" if status in _HINTS else ""
        raise _AnswerError(f"{said.get('errorType', status)}: {_short(said.get('error'))}{hint or _advice(said)}")
    if status != 200:  # noqa: PLR2004
        hint = _HINTS.get(status, "the server or a proxy before it fails: see its log" if status >= 500 else "")  # noqa: PLR2004
        raise _AnswerError(f"HTTP {status} {answer.reason or ''}".rstrip() + (f" ({hint})" if hint else ""))
    if read is None:
        raise _AnswerError(_no_json(body, answer.headers.get("Content-Type", "")))
    if said.get("status") != "success" or "data" not in said:
        raise _AnswerError("JSON, but not of the query API: no status and data (is this URL a Prometheus server?)")
    _check_data(said["data"], answer.url)
    return said


def _check_data(data: object, url: str) -> None:
    if "/api/v1/query" not in url:
        return
    if not isinstance(data, dict) or not isinstance(data.get("result"), list):
        raise _AnswerError("the answer's data have no list of results (is this URL a Prometheus server?)")
    kind = data.get("resultType")
    if kind not in {"vector", "matrix"}:
        raise _AnswerError(f"the answer is a {_short(kind)} where a vector or matrix was asked for")


def _no_json(body: bytes, content_type: str) -> str:
    start = body[:200].lstrip().lower()
    if start.startswith((b"<", b"\xef\xbb\xbf<")) or "html" in content_type:
        return "an HTML page instead of JSON (a login page or a web interface? Give credentials, or the API's URL)"
    if start.startswith((b"{", b"[")):
        return "the JSON of the answer is cut off or damaged (is a proxy limiting its size?)"
    return "empty answer" if not body else "no JSON in the answer (is this URL a Prometheus server?)"


def _advice(said: Mapping[str, Any]) -> str:
    text = str(said.get("error"))
    if "too many samples" in text or "limit" in text:
        return " (narrow it down with --match, or raise the server's limit)"
    if said.get("errorType") == "timeout":
        return " (narrow it down with --match, or raise the server's query timeout)"
    return ""


def _short(text: object) -> str:
    return str(text)[:500]


def _texts(found: object) -> list[str]:
    return [str(text) for text in found] if isinstance(found, list) else []


def series(rows: Sequence[object]) -> list[Series]:
    """Read the results of a vector or matrix. Raises ``SourceError`` for wrong types and duplicates."""
    made, seen = [], set()
    for row in rows:
        metric = row.get("metric") if isinstance(row, dict) else None
        if not isinstance(row, dict) or not isinstance(metric, dict):
            raise _AnswerError(f"a result without labels: {_short(row)}")
        if not all(isinstance(value, str) for value in metric.values()):
            raise _AnswerError(f"a label that is no text: {_short(metric)}")
        key = frozenset(metric.items())
        if key in seen:
            raise _AnswerError(f"the same series twice: {_short(metric)} (a proxy that joins servers must mark them)")
        seen.add(key)
        times, values = _samples(row)
        labels = {name: value for name, value in metric.items() if name != "__name__"}
        made.append(Series(metric.get("__name__", ""), labels, times, values))
    return made


def _samples(row: Mapping[str, Any]) -> tuple[Any, Any]:
    pairs: Any = row["values"] if "values" in row else [row.get("value")]
    try:
        times = np.array([round(float(time) * 1000) for time, _ in pairs], dtype=np.int64)
        values = np.array([float(value) for _, value in pairs], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise _AnswerError(f"a value that is no pair of time and number: {_short(row)}") from None
    if not times.size:
        raise _AnswerError(f"a series without a sample: {_short(row)}")
    if (np.diff(times) < 0).any():
        raise _AnswerError(f"a series whose times go backwards: {_short(row)}")
    return times, values
