"""Alerts on palanca itself, over what it measures (docs/metrics.md): who watches the watcher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting import names, wording
from palanca.alerting.guards import CAUSE, INTERVAL_S
from palanca.alerting.rules import AlertRule, Group
from palanca.signals.identity import COPY_LABELS
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix

STALE_S = 300.0
"""Age of a diagnosis; several polls at any sensible interval."""
SEEN = "1d"
"""Who was scraped within this time and is no more is missed."""
MOST_SKIPPED = 3
"""Polls within a quarter of an hour."""


def group(matrix: Matrix) -> Group:
    """Alerts over the job that scrapes palanca; silent where there is none, unless the options say that there is."""
    options = matrix.options
    own = f"job={quote(options.palanca_job)}"
    up, copies = f"up{{{own}}}", ", ".join(COPY_LABELS)
    lost = f"absent({up})" if options.palanca_scraped else f"(absent({up}) and on () last_over_time({up}[{SEEN}]))"

    def alert(name: str, expr: str, for_: float, summary: str, description: str) -> AlertRule:
        return AlertRule(
            name,
            expr,
            for_,
            {names.SEVERITY: "warning", names.CAUSE: CAUSE, **wording.labels(options)},
            {
                names.SUMMARY: summary,
                names.DESCRIPTION: description,
                **wording.links(None, options, labelled=False),
            },
        )

    return Group(
        names.ITSELF_GROUP,
        INTERVAL_S,
        (
            alert(
                names.PALANCA_DOWN,
                f"max without ({copies}) ({up}) == 0\nor\n{lost}",
                300,
                "palanca cannot be scraped",
                "{{ with $labels.instance }}{{ . }} does not answer on /metrics{{ else }}It is no scrape target"
                "{{ end }}: nobody judges what these alerts cannot, or enriches their messages. The alerts themselves "
                "go on.",
            ),
            alert(
                names.PALANCA_STALE,
                f'max by (job, instance, source) (palanca_source_state{{{own}, state=~"stale|unreachable"}}) == 1\n'
                f"or\npalanca_diagnosis_age_seconds{{{own}}} > {STALE_S:g}",
                300,
                "What palanca says is old",
                "{{ with $labels.source }}The source {{ . }} of palanca{{ else }}palanca{{ end }} has had no fresh "
                "data for 5 minutes; /readyz of {{ $labels.instance }} says why.",
            ),
            alert(
                "PalancaPollsSkipped",
                f"increase(palanca_polls_skipped_total{{{own}}}[15m]) > {MOST_SKIPPED}",
                0,
                "Polls of palanca take longer than the interval",
                '{{ $value | printf "%.0f" }} polls of {{ $labels.source }} were left out within 15 minutes. Raise the '
                "interval, or narrow the source.",
            ),
            alert(
                "PalancaCannotJudge",
                f'palanca_targets{{{own}, status="unknown"}} > 0',
                1800,
                "Engines cannot be judged",
                "{{ $value }} engines have been unknown to palanca for half an hour; palanca doctor says why.",
            ),
            alert(
                "PalancaHistoryDown",
                f"palanca_history_up{{{own}}} == 0",
                600,
                "palanca cannot write its history",
                "The diagnosis goes on, and episodes are forgotten. The log of {{ $labels.instance }} says why.",
            ),
            alert(
                "PalancaReloadFailed",
                f"palanca_config_last_reload_successful{{{own}}} == 0",
                300,
                "palanca refused its newest settings",
                "{{ $labels.instance }} goes on with the settings before. Its log and palanca config check say what is "
                "wrong.",
            ),
            alert(
                "PalancaFails",
                "sum by (job, instance) (rate(palanca_http_request_duration_seconds_count{" + own + ', status="500"}'
                "[10m])) > 0",
                600,
                "palanca answers with errors of its own",
                "{{ $labels.instance }} answers requests with status 500; its log has the traceback.",
            ),
        ),
    )
