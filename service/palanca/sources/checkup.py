"""Gathers what ``palanca doctor`` looks at, from a Prometheus or from vLLM servers; failures are part of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from palanca.doctor import DoctorReport, examine
from palanca.errors import SourceError
from palanca.inspections.evidence import Evidence, SeriesSeen, ServerSeen
from palanca.model import SourceInfo
from palanca.poll import Question, run
from palanca.sources.prometheus import Prometheus
from palanca.sources.server import PrometheusSource
from palanca.sources.vllm import Scrape

if TYPE_CHECKING:
    from palanca.model import Catalogue, Diagnosis
    from palanca.poll import Opened
    from palanca.sources.scrape import ScrapeSource


class _Ready:
    """A source that was opened already."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        """Give it out again."""
        del question, catalogue
        return self._opened


def _opened(
    open_it: Callable[[Question, Catalogue], Opened], question: Question, catalogue: Catalogue
) -> tuple[Opened | None, Diagnosis | None, SourceError | None]:
    """Open a source and judge; whatever fails is given back."""
    try:
        opened = open_it(question, catalogue)
        return opened, run(catalogue, _Ready(opened), question), None
    except SourceError as error:
        return None, None, error


# --- vLLM servers ----------------------------------------------------------------------------------


def check_servers(
    source: ScrapeSource, question: Question, catalogue: Catalogue, *, clock: Callable[[], float]
) -> DoctorReport:
    """Examine vLLM servers by scraping them. Raises ``UsageError``."""
    opened, diagnosis, error = _opened(source.open, question, catalogue)
    info = opened.describe() if opened else SourceInfo("scrape", source.url, "unreachable", error=str(error))
    reports, scrapes = source.reports, source.scrapes
    servers = [_server(url, scrapes.get(instance), reports[instance].release) for instance, url in source.urls.items()]
    series = [one for instance, last in scrapes.items() if isinstance(last, Scrape) for one in _listed(last, instance)]
    evidence = Evidence(
        servers,
        clock(),
        discovery=None if opened is None else opened.reader.discover(),
        series=series,
        own_scrapes=True,
        failure=None if error is None else str(error),
    )
    return examine(catalogue, evidence, info, diagnosis)


def _server(url: str, last: Scrape | SourceError | None, release: str | None) -> ServerSeen:
    if isinstance(last, Scrape):
        size, series = last.size, len(last.page.samples)
        return ServerSeen(url, "vllm", seconds=last.seconds, version=release, size=size, series=series)
    return ServerSeen(url, "unknown", error=str(last or f"{url}: was not asked"))


def _listed(scrape: Scrape, instance: str) -> list[SeriesSeen]:
    counts = Counter((one.name, one.labels.get("le")) for one in scrape.page.samples)
    return [SeriesSeen(name, instance, le, count) for (name, le), count in counts.items()]


# --- a Prometheus ----------------------------------------------------------------------------------


def check_prometheus(
    client: Prometheus,
    question: Question,
    catalogue: Catalogue,
    *,
    clock: Callable[[], float],
    timer: Callable[[], float],
) -> DoctorReport:
    """Examine a query API. ``timer`` measures its answers in seconds. Raises ``UsageError``."""
    start = timer()
    try:
        client.query("vector(1)", clock())
    except SourceError as error:
        server = ServerSeen(client.url, "unknown", error=str(error))
        info = SourceInfo("prometheus", client.url, "unreachable", error=str(error))
        return examine(catalogue, Evidence([server], clock()), info)
    took, version = timer() - start, ""
    with suppress(SourceError):
        version = client.version()
    opened, diagnosis, failed = _opened(PrometheusSource(client, clock=clock).open, question, catalogue)
    end = clock() if opened is None else opened.grid.end
    series = _series(client, catalogue.metrics.prefixes, end)
    queries: dict[str, str] = {}
    recorded: frozenset[str] = frozenset()
    with suppress(SourceError):  # Thanos and VictoriaMetrics keep rules elsewhere
        queries, recorded = client.rules()
    count = sum(one.count for one in series)
    evidence = Evidence(
        [ServerSeen(client.url, "prometheus", seconds=took, version=version or None, series=count)],
        end,
        discovery=None if opened is None else opened.reader.discover(),
        series=series,
        queries=queries,
        recorded=recorded,
        failure=None if failed is None else str(failed),
        unrecorded=None if opened is None else opened.unrecorded,
    )
    return examine(catalogue, evidence, client.info() if opened is None else opened.describe(), diagnosis)


def _series(client: Prometheus, prefixes: Sequence[str], end: float) -> list[SeriesSeen]:
    """Count the series that are there at the end, by name, instance and ``le``; none where that cannot be asked."""
    selector = f'{{__name__=~"(?:{"|".join(prefixes)}).+"}}'
    try:
        rows = client.query(f"count by (__name__, instance, le) ({selector})", end)
    except SourceError:
        return []
    return [
        SeriesSeen(row.name, row.labels.get("instance", ""), row.labels.get("le"), int(row.values[-1])) for row in rows
    ]
