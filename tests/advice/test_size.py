"""Sizing against measured servers, for each kind of model, and for wishes that do not fit or cannot be meant."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model_files import HARDWARE, gpu, model, sized

from palanca.advice import fit
from palanca.advice.arithmetic import GB
from palanca.advice.reference import size_references
from palanca.advice.size import Wish, size
from palanca.errors import UsageError


@pytest.mark.parametrize(
    ("measured", "wish"),
    [
        (152_160, {"utilization": 0.17, "slots": 256}),
        (303_168, {"utilization": 0.17, "slots": 256, "kv_type": "fp8"}),
        (494_384, {"utilization": 0.30, "slots": 128, "budget": 512}),
        (493_616, {"utilization": 0.30, "slots": 128, "budget": 8192}),
    ],
)
def test_tokens_of_recorded_servers(measured: int, wish: dict[str, float | str]) -> None:
    """vLLM 0.26.0 with a Qwen2.5-7B on an H200 reported these tokens; the estimate is within 5 %."""
    sizing = sized("qwen2.5-7b", "h200", release="0.26.0", **wish)
    assert pytest.approx(measured, rel=0.05) == sizing.value("kv_tokens")
    assert abs(measured - sizing.value("kv_tokens")) * sizing.value("kv_bytes_per_token") < fit.POOL_ERROR


def test_tokens_of_a_logged_server() -> None:
    """Llama-3.1-8B on an H100 with 0.92 and 1,024 slots logged 460,496 tokens; the estimate is within 2 %."""
    assert 460_496 == pytest.approx(sized("llama-3.1-8b", "h100", slots=1024).value("kv_tokens"), rel=0.02)


def test_recorded_decode() -> None:
    """One user of that server got 212 tokens/s of a ceiling of 315; 0.65 of the bandwidth says 205."""
    sizing = sized("qwen2.5-7b", "h200", release="0.26.0", utilization=0.17)
    assert 315 == round(sizing.value("decode_alone_ceiling"))
    assert 212 == pytest.approx(sizing.value("decode_alone"), rel=0.05)


def test_slots_that_a_recorded_server_held() -> None:
    """2,500-token prompts with answers of 650 fit 40-48 times, where 54 of 86 ran with preemptions."""
    sizing = sized(
        "qwen2.5-7b", "h200", release="0.26.0", utilization=0.17, slots=256, prompt=2500, generation=650, users=86
    )
    assert sizing.value("sequences") in {40, 48}
    assert not sizing.fits
    assert any(text.startswith("--kv-cache-dtype fp8: ") for text in sizing.remedies)


def test_figures_of_a_7b_on_an_rtx_4090() -> None:
    """Each number of the answer, by its id."""
    sizing = sized("qwen2.5-7b", "rtx-4090", users=16, context=4096)
    assert 15_231_233_024 == sizing.value("weight_bytes")
    assert 57_344 == sizing.value("kv_bytes_per_token")
    pool = 0.92 * 23.64 * 2**30 - 15_231_233_024 - sizing.value("activation_bytes") - sizing.value("graph_bytes")
    assert pool == pytest.approx(sizing.value("pool_bytes"))
    tokens = int(pool / 57_344) // 16 * 16
    assert tokens == sizing.value("kv_tokens")
    assert int(0.9 * tokens / 4096) // 8 * 8 == sizing.value("sequences")
    step = (15_231_233_024 + 16 * 4096 * 57_344) / (0.65 * 1008 * GB)
    assert step == pytest.approx(sizing.value("step_s"))
    assert 1 / step == pytest.approx(sizing.value("decode_per_user"))
    assert 16 / step == pytest.approx(sizing.value("decode_total"))
    assert 66 == round(sizing.value("decode_alone_ceiling"))
    assert sizing.fits


def test_ceiling_of_the_14b() -> None:
    """In BF16 an L40 gives one user of a 14B 29 tokens/s at most, in AWQ about three times that."""
    assert 29 == round(sized("qwen2.5-14b", "l40").value("decode_alone_ceiling"))


def test_every_figure_says_where_it_comes_from() -> None:
    """No number without a formula, and estimates say that they are."""
    sizing = sized("mixtral-8x7b", "h100", gpus=2, users=8, context=4096)
    assert all(figure.formula and figure.title and figure.unit for figure in sizing.figures)
    assert all("estimate" in sizing.by_id[name].note for name in ("activation_bytes", "graph_bytes"))
    assert len(sizing.figures) == len(sizing.by_id)


@pytest.mark.parametrize(("per_gpu", "gpus"), [(57_344, 1), (28_672, 2), (14_336, 4)])
def test_tensor_parallel_divides_kv_heads(per_gpu: int, gpus: int) -> None:
    """The bytes of a token are divided among the GPUs."""
    assert per_gpu == fit.bytes_per_token(sized("qwen2.5-7b", "l4", gpus=gpus).plan, 4096)


def test_tensor_parallel_copies_latents() -> None:
    """Latent attention keeps all of a token on every GPU."""
    assert 70_272 == fit.bytes_per_token(sized("deepseek-v3", "h200", gpus=8).plan, 4096)


def test_few_kv_heads_are_copied() -> None:
    """2 KV heads on 4 GPUs: each GPU holds a copy of one."""
    group = model("qwen3-next-80b-a3b").kv[0]
    assert group.bytes_per_token(2, 2) == group.bytes_per_token(2, 4)


@pytest.mark.parametrize(
    ("message", "name", "gpus"),
    [
        ("3 GPUs do not divide the 28 attention heads and 4 KV heads", "qwen2.5-7b", 3),
        ("use 1, 2, 4, or several engines", "qwen2.5-7b", 7),
        ("use 1, 2, 4, or several engines", "qwen2.5-7b-awq", 14),
        ("--gpus 0 cannot be", "qwen2.5-7b", 0),
        ("--gpus -1 cannot be", "qwen2.5-7b", -1),
        ("1000000000 GPUs do not divide", "llama-3.1-8b", 10**9),
    ],
)
def test_gpus_that_do_not_divide(message: str, name: str, gpus: int) -> None:
    """Counts that vLLM refuses are refused with those that it takes."""
    with pytest.raises(UsageError) as caught:
        sized(name, "l4", gpus=gpus)
    assert message in str(caught.value)


def test_fp8_holds_twice_as_much() -> None:
    """FP8 halves the bytes of a token; on hybrids the state stays as it is, so less is gained (1.77 x measured)."""
    plain, narrow = (sized("llama-3.1-8b", "l4", kv_type=kind) for kind in ("auto", "fp8"))
    assert 2 == pytest.approx(narrow.value("kv_tokens") / plain.value("kv_tokens"), rel=1e-3)
    hybrid = [sized("qwen3-next-80b-a3b", "h200", gpus=2, kv_type=kind).value("kv_tokens") for kind in ("auto", "fp8")]
    assert 1.1 < hybrid[1] / hybrid[0] < 1.95


def test_windows_hold_longer_contexts() -> None:
    """The longer the context, the less a token of Gemma 3 costs; before 0.9.1 windows are kept in full."""
    short, long = (sized("gemma-3-12b", "l40s", context=length) for length in (1024, 32_768))
    assert fit.bytes_per_token(short.plan, 1024) > 3 * fit.bytes_per_token(long.plan, 32_768)
    old = sized("gemma-3-12b", "l40s", context=32_768, release="0.8.5")
    assert 393_216 == fit.bytes_per_token(old.plan, 32_768)
    assert any("keeps full KV for sliding-window layers" in note for note in old.notes)


def test_batches_of_experts() -> None:
    """One user reads the experts of one token; many users read nearly all, so each gets much less."""
    one, many = (sized("mixtral-8x7b", "h200", users=users, context=128) for users in (1, 64))
    active = 12_879_925_248 * 2
    assert active == pytest.approx(4800 * GB / one.value("decode_alone_ceiling"), rel=1e-3)
    assert many.value("decode_per_user") < one.value("decode_per_user") / 3


def test_graphs_come_out_of_the_pool_from_0_20() -> None:
    """Before 0.20.0 graphs come on top of the utilization."""
    old, new = (sized("qwen2.5-7b", "rtx-4090", release=text, utilization=0.9) for text in ("0.19.1", "0.20.0"))
    assert fit.GRAPH_BYTES == pytest.approx(old.value("pool_bytes") - new.value("pool_bytes"))


def test_model_that_does_not_fit() -> None:
    """A 14B in BF16 does not fit a 24 GB card; quantised, split or on a larger card it does."""
    sizing = sized("qwen2.5-14b", "rtx-4090", users=8, context=4096)
    assert not sizing.fits
    assert "the model does not fit: weights, activations and graphs need 30." in sizing.problems[0]
    assert (0, 0) == (sizing.value("kv_tokens"), sizing.value("sequences"))
    assert any(text.startswith("4-bit weights") for text in sizing.remedies)
    assert any(text.startswith("--tensor-parallel-size 2: ") for text in sizing.remedies)
    assert any(text.startswith("1 x ") for text in sizing.remedies)


def test_context_that_does_not_fit() -> None:
    """One request longer than the KV cache: vLLM would not start."""
    sizing = sized("llama-3.1-8b", "l4", context=131_072, users=1)
    assert "one request of 131,072 tokens does not fit" in sizing.problems[0]
    assert any(text.startswith("1 users with ") for text in sizing.remedies)


def test_users_that_do_not_fit() -> None:
    """What fits is in the slots of the line, and the rest has replicas, shorter contexts or a queue."""
    sizing = sized("qwen2.5-7b", "rtx-4090", users=64, context=4096)
    fitting = int(sizing.value("sequences"))
    assert (f"64 users with 4,096 tokens each do not fit: {fitting} do, the others queue",) == sizing.problems
    assert fitting == sizing.slots
    assert f"--max-num-seqs {fitting} " in str(sizing.line)
    assert any(text.startswith("3 replicas") for text in sizing.remedies)


@pytest.mark.parametrize("name", ["qwen2.5-7b", "gemma-3-12b", "qwen3-next-80b-a3b"])
def test_shorter_contexts_that_are_offered_fit(name: str) -> None:
    """The context offered for the users fits indeed."""
    wish = {"gpus": 4, "users": 512, "prompt": 30_000}
    sizing = sized(name, "h100", **wish)
    offered = next(text for text in sizing.remedies if text.startswith("512 users with "))
    length = int(offered.split()[3].replace(",", ""))
    assert size(replace(sizing.wish, prompt=length), HARDWARE.gpus).value("sequences") >= 504


def test_just_one_request_fits() -> None:
    """A request that fits without a tenth to spare counts as one."""
    sizing = sized("llama-3.1-8b", "l4", users=1)
    tokens = int(sizing.value("kv_tokens"))
    assert 1 == sized("llama-3.1-8b", "l4", users=1, context=tokens - 16).value("sequences")


def test_nothing_given() -> None:
    """Without users and context, a context is assumed, said so, and the users are what fits."""
    sizing = sized("qwen2.5-7b", "rtx-4090")
    assert (4096, sizing.value("sequences")) == (sizing.load.longest, sizing.users)
    assert any("no context given: 4,096 tokens" in note for note in sizing.notes)
    assert "--max-model-len" not in sizing.line.arguments


def test_context_with_an_answer() -> None:
    """Of a context, what is not answer is prompt."""
    sizing = sized("qwen2.5-7b", "rtx-4090", context=4096, generation=1024)
    assert (3072, 1024, 3584) == (sizing.load.prompt, sizing.load.generation, sizing.load.held)


@pytest.mark.parametrize(
    ("message", "wish"),
    [
        ("a context of 40,000 tokens is longer than the model's maximum, 32,768", {"context": 40_000}),
        ("a context of 33,000 tokens is longer", {"prompt": 30_000, "generation": 3000}),
        ("--users 0 cannot be", {"users": 0}),
        ("--users -5 cannot be", {"users": -5}),
        ("--users 10000000 is more than", {"users": 10_000_000}),
        ("--context 0 cannot be", {"context": 0}),
        ("--context 100000000000 cannot be", {"context": 10**11}),
        ("--prompt 0 cannot be", {"prompt": 0}),
        ("--generation -1 cannot be", {"prompt": 8, "generation": -1}),
        ("--max-num-seqs 0 cannot be", {"slots": 0}),
        ("--max-num-batched-tokens -1 cannot be", {"budget": -1}),
        ("--gpu-memory-utilization 1.5 is no share", {"utilization": 1.5}),
        ("--gpu-memory-utilization 0 is no share", {"utilization": 0.0}),
        ("--gpu-memory-utilization nan is no share", {"utilization": math.nan}),
        ("--vllm: 'latest' is not a vLLM release", {"release": "latest"}),
        ("--vllm 0.3.0: releases before 0.4.0 are not known", {"release": "0.3.0"}),
    ],
)
def test_wishes_that_cannot_be_meant(message: str, wish: dict[str, object]) -> None:
    """Each is refused with what could be meant."""
    with pytest.raises(UsageError) as caught:
        sized("qwen2.5-7b", "rtx-4090", **wish)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("note", "name", "wish"),
    [
        ("a utilization above 0.95", "qwen2.5-7b", {"utilization": 0.98}),
        ("0.40 is newer than 0.33.0", "qwen2.5-7b", {"release": "0.40"}),
        ("before 0.7.1 latent attention", "deepseek-v2-lite", {"release": "0.6.6"}),
        ("FP8 KV for latent attention", "deepseek-v2-lite", {"kv_type": "fp8"}),
        ("mixture of experts: activations", "deepseek-v2-lite", {}),
    ],
)
def test_notes(note: str, name: str, wish: dict[str, object]) -> None:
    """What is uncertain or risky is said."""
    assert any(note in text for text in sized(name, "l40s", **wish).notes)


def test_a_draft_model_takes_memory() -> None:
    """A draft model's weights and KV leave less for the verifier's; where it cannot run, it takes nothing."""
    draft = ("draft", 5, model("qwen2.5-7b"))
    plain = sized("qwen2.5-14b", "h100")
    with_draft = sized("qwen2.5-14b", "h100", draft=draft)
    assert 15_231_233_024 == with_draft.value("weight_bytes_per_gpu") - plain.value("weight_bytes_per_gpu")
    assert 196_608 + 57_344 == fit.bytes_per_token(with_draft.plan, 4096)
    dropped = sized("qwen2.5-14b", "h100", draft=draft, release="0.12.0")
    assert not dropped.line.speculates
    assert dropped.plan.draft is None


@pytest.mark.parametrize("release", ["0.6.6", "0.10.2", "0.15.0", "0.33.0"])
def test_reference_configurations(release: str) -> None:
    """Both are sized for any release, each claim with the arithmetic's word beside it."""
    seven, fourteen = size_references(HARDWARE, release)
    assert ("rtx-4090-7b", "l40-14b") == (seven.id, fourteen.id)
    for one, slots, longest in ((seven, 64, 8192), (fourteen, 128, 16_384)):
        line = str(one.sizing.line)
        assert f"--max-model-len {longest} --max-num-seqs {slots} --max-num-batched-tokens {longest}" in line
        assert 3 == len(one.claims)
        assert "35-55" in one.claims[0].claim or "25-40" in one.claims[0].claim


def test_claims_of_the_reference_configurations() -> None:
    """55 tokens/s for 64 users is above what bandwidth gives; 25-40 for 128 users of a BF16 14B is out of reach."""
    seven, fourteen = size_references(HARDWARE, "0.33.0")
    assert ["in part", "in part", "in part"] == [claim.verdict for claim in seven.claims]
    assert ["does not hold", "in part", "in part"] == [claim.verdict for claim in fourteen.claims]
    assert "ceiling 66 tokens/s for one user" in seven.claims[0].computed
    assert "ceiling 29 tokens/s for one user" in fourteen.claims[0].computed
    assert "of a maximum of 16,384" in fourteen.claims[1].computed


def test_reference_claims_that_hold() -> None:
    """A claim below what is computed holds; one above any ceiling does not."""
    base = HARDWARE.references["rtx-4090-7b"]
    modest = [
        claim.model_copy(update={"low": 1.0, "high": high, "prompt_below": below})
        for claim, high, below in zip(base.claims, (20.0, 8.0, 0.5), (None, None, 16), strict=True)
    ]
    tall = [
        claim.model_copy(update={"low": 500.0, "high": high})
        for claim, high in zip(base.claims, (900.0, 64.0, 0.001), strict=True)
    ]
    for claims, expected in (
        (modest, ["holds", "holds", "holds"]),
        (tall, ["does not hold", "in part", "does not hold"]),
    ):
        update = {"claims": tuple(claims)}
        hardware = HARDWARE.model_copy(update={"references": {"r": base.model_copy(update=update)}})
        (one,) = size_references(hardware, "0.33.0")
        assert expected == [claim.verdict for claim in one.claims]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["qwen2.5-7b", "gemma-3-12b", "qwen3-next-80b-a3b", "deepseek-v2-lite", "qwen2.5-7b-awq"]),
    st.sampled_from(["l4", "rtx-4090", "h200"]),
    st.integers(1, 2000),
    st.integers(1, 30_000),
    st.integers(0, 2000),
    st.sampled_from(["0.6.6", "0.8.5", "0.11.0", "0.33.0"]),
)
def test_any_wish_has_an_answer(name: str, card: str, users: int, prompt: int, answer: int, release: str) -> None:
    """Every figure is finite, what is said to fit fits, and what does not has a way out."""
    sizing = size(
        Wish(model(name), gpu(card), users=users, prompt=prompt, generation=answer, release=release), HARDWARE.gpus
    )
    assert all(math.isfinite(figure.value) for figure in sizing.figures)
    assert sizing.fits == (not sizing.problems) == (not sizing.remedies)
    if sizing.fits:
        held = users * fit.sequence_bytes(sizing.plan, sizing.load.held)
        assert held <= sizing.value("pool_bytes") * (1 + 1e-6)
        assert sizing.slots >= users
