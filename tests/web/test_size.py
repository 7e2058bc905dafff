"""The calculator."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from tests.api.apps import fleet, world
from tests.engines import ROOT

from palanca.advice.hardware import find_gpu, load_hardware
from palanca.advice.model_config import shape_of
from palanca.advice.size import Wish, size
from palanca.web.asked import AskedSize
from palanca.web.size import sized

HARDWARE = load_hardware([ROOT / "rules"])
CONFIG = HARDWARE.references["rtx-4090-7b"].config


def page(query: str) -> tuple[int, str]:
    answer = world(fleet(1)).get("/size", query)
    return answer.status, answer.text


def test_what_the_command_line_computes() -> None:
    """The same figures, to the last digit."""
    made = sized(HARDWARE, AskedSize(reference="rtx-4090-7b", users=8, context=2048))
    plain = size(Wish(shape_of(CONFIG), find_gpu(HARDWARE, "rtx-4090"), model="Qwen/Qwen2.5-7B-Instruct", users=8,
                      context=2048), HARDWARE.gpus)  # fmt: skip
    assert str(plain.line) == made.line
    assert made.fits
    assert len(plain.figures) == len(made.figures)


def test_own_config() -> None:
    """Pasted; a known model chosen beside it only gives the GPU."""
    status, text = page(f"gpu=h100-sxm&config={quote(json.dumps(dict(CONFIG)))}")
    assert 200 == status
    assert "It fits" in text
    assert "vllm serve MODEL" in text


def test_first_look() -> None:
    """Nothing is asked for, and nothing is wrong."""
    status, text = page("")
    assert (200, False) == (status, "banner critical" in text)


@pytest.mark.parametrize(
    ("query", "words"),
    [("gpu=rtx-4090", "Paste the model"), ("config=%7B&gpu=rtx-4090", "is not JSON"),
     ("config=%5B%5D&gpu=rtx-4090", "no JSON object"),
     ("reference=none", "there is no model"), ("reference=rtx-4090-7b&gpu=gtx", "there is no GPU"),
     ("reference=rtx-4090-7b&vllm=0.1", "--vllm"), ("config=%7B%7D&gpu=rtx-4090", "config.json"),
     ("reference=rtx-4090-7b&context=9999999", "longer than the model")],
)  # fmt: skip
def test_faults(query: str, words: str) -> None:
    """Are told above the form, which keeps what was typed."""
    status, text = page(query)
    assert 400 == status
    assert words in text
    assert "<form" in text


@pytest.mark.parametrize("query", ["gpus=0", "users=x", "kv_cache_dtype=fp4", "utilization=2", "colour=red"])
def test_what_no_form_sends(query: str) -> None:
    """Is an error of the request."""
    assert 422 == page(query)[0]


def test_what_does_not_fit() -> None:
    """Says what would."""
    _, text = page("reference=rtx-4090-7b&users=2000")
    assert "does not fit" in text
    assert "What would help" in text
    _, text = page("reference=rtx-4090-7b&weight_bytes=9e10")
    assert "vLLM would not start" in text
