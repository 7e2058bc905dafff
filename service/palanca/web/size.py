"""The calculator: what fits on a GPU, how fast it can be, and the command line for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from palanca.advice.hardware import find_gpu
from palanca.advice.model_config import parsed, shape_of, with_weights
from palanca.advice.size import Wish, size
from palanca.errors import UsageError
from palanca.render.size import figure_source, figure_value
from palanca.web.asked import AskedSize, asked
from palanca.web.pages import PageRoute, frame_of, html, page
from palanca.web.visitor import user

if TYPE_CHECKING:
    from palanca.advice.hardware import Hardware
    from palanca.advice.size import Sizing
    from palanca.api.backend import Backend
    from palanca.api.guard import Rules


@dataclass(frozen=True)
class SizeView:
    """A sizing in words; ``line`` is empty where vLLM would not start."""

    verdict: str
    fits: bool
    problems: tuple[str, ...]
    remedies: tuple[str, ...]
    line: str
    figures: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def router(backend: Backend, rules: Callable[[], Rules]) -> APIRouter:
    """Make the route."""
    made = APIRouter(include_in_schema=False, route_class=PageRoute)

    @made.get("/size")
    async def calculator(request: Request) -> Response:
        wanted = asked(AskedSize, request)
        frame = frame_of(
            backend, backend.snapshot.diagnosis, looked=None, title="Size", here="size", path="size", refresh=0,
            user=user(request, rules),
        )  # fmt: skip
        view, fault = await run_in_threadpool(_calculated, backend.hardware, wanted)
        more = {"wanted": wanted, "view": view, "fault": fault, "hardware": backend.hardware}
        response = page(request, await run_in_threadpool(html, "size.html", frame, **more))
        response.status_code = 400 if fault else response.status_code
        return response

    return made


def _calculated(hardware: Hardware, wanted: AskedSize) -> tuple[SizeView | None, str]:
    """The sizing, or what is wrong with the question; neither where nothing is asked yet."""
    if not (wanted.config or wanted.reference):
        return None, "Paste the model's config.json, or choose a known one." if wanted.gpu else ""
    try:
        return sized(hardware, wanted), ""
    except UsageError as error:
        return None, str(error)


def sized(hardware: Hardware, wanted: AskedSize) -> SizeView:
    """Compute what was asked for. Raises ``UsageError``."""
    known = hardware.references.get(wanted.reference)
    if wanted.reference and known is None:
        raise UsageError(f"there is no model {wanted.reference!r} here; there are {', '.join(hardware.references)}")
    config = parsed(wanted.config, "config.json") if wanted.config or known is None else known.config
    shape = shape_of(config)
    if wanted.weight_bytes is not None:
        shape = with_weights(shape, wanted.weight_bytes, "weight_bytes")
    made = size(
        Wish(
            shape,
            find_gpu(hardware, wanted.gpu or (known.gpu if known is not None else "")),
            gpus=wanted.gpus,
            release=wanted.vllm,
            model="" if wanted.config or known is None else known.model,
            users=wanted.users,
            context=wanted.context,
            utilization=wanted.utilization,
            kv_type=wanted.kv_cache_dtype,
        ),
        hardware.gpus,
    )
    return size_view(made)


def size_view(made: Sizing) -> SizeView:
    """Say a sizing in words."""
    sequences = made.value("sequences")
    starts = sequences > 0
    users = f"{sequences:,.0f} users with {made.load.held:,.0f} tokens each at once"
    return SizeView(
        verdict=f"It fits: {users}" if made.fits else "It does not fit",
        fits=made.fits,
        problems=made.problems,
        remedies=made.remedies,
        line=str(made.line) if starts else "",
        figures=tuple((one.title, figure_value(one), figure_source(one)) for one in made.figures),
        notes=made.notes,
    )
