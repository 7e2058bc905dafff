"""A Prometheus-compatible server as a source of diagnoses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting.quantiles import recordings
from palanca.errors import NoTargetsError, SourceError, UsageError
from palanca.moments import rfc3339
from palanca.poll import Opened, grid_for
from palanca.signals.leaves import Grid
from palanca.signals.queries import PromQLReader
from palanca.sources.conversation import Conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palanca.model import Catalogue
    from palanca.poll import Question
    from palanca.sources.prometheus import Asked, Prometheus

FUTURE_S = 60.0
"""How far ahead of the own clock a moment may lie: clocks differ."""
_SHOWN = 8


class PrometheusSource:
    """Reads through PromQL; the newest data are now, by the clock that is given.

    Series that the exported rules record are read instead of what they are made of, unless ``recorded`` is False.
    """

    def __init__(
        self, client: Prometheus, *, clock: Callable[[], float], threads: int = 4, recorded: bool = True
    ) -> None:
        self._client, self._clock, self._threads, self._recorded = client, clock, threads, recorded

    @property
    def url(self) -> str:
        """Address of the server, without credentials."""
        return self._client.url

    @property
    def asked(self) -> Asked:
        """How much the server was asked so far."""
        return self._client.asked

    def stop(self) -> None:
        """End what is under way, in other threads too; nothing can be asked afterwards."""
        self._client.stop()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def open(self, question: Question, catalogue: Catalogue) -> Opened:
        """Discover the targets. Raises ``SourceError``, ``NoTargetsError`` and ``UsageError``."""
        asking = Conversation(self._client, question.patience)
        now = self._clock()
        end = now if question.at is None else question.at
        if end > now + FUTURE_S:
            message = f"{rfc3339(end)} is in the future; it is {rfc3339(now)}"
            raise UsageError(message)
        grid = grid_for(catalogue, round(end, 3))
        recorded = recordings(catalogue) if self._recorded and question.window is None else None

        def reader(matchers: Mapping[str, str], moment: float) -> PromQLReader:
            return PromQLReader(
                asking,
                catalogue,
                grid_for(catalogue, round(moment, 3)),
                matchers=matchers,
                window=question.window,
                threads=self._threads,
                recordings=recorded,
            )

        made = reader(question.matchers, end)
        if not made.discover().targets:
            why, info = self._nothing(question, catalogue, reader, end, now), asking.info()
            if info.state != "ok":
                said = info.error or "; ".join(info.warnings)
                raise SourceError(f"{why}; but the server has not told all: {said}")
            raise NoTargetsError(why)
        now_only = made.at(Grid(grid.end, 1, grid.interval))
        unrecorded = None if recorded is None else now_only.unrecorded
        return Opened(made, grid, asking.info, costly=True, unrecorded=unrecorded)

    def _nothing(
        self,
        question: Question,
        catalogue: Catalogue,
        reader: Callable[[Mapping[str, str], float], PromQLReader],
        end: float,
        now: float,
    ) -> str:
        """Say why there is no target: wrong matchers, another time, or no vLLM at all."""
        asked = " ".join(f"--match {label}={value}" for label, value in question.matchers.items())
        others = reader({}, end).discover().targets if question.matchers else ()
        if others:
            values: dict[str, set[str]] = {}
            for target in others:
                for label, value in target.labels:
                    values.setdefault(label, set()).add(value)
            lines = [f"{asked} selects nothing; labels that exist:"]
            lines += [f"  {label}: {', '.join(sorted(found)[:_SHOWN])}" for label, found in sorted(values.items())]
            return "\n".join(lines)
        when = "" if question.at is None else f" in the hour before {rfc3339(end)}"
        if question.at is not None and reader({}, now).discover().targets:
            return (
                f"{self._client.url} has no vLLM series{when}, but has some now: "
                "that time may be before the retention of the server, or before vLLM was scraped"
            )
        prefixes = ", ".join(f"{prefix}*" for prefix in catalogue.metrics.prefixes)
        jobs = sorted({row.labels.get("job", "") for row in self._client.query("count by (job) (up)", end)})
        there = f"jobs with up: {', '.join(jobs[:_SHOWN])}" if jobs else "it has no up series either"
        return f"{self._client.url} has no vLLM series{when} (looked for {prefixes}; {there})"
