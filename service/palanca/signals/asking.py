"""Asking a query API: several expressions in few queries, within the limits of the server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from threading import Semaphore
from typing import TYPE_CHECKING, Protocol, TypeVar

from palanca.errors import TooMuchError
from palanca.signals.leaves import Grid
from palanca.signals.store import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from palanca.signals.store import Series

A = TypeVar("A")
T = TypeVar("T")

LONGEST_QUERY = 8000
"""Characters of one query; some proxies refuse more than 8 KiB, and a short query is a short error message."""

MOST_JOINED = 12
"""Expressions of one query: every ``or`` looks at all series on both of its sides."""

MOST_STEPS = 11_000
"""Points of one range query that Prometheus answers (``maximum resolution of 11,000 points per timeseries``)."""


class Queries(Protocol):
    """A Prometheus-compatible query API. Both methods raise ``SourceError`` and may be called from several threads.

    They raise ``TooMuchError`` where a smaller question may be answered.
    """

    def query(self, text: str, time: float) -> Sequence[Series]:
        """Value of an expression at a time in unix seconds: one sample a series, or all those of a range vector."""

    def query_range(self, text: str, start: float, end: float, step: float) -> Sequence[Series]:
        """Values of an expression from ``start`` to ``end``, both included, every ``step`` seconds."""


class Asking:
    """Asks several queries at once, ``threads`` at most, whoever asks. Methods raise ``SourceError``.

    After the first error no question is begun any more: it is what everybody is told.
    """

    def __init__(self, client: Queries, threads: int) -> None:
        self.client, self.threads, self._turns = client, threads, Semaphore(threads)
        self._failed: Exception | None = None

    def instants(self, texts: Iterable[str], time: float) -> list[Columns]:
        """Answer of each query at a time; none for an empty text."""
        return self._each(lambda text: Columns.of(self.client.query(text, time) if text else ()), texts)

    def joined(self, texts: Iterable[str], grid: Grid, digest: Callable[[Columns], A]) -> list[A]:
        """Answers of expressions on a grid, some together; no two of them may give series with equal labels.

        What the server calls too much is asked again in two halves: of the expressions, then of the time. ``digest``
        is made of each answer while others are under way.
        """
        answers = self._each(lambda batch: self._within_limits(batch, grid, digest), batches(texts))
        return list(chain.from_iterable(answers))

    def _within_limits(self, texts: Sequence[str], grid: Grid, digest: Callable[[Columns], A]) -> list[A]:
        if grid.steps > MOST_STEPS:
            return self._halves(texts, grid, digest)
        try:
            return [digest(Columns.of(self._on_grid(either(texts), grid)))]
        except TooMuchError:
            if len(texts) == grid.steps == 1:
                raise
            return self._halves(texts, grid, digest)

    def _halves(self, texts: Sequence[str], grid: Grid, digest: Callable[[Columns], A]) -> list[A]:
        if len(texts) > 1 and grid.steps <= MOST_STEPS:
            half = len(texts) // 2
            parts = [(texts[:half], grid), (texts[half:], grid)]
        else:
            half = grid.steps // 2
            early = Grid(float(grid.times[half - 1]), half, grid.interval)
            parts = [(texts, early), (texts, Grid(grid.end, grid.steps - half, grid.interval))]
        return [answer for some, part in parts for answer in self._within_limits(some, part, digest)]

    def _on_grid(self, text: str, grid: Grid) -> Sequence[Series]:
        start, end = float(grid.times[0]), float(grid.times[-1])
        if grid.steps == 1:
            return self.client.query(text, end)
        return self.client.query_range(text, start, end, grid.interval)

    def _each(self, ask: Callable[[T], A], questions: Iterable[T]) -> list[A]:
        def one(question: T) -> A | None:
            with self._turns:
                if self._failed is not None:
                    return None
                try:
                    return ask(question)
                except Exception as error:  # noqa: BLE001  it is raised again: whoever fails, nobody goes on
                    raise self._first(error) from None

        with ThreadPoolExecutor(max_workers=self.threads, thread_name_prefix="palanca-query") as pool:
            answers = [answer for answer in pool.map(one, questions) if answer is not None]
        if self._failed is not None:
            raise self._failed
        return answers

    def _first(self, error: Exception) -> Exception:
        """Note an error; return the first one."""
        self._failed = error if self._failed is None else self._failed
        return self._failed


def batches(texts: Iterable[str], longest: int = LONGEST_QUERY, most: int = MOST_JOINED) -> list[list[str]]:
    """Part expressions so that ``either`` makes no query of more than ``longest`` characters and ``most`` of them."""
    parts: list[list[str]] = []
    for text in texts:
        if parts and len(parts[-1]) < most and len(either([*parts[-1], text])) <= longest:
            parts[-1].append(text)
        else:
            parts.append([text])
    return parts


def either(texts: Sequence[str]) -> str:
    """Join expressions by ``or``, half by half: so a series is looked at log2(n) times, and not n times."""
    if len(texts) == 1:
        return texts[0]
    half = len(texts) // 2
    return f"({either(texts[:half])} or {either(texts[half:])})"
