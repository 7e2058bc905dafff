"""What the client saw, by hand."""

from __future__ import annotations

import pytest
from lab.client import Answer, Run
from lab.figures import figures, quantile


def test_figures() -> None:
    """Only what was answered in the last 10 s counts; rates are over those."""
    run = Run(begin=100.0, end=130.0)
    run.answers = [
        Answer(110.0, 50, [111.0, 112.0], tokens=2),
        Answer(119.0, 50, [120.5, 121.0, 122.5], tokens=5),
        Answer(121.0, 30, [121.5], tokens=1),
        Answer(122.0, 30, error="TimeoutError"),
    ]
    made = figures(run, 10.0)
    assert (2, 1, 10.0) == (made.finished, made.failed, made.seconds)
    assert (0.2, 8.0, 0.6) == (made.requests_per_second, made.prompt_tokens_per_second, made.tokens_per_second)
    assert (1.5, 1.5) == (made.ttft_p50, made.ttft_p99)
    assert (0.5, 1.5) == (made.itl_mean, made.gap_p99)


def test_nothing_answered() -> None:
    made = figures(Run(begin=0.0, end=10.0), 5.0)
    assert (0, None, None, None) == (made.finished, made.ttft_p50, made.itl_mean, made.gap_p99)


@pytest.mark.parametrize(("q", "expected"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_quantile(q: float, expected: float) -> None:
    assert expected == quantile(range(1, 101), q)
