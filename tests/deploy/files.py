"""Reading what deploy/ and docs/ ship."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from tests.engines import ROOT

COMPOSE = ROOT / "compose.yaml"
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
"""Every page of documentation."""


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the YAML documents of a file."""
    return [made for made in yaml.safe_load_all(path.read_text(encoding="utf-8")) if made is not None]


def document(path: Path) -> dict[str, Any]:
    """Return the one YAML document of a file."""
    (made,) = documents(path)
    return made


def compose_services() -> Mapping[str, dict[str, Any]]:
    """Return the services of compose.yaml by name."""
    return cast("Mapping[str, dict[str, Any]]", document(COMPOSE)["services"])


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """Yield the fenced blocks of a page in a language, each with the line that it begins at."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, found.start()) + 1, found[1]
