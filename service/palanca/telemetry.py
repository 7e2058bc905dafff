"""What palanca measures of itself, for Prometheus. Every metric name is written here and nowhere else.

Counters and histograms are noted as things happen; what is true now is read from the newest snapshot when
``/metrics`` is asked for.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, Histogram, Info, PlatformCollector, ProcessCollector
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from palanca import __version__
from palanca.model import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from palanca.daemon.snapshot import Snapshot
    from palanca.daemon.watch import Poll, Watch
    from palanca.model import SourceInfo

POLL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
STATUSES: tuple[Status, ...] = ("critical", "warning", "unknown", "idle", "ok")
SOURCE_STATES = ("ok", "partial", "stale", "unreachable")
_OWN_LABELS = ("rule", "severity", "cause", "state", "role", "confidence")
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")


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
        self._history = Gauge(
            "palanca_history_up", "1 while episodes are written to the database, else 0.", registry=self.registry
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
            self._facts.asked[watch.name] = (asked.queries, asked.series, asked.samples)
        if poll.result != "error":
            self._facts.succeeded[watch.name] = poll.began

    def skipped(self, name: str) -> None:
        """Note a poll that was left out."""
        self._skipped.labels(name).inc()

    def published(self, snapshot: Snapshot) -> None:
        """Note the newest snapshot."""
        self._facts.snapshot = snapshot

    def served(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note an answer of the API."""
        self._requests.labels(method, route, str(status)).observe(seconds)

    def history(self, up: bool) -> None:  # noqa: FBT001  a gauge of two values
        """Note whether the database takes what it is given."""
        self._history.set(float(up))

    def reloaded(self, successful: bool) -> None:  # noqa: FBT001  the same
        """Note how the newest reload of the settings went."""
        self._reloaded.set(float(successful))

    def notified(self, receiver: str, result: str) -> None:
        """Note a message to people."""
        self._notifications.labels(receiver, result).inc()

    def text(self) -> bytes:
        """Give the page of ``/metrics``."""
        return generate_latest(self.registry)


class _Facts(Collector):
    """What is true now."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.snapshot: Snapshot | None = None
        self.asked: dict[str, tuple[int, int, int]] = {}
        self.succeeded: dict[str, float] = {}

    def collect(self) -> Iterator[Metric]:
        yield from self._counts()
        if self.snapshot is None:
            return
        diagnosis = self.snapshot.diagnosis
        yield from _sources(diagnosis.sources)
        age = GaugeMetricFamily("palanca_diagnosis_age_seconds", "Seconds since the moment of the last diagnosis.")
        age.add_metric([], max(self._now() - diagnosis.time, 0.0))
        yield age
        targets = GaugeMetricFamily("palanca_targets", "vLLM engines by their status.", labels=["status"])
        counts = Counter(report.status for report in diagnosis.targets)
        for status in STATUSES:
            targets.add_metric([status], counts[status])
        yield targets
        unknown = GaugeMetricFamily(
            "palanca_rules_unknown", "Engines at which a rule could not be judged.", labels=["rule"]
        )
        for rule, count in sorted(Counter(one.rule for all_ in diagnosis.targets for one in all_.unknown).items()):
            unknown.add_metric([rule], count)
        yield unknown
        yield _findings(self.snapshot)

    def _counts(self) -> Iterator[Metric]:
        names = ("queries", "series", "samples")
        texts = ("Queries sent to the source.", "Series in its answers.", "Samples in its answers.")
        for index, (name, text) in enumerate(zip(names, texts, strict=True)):
            family = CounterMetricFamily(f"palanca_source_{name}", text, labels=["source"])
            for source, counted in list(self.asked.items()):
                family.add_metric([source], counted[index])
            yield family
        last = GaugeMetricFamily(
            "palanca_source_last_success_timestamp_seconds", "When the last good poll began.", labels=["source"]
        )
        for source, moment in list(self.succeeded.items()):
            last.add_metric([source], moment)
        yield last


def _sources(infos: Sequence[SourceInfo]) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "palanca_source_state", "1 for the state that the source is in.", labels=["source", "state"]
    )
    for info in infos:
        for state in SOURCE_STATES:
            states.add_metric([info.name, state], float(info.state == state))
    yield states


def _findings(snapshot: Snapshot) -> Metric:
    """One series for each finding, with the labels of its engine.

    A label of the engine with the name of one of ours is kept as ``exported_``, as Prometheus does.
    """
    reports = snapshot.diagnosis.targets
    names = sorted({name for report in reports if report.findings for name, _ in report.target.labels})
    shown = [f"exported_{name}" if name in _OWN_LABELS else _NO_LABEL.sub("_", name) for name in names]
    family = GaugeMetricFamily(
        "palanca_finding_active",
        "1 for each finding, with the labels of its engine.",
        labels=[*_OWN_LABELS, *shown],
    )
    for report in reports:
        values = report.target.as_dict()
        where = [values.get(name, "") for name in names]
        for one in report.findings:
            family.add_metric([one.rule, one.severity, one.cause, one.state, one.role, one.confidence, *where], 1.0)
    return family
