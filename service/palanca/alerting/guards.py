"""Alerts that speak when all others cannot: a server is down, or its vLLM series are gone.

What a server was must outlive its series, or these alerts would end while the trouble lasts. So a recorded series keeps
itself alive, from one evaluation to the next, as long as the scrape target (``up``) is there, and no longer: addresses
are used again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from palanca.alerting import names, wording
from palanca.alerting.options import Matcher
from palanca.alerting.rules import AlertRule, Group, RecordingRule
from palanca.moments import duration
from palanca.signals.functions import LOOKBACK_MS
from palanca.signals.identity import COPY_LABELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.alerting.matrix import Matrix
    from palanca.model import Severity

INTERVAL_S = 60.0
AWAY_S = 3600.0
"""How long Prometheus itself may be away until it has forgotten which servers were vLLM's and are down."""
RETURN_S = 600.0
"""How long after that it remembers: until every target was scraped, at any sensible interval."""
LOOKBACK_S = LOOKBACK_MS / 1000
JUDGED_S = 86400.0
"""Time over which a job is judged to be vLLM's or not."""
CAUSE = "metrics-missing"

_ON_SERVER, _ON_JOB, _ON_MODEL = (", ".join(labels) for labels in (names.SERVER_JOIN, names.JOB_JOIN, names.SCOPE))


def group(matrix: Matrix) -> Group:
    """Guards over the targets of the selector, and the sign that alerts are evaluated at all."""
    targets = _Targets(matrix)
    return Group(names.GUARD_GROUP, INTERVAL_S, (*targets.memory(), *targets.alerts(), _watchdog(matrix)))


def tells_jobs(selector: Sequence[Matcher]) -> bool:
    """Whether a selector says which jobs are vLLM's: by name, and as a whole."""
    return any(map(_names_job, selector)) and all(one.label in names.SERVER_JOIN for one in selector)


def _names_job(one: Matcher) -> bool:
    """A pattern that fits any text at all names nothing."""
    return one.label == "job" and (one.op == "=" or (one.op == "=~" and re.fullmatch(one.value, "\0") is None))


def _inside(matchers: Sequence[Matcher]) -> str:
    return "{" + ", ".join(map(str, matchers)) + "}" if matchers else ""


class _Targets:
    """PromQL of the guards. ``up`` is selected by the labels that it surely has, see ``names.SERVER_JOIN``."""

    def __init__(self, matrix: Matrix) -> None:
        self._options = options = matrix.options
        wide = [one for one in options.selector if one.label in names.SERVER_JOIN]
        self._told = tells_jobs(options.selector)
        server = _inside(wide)
        # A router that passes on what its engines show has no model.
        engine = _inside([*options.selector, Matcher("model_name", "!=", "")])
        up = f"up{server}"
        self._answers = f"max without ({', '.join(COPY_LABELS)}) ({up})"
        self._reached = f"max by ({_ON_SERVER}) ({up})"
        self._job_reached = f"max by ({_ON_JOB}) ({up})"
        self._running = " or ".join(name + engine for name in matrix.recorder.running_names())
        self._servers = f"group without ({', '.join(matrix.recorder.engine_labels())}) ({self._running})"
        self._any_running = " or ".join(name + server for name in matrix.recorder.running_names())

    # --- memory ----------------------------------------------------------------------------------

    def memory(self) -> tuple[RecordingRule, ...]:
        """Which servers and jobs are vLLM's, each after what it is computed from.

        The value of the evaluation before is there for as long as a query looks back; after a longer time without
        Prometheus, which shows in the evaluations that are lacking, what was down then is looked up.
        """
        seen, on_server = names.SERVER, f"on ({_ON_SERVER})"
        evaluated = f"count_over_time({names.GUARDED}[{duration(RETURN_S + LOOKBACK_S)}])"
        always = f"{evaluated} > {RETURN_S / INTERVAL_S + 1:g}"
        before = f"(last_over_time({seen}[{duration(AWAY_S)}]) unless on () ({always}))"
        newest = f"{before} == {on_server} group_left () max by ({_ON_SERVER}) ({before})"
        known = f"({seen} and {on_server} {self._reached})"
        was_down = f"(({newest}) and {on_server} {self._reached} == 0)"
        remembered = f"({known}\nor {on_server}\n{was_down})"
        answering = f"{self._reached} == 1"
        return (
            RecordingRule(
                seen,
                f"time() * {self._servers}\nor\n({remembered}\nunless {on_server} ({self._any_running}))",
            ),
            RecordingRule(
                names.JOB,
                f"avg by ({_ON_JOB}) (({answering} and {on_server} {seen}) or 0 * ({answering}))",
            ),
            RecordingRule(names.GUARDED, "vector(1)"),
        )

    # --- alerts ----------------------------------------------------------------------------------

    def alerts(self) -> tuple[AlertRule, ...]:
        """The most severe ones first."""
        seen, judged = names.SERVER, f"{names.JOB}[{duration(JUDGED_S)}]"
        vllms = f"on ({_ON_JOB}) quantile_over_time(0.5, {judged}) == 1"
        was = f"on ({_ON_JOB}) max_over_time({judged}) > 0" if self._told else vllms
        job = "" if self._told else f" and {vllms}"
        answers, down = f"{self._answers} == 1", f"({seen} and on ({_ON_SERVER}) {self._reached} == 0)"
        without = answers if self._told else f"(\n  {answers}{job}\nor\n  {answers} and on ({_ON_SERVER}) {seen}\n)"
        return (
            self._alert(
                names.MODEL_DOWN,
                f"group by ({_ON_MODEL}) ({down})\nunless on ({_ON_MODEL}) ({seen} unless on ({_ON_SERVER}) {down})",
                300,
                "critical",
                "No server of the model answers",
                "Every server of {{ $labels.model_name }} in {{ $labels.job }} fails its scrapes: nobody is served.",
            ),
            self._alert(
                names.JOB_DOWN,
                f"{self._job_reached} == 0 and {was}\nunless on ({_ON_JOB}) {seen}",
                1800,
                "critical",
                "No new server of the job comes up",
                "{{ $labels.job }} had vLLM servers within a day. They are gone, and every target that is left fails "
                "its scrapes: nobody is served.",
            ),
            self._alert(
                names.TARGET_DOWN,
                down,
                300,
                "warning",
                "A vLLM server does not answer",
                "{{ $labels.instance }} of {{ $labels.job }} showed series of {{ $labels.model_name }} and fails its "
                "scrapes now: it is down, restarts, or loads a model. No other alert on it can fire.",
            ),
            self._alert(
                names.TARGET_NEVER_UP,
                f"{self._answers} == 0{job}\nunless on ({_ON_SERVER}) {seen}",
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
                "Not one vLLM server is seen: all are down or scaled away, the scrape jobs are gone, or the selector "
                "fits nothing. No other alert on vLLM can fire.",
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
