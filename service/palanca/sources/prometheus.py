"""Any Prometheus-compatible query API: Prometheus, Thanos, Mimir, VictoriaMetrics."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prometheus_api_client import PrometheusConnect
from urllib3.util.retry import Retry

from palanca.errors import SourceError, TooMuchError
from palanca.sources.answers import AnswerError, document, series, texts
from palanca.sources.conversation import Notes
from palanca.sources.session import Access, Answer, CarefulSession, split_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from palanca.model import SourceInfo
    from palanca.signals.store import Columns

_UNMOVED = {"nocache": "1"}
"""VictoriaMetrics moves the points of a longer range to multiples of the step, for its cache; others ignore this."""


@dataclass(frozen=True)
class Asked:
    """How much a server was asked so far: queries, and the series and samples of their answers."""

    queries: int = 0
    series: int = 0
    samples: int = 0


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
        except AnswerError as error:
            kind = TooMuchError if error.too_much else SourceError
            raise kind(f"{answer.url.partition('?')[0]}: {error}") from None
        self.notes.add([*texts(said.get("warnings")), *texts(said.get("infos"))], answer.ahead)
        return answer


class Prometheus:
    """Asks a query API; satisfies ``palanca.signals.asking.Queries``. May be shared by threads.

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

    def query(self, text: str, time: float) -> Columns:
        """Ask for an instant; a range vector gives all its samples. Raises ``SourceError``."""
        rows = self._connect.custom_query(text, params={"time": _exact(time)})
        return self._series(rows)

    def query_range(self, text: str, start: float, end: float, step: float) -> Columns:
        """Ask for a range with both ends. Raises ``SourceError``."""
        whole = [datetime.fromtimestamp(at, UTC) for at in (start, end)]  # rounded there: `params` has the exact times
        exact = {"start": _exact(start), "end": _exact(end), "step": _exact(step), **_UNMOVED}
        rows = self._connect.custom_query_range(text, whole[0], whole[1], exact["step"], params=exact)
        return self._series(rows)

    def _series(self, rows: Sequence[object]) -> Columns:
        made = series(rows, self.url)
        with self._counting:
            old = self._asked
            self._asked = Asked(old.queries + 1, old.series + len(made), old.samples + made.times.size)
        return made


def _exact(seconds: float) -> str:
    return f"{seconds:.3f}"
