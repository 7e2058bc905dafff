"""The fleet: what palanca finds, and every engine in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models.dashboard import FieldColorModeId

from palanca.addresses import ENGINE, RULES
from palanca.dashboards import board
from palanca.dashboards.five import ACCEPTED, FULL_KV, HITS, TTFT
from palanca.dashboards.kit import (
    FULL,
    GREY,
    HALF,
    SEVERITIES,
    SIXTH,
    STATUSES,
    THIRD,
    Column,
    Look,
    Query,
    Shown,
    fixed,
    fixed_words,
    mapped,
    value,
)
from palanca.dashboards.limits import Limit
from palanca.dashboards.queries import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palanca.dashboards.kit import Kit, PanelBuilder, Section

ENGINE_UID = "palanca-engine"
TARGETS, UNKNOWN = "palanca_targets", "palanca_rules_unknown"
NO_PALANCA = "palanca is not scraped"
PREEMPTING = (Limit("kv-cache-preempting", "some"), Limit("kv-cache-saturated", "many"))
ITL = (Limit("itl-high", "slo.itl_p99"),)
QUEUE = (Limit("overload", "many"),)
COLUMNS = (
    Column("up", "Up", unit="bool_yes_no"),
    Column("running", "Running"),
    Column("waiting", "Waiting", QUEUE),
    Column("kv_cache_usage", "KV", FULL_KV),
    Column("preemptions_per_minute", "Preempted", PREEMPTING),
    Column("ttft_p50", "TTFT p50", TTFT[1:]),
    Column("ttft_p99", "TTFT p99", TTFT[:1]),
    Column("itl_p99", "ITL p99", ITL),
    Column("prefix_hit_rate", "Prefix hits", HITS),
    Column("acceptance_rate", "Drafts accepted", ACCEPTED),
    Column("generation_tokens_per_second", "Output"),
    Column("requests_per_second", "Finished"),
    Column("error_share", "Errors", (Limit("errors-high", "many"),)),
    Column("restarts", "Restarts"),
)
FINDING_HEADINGS = {
    "severity": "Severity", "rule": "Rule", "cause": "Cause", "role": "Role", "state": "State",
    "confidence": "Confidence",
}  # fmt: skip


def engine_links(kit: Kit) -> list[Mapping[str, object]]:
    """Links of a row that has the labels of an engine: its dashboard, and its diagnosis where that has an address."""
    chosen = "&".join(f"var-{name}=${{__data.fields.{name}:percentencode}}" for name in VARIABLES)
    made: list[Mapping[str, object]] = [
        {"title": "This engine", "url": f"/d/{ENGINE_UID}?{chosen}&${{datasource:queryparam}}&${{__url_time_range}}"}
    ]
    if kit.options.external_url is not None:
        asked = "model=${__data.fields.model_name:percentencode}&instance=${__data.fields.instance:percentencode}"
        url = f"{kit.options.external_url.rstrip('/')}{ENGINE}?{asked}"
        made.append({"title": "Diagnosis", "url": url, "targetBlank": True})
    return made


def findings(kit: Kit, look: Look) -> PanelBuilder:
    """A table of what palanca finds at the chosen engines."""
    panel = kit.rows(look, [Query("findings", kit.queries.findings())], FINDING_HEADINGS)
    panel.override_by_name("Severity", [
        value("mappings", [fixed_words(SEVERITIES)]),
        value("custom.cellOptions", {"type": "color-background"}), value("custom.width", 90),
    ])  # fmt: skip
    if kit.options.external_url is not None:
        url = kit.options.external_url.rstrip("/") + RULES + "/${__value.raw:percentencode}"
        links = [{"title": "Runbook", "url": url, "targetBlank": True}]
        panel.override_by_name("Rule", [value("links", links)])
    panel.override_by_name("Instance", [value("links", engine_links(kit))])
    return panel


def counted(metric: str, label: str) -> str:
    """A count of palanca's, by a label: replicas of one palanca agree, those of several places add up."""
    return f"sum by ({label}) (max by (cluster, namespace, job, {label}) ({metric}))"


def statuses(kit: Kit, look: Look, metric: str = TARGETS) -> PanelBuilder | None:
    """How many engines have which status; grey where there are none."""
    query = Query("targets", counted(metric, "status"), "{{status}}")
    panel = kit.number(look, [query])
    if panel is not None:
        panel.mappings([mapped({"0": ("0", GREY)})])
        for status, colour in STATUSES.items():
            panel.override_by_name(status, [fixed(colour)])
    return panel


def columns(kit: Kit) -> PanelBuilder:
    """The table of engines."""
    look = Look(
        "Engines",
        "One row an engine, now. Coloured where a threshold of the matrix is passed; whether a finding follows from it "
        "is decided by whole rules, which palanca and the alerts evaluate. A click on an instance leads to its "
        "dashboard.",
        span=FULL, height=11,
    )  # fmt: skip
    panel = kit.engines(look, COLUMNS, engine_links(kit))
    panel.override_by_name("Up", [
        value("mappings", [mapped({"1": ("up", "green"), "0": ("down", "red")})]),
        value("custom.cellOptions", {"type": "color-text"}), value("color", {"mode": "thresholds"}),
    ])  # fmt: skip
    return panel


def _total(kit: Kit, signal: str) -> list[Query]:
    if not kit.queries.available(signal):
        return []
    expr = f"sum by (model_name) ({kit.queries.signal(signal)})"
    return [Query(signal, expr, "{{model_name}}", (signal,))]


def sections(kit: Kit) -> Sequence[Section]:
    """Findings first, then engines, then curves."""
    engines = Query("engines", f"count({kit.queries.engines()})", "engines")
    down = f"count({kit.queries.signal('up')} < 1) or 0 * count({kit.queries.engines()})"
    return [
        ("What palanca finds", [
            statuses(kit, Look(
                "Engines by status",
                "As palanca counts them: all of its engines, whatever is chosen above. An engine has the status of its "
                "worst finding; unknown: a core signal is missing or stale; idle: no request within the window.",
                span=HALF, height=4, empty=NO_PALANCA,
            )),
            kit.number(Look(
                "Engines", "Chosen engines that had series within the last hour.", span=SIXTH, height=4, unit="none",
            ), [engines], coloured=False, shown=Shown.VALUE),
            _down(kit, Look(
                "Engines down", "Chosen engines whose server missed a scrape within the last two minutes.",
                span=SIXTH, height=4, unit="none", runbooks=("restart-loop", "metrics-missing"),
            ), Query("down", down, "down", ("up",))),
            kit.number(Look(
                "Age of the diagnosis",
                "How old the newest diagnosis is. Old: palanca does not reach its sources.", span=SIXTH, height=4,
                unit="s", empty=NO_PALANCA,
            ), [Query("age", "max(palanca_diagnosis_age_seconds)", "age")], coloured=False, shown=Shown.VALUE),
            findings(kit, Look(
                "Findings now",
                "What holds now at the chosen engines. Root: act on it. Symptom: explained by a root. Pending: not "
                "held long enough. Where palanca's URL is known, a click on a rule leads to its runbook.",
                span=FULL, height=9, empty="no findings, or palanca is not scraped",
            )),
            kit.graph(Look(
                "Engines with a finding, by rule",
                "Root findings that fire, counted by rule: when something began, and how far it has spread.",
                span=16, unit="none",
            ), [Query(
                "findings", f"count by (rule) ({kit.queries.roots()})", "{{rule}}",
            )], stacked=True),
            unknown(kit, Look(
                "Rules that cannot be judged",
                "At how many engines a rule is unknown, since a signal is missing or stale. `palanca doctor` says why.",
                span=THIRD, empty="none, or palanca is not scraped",
            )),
        ]),
        ("Engines", [columns(kit)]),
        ("Where they differ", [
            kit.graph(Look(
                "KV cache in use, by engine", "A full KV cache makes requests wait or be preempted.",
                limits=FULL_KV, top=1,
            ), kit.signals({"kv_cache_usage": ""})),
            kit.graph(Look(
                "Requests waiting, by engine", "A queue at a few engines only: requests are spread unevenly.",
                limits=QUEUE, runbooks=("queue-waiting", "replica-imbalance"),
            ), kit.signals({"waiting": ""})),
            kit.graph(Look(
                "Requests running and waiting, by engine", "What each engine has to do. Those of one model should lie "
                "close together.", runbooks=("replica-imbalance", "replica-idle"),
            ), kit.signals({"load": ""})),
            kit.graph(Look(
                "Time to first token, p99, by engine", "As users feel it.", limits=TTFT[:1],
            ), kit.signals({"ttft_p99": ""})),
            kit.graph(Look(
                "Inter-token latency, p99, by engine", "One observation is one step of the engine.", limits=ITL,
            ), kit.signals({"itl_p99": ""})),
            kit.graph(Look(
                "Generation tokens, by engine", "Output of each engine.", runbooks=("replica-unlike", "engine-hung"),
            ), kit.signals({"generation_tokens_per_second": ""})),
        ]),
        ("By model", [
            kit.graph(Look(
                "Generation tokens, by model", "Sum over the engines of a model; each engine is shown above.",
                span=THIRD,
            ), _total(kit, "generation_tokens_per_second")),
            kit.graph(Look(
                "Requests finished, by model", "Sum over the engines of a model.", span=THIRD,
            ), _total(kit, "requests_per_second")),
            kit.graph(Look(
                "Requests waiting, by model", "Sum over the engines of a model; each is shown above.", span=THIRD,
            ), _total(kit, "waiting")),
        ]),
    ]  # fmt: skip


def _down(kit: Kit, look: Look, query: Query) -> PanelBuilder | None:
    panel = kit.number(look, [query], shown=Shown.VALUE)
    if panel is not None:
        panel.mappings([mapped({"0": ("0", STATUSES["ok"])})])
        panel.color_scheme(_always(SEVERITIES["critical"]))
    return panel


def _always(colour: str) -> builders.FieldColor:
    return builders.FieldColor().mode(FieldColorModeId.FIXED).fixed_color(colour)


def unknown(kit: Kit, look: Look, metric: str = UNKNOWN) -> PanelBuilder:
    """A table of rules that cannot be judged."""
    query = Query("unknown", counted(metric, "rule"))
    panel = kit.rows(look, [query], {"rule": "Rule", "Value": "Engines"})
    panel.sort_by([common.TableSortByFieldState().display_name("Engines").desc(desc=True)])
    return panel


FLEET = board.Spec(
    "fleet",
    "vLLM: fleet",
    "What palanca finds, and every engine by itself.",
    sections,
    board.engines,
)
