"""Relative links of the documentation lead to files, and to headings of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.deploy.files import PAGES
from tests.engines import ROOT

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """Return a page without its code."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), link
        assert place.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(place), link


def test_every_page_about_deployment_is_listed() -> None:
    index = ROOT / "docs" / "deploy" / "README.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(prose(index)) if ":" not in link}
    assert {page for page in PAGES if page.parent == index.parent and page != index} <= listed
