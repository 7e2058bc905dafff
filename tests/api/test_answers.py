"""Which representation, which encoding, and whether a body is needed at all."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response

from palanca.api.answers import accepted, answer
from palanca.daemon.snapshot import packed

BODY = packed(b'{"a": 1}' * 500)
TINY = packed(b"{}")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "application/json"),
        (" ", "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/*", "application/json"),
        ("text/*", "text/markdown"),
        ("text/plain", "text/plain"),
        ("TEXT/Plain", "text/plain"),
        ("text/plain; charset=utf-8", "text/plain"),
        ("text/markdown, text/plain", "text/markdown"),
        ("text/markdown;q=0.5, text/plain", "text/plain"),
        ("text/markdown;q=0.5, text/plain;q=0.6, application/json;q=0.7", "application/json"),
        ("*/*;q=0.1, text/plain;q=0.2", "text/plain"),
        ("application/json;q=0, */*", "text/markdown"),
        ("text/*;q=0.9, text/plain;q=0.1, application/json;q=0.5", "text/markdown"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"),
        ("text/plain;q=1.0;level=1", "text/plain"),
        ("text/plain;q=7", "text/plain"),
        ("image/png", None),
        ("text/plain;q=0", None),
        ("text/plain;q=nan", None),
        ("text/plain;q=much", None),
        (",,;;,=;q", None),
        ("text/plain," * 10_000, "text/plain"),
    ],
)
def test_representation(accept: str, kind: str | None) -> None:
    """The best quality wins, the most specific range says it, JSON wins among equals."""
    assert kind == accepted(accept)


def sent(headers: Mapping[str, str], body: object = BODY) -> Response:
    return answer(BODY if body is BODY else TINY, "application/json", Headers(headers))


@pytest.mark.parametrize(
    ("encodings", "zipped"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("x-gzip", True),
        ("*", True),
        ("gzip;q=0, *", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0.001", True),
        ("identity", False),
        ("*;q=0", False),
        ("", False),
        ("gzip;q=x", False),
    ],
)
def test_compression(encodings: str, zipped: bool) -> None:
    """Packed where the client says that it can unpack, and the same bytes either way."""
    response = sent({"accept-encoding": encodings})
    assert zipped == (response.headers.get("content-encoding") == "gzip")
    body = bytes(response.body)
    assert BODY.body == (gzip.decompress(body) if zipped else body)
    assert str(len(body)) == response.headers["content-length"]


def test_small_bodies_are_not_packed() -> None:
    """They would grow."""
    response = sent({"accept-encoding": "gzip"}, TINY)
    assert (b"{}", None) == (response.body, response.headers.get("content-encoding"))


@pytest.mark.parametrize("form", ["{}", "  {} ", '"other", {}', "{},", "*", "strong"])
def test_a_known_entity_is_not_sent_again(form: str) -> None:
    """304 with the headers that the body would have had, whether the tag is given as weak or strong."""
    tag = BODY.etag.removeprefix("W/") if form == "strong" else form.format(BODY.etag)
    response = sent({"if-none-match": tag, "accept-encoding": "gzip"})
    assert (304, b"") == (response.status_code, response.body)
    assert BODY.etag == response.headers["etag"]
    assert "Accept, Accept-Encoding" == response.headers["vary"]
    assert "content-encoding" not in response.headers


@pytest.mark.parametrize("tags", ["", '"other"', 'W/"other"', BODY.etag[:-2], "W/"])
def test_another_entity_is_sent(tags: str) -> None:
    """Only a tag that is equal as a whole counts."""
    assert 200 == sent({"if-none-match": tags}).status_code


def test_media_types() -> None:
    """Text names its character set, JSON needs none."""
    kinds = ("application/json", "text/markdown", "text/plain")
    assert ["application/json", "text/markdown; charset=utf-8", "text/plain; charset=utf-8"] == [
        answer(TINY, kind, Headers({})).headers["content-type"] for kind in kinds
    ]
