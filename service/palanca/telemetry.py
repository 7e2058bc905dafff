"""What palanca measures of itself, for Prometheus. Every metric name is written here and nowhere else.

Counters and histograms are noted as things happen; what is true now is read from the newest snapshot when
``/metrics`` is asked for.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain, count
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, Histogram, Info, PlatformCollector, ProcessCollector
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from palanca import __version__
from palanca.model import Status
from palanca.render.words import encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from palanca.daemon.snapshot import Snapshot
    from palanca.daemon.watch import Poll, Watch
    from palanca.model import Diagnosis, SourceInfo, TargetReport

POLL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
STATUSES: tuple[Status, ...] = ("critical", "warning", "unknown", "idle", "ok")
SOURCE_STATES = ("ok", "partial", "stale", "unreachable")
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_OWN_LABELS = ("rule", "severity", "cause", "state", "role", "confidence")
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_RESERVED = re.compile(r"__|[0-9]|(le|quantile|)\Z")
"""What the label of a gauge may not begin with, or be."""


class Telemetry:
    """Own metrics; told by the daemon and the API, in any thread. ``now`` gives unix seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self._facts = _Facts(now)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.registry.register(self._facts)
        Info("palanca_build", "Version of palanca.", registry=self.registry).info({"version": __version__})
        self._polls = CounterMetric(
            "palanca_polls",
            "Polls by their result: ok, partial, no-targets, error.",
            ["source", "result"],
            registry=self.registry,
        )
        self._skipped = CounterMetric(
            "palanca_polls_skipped",
            "Polls left out because the one before was still under way.",
            ["source"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "palanca_poll_duration_seconds",
            "How long a poll took, judging included.",
            ["source"],
            buckets=POLL_BUCKETS,
            registry=self.registry,
        )
        self._requests = Histogram(
            "palanca_http_request_duration_seconds",
            "How long answers of the API took.",
            ["method", "route", "status"],
            buckets=REQUEST_BUCKETS,
            registry=self.registry,
        )
        self._notifications = CounterMetric(
            "palanca_notifications",
            "Messages to people by their result: sent, retried, failed.",
            ["receiver", "result"],
            registry=self.registry,
        )
        self._reloaded = Gauge(
            "palanca_config_last_reload_successful", "1 if the newest settings are in force.", registry=self.registry
        )
        self._reloaded.set(1)

    def polled(self, watch: Watch, poll: Poll) -> None:
        """Note a poll."""
        self._polls.labels(watch.name, poll.result).inc()
        self._seconds.labels(watch.name).observe(poll.seconds)
        asked = getattr(watch.source, "asked", None)
        if asked is not None:
            counted = (asked.queries, asked.series, asked.samples)
            self._facts.questions.setdefault(watch.name, _Questions()).note(watch.source, counted)
        if poll.result != "error":
            self._facts.succeeded[watch.name] = poll.began

    def skipped(self, name: str) -> None:
        """Note a poll that was left out."""
        self._skipped.labels(name).inc()

    def published(self, snapshot: Snapshot) -> None:
        """Note the newest snapshot, and forget what was known of sources that it does not have."""
        self._facts.snapshot = snapshot
        names = {info.name for info in _infos(snapshot.diagnosis)}
        for known in (self._facts.succeeded, self._facts.questions):
            for name in [one for one in known if one not in names]:
                known.pop(name, None)

    def served(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note an answer of the API."""
        known = method if method in METHODS else "other"  # so that callers make no series of their own
        self._requests.labels(known, route, str(status)).observe(seconds)

    def history(self, up: bool) -> None:  # noqa: FBT001  a gauge of two values
        """Note whether the database takes what it is given; never told where the history is switched off."""
        self._facts.history = up

    def reloaded(self, successful: bool) -> None:  # noqa: FBT001  the same
        """Note how the newest reload of the settings went."""
        self._reloaded.set(float(successful))

    def notified(self, receiver: str, result: str) -> None:
        """Note a message to people."""
        self._notifications.labels(receiver, result).inc()

    def text(self) -> bytes:
        """Give the page of ``/metrics``."""
        return generate_latest(self.registry)


class _Questions:
    """How much a source was asked: a reload begins with a new client, whose counts go on from those of the old one."""

    def __init__(self) -> None:
        self._client: object = None
        self._before, self.counted = (0, 0, 0), (0, 0, 0)

    def note(self, client: object, counted: tuple[int, int, int]) -> None:
        if client is not self._client:
            self._client, self._before = client, self.counted
        first, second, third = self._before
        self.counted = (first + counted[0], second + counted[1], third + counted[2])


class _Facts(Collector):
    """What is true now."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.snapshot: Snapshot | None = None
        self.history: bool | None = None
        self.questions: dict[str, _Questions] = {}
        self.succeeded: dict[str, float] = {}

    def collect(self) -> Iterator[Metric]:
        yield from self._counts()
        history = GaugeMetricFamily(
            "palanca_history_up",
            "1 while episodes are written to the database, else 0; no series where the history is switched off.",
        )
        if self.history is not None:
            history.add_metric([], float(self.history))
        yield history
        yield from _of_snapshot(self.snapshot, self._now())

    def _counts(self) -> Iterator[Metric]:
        names = ("queries", "series", "samples")
        texts = ("Queries sent to the source.", "Series in its answers.", "Samples in its answers.")
        for index, (name, text) in enumerate(zip(names, texts, strict=True)):
            family = CounterMetricFamily(f"palanca_source_{name}", text, labels=["source"])
            for source, one in list(self.questions.items()):
                family.add_metric([source], one.counted[index])
            yield family
        last = GaugeMetricFamily(
            "palanca_source_last_success_timestamp_seconds", "When the last good poll began.", labels=["source"]
        )
        for source, moment in list(self.succeeded.items()):
            last.add_metric([source], moment)
        yield last


def _of_snapshot(snapshot: Snapshot | None, now: float) -> Iterator[Metric]:
    """Families of the newest snapshot; without series before the first."""
    diagnosis = None if snapshot is None else snapshot.diagnosis
    infos = () if diagnosis is None else _infos(diagnosis)
    yield _sources(infos)
    age = GaugeMetricFamily("palanca_diagnosis_age_seconds", "Seconds since the moment of the last diagnosis.")
    reports = () if diagnosis is None else diagnosis.targets
    if diagnosis is not None and any(info.age_s is not None for info in infos):
        age.add_metric([], max(now - diagnosis.time, 0.0))
    yield age
    targets = GaugeMetricFamily("palanca_targets", "vLLM engines by their status.", labels=["status"])
    counts = Counter(report.status for report in reports)
    for status in STATUSES if diagnosis is not None else ():
        targets.add_metric([status], counts[status])
    yield targets
    unknown = GaugeMetricFamily(
        "palanca_rules_unknown", "Engines at which a rule could not be judged.", labels=["rule"]
    )
    for rule, engines in sorted(Counter(one.rule for all_ in reports for one in all_.unknown).items()):
        unknown.add_metric([rule], engines)
    yield unknown
    yield _findings(reports)


def _infos(diagnosis: Diagnosis) -> Sequence[SourceInfo]:
    return diagnosis.sources or (diagnosis.source,)


def _sources(infos: Sequence[SourceInfo]) -> Metric:
    states = GaugeMetricFamily(
        "palanca_source_state", "1 for the state that the source is in.", labels=["source", "state"]
    )
    for info in infos:
        for state in SOURCE_STATES:
            states.add_metric([info.name, state], float(info.state == state))
    return states


def _findings(reports: Sequence[TargetReport]) -> Metric:
    """One series for each finding, with the labels of its engine."""
    names = sorted({name for report in reports if report.findings for name, _ in report.target.labels})
    family = GaugeMetricFamily(
        "palanca_finding_active",
        "1 for each finding, with the labels of its engine.",
        labels=[*_OWN_LABELS, *shown_labels(names)],
    )
    for report in reports:
        values = report.target.as_dict()
        where = [encodable(values.get(name, "")) for name in names]
        for one in report.findings:
            family.add_metric([one.rule, one.severity, one.cause, one.state, one.role, one.confidence, *where], 1.0)
    return family


def shown_labels(names: Sequence[str]) -> list[str]:
    """Return the label names of engines as they are shown: each another one, and none of our own.

    One that is taken or reserved is kept as ``exported_``, as Prometheus does; what no label can have becomes ``_``,
    and of two that become the same the later one is numbered.
    """
    taken = set(_OWN_LABELS)
    made = []
    for name in names:
        plain = _NO_LABEL.sub("_", name)
        if plain in _OWN_LABELS or _RESERVED.match(plain):
            plain = f"exported_{plain}"
        free = next(one for one in chain([plain], (f"{plain}_{number}" for number in count(2))) if one not in taken)
        taken.add(free)
        made.append(free)
    return made
