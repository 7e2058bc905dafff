"""Settings files that are shipped with deploy/, and those shown in the docs, as palanca itself reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.deploy.files import DEPLOY, blocks
from tests.engines import ROOT

from palanca.settings import load_settings
from palanca.settings.binding import check_binding

FILES = sorted(DEPLOY.rglob("palanca.yaml"))
PAGES = sorted((ROOT / "docs" / "deploy").glob("*.md"))
SHOWN = {
    f"{page.name}:{line}": text
    for page in PAGES
    for line, text in blocks(page, "yaml")
    if text.startswith("# palanca.yaml")
}
CONTAINER = {"PALANCA_LISTEN__HOST": "0.0.0.0"}
"""What the image sets."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_shipped(path: Path) -> None:
    """No fault, a source, and tokens: also where the image makes it listen to others."""
    settings = load_settings(path, {} if path.parent.name == "systemd" else CONTAINER)
    check_binding(settings)
    assert len(settings.sources) == 1
    assert {token.scope for token in settings.auth.tokens} == {"read", "write"}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_shown(text: str, tmp_path: Path) -> None:
    path = tmp_path / "palanca.yaml"
    path.write_text(text)
    settings = load_settings(path, {})
    check_binding(settings)
    assert settings.sources


def test_there_are_some() -> None:
    assert len(FILES) == 3
    assert len(SHOWN) > 5


def test_variables_of_the_deployments_are_known() -> None:
    """The loader refuses a variable that it does not know."""
    settings = load_settings(None, {"PALANCA_HISTORY__DATABASE_FILE": "/run/secrets/palanca-database/url", **CONTAINER})
    assert settings.listen.host == "0.0.0.0"
    assert settings.history.database_file == Path("/run/secrets/palanca-database/url")
