"""Who looks at a page, and what they look for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from palanca.api.guard import SESSION

if TYPE_CHECKING:
    from starlette.requests import Request

    from palanca.api.guard import Rules


def kept(request: Request) -> tuple[tuple[str, str], ...]:
    """What is asked for besides the moment."""
    return tuple((name, value) for name, value in request.query_params.multi_items() if name != "time" and value)


def user(request: Request, rules: Callable[[], Rules]) -> str | None:
    """Return the name of who is signed in; None where nobody needs to be."""
    if not rules().tokens or SESSION not in request.cookies:
        return None
    caller = getattr(request.state, "caller", None)
    return None if caller is None else str(caller.name)
