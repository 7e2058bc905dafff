"""Alerts that speak when all others cannot: vLLM's series are gone, or palanca itself is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting import names, wording
from palanca.alerting.rules import AlertRule, Group
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix

STALE_S = 300.0
"""Age of a diagnosis; several polls at any sensible interval."""


def group(matrix: Matrix) -> Group:
    """Guards over the targets of the selector and over palanca."""
    options = matrix.options
    wide = [one for one in options.selector if one.label in names.SERVER_JOIN]
    up = "up" + ("{" + ", ".join(str(one) for one in wide) + "}" if wide else "")
    inside = "{" + ", ".join(str(one) for one in options.selector) + "}" if options.selector else ""
    running = " or ".join(f"{name}{inside}" for name in matrix.recorder.running_names())
    engines = (
        names.ENGINE if names.ENGINE in {rule.record for rule in matrix.recordings()} else matrix.recorder.engines()
    )
    own = f"job={quote(options.palanca_job)}"
    vllm = "" if any(one.label == "job" and one.op in {"=", "=~"} for one in wide) else f"\nand on (job) {engines}"

    def alert(
        rule: str, expr: str, for_: float, severity: str, summary: str, description: str, *, own: bool
    ) -> AlertRule:
        name = rule if own else names.alert_name(rule, options.alert_prefix)
        return AlertRule(
            name,
            expr,
            for_,
            {names.SEVERITY: severity, names.CAUSE: "metrics-missing", **dict(sorted(options.labels.items()))},
            {
                names.SUMMARY: summary,
                names.DESCRIPTION: description,
                **wording.links(None if own else "metrics-missing", options, labelled=False),
            },
        )

    return Group(
        names.GUARD_GROUP,
        options.interval,
        (
            alert(
                names.SERIES_MISSING,
                f"({up} == 1){vllm}\nunless on (job, instance) {engines}",
                600,
                "warning",
                "The server answers, and had no vLLM series for an hour",
                "{{ $labels.instance }} of {{ $labels.job }} is scraped, and has shown no vLLM series for an hour: it "
                "runs with --disable-log-stats, relabelling drops them, or it is no vLLM server.",
                own=False,
            ),
            alert(
                names.SERIES_ABSENT,
                f"absent({running})",
                600,
                "warning",
                "There is no vLLM series at all",
                "Not one vLLM server is seen: all are down, the scrape jobs are gone, or the selector fits nothing. No "
                "other alert on vLLM can fire.",
                own=False,
            ),
            alert(
                names.PALANCA_DOWN,
                f"up{{{own}}} == 0\nor\nabsent(up{{{own}}})",
                300,
                "warning",
                "palanca cannot be scraped",
                "Nobody judges what these alerts cannot, or enriches their messages. The alerts themselves go on.",
                own=True,
            ),
            alert(
                names.PALANCA_STALE,
                f'max by (job, instance, source) (palanca_source_state{{{own}, state=~"stale|unreachable"}}) == 1\n'
                f"or\npalanca_diagnosis_age_seconds{{{own}}} > {STALE_S:g}",
                300,
                "warning",
                "What palanca says is old",
                "{{ with $labels.source }}The source {{ . }} of palanca{{ else }}palanca{{ end }} has had no fresh "
                "data for 5 minutes; /readyz of {{ $labels.instance }} says why.",
                own=True,
            ),
            AlertRule(
                names.WATCHDOG,
                "vector(1)",
                0,
                {names.SEVERITY: "none", **dict(sorted(options.labels.items()))},
                {
                    names.SUMMARY: "Alerts are evaluated and sent",
                    names.DESCRIPTION: "Always firing: route it to what complains when it stops coming.",
                },
            ),
        ),
    )
