"""One source that is polled again and again. Nothing here raises because a server fails: that is a result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from palanca.daemon.fleet import View, labelled, left_out, with_labels
from palanca.diagnosis import diagnose
from palanca.errors import NoTargetsError, PalancaError, SourceError, UsageError
from palanca.model import Diagnosis, SourceInfo
from palanca.poll import Question, Source, readings_for, series
from palanca.verifying import verify_change
from palanca.window import Window

if TYPE_CHECKING:
    from palanca.model import Catalogue, Readings, Target
    from palanca.poll import Stretch
    from palanca.verify import Verification
    from palanca.verifying import Trial

EMPTY_POLLS = 3
"""How often a server that had engines must answer that it has none: one that was restarted without its data has none
until it has scraped, and that is no reason to end every episode."""
DAY_S = 86400.0
Result = Literal["ok", "partial", "no-targets", "error"]
FAILURES_BEFORE_REST = 3
LEFT_OUT_S = 3600.0
"""How long targets are kept that answers in part leave out: as long as a server remembers those that are gone."""
REST = 1.5
"""After so many failures in a row a poll begins so many intervals after the last one or later, which is every second
time, and also right after one that took long: a server in trouble is not helped by questions, and recovery is still
seen within two intervals."""


class PolledSource(Source, Protocol):
    """A source that lives as long as the daemon."""

    @property
    def url(self) -> str:
        """Address without credentials."""

    def stop(self) -> None:
        """End what is under way in other threads."""

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True)
class Duty:
    """What is to be polled and how.

    ``windowed`` sources are asked for instants and the past is kept here; others keep their own samples, and ``fill``
    takes one more look between polls. ``interval`` in seconds. ``labels`` are added to the targets that lack them.
    """

    name: str
    source: PolledSource
    question: Question
    interval: float
    windowed: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    fill: Callable[[], None] | None = None
    take_over: Callable[[PolledSource], None] | None = None
    """Goes on with the samples of the source before a reload, where the source keeps its own."""


@dataclass(frozen=True)
class Poll:
    """One poll as it went: when it began (unix seconds), how long it took, and what came of it.

    ``fault`` is an error that nobody foresaw, so one of palanca's own.
    """

    began: float
    seconds: float
    result: Result
    view: View
    fault: Exception | None = None


class Watch:
    """Polls one source. ``clock`` gives unix seconds, ``timer`` seconds of any origin.

    ``poll`` and ``fresh`` block, and may run in different threads; two polls at once wait for each other.
    """

    def __init__(
        self, duty: Duty, catalogue: Catalogue, *, clock: Callable[[], float], timer: Callable[[], float]
    ) -> None:
        self.duty, self.name, self.source, self.interval = duty, duty.name, duty.source, duty.interval
        self._catalogue, self._clock, self._timer = catalogue, clock, timer
        self._window = Window(catalogue, duty.source, duty.interval) if duty.windowed else None
        self._polling = threading.Lock()
        self._failures, self._began, self._whole, self._empties = 0, 0.0, 0.0, 0
        self.view = self._blank

    @property
    def _blank(self) -> View:
        return View(self.name, self.source.url, self.interval, labels=self.duty.labels)

    def resume(self, other: Watch) -> None:
        """Go on from what another watch of the same source knew last."""
        view = other.view
        self.view = replace(self._blank, diagnosis=view.diagnosis, error=view.error, left_out=view.left_out)
        self._whole, self._empties = other._whole, other._empties

    def take_over(self, other: Watch) -> None:
        """Go on with the samples of the other's source, which is stopped; blocks until its last poll has ended."""
        if self.duty.take_over is not None:
            self.duty.take_over(other.source)

    def due(self) -> bool:
        """Whether the next poll is to be made, or left out for rest."""
        return self._failures < FAILURES_BEFORE_REST or self._timer() - self._began >= REST * self.interval

    def poll(self) -> Poll:
        """Ask the source and judge. Never raises: a fault of palanca's own is told as one of the source is."""
        with self._polling:
            began, start = self._clock(), self._timer()
            self._began = start
            try:
                diagnosis, result = self._diagnosed(began)
            except Exception as error:  # noqa: BLE001  or what is known would grow old without a word
                self._failures += 1
                fault = None if isinstance(error, PalancaError) else error
                reason = str(error) if fault is None else f"a fault of palanca, please report it: {error!r}"
                self.view = replace(self.view, error=reason)
                return Poll(began, self._timer() - start, "error", self.view, fault)
            self._failures = 0
            lacking = left_out(diagnosis, self.view) if self._partly(diagnosis, began) else ()
            self.view = replace(self.view, diagnosis=diagnosis, error=None, left_out=lacking)
            return Poll(began, self._timer() - start, result, self.view)

    def _diagnosed(self, now: float) -> tuple[Diagnosis, Result]:
        try:
            readings = self._readings(now)
        except NoTargetsError as error:
            self._empties += 1
            if self.view.diagnosis is not None and self.view.diagnosis.targets and self._empties < EMPTY_POLLS:
                message = f"{error}; the engines seen before are believed gone after {EMPTY_POLLS} polls like this"
                raise SourceError(message) from None
            return self._empty(now, error), "no-targets"
        self._empties = 0
        diagnosis = self._judged(readings)
        return diagnosis, "partial" if diagnosis.source.state == "partial" else "ok"

    def _partly(self, diagnosis: Diagnosis, now: float) -> bool:
        """Whether targets may be missing that are there: the answers were not whole, and that not for too long."""
        if diagnosis.source.state != "partial":
            self._whole = now
            return False
        return now - self._whole < LEFT_OUT_S

    def _readings(self, now: float) -> Readings:
        if self._window is not None:
            return self._window.poll(self.duty.question, now)
        return readings_for(self._catalogue, self.source, self.duty.question)

    def fresh(self, at: float | None) -> View:
        """Make a diagnosis beside the polls, of now or of a moment in the past; a failure is in the view.

        So is a moment that the source cannot know.
        """
        question = replace(self.duty.question, at=at)
        view = self._blank
        try:
            return replace(view, diagnosis=self._judged(readings_for(self._catalogue, self.source, question)))
        except NoTargetsError as error:
            return replace(view, diagnosis=self._empty(self._clock() if at is None else at, error))
        except SourceError as error:
            return replace(view, error=str(error))
        except UsageError as error:
            return replace(view, error=str(error), impossible=True)

    def verify(self, target: Target, trial: Trial) -> Verification:
        """Verify a change at a target, within the last day. Raises ``SourceError`` and ``UsageError``."""
        newest = self._clock() if self.view.diagnosis is None else self.view.diagnosis.time
        trial = replace(trial, matchers=self._matchers(target))
        return verify_change(self._catalogue, self.source, (newest - DAY_S, newest), trial)

    def series(self, target: Target, stretch: Stretch) -> Readings:
        """Read some signals of a target over a stretch of time. Raises ``SourceError`` and ``UsageError``."""
        found = series(self._catalogue, self.source, self._matchers(target), stretch)
        return replace(found, targets=tuple(with_labels(one, self.duty.labels) for one in found.targets))

    def strangeness(self, target: Target) -> int:
        """How unlikely a target is one of this source: 0 seen at the last poll, 1 with its labels, 2 any other."""
        seen = () if self.view.diagnosis is None else self.view.diagnosis.targets
        if any(with_labels(report.target, self.duty.labels) == target for report in seen):
            return 0
        return 1 if all(target.get(name) == value for name, value in self.duty.labels.items()) else 2

    def _matchers(self, target: Target) -> dict[str, str]:
        """What selects a target at its source, which does not know the labels that are added here."""
        own = {name: value for name, value in target.labels if self.duty.labels.get(name) != value}
        return {**self.duty.question.matchers, **own}

    def _judged(self, readings: Readings) -> Diagnosis:
        return diagnose(self._catalogue, readings, self.duty.question.thresholds)

    def _empty(self, now: float, error: NoTargetsError) -> Diagnosis:
        """Say that the source answers and has nothing to judge."""
        return Diagnosis(now, SourceInfo(self.name, self.source.url, "ok", warnings=(str(error),)), ())

    def labelled(self, diagnosis: Diagnosis) -> Diagnosis:
        """Add the labels of this source to the targets."""
        return replace(diagnosis, targets=tuple(labelled(report, self.duty.labels) for report in diagnosis.targets))
