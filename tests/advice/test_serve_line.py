"""The ``vllm serve`` line: every flag legal in its release, and FP8 KV as each release treats it."""

from __future__ import annotations

import json
import shlex
from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.model_files import HARDWARE

from palanca.advice.serve_line import (
    DraftModel,
    Settings,
    default_budget,
    default_engine,
    default_slots,
    default_utilization,
    fp8_kv,
    serve_line,
)
from palanca.releases import Release, ReleaseRange

if TYPE_CHECKING:
    from palanca.advice.serve_line import ServeLine

RELEASES = (
    "0.4.0", "0.4.1", "0.4.2", "0.5.0", "0.5.5", "0.6.0", "0.6.2", "0.6.6", "0.7.0", "0.7.3", "0.8.0", "0.8.1", "0.8.2",
    "0.8.5", "0.9.2", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1", "0.14.1", "0.15.0", "0.17.1", "0.18.0", "0.20.0",
    "0.24.0", "0.25.0", "0.27.1", "0.28.0", "0.33.0",
)  # fmt: skip
LIFETIMES = {
    "--gpu-memory-utilization": "0.4.0+",
    "--max-model-len": "0.4.0+",
    "--max-num-seqs": "0.4.0+",
    "--max-num-batched-tokens": "0.4.0+",
    "--tensor-parallel-size": "0.4.0+",
    "--dtype": "0.4.0+",
    "--enable-chunked-prefill": "0.4.0+",
    "--enable-prefix-caching": "0.4.0+",
    "--kv-cache-dtype": "0.4.0+",
    "--calculate-kv-scales": "0.7.0-0.27.1",
    "--swap-space": "0.4.0-0.17.1",
    "--speculative-model": "0.4.1-0.8.2",
    "--num-speculative-tokens": "0.4.1-0.8.2",
    "--speculative-draft-tensor-parallel-size": "0.5.1-0.8.2",
    "--use-v2-block-manager": "0.4.0-0.9.2",
    "--speculative-config": "0.8.2+",
}
"""Releases that accept each flag (vLLM's parsers)."""


def line(release: str, card: str = "rtx-4090", **settings: object) -> ServeLine:
    return serve_line(Settings("m", **settings), HARDWARE.gpus[card], Release(release))  # type: ignore[arg-type]


@pytest.mark.parametrize(("release", "card"), list(product(RELEASES, ("rtx-4090", "h100-sxm", "t4", "a100-40"))))
def test_every_flag_is_legal(release: str, card: str) -> None:
    """argparse refuses unknown flags, so none may stand in the line of a release that lacks it."""
    for kv_dtype, same in product(("auto", "fp8"), (True, False)):
        made = line(
            release, card, gpus=2, utilization=0.9, max_model_len=8192, slots=64, budget=2048, kv_cache_dtype=kv_dtype,
            swap_space=0, dtype="bfloat16", hybrid=True, draft=DraftModel("d", 5, same_vocab=same),
        )  # fmt: skip
        flags = [word for word in made.arguments if word.startswith("--")]
        assert len(flags) == len(set(flags))
        assert [] == [flag for flag in flags if Release(release) not in ReleaseRange.parse(LIFETIMES[flag])]


@pytest.mark.parametrize(
    ("utilization", "release"), [(0.9, "0.4.0"), (0.9, "0.19.1"), (0.92, "0.20.0"), (0.92, "0.33")]
)
def test_default_utilization(utilization: float, release: str) -> None:
    """0.9, and 0.92 from 0.20.0 on."""
    assert utilization == default_utilization(Release(release))


@pytest.mark.parametrize(
    ("budget", "slots", "card", "release"),
    [
        (2048, 256, "rtx-4090", "0.33.0"),
        (2048, 1024, "rtx-4090", "0.8.1"),
        (8192, 1024, "h100-sxm", "0.33.0"),
        (8192, 1024, "h100-sxm", "0.8.4"),
        (2048, 256, "a100-80-sxm", "0.8.4"),
        (8192, 1024, "a100-80-sxm", "0.8.5"),
        (2048, 256, "a100-80-sxm", "0.9.0"),
        (16384, 1024, "b200", "0.28.0"),
        (8192, 1024, "b200", "0.27.1"),
        (512, 256, "h100-sxm", "0.6.0"),
        (2048, 256, "h100-sxm", "0.7.3"),
    ],
)
def test_defaults_of_budget_and_slots(budget: int, slots: int, card: str, release: str) -> None:
    """What ``vllm serve`` takes when nothing is given depends on the GPU and the release."""
    one, found = Release(release), HARDWARE.gpus[card]
    assert (budget, slots) == (
        default_budget(found, one, default_engine(one)),
        default_slots(found, one, default_engine(one)),
    )


@pytest.mark.parametrize(
    ("legal", "engine", "environment", "release", "capability"),
    [
        (True, "V0", {}, "0.7.3", (8, 9)),
        (True, "V0", {}, "0.8.1", (9, 0)),
        (True, "V0", {}, "0.8.5", (8, 9)),
        (True, "V1", {}, "0.8.5", (9, 0)),
        (True, "V0", {}, "0.9.2", (10, 0)),
        (True, "V1", {}, "0.10.0", (10, 0)),
        (True, "V0", {}, "0.10.1.1", (8, 9)),
        (True, "V1", {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, "0.10.2", (8, 9)),
        (False, "V1", {}, "0.11.0", (8, 9)),
        (True, "V1", {}, "0.11.0", (9, 0)),
        (True, "V1", {}, "0.11.1", (8, 9)),
        (True, "V1", {}, "0.33.0", (8, 9)),
    ],
)
def test_fp8_kv_by_release(
    legal: bool, engine: str, environment: dict[str, str], release: str, capability: tuple[int, int]
) -> None:
    """Ada falls back to V0, needs a backend, is refused or is served, by release; Hopper has FlashAttention 3."""
    support = fp8_kv(capability, Release(release))
    assert (legal, engine, environment) == (support.legal, support.engine, support.environment)


def test_fp8_that_is_refused_is_left_out() -> None:
    """0.11.0 does not start with FP8 KV on an RTX 4090: the line has none and says why."""
    made = line("0.11.0", kv_cache_dtype="fp8")
    assert "auto" == made.kv_cache_dtype
    assert "--kv-cache-dtype" not in made.arguments
    assert any("0.11.0 refuses" in note for note in made.notes)


def test_fp8_that_needs_a_backend() -> None:
    """0.10.2 on an RTX 4090 needs FlashInfer to stay on V1."""
    assert str(line("0.10.2", kv_cache_dtype="fp8")).startswith("VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve m ")


@pytest.mark.parametrize(
    ("words", "release"),
    [
        ("--kv-cache-dtype fp8_e5m2", "0.4.0"),
        ("--kv-cache-dtype fp8", "0.6.6"),
        ("--kv-cache-dtype fp8 --calculate-kv-scales", "0.27.1"),
        ("--kv-cache-dtype fp8", "0.28.0"),
    ],
)
def test_fp8_words(words: str, release: str) -> None:
    """Scales are computed at run time from 0.7.0 to 0.27.1 only."""
    assert str(line(release, kv_cache_dtype="fp8")).endswith(words)


@pytest.mark.parametrize(
    ("flags", "release"),
    [
        (["--enable-chunked-prefill", "--enable-prefix-caching"], "0.7.3"),
        ([], "0.8.0"),
        ([], "0.33.0"),
        (["--enable-chunked-prefill"], "0.5.0"),
    ],
)
def test_chunked_prefill_and_prefix_caching(flags: list[str], release: str) -> None:
    """V1 has both by default; V0 wants to be asked."""
    assert flags == [word for word in line(release).arguments if word.startswith("--enable")]


@pytest.mark.parametrize(
    ("wanted", "release"), [(False, "0.11.0"), (True, "0.11.2"), (True, "0.27.0"), (False, "0.28.0")]
)
def test_prefix_caching_of_hybrids(wanted: bool, release: str) -> None:
    """Some releases switch prefix caching off for hybrids."""
    assert wanted == ("--enable-prefix-caching" in line(release, hybrid=True).arguments)


@pytest.mark.parametrize(("note", "release"), [("always on", "0.11.0"), ("on by default", "0.11.1")])
def test_chunked_prefill_needs_no_flag(note: str, release: str) -> None:
    """The line says why it has no --enable-chunked-prefill."""
    assert any(f"chunked prefill is {note}" in text for text in line(release).notes)


@pytest.mark.parametrize(
    ("wanted", "note", "release"),
    [(True, "", "0.7.3"), (True, "does nothing", "0.17.1"), (False, "gone since 0.18.0", "0.18.0")],
)
def test_swap_space(wanted: bool, note: str, release: str) -> None:
    """--swap-space acts in V0, does nothing in V1, and is gone from 0.18.0."""
    made = line(release, swap_space=0)
    assert wanted == ("--swap-space" in made.arguments)
    assert bool(note) == any("--swap-space" in text and note in text for text in made.notes)


DRAFT = DraftModel("org/draft", 5, same_vocab=True)


@pytest.mark.parametrize(
    ("words", "release"),
    [
        ([], "0.4.0"),
        (["--speculative-model", "org/draft", "--num-speculative-tokens", "5", "--use-v2-block-manager"], "0.4.3"),
        (
            ["--speculative-model", "org/draft", "--num-speculative-tokens", "5",
             "--speculative-draft-tensor-parallel-size", "1"],
            "0.7.3",
        ),
        (["--speculative-config", {"model": "org/draft", "num_speculative_tokens": 5}], "0.8.5"),
        ([], "0.10.0"),
        ([], "0.14.1"),
        (
            ["--speculative-config", {"method": "draft_model", "model": "org/draft", "num_speculative_tokens": 5}],
            "0.15.0",
        ),
    ],
)  # fmt: skip
def test_speculation_by_release(words: list[object], release: str) -> None:
    """The old flags up to 0.8.1, one JSON object from 0.8.2, nothing where draft models are not implemented."""
    made = line(release, draft=DRAFT).arguments
    added = [word for word in made[1:] if not word.startswith("--enable")]
    assert words == [json.loads(word) if word.startswith("{") else word for word in added]


@pytest.mark.parametrize(("speculates", "release"), [(False, "0.7.3"), (False, "0.24.0"), (True, "0.25.0")])
def test_drafts_of_another_vocabulary(speculates: bool, release: str) -> None:
    """The article's pairs (152,064 and 151,936 words) are refused until 0.25.0, which can map vocabularies."""
    made = line(release, draft=DraftModel("d", 5, same_vocab=False))
    assert speculates == made.speculates
    assert speculates == ("use_heterogeneous_vocab" in str(made))
    assert any("vocabulary" in note for note in made.notes)


def test_without_chunked_prefill_the_budget_holds_the_longest_prompt() -> None:
    """V0 with speculation has no chunked prefill before 0.6.5, so the budget is raised to the longest context."""
    made = line("0.6.2", draft=DRAFT, budget=2048, max_model_len=8192)
    assert "--enable-chunked-prefill" not in made.arguments
    assert "8192" == made.arguments[made.arguments.index("--max-num-batched-tokens") + 1]


def test_no_bf16_before_ampere() -> None:
    """A T4 gets FP16 instead of BF16."""
    assert "--dtype half" in str(line("0.33.0", card="t4", dtype="bfloat16"))


def test_line_is_one_shell_command() -> None:
    """What is printed splits into the arguments again, whatever the model is called."""
    made = serve_line(Settings("a b'c; rm", draft=DRAFT), HARDWARE.gpus["l4"], Release("0.33.0"))
    assert ["vllm", "serve", *made.arguments] == shlex.split(str(made))
