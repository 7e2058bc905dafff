"""The sources that a command can be given, and how its options become one."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from palanca.commands import options

if TYPE_CHECKING:
    from palanca.model import Catalogue
    from palanca.poll import Source
    from palanca.sources.scrape import ScrapeSource
    from palanca.sources.session import Access

DAY_S = 86400.0
_ONE_OF = "give one of URL, --prometheus URL, --scrape URL or --recording FILE"
_ONE_WITH_HISTORY = "give one of URL, --prometheus URL or --recording FILE"


def make(
    *,
    url: str | None,
    prometheus: str | None,
    scrape: Sequence[str] | None,
    recording: Path | None,
    access: Access,
    wait: float,
    catalogue: Catalogue,
) -> Source:
    """Make the one source that was asked for. Raises ``SourceError`` and ``UsageError``."""
    if recording is not None:
        if url or prometheus or scrape:
            raise options.usage("several sources", _ONE_OF)
        from palanca.sources.recording import RecordingSource

        return RecordingSource(recording)
    kind, addresses = servers(url=url, prometheus=prometheus, scrape=scrape, access=access, catalogue=catalogue)
    if kind == "vllm":
        return scraping(addresses, access, wait)
    from palanca.sources.prometheus import Prometheus
    from palanca.sources.server import PrometheusSource

    return PrometheusSource(Prometheus(addresses[0], access), clock=time.time)


def make_with_history(
    *, url: str | None, prometheus: str | None, recording: Path | None, access: Access, catalogue: Catalogue
) -> Source:
    """Make a source that holds a past, which vLLM itself does not. Raises ``SourceError`` and ``UsageError``."""
    given = [one for one in (url, prometheus, recording) if one is not None]
    if len(given) != 1:
        raise options.usage("several sources" if given else "nothing to read", _ONE_WITH_HISTORY)
    return make(
        url=None, prometheus=url or prometheus, scrape=None, recording=recording,
        access=access, wait=0.0, catalogue=catalogue,
    )  # fmt: skip


def servers(
    *, url: str | None, prometheus: str | None, scrape: Sequence[str] | None, access: Access, catalogue: Catalogue
) -> tuple[Literal["prometheus", "vllm"], list[str]]:
    """Return what kind of servers was named, and their addresses. Raises ``SourceError`` and ``UsageError``."""
    given = [one for one in (url, prometheus, scrape or None) if one is not None]
    if len(given) != 1:
        raise options.usage("several sources" if given else "nothing to read", _ONE_OF)
    if scrape:
        return "vllm", list(scrape)
    if prometheus is not None:
        return "prometheus", [prometheus]
    from palanca.sources.detect import what_is

    return what_is(url or "", access, catalogue.metrics), [url or ""]


def scraping(addresses: Sequence[str], access: Access, wait: float) -> ScrapeSource:
    """Make the source that scrapes vLLM servers, ``wait`` seconds long."""
    from palanca.sources.scrape import ScrapeSource

    return ScrapeSource(addresses, access, wait=wait, clock=time.time, sleep=time.sleep, progress=_progress())


def _progress() -> _Bar | None:
    """Make a progress bar, where there is a terminal to show it on."""
    return _Bar() if sys.stderr.isatty() else None


class _Bar:
    """A line on a terminal that says how far the scrapes are."""

    def __call__(self, done: int, total: int) -> None:
        width = 30
        filled = width * done // max(total, 1)
        end = "\r\033[K" if done >= total else ""
        typer.echo(f"\rscraping [{'#' * filled}{'.' * (width - filled)}] {done}/{total}{end}", nl=False, err=True)


def span(source: Source, catalogue: Catalogue) -> tuple[float, float]:
    """First and last moment of a source: all of a recording, the last day of a server."""
    from palanca.sources.recording import RecordingSource

    if isinstance(source, RecordingSource):
        return source.span(catalogue)
    now = time.time()
    return now - DAY_S, now


def moment(text: str | None, source: Source, catalogue: Catalogue) -> float | None:
    """Read a moment; what is relative counts from the newest sample of a recording, else from now."""
    if text is None:
        return None
    from palanca.moments import parse_moment

    relative = text.strip().startswith("-")
    return parse_moment(text, now=span(source, catalogue)[1] if relative else time.time())
