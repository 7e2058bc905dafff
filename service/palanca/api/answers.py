"""Answers as bytes: representation, compression and entity tag as the request wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import Headers

    from palanca.daemon.snapshot import Packed

Kind = Literal["application/json", "text/markdown", "text/plain"]
KINDS: tuple[Kind, ...] = ("application/json", "text/markdown", "text/plain")
_LONGEST_ACCEPT = 1000


def accepted(accept: str) -> Kind | None:
    """Choose a representation by the header ``Accept``; JSON where several are as good; None where none fits."""
    if not accept.strip() or accept == "*/*":
        return "application/json"
    best: tuple[float, int] | None = None
    chosen: Kind | None = None
    for number, kind in enumerate(KINDS):
        quality = _quality(accept[:_LONGEST_ACCEPT], kind)
        if quality > 0 and (best is None or (quality, -number) > best):
            best, chosen = (quality, -number), kind
    return chosen


def _quality(accept: str, kind: str) -> float:
    """Quality of a media type by its most specific range (RFC 9110, 12.5.1)."""
    group = kind.partition("/")[0]
    found: tuple[int, float] = (-1, 0.0)
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        rank = {kind: 2, f"{group}/*": 1, "*/*": 0}.get(name)
        if rank is not None and rank > found[0]:
            found = (rank, _q(parameters))
    return found[1]


def _q(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


ETAG: dict[str, Any] = {
    "ETag": {
        "description": "Changes with the content.",
        "schema": {"type": "string"},
        "example": 'W/"7146e4bcde88ce09d18d"',
    }
}
UNCHANGED: dict[int | str, dict[str, Any]] = {
    304: {"description": "Nothing has changed since the answer with that entity tag.", "headers": ETAG}
}


def answer(packed: Packed, kind: str, headers: Headers, more: Mapping[str, str] | None = None) -> Response:
    """Send a body, or 304 where the client has it; packed where the client can unpack it."""
    said = {"ETag": packed.etag, "Cache-Control": "no-cache", "Vary": "Accept, Accept-Encoding", **(more or {})}
    if _known(headers.get("if-none-match", ""), packed.etag):
        return Response(status_code=304, headers=said)
    media = kind if kind == "application/json" else f"{kind}; charset=utf-8"
    if packed.gzip is not None and _unpacks(headers.get("accept-encoding", "")):
        return Response(packed.gzip, headers={**said, "Content-Encoding": "gzip"}, media_type=media)
    return Response(packed.body, headers=said, media_type=media)


def _known(tags: str, etag: str) -> bool:
    """Whether ``If-None-Match`` names the tag; a weak one does too (RFC 9110, 13.1.2)."""
    opaque = etag.removeprefix("W/")
    return bool(tags) and (tags.strip() == "*" or opaque in {tag.strip().removeprefix("W/") for tag in tags.split(",")})


def _unpacks(accept_encoding: str) -> bool:
    """Whether gzip is welcome (RFC 9110, 12.5.3)."""
    found: dict[str, float] = {}
    for part in accept_encoding.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        found[name] = _q(parameters)
    return found.get("gzip", found.get("x-gzip", found.get("*", 0.0))) > 0
