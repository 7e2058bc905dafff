"""vLLM servers as a source of diagnoses, without a Prometheus: palanca scrapes them itself.

A counter says nothing about now until it was read twice; what it has counted since the server began is never taken for
a rate. So the first question scrapes some seven times over ``wait`` seconds, and the windows of the signals are cut to
exactly that time (``Opened.longest``): a longer window would extrapolate by half an interval, 17 % too much with four
scrapes in 15 s. Later questions add one scrape each to a rolling window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palanca.errors import NoTargetsError, SourceError, UsageError
from palanca.model import ServerReport, SourceInfo
from palanca.moments import rfc3339
from palanca.poll import INTERVAL_S, LOOKBACK_S, Opened, grid_for
from palanca.releases import Release
from palanca.signals.identity import unprefixed
from palanca.signals.leaves import Grid
from palanca.signals.samples import SampleReader
from palanca.sources.history import History
from palanca.sources.recording import known_names, nothing_selected
from palanca.sources.vllm import Scrape, VllmServer

if TYPE_CHECKING:
    from palanca.model import Catalogue, Metrics
    from palanca.poll import Question
    from palanca.sources.session import Access

HISTORY_S = 2 * 3600.0
"""How long samples are kept: the longest window and offset of a signal, the grid, and the hour of the discovery."""
FEWEST_SCRAPES = 3
MOST_SPACING_S = 5.0
LEAST_SPACING_S = 1.0
SCRAPES = 6
"""Intervals of a wait, if they are then neither too long nor too short."""
REPORT_S = 300.0
"""How long ``/version`` and ``/v1/models`` are believed."""
MOST_THREADS = 32

Progress = Callable[[int, int], None]
"""Told after each round: how many are done, and of how many."""


@dataclass
class _State:
    """What is known of one server."""

    server: VllmServer
    last: Scrape | None = None
    error: SourceError | None = None
    slow: bool = False
    report: ServerReport = field(default_factory=ServerReport)
    reported_at: float | None = None


class ScrapeSource:
    """Scrapes vLLM servers. ``wait`` in seconds; 0 means one scrape, and then there are no rates at all.

    ``clock`` gives unix seconds, ``sleep`` waits so many seconds. May be asked by several threads; one collects at a
    time. Raises ``UsageError`` for URLs that are none.
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
    ) -> None:
        if not urls:
            raise UsageError("no server to scrape (give the URL of a vLLM server, e.g. http://localhost:8000)")
        servers = [VllmServer(url, access) for url in urls]
        self._states = {server.instance: _State(server) for server in servers}
        self._wait, self._clock, self._sleep = wait, clock, sleep
        self._progress: Progress = progress or (lambda _done, _total: None)
        self._history: History | None = None
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

    def scrape(self, catalogue: Catalogue) -> None:
        """Scrape every server once, to fill the rolling window between questions. Failures become ``up`` 0."""
        with self._lock, suppress(SourceError):
            self._collect(catalogue, [0.0])

    # --- the question ----------------------------------------------------------------------------

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        """Scrape, and get ready to read.

        Raises ``SourceError`` when no server answers, ``NoTargetsError`` when none has vLLM series or the matchers
        select nothing, ``UsageError`` for a moment that was not seen.
        """
        with self._lock:
            first = self._history is None
            if first and question.at is not None:
                raise UsageError("--at: a direct scrape knows only now (ask a Prometheus or a recording)")
            history = self._collect(catalogue, schedule(self._wait) if first else [0.0])
            start, newest = history.span()
            store = history.store()
            end = newest if question.at is None else question.at
            if not start <= end <= newest:
                raise UsageError(f"--at {rfc3339(end)}: scraped from {rfc3339(start)} to {rfc3339(newest)} only")
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

    # --- scraping --------------------------------------------------------------------------------

    def _collect(self, catalogue: Catalogue, times: Sequence[float]) -> History:
        """Scrape every server at these seconds from now on; a round that comes too late is left out, not the last.

        Raises ``SourceError`` where after the first round there is nothing to judge.
        """
        if self._history is None:
            self._history = History(known_names(catalogue.metrics), HISTORY_S)
        for state in self._states.values():
            state.slow = False
        begin = self._clock()
        with ThreadPoolExecutor(min(len(self._states), MOST_THREADS)) as pool:
            for index, at in enumerate(times):
                ahead = begin + at - self._clock()
                if ahead < 0 < index < len(times) - 1:
                    continue
                if ahead > 0:
                    self._sleep(ahead)
                self._round(self._history, pool, patience=times[1] if len(times) > 1 else MOST_SPACING_S)
                self._progress(index + 1, len(times))
                if index == 0:
                    self._check(catalogue.metrics)  # nothing to wait for
        return self._history

    def _round(self, history: History, pool: ThreadPoolExecutor, patience: float) -> None:
        """Scrape every server once, at the same time; one that failed slowly is not asked again in this collection."""
        states = list(self._states.values())
        for state, moment in zip(states, pool.map(lambda state: self._once(state, patience), states), strict=True):
            page = None if state.last is None or state.error is not None else state.last.page
            history.add(state.server.instance, moment, page)

    def _once(self, state: _State, patience: float) -> float:
        """Scrape one server and return when that began."""
        moment = self._clock()
        if state.slow:
            return moment
        try:
            state.last, state.error = state.server.scrape(), None
        except SourceError as error:
            state.error, state.slow = error, self._clock() - moment > patience
            return moment
        if state.reported_at is None or moment - state.reported_at > REPORT_S:
            state.report, state.reported_at = state.server.report(), moment
        return moment

    def _check(self, metrics: Metrics) -> None:
        """Raise unless some server answers with vLLM series."""
        states = self._states.values()
        if all(state.error is not None for state in states):
            raise SourceError("\n".join(str(state.error) for state in states))
        pages = [state.last.page for state in states if state.last is not None]
        if not any(unprefixed(sample.name, metrics) for page in pages for sample in page.samples):
            raise NoTargetsError("\n".join(_no_series(state) for state in states))


def _no_series(state: _State) -> str:
    url = f"{state.server.url}/metrics"
    if state.error is not None:
        return str(state.error)
    if state.report.release is not None:
        return (
            f"{url}: vLLM {state.report.release} answers, but shows no series of its own "
            "(was it started with --disable-log-stats? Leave that out)"
        )
    return f"{url}: no vLLM series (another port or server? If it is vLLM, was it started with --disable-log-stats?)"


def schedule(wait: float) -> list[float]:
    """Seconds from now at which a first question scrapes: at 0 and at ``wait``, and at least once between.

    Every ``wait / 6``, but not oftener than each second and not more than 5 s apart. Only 0 for no wait.
    """
    if wait <= 0:
        return [0.0]
    spacing = min(max(wait / SCRAPES, LEAST_SPACING_S), MOST_SPACING_S)
    intervals = max(round(wait / spacing), FEWEST_SCRAPES - 1)
    return [wait * index / intervals for index in range(intervals + 1)]


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
