"""The matrix over REST."""

from __future__ import annotations

from functools import cache
from urllib.parse import quote

import pytest
from tests.api.apps import World, fleet, recorded, world
from tests.api.test_diagnose import fault
from tests.engines import ROOT, shipped

from palanca.api.rules import LONGEST_ID
from palanca.model import Diagnosis


@cache
def many() -> World:
    return world(fleet())


def test_all_rules() -> None:
    """Every rule of the catalogue, in its order."""
    rows = many().get("/api/v1/rules").json
    assert "palanca.rules/v1" == rows["schema"]
    assert [rule.id for rule in shipped().rules] == [row["id"] for row in rows["rules"]]


@pytest.mark.parametrize("diagnosis", [fleet(), recorded(), Diagnosis(0, fleet().source, ())])
def test_standing_counts_engines(diagnosis: Diagnosis) -> None:
    """As the diagnosis says of each; together they are all engines."""
    mine = world(diagnosis)
    targets = mine.get("/diagnose").json["targets"]
    for row in mine.get("/api/v1/rules").json["rules"]:
        states = [one["state"] for target in targets for one in target["findings"] if one["rule"] == row["id"]]
        unknown = sum(row["id"] in {one["rule"] for one in target["unknown"]} for target in targets)
        none = sum(row["id"] in target["not_applicable"] for target in targets)
        found = {"firing": states.count("firing"), "pending": states.count("pending"), "unknown": unknown}
        quiet = len(targets) - sum(found.values()) - none
        assert {**found, "not_applicable": none, "quiet": quiet} == row["standing"], row["id"]
        assert quiet >= 0


@pytest.mark.parametrize("rule", [rule.id for rule in shipped().rules])
def test_one_rule(rule: str) -> None:
    """As in the list, with all that it says, and its runbook."""
    rows = {row["id"]: row for row in many().get("/api/v1/rules").json["rules"]}
    whole = many().get(f"/api/v1/rules/{rule}").json
    assert rows[rule].items() <= whole.items()
    assert (ROOT / "docs" / "rules" / f"{rule}.md").read_text(encoding="utf-8") == whole["runbook"]
    spec = shipped().rule(rule)
    assert [lever.lever for lever in spec.levers] == [lever["lever"] for lever in whole["levers"]]
    assert list(spec.references) == whole["references"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("kv-cache-saturate", "kv-cache-saturated"),
        ("nothing", "no rule 'nothing'"),
        ("KV-CACHE-SATURATED", "no rule"),
        ("☃", "no rule '☃'"),
        ("\x00", "no rule '\\x00'"),
        ("a\nb", "no rule 'a\\nb'"),
        ("lone \ufffd", "no rule"),
        ("x" * LONGEST_ID, "no rule"),
    ],
)
def test_a_rule_that_is_none(rule: str, said: str) -> None:
    """The nearest one is named."""
    assert said in fault(many().get(f"/api/v1/rules/{rule}"), 404)


@pytest.mark.parametrize("path", ["../../README", "..", "a/../../x", "..%2f..%2fREADME"])
def test_no_other_file_is_read(path: str) -> None:
    """The id is looked up among the rules before a file is."""
    assert many().get(f"/api/v1/rules/{path}").status == 404


def test_an_id_that_is_too_long() -> None:
    """It is not looked for."""
    assert "rule_id: " in fault(many().get("/api/v1/rules/" + "x" * (LONGEST_ID + 1)))


@pytest.mark.parametrize("path", ["/api/v1/rules", "/api/v1/rules/ttft-high", "/api/v1/rules/" + quote("ttft-high")])
def test_parameters_that_there_are_not(path: str) -> None:
    """A filter that does not exist is told, not overlooked."""
    assert "severity: there is no such parameter" in fault(many().get(path, "severity=critical"))
