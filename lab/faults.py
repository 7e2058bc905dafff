"""What is broken, and the load that shows it. Nothing here says what palanca should find or recommend."""

from __future__ import annotations

from dataclasses import dataclass

from lab.load import Load


@dataclass(frozen=True)
class Fault:
    """Flags of ``vllm serve`` beside the common ones, longest ``context`` in tokens, and a load.

    ``healthy`` is the control.
    """

    name: str
    title: str
    flags: tuple[str, ...]
    load: Load
    context: int = 8192
    healthy: bool = False


NGRAM = '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}'

FAULTS = (
    Fault(
        "healthy",
        "nothing: the control",
        ("--max-num-seqs", "64"),
        Load(rate=3, shared=512, prompt=(50, 200), answer=(20, 60)),
        healthy=True,
    ),
    Fault(
        "kv-cache",
        "KV cache held far below the memory",
        ("--num-gpu-blocks-override", "256", "--max-num-seqs", "64"),
        Load(clients=48, prompt=(200, 400), answer=(300, 700)),
        context=4096,
    ),
    Fault(
        "slots",
        "few slots",
        ("--max-num-seqs", "4"),
        Load(clients=40, prompt=(50, 150), answer=(60, 160)),
    ),
    Fault(
        "token-budget",
        "small token budget of a step",
        ("--max-num-batched-tokens", "128", "--max-num-seqs", "128"),
        Load(clients=64, prompt=(1500, 3000), answer=(8, 24)),
    ),
    Fault(
        "speculation",
        "speculation by n-grams over random answers",
        ("--max-num-seqs", "16", "--speculative-config", NGRAM),
        Load(clients=4, prompt=(600, 600), answer=(64, 160), words=4),
    ),
    Fault(
        "prefix-caching",
        "prefix caching off, though prompts share most of their tokens",
        ("--no-enable-prefix-caching", "--max-num-seqs", "64"),
        Load(rate=5, shared=3968, prompt=(20, 60), answer=(8, 24)),
    ),
    Fault(
        "prefix-broken",
        "a timestamp before what prompts share",
        ("--max-num-seqs", "64"),
        Load(rate=5, shared=3968, stamp="first", prompt=(10, 30), answer=(8, 24)),
    ),
    Fault(
        "chunked-prefill",
        "chunked prefill off, and some long prompts",
        ("--no-enable-chunked-prefill", "--max-num-seqs", "64"),
        Load(rate=5, prompt=(50, 150), answer=(8, 24), long=16, long_prompt=(12_000, 15_000)),
        context=16_384,
    ),
)
