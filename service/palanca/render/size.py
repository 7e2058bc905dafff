"""A sizing for people at a terminal and as data, ``palanca.size/v1``."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, Literal

from palanca.advice.arithmetic import GB
from palanca.quantities import finite, number
from palanca.render.words import encodable, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from palanca.advice.figures import Figure
    from palanca.advice.reference import SizedReference
    from palanca.advice.size import Sizing

SCHEMA: Literal["palanca.size/v1"] = "palanca.size/v1"
REFERENCES_SCHEMA: Literal["palanca.references/v1"] = "palanca.references/v1"
WIDTH = 100
_TITLES = 34
_VALUES = 16
_LONGEST = 200
_GIGABYTE = 0.01 * GB


def render(sizing: Sizing, *, width: int = WIDTH) -> str:
    """Write a sizing: verdict, numbers with how they come about, command line, notes."""
    wish = sizing.wish
    shape = wish.shape
    lines = [f"{_short(shape.name)} on {wish.gpus} x {wish.gpu.id}, vLLM {wish.release}", *_what(sizing, width), ""]
    lines += _verdict(sizing, width)
    lines += ["", *(line for figure in sizing.figures for line in _figure(figure, width))]
    lines += ["", *_command(sizing)]
    if sizing.notes:
        lines += ["", "Notes", *_bullets(sizing.notes, width)]
    return "\n".join(lines)


def render_references(references: Sequence[SizedReference], *, width: int = WIDTH) -> str:
    """Write the reference configurations: each claim with what the arithmetic says, and the command line."""
    return "\n\n".join("\n".join(_reference(one, width)) for one in references)


def _reference(one: SizedReference, width: int) -> list[str]:
    sizing = one.sizing
    lines = [f"{one.title} ({one.id}), vLLM {sizing.wish.release}", *_wrapped(one.source, width, "  ")]
    for claim in one.claims:
        lines += [f"  {claim.claim}: {claim.verdict}", *_wrapped(claim.computed, width, "    ")]
        lines += _wrapped(claim.note, width, "    ") if claim.note else []
    lines += ["", *_command(sizing)]
    return [*lines, "", "Notes", *_bullets(sizing.notes, width)] if sizing.notes else lines


def _what(sizing: Sizing, width: int) -> list[str]:
    """Say what the model is and what is asked of it."""
    shape, load = sizing.wish.shape, sizing.load
    parts = [f"{shape.parameters.total / GB:.2f} x 10^9 parameters", f"{shape.layers} layers"]
    if shape.attention_layers != shape.layers:
        parts.append(f"{shape.attention_layers} with a KV cache")
    if shape.latent:
        parts.append("latent attention")
    else:
        parts.append(f"{shape.heads} heads, {shape.kv_heads} KV heads of {shape.head_dim}")
    if shape.experts is not None:
        parts.append(f"{shape.experts.active} of {shape.experts.total} experts")
    if shape.quantization is not None:
        parts.append(str(shape.quantization))
    asked = f"{sizing.users:,} users" if sizing.wish.users is not None else "as many users as fit"
    length = f"{load.prompt:,.0f} tokens of prompt and {load.generation:,.0f} of answer each"
    return [*_wrapped(", ".join(parts), width, "  "), f"  for {asked}, {length}"]


def _verdict(sizing: Sizing, width: int) -> list[str]:
    if sizing.fits:
        return [f"FITS: {number(sizing.value('sequences'), 'ratio')} such users at once"]
    lines = [line for text in sizing.problems for line in _wrapped(f"DOES NOT FIT: {text}", width, "")]
    return [*lines, "What would:", *_bullets(sizing.remedies, width)]


def _figure(figure: Figure, width: int) -> list[str]:
    head = f"{figure.title:<{_TITLES}} {figure_value(figure):>{_VALUES}}"
    return [head, *_wrapped(figure_source(figure), width, "    ")]


def figure_source(figure: Figure) -> str:
    """How a number comes about: formula, what went in, and a remark."""
    return "; ".join(part for part in (figure.formula, figure.inputs, figure.note) if part)


def figure_value(figure: Figure) -> str:
    """A number with its unit: GB for bytes."""
    if figure.unit == "bytes":
        size = figure.value
        return f"{size / GB:,.2f} GB" if abs(size) >= _GIGABYTE else f"{size:,.0f} bytes"
    return number(figure.value, figure.unit)


def _command(sizing: Sizing) -> list[str]:
    """Write the command line in one piece, so that it can be copied."""
    starts = sizing.value("sequences") > 0
    return [_text(str(sizing.line)) if starts else "(no command line: vLLM would not start)"]


def _bullets(texts: Iterable[str], width: int) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(
        _text(text), width, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False)]  # fmt: skip


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(_text(text), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _text(text: str) -> str:
    return printable(encodable(text))


def _short(text: str) -> str:
    made = _text(text)
    return made if len(made) <= _LONGEST else made[:_LONGEST] + "..."


# --- data ----------------------------------------------------------------------------------------


def document(sizing: Sizing) -> dict[str, Any]:
    """Return a sizing as JSON data. There is no NaN in it."""
    wish, shape = sizing.wish, sizing.wish.shape
    return {
        "schema": SCHEMA,
        "model": {
            "name": encodable(shape.name),
            "model_type": encodable(shape.model_type),
            "parameters": _number(shape.parameters.total),
            "active_parameters": _number(shape.parameters.active(shape.experts)),
            "layers": shape.layers,
            "attention_layers": shape.attention_layers,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "quantization": None if shape.quantization is None else encodable(str(shape.quantization)),
            "dtype": shape.dtype,
            "max_model_len": shape.max_model_len,
        },
        "gpu": {"id": wish.gpu.id, "name": wish.gpu.spec.name, "count": wish.gpus},
        "vllm": {"release": wish.release, "engine": sizing.line.engine},
        "load": {
            "prompt": sizing.load.prompt,
            "generation": sizing.load.generation,
            "held": sizing.load.held,
            "users": sizing.users,
        },
        "fits": sizing.fits,
        "problems": list(sizing.problems),
        "remedies": list(sizing.remedies),
        "figures": {figure.id: _figure_document(figure) for figure in sizing.figures},
        "serve": {
            "arguments": [encodable(word) for word in sizing.line.arguments],
            "environment": dict(sizing.line.environment),
            "line": encodable(str(sizing.line)),
            "max_num_seqs": sizing.slots,
        },
        "notes": [encodable(note) for note in sizing.notes],
    }


def _number(value: float) -> float | int | None:
    """Keep whole numbers whole; None for what is not finite."""
    return int(value) if math.isfinite(value) and float(value).is_integer() else finite(value)


def _figure_document(figure: Figure) -> dict[str, Any]:
    return {
        "title": figure.title,
        "value": _number(figure.value),
        "unit": figure.unit,
        "formula": figure.formula,
        "inputs": encodable(figure.inputs),
        "note": figure.note,
    }


def references_document(references: Sequence[SizedReference]) -> dict[str, Any]:
    """Return the reference configurations as JSON data."""
    return {
        "schema": REFERENCES_SCHEMA,
        "references": [
            {
                "id": one.id,
                "title": one.title,
                "source": one.source,
                "claims": [
                    {
                        "claim": claim.claim,
                        "verdict": claim.verdict,
                        "computed": claim.computed,
                        "ceiling": finite(claim.ceiling),
                        "unit": claim.unit,
                        "note": claim.note,
                    }
                    for claim in one.claims
                ],
                "sizing": document(one.sizing),
            }
            for one in references
        ],
    }
