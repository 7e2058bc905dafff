"""The documents of the history, and what is written about them."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.engines import ROOT

from palanca.history.documents import EpisodesDocument, EventsDocument, OneEpisodeDocument
from palanca.history.entries import EventKind

FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def test_every_kind_of_event_is_described() -> None:
    """In its section of the page, as code."""
    section = FORMATS.partition("## `palanca.history/v1`")[2].partition("\n## ")[0]
    assert [] == [kind for kind in get_args(EventKind) if f"`{kind}`" not in section]


@pytest.mark.parametrize("model", [EpisodesDocument, EventsDocument, OneEpisodeDocument])
def test_every_key_is_described(model: type[EpisodesDocument]) -> None:
    """In the schema that the REST API publishes."""
    schema = model.model_json_schema(mode="serialization")
    parts = [schema, *schema["$defs"].values()]
    bare = [name for part in parts for name, key in part.get("properties", {}).items() if "description" not in key]
    assert [] == bare
    assert "palanca.history/v1" == schema["properties"]["schema"]["const"]
