"""vLLM servers as a source of diagnoses, without a Prometheus: palanca scrapes them itself.

A counter says nothing about now until it was read twice; what it has counted since the server began is never taken for
a rate. So the first question scrapes some seven times over ``wait`` seconds, and the windows of the signals are cut to
exactly that time (``Opened.longest``): a longer window would extrapolate by half an interval, 17 % too much with four
scrapes in 15 s. Later questions add one scrape each to a rolling window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from palanca.errors import NoTargetsError, SourceError, UsageError
from palanca.model import ServerReport, SourceInfo
from palanca.moments import rfc3339
from palanca.poll import INTERVAL_S, LOOKBACK_S, Opened, grid_for
from palanca.releases import Release
from palanca.signals.leaves import Grid
from palanca.signals.samples import SampleReader
from palanca.sources.collector import LEAST_SPACING_S, Collector, Progress, schedule
from palanca.sources.recording import nothing_selected
from palanca.sources.vllm import Scrape, VllmServer

if TYPE_CHECKING:
    from palanca.model import Catalogue, Metrics
    from palanca.poll import Question
    from palanca.sources.session import Access


class ScrapeSource:
    """Scrapes vLLM servers. ``wait`` in seconds; 0 means one scrape, and then there are no rates at all.

    ``clock`` gives unix seconds, ``sleep`` waits so many seconds, and ``wake`` ends that waiting when the source is
    stopped. May be asked by several threads; one collects at a time. Raises ``UsageError`` for URLs that are none.
    """

    def __init__(
        self,
        urls: Sequence[str],
        access: Access,
        *,
        wait: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        progress: Progress | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        if not urls:
            raise UsageError("no server to scrape (give the URL of a vLLM server, e.g. http://localhost:8000)")
        servers = [VllmServer(url, access) for url in urls]
        self._collector = Collector(servers, clock=clock, sleep=sleep, progress=progress)
        self._states = self._collector.states
        self._wait, self._clock, self._wake = wait, clock, wake
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """All servers, for people."""
        return ", ".join(state.server.url for state in self._states.values())

    @property
    def urls(self) -> dict[str, str]:
        """Address of each server, by instance."""
        return {instance: state.server.url for instance, state in self._states.items()}

    @property
    def scrapes(self) -> dict[str, Scrape | SourceError]:
        """The last scrape of each instance, or why it failed; none before the first question."""
        with self._lock:
            found = {instance: state.error or state.last for instance, state in self._states.items()}
        return {instance: one for instance, one in found.items() if one is not None}

    @property
    def reports(self) -> dict[str, ServerReport]:
        """What the servers say of themselves, by instance."""
        with self._lock:
            return {instance: state.report for instance, state in self._states.items()}

    def close(self) -> None:
        """Close the connections."""
        for state in self._states.values():
            state.server.close()

    def stop(self) -> None:
        """End what is under way, in other threads too; nothing can be asked afterwards."""
        if self._wake is not None:
            self._wake()
        for state in self._states.values():
            state.server.stop()

    def take_over(self, other: ScrapeSource) -> None:
        """Go on with the samples of another source, those of the servers that both know."""
        with other._lock:
            history, other._collector.history = other._collector.history, None
        if history is not None:
            history.keep_only(self._states)
            with self._lock:
                self._collector.history = history

    def scrape(self, catalogue: Catalogue) -> None:
        """Scrape every server once, to fill the rolling window between questions. Failures become ``up`` 0."""
        with self._lock, suppress(SourceError):
            self._collector.collect(catalogue, [0.0])

    # --- the question ----------------------------------------------------------------------------

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        """Scrape, and get ready to read.

        Raises ``SourceError`` when no server answers, ``NoTargetsError`` when none has vLLM series or the matchers
        select nothing, ``UsageError`` for a moment that was not seen.
        """
        with self._lock:
            first = self._collector.history is None
            if first and question.at is not None:
                raise UsageError(
                    "a direct scrape knows only now: no moment can be chosen (ask a Prometheus or a recording)"
                )
            history = self._collector.collect(catalogue, schedule(self._wait) if first else [0.0])
            start, newest = history.span()
            store = history.store()
            end = newest if question.at is None else question.at
            if not start <= end <= newest:
                raise UsageError(
                    f"{rfc3339(end)} cannot be known: scraped from {rfc3339(start)} to {rfc3339(newest)} only"
                )
            grid = grid_of(catalogue, start, end, self._spacing(start, newest))
            reader = SampleReader(store, catalogue.metrics, grid, matchers=question.matchers, servers=True)
            if question.matchers and not reader.discover().targets:
                raise NoTargetsError(nothing_selected(question.matchers, reader.label_values()))
            info = self._info(catalogue.metrics, end)
            reports = {instance: state.report for instance, state in self._states.items()}
        return Opened(reader, grid, lambda: info, longest=max(end - start, LEAST_SPACING_S), servers=reports)

    def _spacing(self, start: float, newest: float) -> float:
        """Seconds between the scrapes of the first question, later those of the usual grid."""
        times = schedule(self._wait)
        first = times[1] if len(times) > 1 else INTERVAL_S
        return first if newest - start < LOOKBACK_S else INTERVAL_S

    def _info(self, metrics: Metrics, end: float) -> SourceInfo:
        errors = [str(state.error) for state in self._states.values() if state.error is not None]
        newer = {
            state.report.release: f"vLLM {state.report.release} is newer than {metrics.releases[-1]}, the newest that "
            "palanca knows, and judged as that"
            for state in self._states.values()
            if state.report.release is not None and _newer(state.report.release, metrics.releases[-1])
        }
        return SourceInfo(
            "scrape",
            self.url,
            state="partial" if errors else "ok",
            age_s=round(max(self._clock() - end, 0.0), 3),
            warnings=tuple(newer.values()),
            error="\n".join(errors) or None,
        )


def grid_of(catalogue: Catalogue, start: float, end: float, spacing: float) -> Grid:
    """Return the usual grid where the history is as long; else one step a scrape, and none before the first."""
    usual = grid_for(catalogue, end)
    if end - start >= usual.times[-1] - usual.times[0]:
        return usual
    interval = min(spacing, INTERVAL_S)
    return Grid(end, int((end - start) / interval) + 1, interval)


def _newer(release: str, newest: str) -> bool:
    try:
        return Release(release) > Release(newest)
    except ValueError:
        return False
