"""The JSON Schema and the table of the documentation are those of the code."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml
from tests.engines import ROOT

from palanca.settings import RESTART, Settings, to_json_schema, to_markdown
from palanca.settings.schema import reference

PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
KEYS = list(reference(Settings))


def test_schema_is_committed() -> None:
    """``palanca config schema > docs/schema/settings-v1.schema.json`` after a change."""
    assert to_json_schema() == (ROOT / "docs" / "schema" / "settings-v1.schema.json").read_text(encoding="utf-8")


def test_table_is_committed() -> None:
    """``palanca config schema --format markdown`` stands in docs/settings.md."""
    assert to_markdown() in PAGE


@pytest.mark.parametrize("key", [key for key, _, _ in KEYS])
def test_every_key_is_documented(key: str) -> None:
    """It stands in the table, with a meaning."""
    meaning = next(meaning for name, _, meaning in KEYS if name == key)
    assert meaning.endswith((".", "..."))
    assert f"| `{key}` |" in PAGE


def test_what_needs_a_restart_is_documented() -> None:
    """All of it."""
    section = PAGE.partition("## Reload")[2].partition("## ")[0]
    assert [] == [one for one in RESTART if f"`{one}`" not in section]


def test_the_example_fits() -> None:
    """So does an empty file, and what is wrong does not."""
    schema = json.loads(to_json_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(yaml.safe_load((ROOT / "examples" / "palanca.yaml").read_text(encoding="utf-8")))
    validator.validate({})
    faulty: list[dict[str, object]] = [
        {"interval": "soon"},
        {"listn": {}},
        {"sources": [{}]},
        {"targets": [{"match": {}}]},
    ]
    for wrong in faulty:
        assert not validator.is_valid(wrong), wrong
