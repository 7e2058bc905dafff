"""The five panels of the article, for every release and prefix, one line an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.dashboards import board
from palanca.dashboards.kit import FULL, Look
from palanca.dashboards.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.dashboards.kit import Kit, Section

TTFT = (Limit("ttft-high", "slo.ttft_p99"), Limit("prefix-cache-cold", "slo.ttft_p50"))
HITS = (Limit("prefix-cache-cold", "low_hits", below=True),)
ACCEPTED = (Limit("speculation-ineffective", "low", below=True),)
FULL_KV = (Limit("kv-cache-saturated", "full"),)
NO_SPECULATION = "no speculative decoding"


def sections(kit: Kit) -> Sequence[Section]:
    """The panels in the order of the article."""
    return [
        ("", [
            kit.graph(
                Look(
                    "Time to first token, p50 and p99",
                    "Chunked prefill should bring p99 down to p50. Only p99 high: long prefills hold the others up. "
                    "Both high: prompts are computed anew, or requests wait.",
                    limits=TTFT, runbooks=("ttft-tail", "long-prefill-blocking"),
                ),
                kit.signals({"ttft_p50": "p50", "ttft_p99": "p99"}),
            ),
            kit.graph(
                Look(
                    "Prefix cache hit rate",
                    "Near 0 although prompts begin alike: something in them differs, such as a timestamp. 0 is right "
                    "for unique prompts. From rates of the counters, so that it is the rate of the window and not of "
                    "the life of the server.",
                    limits=HITS, top=1, runbooks=("prefix-eviction", "prefix-cache-off"),
                ),
                kit.signals({"prefix_hit_rate": ""}),
            ),
            kit.graph(
                Look(
                    "Speculative decoding: draft tokens accepted",
                    "Low: the drafter does not fit, and drafting costs more than it gives. It falls with the number "
                    "of draft tokens by construction; the dashboard of one engine has it by position.",
                    limits=ACCEPTED, top=1, runbooks=("speculation-broken", "speculation-overload"),
                    empty=NO_SPECULATION,
                ),
                kit.signals({"acceptance_rate": ""}),
            ),
            kit.graph(
                Look(
                    "KV cache in use, and preemptions",
                    "Usage alone is no fault. Full with preemptions (right axis, dashed): work is thrown away and "
                    "done again.",
                    limits=FULL_KV, top=1, runbooks=("kv-cache-preempting", "kv-cache-queue"),
                ),
                kit.signals({"kv_cache_usage": "KV", "preemptions_per_minute": "preemptions"}),
                right={"preemptions_per_minute": kit.unit("preemptions_per_minute")},
            ),
        ]),
        ("", [
            kit.graph(
                Look(
                    "Requests running and waiting",
                    "A queue with a free KV cache: slots or token budget are too small, or prefill is the limit.",
                    span=FULL, runbooks=("queue-waiting", "slot-limit", "token-budget", "prefill-capacity"),
                ),
                kit.signals({"running": "running", "waiting": "waiting"}),
            ),
        ]),
    ]  # fmt: skip


FIVE = board.Spec(
    "five",
    "vLLM: the five panels",
    "Time to first token, prefix cache, speculation, KV cache, queue: each engine by itself.",
    sections,
    board.engines,
)
