"""The sources that a command can be given, and how its options become one."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from palanca.commands import options

if TYPE_CHECKING:
    from palanca.model import Catalogue
    from palanca.poll import Source
    from palanca.sources.session import Access

DAY_S = 86400.0


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
    given = [one for one in (url, prometheus, scrape or None, recording) if one is not None]
    if len(given) != 1:
        what = "nothing to read" if not given else "several sources"
        raise options.usage(what, "give one of URL, --prometheus URL, --scrape URL or --recording FILE")
    if recording is not None:
        from palanca.sources.recording import RecordingSource

        return RecordingSource(recording)
    if url is not None:
        from palanca.sources.detect import what_is

        if what_is(url, access, catalogue.metrics) == "vllm":
            scrape = [url]
        else:
            prometheus = url
    if scrape:
        from palanca.sources.scrape import ScrapeSource

        return ScrapeSource(scrape, access, wait=wait, clock=time.time, sleep=time.sleep, progress=_progress())
    from palanca.sources.prometheus import Prometheus
    from palanca.sources.server import PrometheusSource

    return PrometheusSource(Prometheus(prometheus or "", access), clock=time.time)


def _progress() -> _Bar | None:
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
