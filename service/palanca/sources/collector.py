"""Scrapes vLLM servers in rounds, all at the same time, into one history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palanca.errors import NoTargetsError, SourceError
from palanca.model import ServerReport
from palanca.signals.identity import unprefixed
from palanca.sources.history import History
from palanca.sources.recording import known_names
from palanca.sources.vllm import Scrape, VllmServer

if TYPE_CHECKING:
    from palanca.model import Catalogue, Metrics

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
class Watched:
    """What is known of one server: its last scrape, why that failed, and what the server says of itself."""

    server: VllmServer
    last: Scrape | None = None
    error: SourceError | None = None
    slow: bool = False
    report: ServerReport = field(default_factory=ServerReport)
    reported_at: float | None = None


class Collector:
    """Knows the servers by their instance. Not to be used by several threads at once."""

    def __init__(
        self,
        servers: Sequence[VllmServer],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        progress: Progress | None = None,
    ) -> None:
        self.states = {server.instance: Watched(server) for server in servers}
        self.history: History | None = None
        self._clock, self._sleep = clock, sleep
        self._progress: Progress = progress or (lambda _done, _total: None)

    def collect(self, catalogue: Catalogue, times: Sequence[float]) -> History:
        """Scrape every server at these seconds from now on; a round that comes too late is left out, not the last.

        Raises ``SourceError`` where after the first round there is nothing to judge.
        """
        if self.history is None:
            self.history = History(known_names(catalogue.metrics), HISTORY_S)
        for state in self.states.values():
            state.slow = False
        begin = self._clock()
        with ThreadPoolExecutor(min(len(self.states), MOST_THREADS)) as pool:
            for index, at in enumerate(times):
                ahead = begin + at - self._clock()
                if ahead < 0 < index < len(times) - 1:
                    continue
                if ahead > 0:
                    self._sleep(ahead)
                self._round(self.history, pool, patience=times[1] if len(times) > 1 else MOST_SPACING_S)
                self._progress(index + 1, len(times))
                if index == 0:
                    self._check(catalogue.metrics)  # nothing to wait for
        return self.history

    def _round(self, history: History, pool: ThreadPoolExecutor, patience: float) -> None:
        """Scrape every server once, at the same time; one that failed slowly is not asked again in this collection."""
        states = list(self.states.values())
        for state, moment in zip(states, pool.map(lambda state: self._once(state, patience), states), strict=True):
            page = None if state.last is None or state.error is not None else state.last.page
            history.add(state.server.instance, moment, page)

    def _once(self, state: Watched, patience: float) -> float:
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
        states = self.states.values()
        if all(state.error is not None for state in states):
            raise SourceError("\n".join(str(state.error) for state in states))
        pages = [state.last.page for state in states if state.last is not None]
        if not any(unprefixed(sample.name, metrics) for page in pages for sample in page.samples):
            raise NoTargetsError("\n".join(_no_series(state) for state in states))


def _no_series(state: Watched) -> str:
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
