"""What a client saw, as a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.client import Run


@dataclass(frozen=True)
class Figures:
    """Rates in 1/s; times in seconds, None where nothing was answered.

    ``itl_mean`` is the time per output token after the first, the mean over requests; ``gap_p99`` the p99 of the time
    between two pieces of a stream (which hold several tokens with speculation).
    """

    seconds: float
    finished: int
    failed: int
    requests_per_second: float
    prompt_tokens_per_second: float
    tokens_per_second: float
    ttft_p50: float | None
    ttft_p99: float | None
    itl_mean: float | None
    gap_p99: float | None
    e2e_p50: float | None


def quantile(values: Sequence[float], q: float) -> float | None:
    """The value of rank ``q`` of ``n``, the nearest rank; None of nothing."""
    ranked = sorted(values)
    return ranked[min(int(q * len(ranked)), len(ranked) - 1)] if ranked else None


def figures(run: Run, seconds: float) -> Figures:
    """Figures of the requests that were answered in the last so many seconds of a run."""
    begin = max(run.end - seconds, run.begin)
    seconds = run.end - begin
    good = [one for one in run.answers if one.error is None and one.pieces[-1] >= begin]
    failed = sum(one.error is not None and one.sent >= begin for one in run.answers)
    spread = [
        (one.pieces[-1] - one.pieces[0]) / (one.tokens - 1) for one in good if one.tokens > 1 and len(one.pieces) > 1
    ]
    gaps = [after - before for one in good for before, after in zip(one.pieces, one.pieces[1:], strict=False)]
    ttft = [one.pieces[0] - one.sent for one in good]
    return Figures(
        seconds=seconds,
        finished=len(good),
        failed=failed,
        requests_per_second=len(good) / seconds,
        prompt_tokens_per_second=sum(one.prompt for one in good) / seconds,
        tokens_per_second=sum(one.tokens for one in good) / seconds,
        ttft_p50=quantile(ttft, 0.5),
        ttft_p99=quantile(ttft, 0.99),
        itl_mean=sum(spread) / len(spread) if spread else None,
        gap_p99=quantile(gaps, 0.99),
        e2e_p50=quantile([one.pieces[-1] - one.sent for one in good], 0.5),
    )
