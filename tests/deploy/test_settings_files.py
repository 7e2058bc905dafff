"""Settings files that are shipped, and those shown in the docs: their keys.

What a key may hold is the business of the settings loader and its tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.deploy.files import DEPLOY, blocks, document
from tests.engines import ROOT

TOP = {
    "interval", "external_url", "listen", "auth", "sources", "history", "log", "rules", "thresholds", "targets",
}  # fmt: skip
INSIDE = {
    "listen": {"host", "port", "tls"},
    "auth": {"tokens", "metrics", "disabled"},
    "history": {"enabled", "database", "retention"},
    "log": {"format", "level"},
}
ITEMS = {
    "sources": {
        "name", "prometheus", "scrape", "labels", "match", "bearer_file", "basic_file", "headers", "ca_file",
        "client_cert", "client_key", "insecure", "timeout",
    },
    "thresholds": {"match", "rules"},
    "targets": {"match", "serve_args", "gpu", "gpus", "model_config", "weight_bytes", "slo", "client"},
}  # fmt: skip
TOKEN = {"name", "scope", "token_file"}


def found() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(DEPLOY.rglob("palanca.yaml")):
        yield str(path.relative_to(ROOT)), document(path)
    for page in sorted((ROOT / "docs" / "deploy").glob("*.md")):
        for line, text in blocks(page, "yaml"):
            if text.startswith("# palanca.yaml"):
                yield f"{page.relative_to(ROOT)}:{line}", yaml.safe_load(text)


FOUND = list(found())


@pytest.mark.parametrize(("place", "settings"), FOUND, ids=[place for place, _ in FOUND])
def test_keys(place: str, settings: dict[str, Any]) -> None:
    assert set(settings) <= TOP
    for key, known in INSIDE.items():
        assert set(settings.get(key, {})) <= known, key
    for key, known in ITEMS.items():
        for item in settings.get(key, []):
            assert set(item) <= known, key
    for token in settings.get("auth", {}).get("tokens", []):
        assert set(token) == TOKEN
        assert token["scope"] in {"read", "write"}
    names = [source["name"] for source in settings.get("sources", [])]
    assert len(names) == len(set(names))


def test_there_are_some() -> None:
    assert len(FOUND) > 3
