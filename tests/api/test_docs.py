"""The page of the API is served from here, as a whole."""

from __future__ import annotations

import gzip
import re

import pytest
from tests.api.apps import fleet, world
from tests.api.test_diagnose import fault

MINE = world(fleet())


def test_the_page_refers_to_no_other_host() -> None:
    """Everything that it loads is relative and there, and the policy allows nothing else."""
    page = MINE.get("/docs")
    assert "text/html; charset=utf-8" == page["Content-Type"]
    found = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert {"docs/swagger-ui.css", "docs/swagger-ui-bundle.js", "docs/start.js", "data:,"} == set(found)
    for path in found:
        assert path == "data:," or 200 == MINE.get("/" + path).status
    assert "//" not in page.text.replace("<!doctype html>", "")
    assert "<script>" not in page.text  # the policy would not run it
    assert "default-src 'none'" in page["Content-Security-Policy"]


def test_the_page_starts_with_our_document() -> None:
    """And sends it nowhere to be checked."""
    start = MINE.get("/docs/start.js")
    assert 'url: "openapi.json"' in start.text
    assert "validatorUrl: null" in start.text
    assert "http" not in start.text
    assert "text/javascript; charset=utf-8" == start["Content-Type"]


@pytest.mark.parametrize(
    ("name", "kind"), [("swagger-ui-bundle.js", "text/javascript"), ("swagger-ui.css", "text/css")]
)
def test_files(name: str, kind: str) -> None:
    """Packed, kept by browsers for a day."""
    plain, zipped = MINE.get(f"/docs/{name}"), MINE.get(f"/docs/{name}", accept_encoding="gzip")
    assert f"{kind}; charset=utf-8" == plain["Content-Type"]
    assert plain.body == gzip.decompress(zipped.body)
    assert "private, max-age=86400" == plain["Cache-Control"]
    assert 304 == MINE.get(f"/docs/{name}", if_none_match=plain["ETag"]).status
    assert 200 == MINE.get(f"/docs/{name}", range="bytes=1-0,x").status


@pytest.mark.parametrize("name", ["redoc.standalone.js", "__init__.py", "..", "swagger-ui.css.map", "%2e%2e"])
def test_no_other_file(name: str) -> None:
    """Only those that the page needs."""
    assert "no such file" == fault(MINE.get(f"/docs/{name}"), 404)
