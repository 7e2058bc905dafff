"""Alerts that speak when all others cannot: a server is down, or its vLLM series are gone.

What a server was must outlive its series, or these alerts would end while the trouble lasts. So two recorded series
keep themselves alive, from one evaluation to the next, as long as the scrape target (``up``) is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting import names, wording
from palanca.alerting.rules import AlertRule, Group, RecordingRule
from palanca.moments import duration
from palanca.signals.identity import COPY_LABELS

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix
    from palanca.model import Severity

INTERVAL_S = 60.0
MEMORY_S = 86400.0
"""How long Prometheus itself may be away until it has forgotten which servers were vLLM's."""
MOST = 0.5
"""Share of the servers of a job that have vLLM series, from which on all of them are meant to have some."""
CAUSE = "metrics-missing"

_JOB = names.SERVER_JOIN[:-1]
_COPIES = ", ".join(COPY_LABELS)
_ON_SERVER, _ON_JOB, _ON_MODEL = (", ".join(labels) for labels in (names.SERVER_JOIN, _JOB, names.SCOPE))


def group(matrix: Matrix) -> Group:
    """Guards over the targets of the selector, and the sign that alerts are evaluated at all."""
    targets = _Targets(matrix)
    return Group(names.GUARD_GROUP, INTERVAL_S, (*targets.memory(), *targets.alerts(), _watchdog(matrix)))


class _Targets:
    """PromQL of the guards. ``up`` is selected by the labels that it surely has, see ``names.SERVER_JOIN``."""

    def __init__(self, matrix: Matrix) -> None:
        self._options = options = matrix.options
        wide = [one for one in options.selector if one.label in names.SERVER_JOIN]
        self._told = any(one.label == "job" and one.op in {"=", "=~"} for one in wide)
        """Whether the selector says which jobs are vLLM's."""
        server, engine = (
            "{" + ", ".join(map(str, some)) + "}" if some else "" for some in (wide, list(options.selector))
        )
        self._up = f"up{server}"
        self._answers = f"max without ({_COPIES}) ({self._up})"
        self._running = " or ".join(name + engine for name in matrix.recorder.running_names())
        self._servers = f"group without ({', '.join(matrix.recorder.engine_labels())}) ({self._running})"
        self._any_running = " or ".join(name + server for name in matrix.recorder.running_names())

    # --- memory ----------------------------------------------------------------------------------

    def memory(self) -> tuple[RecordingRule, ...]:
        """Which servers and jobs are vLLM's."""
        most = f"count by ({_ON_JOB}) (group by ({_ON_SERVER}) ({names.SERVER}))"
        every = f"count by ({_ON_JOB}) (group by ({_ON_SERVER}) ({self._up}))"
        server = RecordingRule(
            names.SERVER,
            f"{self._servers}\nor on ({_ON_SERVER})\n{self._remembered(names.SERVER, _ON_SERVER)}",
        )
        if self._told:
            return (server,)
        remembered = self._remembered(names.JOB, _ON_JOB)
        return server, RecordingRule(
            names.JOB, f"group by ({_ON_JOB}) ({most} >= {MOST:g} * {every})\nor\n{remembered}"
        )

    def _remembered(self, record: str, on: str) -> str:
        """What the evaluation before knew or, where Prometheus was away, what was known last."""
        known = f"{record} or on ({on}) last_over_time({record}[{duration(MEMORY_S)}])"
        return f"(({known}) and on ({on}) {self._up})"

    # --- alerts ----------------------------------------------------------------------------------

    def alerts(self) -> tuple[AlertRule, ...]:
        """The most severe one first."""
        job = "" if self._told else f" and on ({_ON_JOB}) {names.JOB}"
        known = f"and on ({_ON_SERVER}) {names.SERVER}"
        reached = f"{names.SERVER} * on ({_ON_SERVER}) group_left () max by ({_ON_SERVER}) ({self._up})"
        answers = f"{self._answers} == 1"
        without = answers if self._told else f"(\n  {answers}{job}\nor\n  {answers} {known}\n)"
        return (
            self._alert(
                names.MODEL_DOWN,
                f"max by ({_ON_MODEL}) (\n  {reached}\n) == 0",
                300,
                "critical",
                "No server of the model answers",
                "Every server of {{ $labels.model_name }} in {{ $labels.job }} fails its scrapes: nobody is served.",
            ),
            self._alert(
                names.TARGET_DOWN,
                f"{reached} == 0",
                300,
                "warning",
                "A vLLM server does not answer",
                "{{ $labels.instance }} of {{ $labels.job }} showed series of {{ $labels.model_name }} and fails its "
                "scrapes now: it is down, restarts, or loads a model. No other alert on it can fire.",
            ),
            self._alert(
                names.TARGET_NEVER_UP,
                f"{self._answers} == 0{job}\nunless on ({_ON_SERVER}) {names.SERVER}",
                1800,
                "warning",
                "A server has not come up",
                "{{ $labels.instance }} of {{ $labels.job }} has failed its scrapes for half an hour, and has shown no "
                "vLLM series before: it cannot start, loads a model for very long, or is no vLLM server.",
            ),
            self._alert(
                names.SERIES_MISSING,
                f"{without}\nunless on ({_ON_SERVER}) ({self._any_running})",
                600,
                "warning",
                "The server answers without vLLM series",
                "{{ $labels.instance }} of {{ $labels.job }} is scraped and shows no vLLM series: it runs with "
                "--disable-log-stats, relabelling drops them, or it is no vLLM server.",
            ),
            self._alert(
                names.SERIES_ABSENT,
                f"absent({self._running})",
                600,
                "warning",
                "There is no vLLM series at all",
                "Not one vLLM server is seen: all are down, the scrape jobs are gone, or the selector fits nothing. No "
                "other alert on vLLM can fire.",
            ),
        )

    def _alert(
        self, name: str, expr: str, for_: float, severity: Severity, summary: str, description: str
    ) -> AlertRule:
        options = self._options
        return AlertRule(
            names.alert_name(name, options.alert_prefix),
            expr,
            for_,
            {names.SEVERITY: severity, names.CAUSE: CAUSE, **wording.labels(options)},
            {
                names.SUMMARY: summary,
                names.DESCRIPTION: description,
                **wording.links(CAUSE, options, labelled=False),
            },
        )


def _watchdog(matrix: Matrix) -> AlertRule:
    return AlertRule(
        names.WATCHDOG,
        "vector(1)",
        0,
        {names.SEVERITY: "none", **wording.labels(matrix.options)},
        {
            names.SUMMARY: "Alerts are evaluated and sent",
            names.DESCRIPTION: "Always firing: route it to what complains when it stops coming.",
        },
    )
