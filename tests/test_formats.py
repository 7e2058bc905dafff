"""docs/formats.md describes every key of the documents that have no JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines import RECORDINGS, ROOT
from tests.render.test_doctor_text import report
from tests.render.test_lint_text import REPORT as FINDINGS
from tests.test_cli import palanca

from palanca.errors import Fault
from palanca.render import doctor, lint

FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
SATURATED = str(RECORDINGS / "h200-A_kv_saturated.om.gz")
EPISODES = str(RECORDINGS / "kv-saturated.om.gz")
MENDED = str(RECORDINGS / "h200-A2_kv_fp8.om.gz")
PUBLISHED = str(ROOT / "tests" / "data" / "alerts" / "published.yaml")
BY_NAME = {"figures", "environment", "names", "levels", "target"}


def keys(value: object) -> Iterator[str]:
    """All keys of a document; those below ``BY_NAME`` are names of things, not of the format."""
    if isinstance(value, list):
        for one in value:
            yield from keys(one)
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            if key not in BY_NAME:
                yield from keys(one)
            elif isinstance(one, dict):
                yield from keys([nested for nested in one.values() if key != "target" and isinstance(nested, dict)])


@pytest.mark.parametrize(
    ("schema", "command"),
    [
        ("palanca.verification/v1", ("verify", "--before", SATURATED, "--after", MENDED, "--format", "json")),
        ("palanca.references/v1", ("size", "--references", "--format", "json")),
    ],
)
def test_every_key_is_described(schema: str, command: tuple[str, ...]) -> None:
    """Each key stands in its section of the page as code."""
    document = json.loads(palanca(*command).stdout)
    assert schema == document["schema"]
    undescribed(schema, document)


def test_lines_of_a_backtest() -> None:
    """An episode and the summary."""
    lines = [
        json.loads(line) for line in palanca("backtest", "--recording", EPISODES, "--step", "1m").stdout.splitlines()
    ]
    assert [*["palanca.episode/v1"] * (len(lines) - 1), "palanca.backtest/v1"] == [one["schema"] for one in lines]
    assert len(lines) > 1
    for one in lines:
        undescribed(one["schema"], one)


def test_doctor() -> None:
    """The report of doctor."""
    undescribed("palanca.doctor/v1", json.loads(doctor.to_json(report())))


def test_lint() -> None:
    """The findings of the check of alerts."""
    undescribed("palanca.lint/v1", json.loads(palanca("alerts", "check", PUBLISHED, "--format", "json").stdout))
    fault = Fault(Path("a.yml"), 1, 1, "not YAML", "quote it")
    undescribed("palanca.lint/v1", json.loads(lint.to_json(FINDINGS, [fault])))


def undescribed(schema: str, document: object) -> None:
    section = next(part for part in FORMATS.split("\n## ") if f"`{schema}`" in part)
    named = set(re.findall(r"`([a-z_]+)`", section)) | {"schema", "before", "after", "from", "to"}
    assert set() == set(keys(document)) - named
