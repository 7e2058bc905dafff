"""``palanca size``: what fits on a GPU, how fast it can be, and the command line for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from palanca.commands import options
from palanca.errors import EXIT_FINDINGS


def size(
    *,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE|DIR", help="config.json of the model, or its folder.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(metavar="NAME", help="e.g. rtx-4090, l40s, h100-sxm.")] = None,
    gpus: Annotated[int, typer.Option(min=1, metavar="N", help="GPUs of one engine (tensor parallel).")] = 1,
    vllm: Annotated[str, typer.Option(metavar="RELEASE", help="Release that the command line is for.")] = "0.33.0",
    users: Annotated[int | None, typer.Option(min=1, metavar="N", help="Users at once.")] = None,
    context: Annotated[int | None, typer.Option(min=1, metavar="N", help="Tokens that each user holds.")] = None,
    kv_cache_dtype: Annotated[Literal["auto", "fp8"], typer.Option(help="Data type of the KV cache.")] = "auto",
    utilization: Annotated[float | None, typer.Option(min=0.05, max=1, help="--gpu-memory-utilization.")] = None,
    weight_bytes: Annotated[float | None, typer.Option(min=1, help="Bytes of the weights, if known.")] = None,
    references: Annotated[
        bool, typer.Option("--references", help="Show the reference configurations and what holds of their claims.")
    ] = False,
    output: options.TextOrJson = "text",
    rules: options.Rules = None,
) -> None:
    """Compute weights, KV cache, sequences and decode ceiling of a model on a GPU, and its `vllm serve` line.

    Exit code: 0 it fits, 1 it does not, 2 usage.
    """
    from palanca.advice.hardware import find_gpu, load_hardware
    from palanca.advice.model_config import read_model
    from palanca.advice.reference import size_references
    from palanca.advice.size import Wish
    from palanca.advice.size import size as compute
    from palanca.render import size as writer
    from palanca.resources import shipped

    hardware = load_hardware([shipped("rules"), *([rules] if rules else [])])
    if references:
        sized = size_references(hardware, vllm)
        as_json = output == "json"
        text = json.dumps(writer.references_document(sized), indent=2) if as_json else writer.render_references(sized)
        options.say(text)
        return
    if model is None or gpu is None:
        raise options.usage("--model and --gpu are needed", "or --references for the reference configurations")
    shape = read_model(model, weight_bytes)
    made = compute(
        Wish(
            shape,
            find_gpu(hardware, gpu),
            gpus=gpus,
            release=vllm,
            model=str(model),
            users=users,
            context=context,
            utilization=utilization,
            kv_type=kv_cache_dtype,
        ),
        hardware.gpus,
    )
    options.say(json.dumps(writer.document(made), indent=2) if output == "json" else writer.render(made))
    if not made.fits:
        raise typer.Exit(EXIT_FINDINGS)
