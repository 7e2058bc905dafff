"""Models, GPUs and wishes of the sizing tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palanca.advice.hardware import NamedGpu, find_gpu, load_hardware
from palanca.advice.model_config import ModelShape, read_model
from palanca.advice.size import Sizing, Wish, size
from palanca.resources import shipped

HARDWARE = load_hardware([shipped("rules")])
MODELS = Path(__file__).parent / "data" / "models"


def model(name: str) -> ModelShape:
    """One of the shapes in ``data/models``."""
    return read_model(MODELS / f"{name}.json")


def gpu(name: str) -> NamedGpu:
    """A GPU of the shipped table."""
    return find_gpu(HARDWARE, name)


def sized(name: str, card: str, **wish: Any) -> Sizing:  # noqa: ANN401  fields of Wish
    """Size a model on a GPU."""
    return size(Wish(model(name), gpu(card), **wish), HARDWARE.gpus)
