"""A sizing as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.model_files import HARDWARE, sized

from palanca.advice.reference import size_references
from palanca.advice.size import size
from palanca.render.size import document, references_document, render, render_references


def test_text_of_a_wish_that_does_not_fit() -> None:
    """Verdict and ways out stand before the numbers, the command line can be copied in one piece."""
    sizing = sized("qwen2.5-7b", "rtx-4090", users=64, context=4096, model="Qwen/Qwen2.5-7B-Instruct")
    lines = render(sizing).splitlines()
    assert "Qwen2ForCausalLM on 1 x rtx-4090, vLLM 0.33.0" == lines[0]
    assert "DOES NOT FIT: 64 users with 4,096 tokens each do not fit: 24 do, the others queue" in lines
    assert lines.index("What would:") < next(row for row, text in enumerate(lines) if text.startswith("Weights "))
    command = "vllm serve Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 0.92 --max-model-len 4096 --max-num-seqs 24"
    assert any(line.startswith(command) for line in lines)
    assert any("57,344 bytes" in line and line.startswith("KV cache per token") for line in lines)


def test_text_of_a_wish_that_fits() -> None:
    """A wish that fits says for how many."""
    assert "FITS: 24 such users at once" in render(sized("qwen2.5-7b", "rtx-4090", users=16, context=4096))


def test_no_line_for_a_server_that_would_not_start() -> None:
    """Where nothing fits there is no command line."""
    text = render(sized("qwen2.5-14b", "rtx-4090"))
    assert "(no command line: vLLM would not start)" in text
    assert "vllm serve" not in text


@pytest.mark.parametrize("name", ["deepseek-v3", "gemma-3-12b", "qwen3-next-80b-a3b", "mixtral-8x7b", "qwen2.5-7b-awq"])
def test_what_is_special_is_said(name: str) -> None:
    """The second line tells the kind of the model."""
    words = {
        "deepseek-v3": "latent attention",
        "gemma-3-12b": "at most 1,024 tokens",
        "qwen3-next-80b-a3b": "12 with a KV cache",
        "mixtral-8x7b": "2 of 8 experts",
        "qwen2.5-7b-awq": "awq, 4 bits, groups of 128",
    }
    assert words[name] in " ".join(render(sized(name, "h200", gpus=1 if name == "qwen2.5-7b-awq" else 2)).split())


@pytest.mark.parametrize("width", [60, 100, 200])
def test_text_keeps_the_width(width: int) -> None:
    """Only the command line is longer than the width, since it is copied."""
    text = render(sized("qwen2.5-7b", "rtx-4090", users=64, context=4096), width=width)
    assert [] == [line for line in text.splitlines() if len(line) > width and not line.startswith("vllm serve")]


def test_names_cannot_write_to_the_terminal() -> None:
    """Control characters of a config.json are shown, not sent."""
    sizing = sized("qwen2.5-7b", "rtx-4090")
    wish = replace(sizing.wish, shape=replace(sizing.wish.shape, name="evil\x1b[2J\n" + "x" * 500))
    text = render(size(wish))
    assert "evil\\x1b[2J\\n" in text
    assert "\x1b" not in text
    assert 260 > len(text.splitlines()[0])


def test_document() -> None:
    """The JSON has every figure with its formula, and no NaN."""
    sizing = sized("mixtral-8x7b", "h100", gpus=2, users=8, context=4096)
    data = json.loads(json.dumps(document(sizing), allow_nan=False))
    assert "palanca.size/v1" == data["schema"]
    assert {figure.id for figure in sizing.figures} == set(data["figures"])
    assert 46_702_792_704 * 2 == data["figures"]["weight_bytes"]["value"]
    assert data["figures"]["pool_bytes"]["formula"].startswith("utilization x total")
    assert {"id": "h100-sxm", "name": "NVIDIA H100 SXM", "count": 2} == data["gpu"]
    assert {"release": "0.33.0", "engine": "V1"} == data["vllm"]
    assert list(sizing.line.arguments) == data["serve"]["arguments"]
    assert data["fits"] is True
    assert [] == data["problems"]


def test_reference_text_and_document() -> None:
    """Each claim stands with its verdict and what was computed."""
    references = size_references(HARDWARE, "0.33.0")
    text = render_references(references)
    assert "25-40 tokens/s per user: does not hold" in text
    assert "ceiling 29 tokens/s for one user" in text
    data = json.loads(json.dumps(references_document(references), allow_nan=False))
    assert "palanca.references/v1" == data["schema"]
    assert ["rtx-4090-7b", "l40-14b"] == [one["id"] for one in data["references"]]
    assert "in part" == data["references"][0]["claims"][0]["verdict"]
