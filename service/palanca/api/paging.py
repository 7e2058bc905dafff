"""Headers of an answer that is one page of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

if TYPE_CHECKING:
    from starlette.requests import Request

    from palanca.api.selection import Where

HEADERS: dict[str, Any] = {
    "X-Total-Count": {"description": "How many fit, on all pages.", "schema": {"type": "integer"}, "example": 3},
    "Link": {
        "description": "The next page (RFC 8288), relative to this one; absent on the last.",
        "schema": {"type": "string"},
        "example": '<?limit=50&offset=50>; rel="next"',
    },
}


def paged(request: Request, where: Where, total: int) -> dict[str, str]:
    """Count what fits, and link to the next page.

    The link is a query alone: behind a proxy the service knows neither its address nor the path that leads to it.
    """
    said = {"X-Total-Count": str(total)}
    if where.limit is not None and where.offset + where.limit < total:
        asked = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = [pair for pair in asked if pair[0] != "offset"]
        said["Link"] = f'<?{urlencode([*query, ("offset", where.offset + where.limit)])}>; rel="next"'
    return said
