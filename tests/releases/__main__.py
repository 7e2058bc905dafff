"""Writes the table of releases: ``python -m tests.releases``."""

from __future__ import annotations

from tests.engines import ROOT
from tests.generated import with_block
from tests.releases.judged import text

PAGE = ROOT / "docs" / "compatibility.md"

if __name__ == "__main__":
    PAGE.write_text(with_block(PAGE.read_text(encoding="utf-8"), "releases", text()), encoding="utf-8")
