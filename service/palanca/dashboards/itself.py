"""palanca itself: whether what it says is fresh, and whether it gets to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.dashboards import board
from palanca.dashboards.fleet import NO_PALANCA, TARGETS, UNKNOWN, counted, statuses, unknown
from palanca.dashboards.kit import HALF, SIXTH, SOURCE_STATES, STATUSES, THIRD, Look, Query, Shown, mapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard as grafana

    from palanca.dashboards.kit import Kit, PanelBuilder, Section

BUILD = "palanca_build_info"
LABELS = {"palanca_job": ("job", "Job"), "palanca_instance": ("instance", "Instance")}
"""Variables of this dashboard, the labels that they choose by, and what people read: not those of engines."""
_CHOSEN = ", ".join(f'{label}=~"${name}"' for name, (label, _) in LABELS.items())
_RATE = "$__rate_interval"


def variables(kit: Kit) -> Sequence[Builder[grafana.VariableModel]]:
    """Data source, and which palanca."""
    del kit
    made: list[Builder[grafana.VariableModel]] = [board.source_variable()]
    before: list[str] = []
    for name, (label, heading) in LABELS.items():
        inside = "{" + ", ".join(before) + "}" if before else ""
        made.append(board.query_variable(name, heading, f"label_values({BUILD}{inside}, {label})"))
        before.append(f'{label}=~"${name}"')
    return made


def _of(metric: str, *matchers: str) -> str:
    return f"{metric}{{{', '.join([_CHOSEN, *matchers])}}}"


def _rate(metric: str, *matchers: str) -> str:
    return f"rate({_of(metric, *matchers)}[{_RATE}])"


def _flag(kit: Kit, look: Look, expr: str, good: str, bad: str) -> PanelBuilder | None:
    panel = kit.number(look, [Query("flag", expr, "{{instance}}")])
    if panel is not None:
        panel.mappings([mapped({"1": (good, STATUSES["ok"]), "0": (bad, STATUSES["critical"])})])
    return panel


def sections(kit: Kit) -> Sequence[Section]:
    """Fresh? Complete? Told?"""
    known = [_of("palanca_source_state", f'state="{state}"') for state in SOURCE_STATES]
    states = " + ".join(f"{number} * max by (instance, source) ({one})" for number, one in enumerate(known))
    skipped = f"increase({_of('palanca_polls_skipped_total')}[1h])"
    told = f"increase({_of('palanca_notifications_total')}[1h])"
    quantile = "histogram_quantile({0}, sum by (le, instance, {1}) ({2}))"
    polls = [
        Query(f"p{q}", quantile.format(q / 100, "source", _rate("palanca_poll_duration_seconds_bucket")),
              f"p{q} {{{{source}}}} {{{{instance}}}}")
        for q in (50, 99)
    ]  # fmt: skip
    answers = quantile.format(0.99, "route", _rate("palanca_http_request_duration_seconds_bucket"))
    started = f"time() - process_start_time_seconds{{{_CHOSEN}}} and on (job, instance) {BUILD}"
    return [
        ("Fresh?", [
            _flag(kit, Look("Scraped", "Whether Prometheus reaches palanca.", span=SIXTH, height=4, empty=NO_PALANCA),
                  f"{_of('up')} and on (job, instance) last_over_time({BUILD}[1h])", "up", "down"),
            kit.number(Look(
                "Age of the diagnosis", "Of the newest of all sources; no more than a few intervals. palanca polls "
                "every 30 s if nothing else is set.", span=SIXTH, height=4, unit="s", empty=NO_PALANCA,
            ), [Query("age", _of("palanca_diagnosis_age_seconds"), "{{instance}}")], coloured=False),
            _flag(kit, Look(
                "History", "Whether episodes are written to the database.", span=SIXTH, height=4,
                empty="switched off, or palanca is not scraped",
            ), _of("palanca_history_up"), "written", "down"),
            _flag(kit, Look(
                "Settings", "Whether the newest settings are in force; if not, the log says which line has a fault.",
                span=SIXTH, height=4, empty=NO_PALANCA,
            ), _of("palanca_config_last_reload_successful"), "in force", "refused"),
            kit.number(Look("Version", "Of palanca, as it runs.", span=SIXTH, height=4, unit="none", empty=NO_PALANCA),
                       [Query("version", _of(BUILD), "{{version}}")], coloured=False, shown=Shown.NAME),
            kit.number(Look("Up for", "Since the process began.", span=SIXTH, height=4, unit="s", empty=NO_PALANCA),
                       [Query("uptime", started, "{{instance}}")], coloured=False),
            kit.states(Look(
                "State of the sources", "Partial: a source answers in part. Stale: it does not, and what is shown is "
                "old. Unreachable: it never did.", span=HALF, empty=NO_PALANCA,
            ), [Query("states", states, "{{source}} {{instance}}")], {
                str(number): state for number, state in enumerate(SOURCE_STATES.items())
            }),
            kit.graph(Look(
                "Time since the last good poll", "By source: the lag of what palanca says.", span=HALF, unit="s",
                empty=NO_PALANCA,
            ), [Query("lag", f"time() - {_of('palanca_source_last_success_timestamp_seconds')}",
                      "{{source}} {{instance}}")]),
        ]),
        ("Polls", [
            kit.graph(Look("Polls by result", "Partial, no-targets and error say that something is amiss.", span=THIRD,
                           unit="suffix:/s", empty=NO_PALANCA),
                      [Query("polls", f"sum by (instance, source, result) ({_rate('palanca_polls_total')})",
                             "{{result}} {{source}} {{instance}}")], stacked=True),
            kit.graph(Look("How long a poll takes", "Judging included. Longer than the interval: polls are left out.",
                           span=THIRD, unit="s", empty=NO_PALANCA), polls),
            kit.graph(Look("Polls left out", "Since the one before was still under way, within an hour.", span=THIRD,
                           unit="none", empty="none, or palanca is not scraped"),
                      [Query("skipped", f"sum by (instance, source) ({skipped})",
                             "{{source}} {{instance}}")]),
            kit.graph(Look("What a source is asked", "Queries to a Prometheus; sources that are scraped have none.",
                           span=HALF, unit="suffix:/s", empty="no Prometheus is asked"),
                      [Query("queries", _rate("palanca_source_queries_total"), "queries {{source}} {{instance}}")]),
            kit.graph(Look("What it answers", "Series and samples in the answers: the load that palanca is.", span=HALF,
                           unit="suffix:/s", empty="no Prometheus is asked"),
                      [Query(name, _rate(f"palanca_source_{name}_total"), f"{name} {{{{source}}}} {{{{instance}}}}")
                       for name in ("series", "samples")]),
        ]),
        ("Diagnoses", [
            statuses(kit, Look("Engines by status", "As palanca counts them.", span=THIRD, empty=NO_PALANCA),
                     _of(TARGETS)),
            kit.graph(Look("Engines by status over time", "Unknown: a core signal is missing or stale.", span=THIRD,
                           unit="none", empty=NO_PALANCA),
                      [Query("targets", counted(_of(TARGETS), "status"), "{{status}}")], stacked=True),
            unknown(kit, Look("Rules that cannot be judged", "At how many engines. `palanca doctor` says why.",
                              span=THIRD, empty="none, or palanca is not scraped"), _of(UNKNOWN)),
        ]),
        ("Told?", [
            kit.graph(Look("Messages", "To people, and pushes to Alertmanager, within an hour, by result.", span=THIRD,
                           unit="none", empty="nothing has been sent"),
                      [Query("messages",
                             f"sum by (instance, receiver, result) ({told})",
                             "{{result}} {{receiver}} {{instance}}")]),
            kit.graph(Look("Answers of the API", "By route and status; 500 is a fault of palanca, and the log has it.",
                           span=THIRD, unit="reqps", empty=NO_PALANCA),
                      [Query("answers", "sum by (instance, route, status) "
                             f"({_rate('palanca_http_request_duration_seconds_count')})",
                             "{{status}} {{route}} {{instance}}")], stacked=True),
            kit.graph(Look("How long answers take, p99", "By route; `/diagnose` is answered from memory.", span=THIRD,
                           unit="s", empty=NO_PALANCA),
                      [Query("slow", answers, "{{route}} {{instance}}")]),
        ]),
        ("Process", [
            kit.graph(Look("CPU", "Cores in use; polls are most of it.", span=THIRD, unit="none", empty=NO_PALANCA),
                      [Query("cpu", f"{_rate('process_cpu_seconds_total')} and on (job, instance) {BUILD}",
                             "{{instance}}")]),
            kit.graph(Look("Memory", "Resident; the window of what was read lies in it.", span=THIRD, unit="bytes",
                           empty=NO_PALANCA),
                      [Query("memory", f"{_of('process_resident_memory_bytes')} and on (job, instance) {BUILD}",
                             "{{instance}}")]),
            kit.graph(Look("Open files", "Against what the system allows.", span=THIRD, unit="none", empty=NO_PALANCA),
                      [Query(name, f"{_of(f'process_{name}_fds')} and on (job, instance) {BUILD}",
                             f"{name} {{{{instance}}}}") for name in ("open", "max")]),
        ]),
    ]  # fmt: skip


ITSELF = board.Spec(
    "itself",
    "palanca itself",
    "Whether what palanca says is fresh, and whether it gets to people.",
    sections,
    variables,
)
