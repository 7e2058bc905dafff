"""The routes of the pages, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter

from palanca.web import files, looks, past, sign_in, size
from palanca.web import rules as matrix

if TYPE_CHECKING:
    from palanca.api.backend import Backend
    from palanca.api.guard import Rules
    from palanca.history.disabled import NoHistory
    from palanca.history.facade import History


def routers(backend: Backend, history: History | NoHistory, rules: Callable[[], Rules]) -> Sequence[APIRouter]:
    """Make the routes. ``rules`` gives what is asked of requests, which says whether people sign in."""
    return (
        files.router(),
        looks.router(backend, history, rules),
        past.router(backend, history, rules),
        matrix.router(backend, rules),
        size.router(backend, rules),
        sign_in.router(backend, rules),
    )
