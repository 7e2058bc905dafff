"""Every figure of the seed articles' arithmetic, and the right value where they err."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.advice import arithmetic
from palanca.advice.arithmetic import GB

POSITIONS = (0.76, 0.62, 0.51, 0.42, 0.36, 0.31, 0.27, 0.24)
"""Acceptance by position with 8 draft tokens (vLLM #48892)."""


def _close(value: float) -> object:
    return pytest.approx(value, rel=5e-3)


@pytest.mark.parametrize(
    ("milliseconds", "per_second", "weights"),
    [(13.9, 72, 14 * GB), (3.97, 252, 4 * GB)],
)
def test_ceiling_of_an_rtx_4090(milliseconds: float, per_second: float, weights: float) -> None:
    """One user, no context, efficiency 1: the article's 13.9 ms = 72 tokens/s and 3.97 ms = 252 tokens/s."""
    step = arithmetic.decode_step(weights, [], 0, 1008 * GB, efficiency=1)
    assert _close(milliseconds) == step * 1e3
    assert per_second == round(arithmetic.throughput(1, step))


def test_bf16_ceiling_of_a_14b_on_an_l40() -> None:
    """29.54 GB of weights at 864 GB/s are 29 tokens/s at most, below the article's 25-40 for each of 128 users."""
    step = arithmetic.decode_step(14_770_033_664 * 2, [], 0, 864 * GB, efficiency=1)
    assert 29 == round(arithmetic.throughput(1, step))


def test_step_of_a_batch() -> None:
    """Weights are read once and every context once: 14 GB and 8 x 1,000 x 57,344 bytes at 0.65 of 1,008 GB/s."""
    step = arithmetic.decode_step(14 * GB, [1000.0] * 8, 57_344, 1008 * GB)
    assert _close((14 * GB + 458_752_000) / (0.65 * 1008 * GB)) == step
    assert _close(8 / step) == arithmetic.throughput(8, step)


def test_measured_efficiency() -> None:
    """15.2 GB read 212 times a second on an H200 (4,800 GB/s) are 0.67 of the bandwidth, near the 0.65 used."""
    ceiling = 1 / arithmetic.step_time(15.231 * GB, 4800 * GB, efficiency=1)
    assert 315 == round(ceiling)
    assert 0.67 == round(212.3 / ceiling, 2)
    assert 0.65 == arithmetic.EFFICIENCY


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_throughput_grows_with_the_batch(batch: int) -> None:
    """While KV reads are small next to the weights, B sequences give about B times one's tokens."""
    one = arithmetic.decode_step(14 * GB, [512.0], 57_344, 1008 * GB)
    many = arithmetic.decode_step(14 * GB, [512.0] * batch, 57_344, 1008 * GB)
    assert pytest.approx(batch / one, rel=0.02) == arithmetic.throughput(batch, many)


@pytest.mark.parametrize(
    ("expected", "kv_heads", "head_dim", "layers", "size"),
    [
        (163_840, 8, 128, 40, 2),  # the article's Qwen2.5-14B, which has 48 layers
        (196_608, 8, 128, 48, 2),  # Qwen2.5-14B
        (57_344, 4, 128, 28, 2),  # Qwen2.5-7B; the article says 80 KB
        (28_672, 4, 128, 28, 1),  # the same in FP8; the article says 40 KB
        (131_072, 8, 128, 32, 2),  # Llama-3.1-8B
    ],
)
def test_kv_bytes_per_token(expected: int, kv_heads: int, head_dim: int, layers: int, size: int) -> None:
    """2 x KV heads x head size x layers x bytes."""
    assert expected == arithmetic.kv_bytes_per_token(kv_heads, head_dim, layers, size)


def test_latent_attention() -> None:
    """DeepSeek-V3 keeps 512 + 64 numbers a layer: 70,272 bytes a token in 61 layers."""
    assert 70_272 == arithmetic.latent_bytes_per_token(512, 64, 61, 2)


@pytest.mark.parametrize(("expected", "heads", "gpus"), [(8, 8, 1), (2, 8, 4), (1, 8, 8), (1, 8, 16), (1, 4, 8)])
def test_kv_heads_per_gpu(expected: int, heads: int, gpus: int) -> None:
    """Tensor parallelism divides KV heads until each GPU has one; then they are copied."""
    assert expected == arithmetic.kv_heads_per_gpu(heads, gpus)


@pytest.mark.parametrize(("expected", "context", "window"), [(4096, 8192, 4096), (100, 100, 4096), (8192, 8192, None)])
def test_held_tokens(expected: float, context: float, window: float | None) -> None:
    """A sliding-window layer keeps its window at most."""
    assert expected == arithmetic.held_tokens(context, window)


@pytest.mark.parametrize(
    ("expected", "pool", "per_token"),
    [
        (87_500, 14 * GB, 160_000),  # the article's 14 GB / 160 KB
        (85_449, 14 * GB, 163_840),  # the same with the bytes that it computed itself
        (175_000, 14 * GB, 80_000),  # its FP8
        (500_000, 20 * GB, 40_000),  # its 7B AWQ with FP8; the right one is below
        (697_544, 20 * GB, 28_672),
        (0, -1.0, 28_672),
    ],
)
def test_tokens_that_fit(expected: int, pool: float, per_token: float) -> None:
    """Pool / bytes per token; nothing fits in a pool that is none."""
    assert expected == arithmetic.tokens_that_fit(pool, per_token)


def test_tokens_come_in_blocks() -> None:
    """KV is given out in blocks of 16 tokens."""
    assert 85_440 == arithmetic.tokens_that_fit(14 * GB, 163_840, block=16)


def test_article_users() -> None:
    """8 users with 4,096 tokens hold 32,768 of 87,500; 64 with 4,096 tokens of 40 KB hold 10.5 GB."""
    assert 32_768 == 8 * 4096 < arithmetic.tokens_that_fit(14 * GB, 160_000)
    assert _close(10.5 * GB) == 64 * 4096 * 40_000


def test_pool_is_a_share_of_total_memory() -> None:
    """0.90 of 24 GB less 14 GB leaves 7.6 GB, not the article's 0.90 x 10 GB = 9 GB; 0.94 leaves 8.56, 13 % more."""
    assert _close(7.6 * GB) == arithmetic.kv_pool(24 * GB, 0.90, 14 * GB)
    assert _close(8.56 * GB) == arithmetic.kv_pool(24 * GB, 0.94, 14 * GB)
    assert _close(6.1 * GB) == arithmetic.kv_pool(24 * GB, 0.90, 14 * GB, 1 * GB, 0.5 * GB)
    assert 0 > arithmetic.kv_pool(24 * GB, 0.90, 29.5 * GB)


@pytest.mark.parametrize(
    ("expected", "sequences"), [(0, -1), (0, 0.9), (1, 1.9), (7, 7.9), (8, 8), (8, 15.9), (16, 16), (96, 103)]
)
def test_whole_slots(expected: int, sequences: float) -> None:
    """Slots go down to a multiple of 8; below 8, to a whole number."""
    assert expected == arithmetic.whole_slots(sequences)


@pytest.mark.parametrize(
    ("expected", "tokens", "prompt", "generation"),
    [(24, 123_808, 4096, 0), (48, 152_160, 2500, 650), (5, 30_000, 4096, 1024), (0, 100, 4096, 0), (0, 100, 0, 0)],
)
def test_sequences_that_fit(expected: int, tokens: float, prompt: float, generation: float) -> None:
    """0.9 x tokens / (prompt + generation / 2), in whole slots."""
    assert expected == arithmetic.sequences_that_fit(tokens, prompt, generation)


def test_attention_is_quadratic() -> None:
    """4 N^2 d: 16 x 10^9 for 1,000 tokens of width 4,096, and 16 times that for 4,000, not the article's 256."""
    one = arithmetic.attention_flops(1000, 4096)
    assert _close(16.4e9) == one
    assert 16 == arithmetic.attention_flops(4000, 4096) / one


def test_prefill_work() -> None:
    """2 FLOP for each parameter and token, and half of attention's square."""
    assert 2 * 7e9 * 1000 + 28 * 2 * 1000**2 * 3584 == arithmetic.prefill_flops(1000, 7e9, 3584, 28)


def test_budget_of_a_step() -> None:
    """64 running sequences leave 8,128 of 8,192 tokens; 4 prompts of 512 never fill 8,192."""
    assert 8128 == arithmetic.prefill_tokens_in_step(8192, 64)
    assert 0 == arithmetic.prefill_tokens_in_step(64, 128)
    assert 2048 == arithmetic.fillable_tokens(4, 512) < 8192


def test_prefix_saving() -> None:
    """80 of 100 requests that share 512 tokens save 75-80 % of that prefill (41,000 tokens down to 10,240)."""
    assert 0.79 == pytest.approx(arithmetic.prefix_saving(100, 80))
    assert 0.80 == pytest.approx(arithmetic.prefix_saving(100, 80, computed=0))
    assert 0.75 == pytest.approx(1 - 20 * 512 / (80 * 512))
    assert 0 == arithmetic.prefix_saving(10, 0)


def test_tokens_per_step_from_positions() -> None:
    """1 + the sum of the cumulative rates is 4.49 (4.50 was reported)."""
    assert 4.49 == pytest.approx(arithmetic.tokens_per_step(POSITIONS))
    assert _close(4.50) == arithmetic.tokens_per_step(POSITIONS)
    assert 0.44 == round(arithmetic.draft_acceptance(POSITIONS), 2)


def test_rates_of_positions() -> None:
    """Positions are counted per draft, not per draft token."""
    assert (0.76, 0.62) == arithmetic.position_rates([76, 62], 100)


@pytest.mark.parametrize(
    ("expected", "rate", "draft_tokens"),
    [(1.83, 0.83, 1), (3.69, 0.8, 5), (3.29, 0.75, 5), (6, 1.0, 5), (1, 0.0, 5)],
)
def test_tokens_per_step_without_positions(expected: float, rate: float, draft_tokens: int) -> None:
    """(1 - a^(k+1)) / (1 - a); the article's 1 + a k (5 for a = 0.8, k = 5) is an upper bound."""
    assert expected == round(arithmetic.tokens_per_step_even(rate, draft_tokens), 2)
    assert arithmetic.tokens_per_step_even(rate, draft_tokens) <= 1 + rate * draft_tokens + 1e-9


def test_speculation_gain() -> None:
    """A 0.5B drafter of a 7B (cost 1/14) with a = 0.75 and k = 5 gains 2.4, in the article's 1.8-2.5, not 5."""
    tokens = arithmetic.tokens_per_step_even(0.75, 5)
    assert 2.42 == round(arithmetic.speculation_gain(tokens, 5, 1 / 14), 2)
    assert 1 > arithmetic.speculation_gain(1.14, 5, 0.1)


def test_experts_that_a_step_reads() -> None:
    """One token reads its own experts, a large batch all of them."""
    assert 2 == pytest.approx(arithmetic.experts_read(8, 2, 1))
    assert 3.5 == pytest.approx(arithmetic.experts_read(8, 2, 2))
    assert _close(8) == arithmetic.experts_read(8, 2, 64)


def test_littles_law() -> None:
    """8 requests/s of 10 s are 80 in the system: 4 engines of 24 slots."""
    assert 80 == arithmetic.in_flight(8, 10)
    assert 4 == arithmetic.replicas(80, 24)


@given(st.floats(0, 1), st.integers(1, 16))
def test_speculation_is_bounded(rate: float, draft_tokens: int) -> None:
    """A step gives at least its own token and at most all drafts and one."""
    tokens = arithmetic.tokens_per_step_even(rate, draft_tokens)
    assert 1 <= tokens <= draft_tokens + 1 + 1e-9
    assert math.isfinite(tokens)


@given(st.floats(0, 1e7), st.floats(1, 1e5), st.floats(0, 1e5))
def test_slots_never_hold_more_than_fits(tokens: float, prompt: float, generation: float) -> None:
    """What the slots hold in the mean is within nine tenths of the tokens."""
    slots = arithmetic.sequences_that_fit(tokens, prompt, generation)
    assert slots * (prompt + generation / 2) <= 0.9 * tokens * (1 + 1e-9)
