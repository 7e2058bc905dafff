"""One engine in depth: where the time goes, what limits it, and what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard as builders

from palanca.dashboards import board
from palanca.dashboards.board import NOT_GIVEN, Event
from palanca.dashboards.five import ACCEPTED, FULL_KV, HITS, NO_SPECULATION, TTFT
from palanca.dashboards.fleet import ITL, findings
from palanca.dashboards.kit import ENGINE, FULL, HALF, SEVERITIES, SIXTH, THIRD, Look, Query
from palanca.dashboards.limits import Limit
from palanca.dashboards.queries import VARIABLES
from palanca.signals.samples import HEARTBEAT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard as grafana

    from palanca.dashboards.kit import Kit, PanelBuilder, Section

POSITIONS = 8
"""As many positions as there are signals for."""
SLOTS, BUDGET = "max_num_seqs", "max_num_batched_tokens"
"""Variables for what no metric shows."""
BAR_LIMITS = {
    "kv": FULL_KV,
    "pinned": (Limit("slot-limit", "pinned"),),
    "queue": (Limit("token-budget", "deep"),),
    "prefill_share": (Limit("prefill-bound", "mostly"),),
    "frontend": (Limit("frontend-bound", "mostly"),),
    "waiting": (Limit("queue-waiting", "busy_share"),),
}


def variables(kit: Kit) -> Sequence[Builder[grafana.VariableModel]]:
    """One instance, all engines of its server, and two fields for what no metric shows."""
    labels = list(VARIABLES)
    return [
        board.source_variable(),
        *(
            board.chooser(kit, label, VARIABLES[label], labels[:index], everything=label != "instance")
            for index, label in enumerate(labels)
        ),
        *(
            builders.TextBoxVariable(name).label(f"--{name.replace('_', '-')}").default_value(NOT_GIVEN)
            for name in (SLOTS, BUDGET)
        ),
    ]


def events(kit: Kit) -> Sequence[Event]:
    """Restarts, changed settings, and findings."""
    at = "{{instance}}"
    _, shown = kit.queries.settings()
    flags = [fact.label for fact in kit.catalogue.facts.values() if fact.flag and fact.label in shown]
    text = ", ".join(f"{label} {{{{{label}}}}}" for label in dict.fromkeys(flags))
    wanted = (
        Event("Restarts", kit.queries.started(), "blue", f"{at} started", moment=True),
        Event("Engine restarts", kit.queries.counters_reset(), "purple", f"{at} {{{{engine}}}}: counters began anew",
              "The engine began anew inside a server that went on."),
        Event("Settings", kit.queries.settings_changed(), "yellow", f"{at}: settings changed", text),
        Event("Findings", kit.queries.roots(), SEVERITIES["critical"],
              "{{rule}}", f"{{{{severity}}}}, {{{{cause}}}}: {at} {{{{engine}}}}"),
    )  # fmt: skip
    return [one for one in wanted if one.expr]


def _bar(kit: Kit, ref: str, word: str, signals: Sequence[str], write: Callable[..., str]) -> list[Query]:
    """A bar out of signals; none where one of them does not exist in the chosen releases."""
    if not all(kit.queries.available(one) for one in signals):
        return []
    expr = write(*(f"({kit.queries.signal(one)})" for one in signals))
    return [Query(ref, expr, f"{word} {ENGINE}", tuple(signals))]


def bars(kit: Kit) -> list[Query]:
    """Share in use of each resource, as ``palanca.diagnosis`` has it, and how the queue shows.

    Slots and budget are shown only where somebody gives their size: divided by 0 it is infinite, and left out. An empty
    field leaves ``( + 0)``.
    """
    most = kit.queries.most_in_range(HEARTBEAT)
    wanted: list[tuple[str, str, tuple[str, ...], Callable[..., str]]] = [
        ("slots", "slots", ("running",), lambda one: f"{one} / (${SLOTS} + 0) < +Inf"),
        ("pinned", "running of its most", ("running",), lambda one: f"{one} / ({most} > 0)"),
        ("kv", "KV", ("kv_cache_usage",), lambda one: one),
        ("budget", "token budget", ("iteration_tokens_mean",), lambda one: f"{one} / (${BUDGET} + 0) < +Inf"),
        ("prefill", "prefill", ("requests_per_second", "prefill_time_mean"),
         lambda rate, mean: f"clamp_max({rate} * {mean}, 1)"),
        ("frontend", "front end of TTFT", ("frontend_share",), lambda one: one),
        ("queue", "queue of TTFT", ("queue_share",), lambda one: one),
        ("prefill_share", "prefill of TTFT", ("prefill_share",), lambda one: one),
        ("waiting", "waiting of all", ("waiting_share",), lambda one: one),
    ]  # fmt: skip
    return [query for ref, word, signals, write in wanted for query in _bar(kit, ref, word, signals, write)]


def _settings(kit: Kit, look: Look) -> PanelBuilder | None:
    expr, shown = kit.queries.settings()
    return kit.rows(look, [Query("settings", expr)], shown) if expr else None


def sections(kit: Kit) -> Sequence[Section]:
    """From what people feel to why."""
    positions = {f"acceptance_pos_{one}": f"position {one}" for one in range(POSITIONS)}
    return [
        ("Now", [
            kit.number(Look(
                "Up for", "Since the server process began.", span=SIXTH, empty="not shown",
            ), kit.signals({"uptime": ""}), coloured=False),
            kit.number(Look(
                "Restarts", "Of the process, or of the counters, within 30 minutes.", span=SIXTH, unit="none",
                runbooks=("restart-loop", "crash-under-load"),
            ), kit.signals({"restarts": ""}), coloured=False),
            findings(kit, Look(
                "Findings now", "What palanca finds at this server.", span=16,
                empty="no findings, or palanca is not scraped",
            )),
            _settings(kit, Look(
                "Settings", "As the server shows them; slots and token budget are shown nowhere.", span=FULL, height=4,
                empty="the server shows none",
            )),
        ]),
        ("What limits it", [
            kit.bars(Look(
                "Share in use",
                "A bar near its end is what binds. Slots and token budget appear when their sizes are given above: no "
                "metric shows them. `running of its most`: running against the most within the time that is shown; "
                "pinned there while requests wait means slots or budget. Prefill: requests in prefill at once (rate x "
                "mean time). Decode is left out: it needs the bandwidth of the GPU, and palanca's diagnosis has it.",
                span=HALF, height=12, unit="percentunit", top=1,
                runbooks=("slot-limit", "kv-cache-saturated", "token-budget", "prefill-capacity", "frontend-bound"),
            ), bars(kit), BAR_LIMITS),
            kit.graph(Look(
                "Where the time of a request goes, mean",
                "Queue, prefill, decode, and the front end (time to first token less queue and prefill). Stacked: "
                "where a server has several engines, hide the others in the legend.",
                span=HALF, height=12, runbooks=("frontend-bound", "queue-waiting", "prefill-bound", "decode-slow"),
            ), kit.signals({
                "frontend_time_mean": "front end", "queue_time_mean": "queue", "prefill_time_mean": "prefill",
                "decode_time_mean": "decode",
            }), stacked=True),
        ]),
        ("Latency", [
            kit.graph(Look(
                "Time to first token", "As users feel it.", span=THIRD, limits=TTFT, runbooks=("ttft-tail",),
            ), kit.signals({"ttft_p50": "p50", "ttft_p95": "p95", "ttft_p99": "p99"})),
            kit.graph(Look(
                "Inter-token latency", "One observation is one step of the engine.", span=THIRD, limits=ITL,
                runbooks=("long-prefill-blocking", "token-budget-large", "cuda-graph-gap"),
            ), kit.signals({"itl_p50": "p50", "itl_mean": "mean", "itl_p99": "p99"})),
            kit.graph(Look(
                "Request latency", "To the last token. Below 0.3 s quantiles are interpolated.", span=THIRD,
            ), kit.signals({"e2e_p50": "p50", "e2e_mean": "mean", "e2e_p99": "p99"})),
        ]),
        ("Scheduler", [
            kit.graph(Look(
                "Requests running and waiting", "Waiting for capacity, or deferred (LoRA, grammar, remote KV).",
                span=THIRD, runbooks=("slot-limit", "deferred-waiting", "overload"),
            ), kit.signals({
                "running": "running", "running_max": "running, most", "waiting_capacity": "for capacity",
                "waiting_deferred": "deferred",
            })),
            kit.graph(Look(
                "Tokens of an engine step, mean", "At the token budget while requests wait: the budget binds.",
                span=THIRD, runbooks=("token-budget", "budget-unfillable"),
            ), kit.signals({"iteration_tokens_mean": ""})),
            kit.graph(Look(
                "Tokens per step and running request", "Decode alone is 1; many more: steps are mostly prefill.",
                span=THIRD, limits=(Limit("token-budget", "prefill_heavy"),),
            ), kit.signals({"step_tokens_per_running": ""})),
        ]),
        ("KV cache", [
            kit.graph(Look(
                "KV cache in use", "Blocks of live requests; cached free blocks count as free.", span=THIRD,
                limits=FULL_KV, top=1, runbooks=("kv-cache-queue", "kv-leak", "kv-overcommitted"),
            ), kit.signals({"kv_cache_usage": "mean", "kv_cache_usage_max": "most"})),
            kit.graph(Look(
                "Preemptions", "Work that is thrown away and done again.", span=THIRD,
                limits=(Limit("kv-cache-preempting", "some"), Limit("kv-cache-saturated", "many")),
            ), kit.signals({"preemptions_per_minute": ""})),
            kit.graph(Look(
                "Prefix cache hit rate", "Share of prompt tokens that need no prefill; external: from other stores.",
                span=THIRD, limits=HITS, top=1, runbooks=("prefix-eviction", "prefix-cache-off"),
            ), kit.signals({"prefix_hit_rate": "", "external_hit_rate": "external"})),
        ]),
        ("Speculative decoding", [
            kit.graph(Look(
                "Acceptance by position", "An accepted position has all earlier ones accepted.", span=THIRD, top=1,
                limits=(Limit("speculation-weak", "first", below=True),), empty=NO_SPECULATION,
            ), kit.signals(positions)),
            kit.graph(Look(
                "Draft tokens accepted", "Share of all draft tokens.", span=THIRD, limits=ACCEPTED, top=1,
                empty=NO_SPECULATION, runbooks=("speculation-broken",),
            ), kit.signals({"acceptance_rate": ""})),
            kit.graph(Look(
                "Tokens of a step, and of a draft", "What one step yields against what was drafted for it.", span=THIRD,
                unit="none", empty=NO_SPECULATION, runbooks=("speculation-overload",),
            ), kit.signals({"acceptance_length": "accepted length", "draft_length": "drafted"})),
        ]),
        ("Load", [
            kit.graph(Look(
                "Tokens", "Prompt tokens include cached ones; computed: what prefill really did.", span=THIRD,
            ), kit.signals({
                "generation_tokens_per_second": "output", "prompt_tokens_per_second": "prompt",
                "computed_prefill_per_second": "prompt, computed",
            })),
            kit.graph(Look(
                "Prompt length", "Of finished requests.", span=THIRD, runbooks=("long-prefill-blocking",),
            ), kit.signals({"prompt_length_mean": "mean", "prompt_length_p99": "p99"})),
            kit.graph(Look(
                "Answer length", "Of finished requests.", span=THIRD, runbooks=("answers-truncated",),
            ), kit.signals({"generation_length_mean": "mean", "generation_length_p99": "p99"})),
            kit.graph(Look(
                "Requests finished, by reason", "Aborts by the client are not booked by V1.", span=HALF,
                runbooks=("answers-truncated", "aborts-high"),
            ), kit.signals({
                f"finished_{reason}": reason for reason in ("stop", "length", "abort", "error", "repetition")
            })),
            kit.graph(Look(
                "Errors", "Share of finished requests, and of HTTP answers.", span=HALF,
                limits=(Limit("errors-high", "many"),),
            ), kit.signals({"error_share": "requests", "http_5xx_share": "HTTP 5xx"})),
        ]),
    ]  # fmt: skip


ENGINE_BOARD = board.Spec(
    "engine",
    "vLLM: one engine",
    "Where the time goes, what limits the engine, what has changed.",
    sections,
    variables,
    events,
    "instance=${instance:percentencode}",
)
