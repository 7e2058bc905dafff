"""The JSON document and its schema."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.render.builders import (
    NOW,
    bad_report,
    diagnosis,
    idle,
    lower_slots,
    one_saturated,
    report,
    saturated,
    three_of_eight,
    unknown,
    unreachable,
)

from palanca.model import Diagnosis, Evidence, SignalValue, State, Target
from palanca.render.document import Document, document, json_schema, to_json

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "schema" / "diagnosis-v1.schema.json"


def load(made: Diagnosis) -> dict[str, Any]:
    """Read the JSON back, refusing NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    found: dict[str, Any] = json.loads(to_json(made), parse_constant=refuse)
    return found


def test_committed_schema_is_fresh() -> None:
    """The committed schema equals what the models say (to renew it: write ``json_schema()`` there)."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == json.dumps(json_schema(), indent=2) + "\n"


def test_schema_describes_every_field() -> None:
    """The schema documents itself."""
    schema = json_schema()
    parts = [schema, *schema["$defs"].values()]
    silent = [(part["title"], name) for part in parts for name, field in part["properties"].items()
              if "description" not in field]  # fmt: skip
    assert [] == silent


@pytest.mark.parametrize(
    "made",
    [one_saturated(), three_of_eight(), diagnosis(report()), diagnosis(idle()), diagnosis(unknown()), unreachable()],
    ids=["saturated", "fleet", "healthy", "idle", "unknown", "unreachable"],
)
def test_documents_are_valid(made: Diagnosis) -> None:
    """Every kind of diagnosis satisfies the committed schema and reads back as itself."""
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(load(made), schema, cls=jsonschema.Draft202012Validator)
    assert document(made) == Document.model_validate_json(to_json(made))


def test_key_order() -> None:
    """Keys stand in the order of the contract."""
    found = load(one_saturated())
    assert ["schema", "time", "source", "sources", "targets"] == list(found)
    expected = ["target", "status", "vllm", "signals", "findings", "unknown", "not_applicable", "bottleneck"]
    assert expected == list(found["targets"][0])
    expected = [
        "rule", "cause", "severity", "confidence", "role", "state", "scope", "group", "explained_by", "since",
        "since_at_least", "silenced", "title", "summary", "evidence", "recommendations",
    ]  # fmt: skip
    assert expected == list(found["targets"][0]["findings"][0])
    expected = [
        "lever", "direction", "flag", "current", "provenance", "proposed", "argument", "computed_from", "why", "effect",
        "trade_off", "verify", "risk", "applies_to",
    ]  # fmt: skip
    assert expected == list(found["targets"][0]["findings"][0]["recommendations"][0])


def test_signals_are_sorted() -> None:
    """Signals stand in alphabetical order, whatever order they were read in."""
    names = list(load(one_saturated())["targets"][0]["signals"])
    assert sorted(names) == names


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_signal_that_is_no_number(value: float | None) -> None:
    """What is no number is null, and its state never says ok."""
    signals = {"ttft_p99": SignalValue(value, "s", State.OK, math.nan)}
    found = load(diagnosis(report(signals=signals)))["targets"][0]["signals"]["ttft_p99"]
    assert {"value": None, "unit": "s", "state": "absent", "window_s": 0.0} == found


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.OK, (1.5, "ok")),
        (State.LOWER_BOUND, (1.5, "lower_bound")),
        (State.INTERPOLATED, (1.5, "interpolated")),
        (State.IDLE, (None, "idle")),
        (State.STALE, (None, "stale")),
        (State.NOT_APPLICABLE, (None, "absent")),
    ],
)
def test_signal_states(state: State, expected: tuple[float | None, str]) -> None:
    """A number goes out only with a state that has one."""
    found = load(diagnosis(report(signals={"x": SignalValue(1.5, "s", state, 300.0)})))["targets"][0]["signals"]["x"]
    assert expected == (found["value"], found["state"])


def test_evidence_that_is_no_number() -> None:
    """An infinite ratio in the evidence is null."""
    evidence = Evidence("ttft_tail", math.inf, ">", 1 / 3, "ratio", "")
    found = load(diagnosis(report(findings=(saturated(evidence=(evidence,)),))))
    row = found["targets"][0]["findings"][0]["evidence"][0]
    assert (None, 0.3333333333) == (row["value"], row["threshold"])


def test_since_that_is_no_time() -> None:
    """Where nobody knows since when, it is at least since now."""
    finding = load(diagnosis(report(findings=(saturated(since=math.nan),))))["targets"][0]["findings"][0]
    assert ("2026-03-01T14:03:30Z", True) == (finding["since"], finding["since_at_least"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(256.0, "256"), (0.92, "0.92"), (True, "true"), ("fp8", '"fp8"'), (None, "null"), (math.inf, "null")],
)
def test_settings(value: float | bool | str | None, expected: str) -> None:
    """A setting goes out as on a command line: 256, not 256.0."""
    recommendation = replace(lower_slots(), current=value)
    text = to_json(diagnosis(report(findings=(saturated(recommendations=(recommendation,)),))))
    assert f'"current": {expected},' in text


def test_verify_within_is_a_duration() -> None:
    """``within`` reads as in the rule."""
    found = load(one_saturated())["targets"][0]["findings"][0]["recommendations"][0]["verify"][0]
    assert {"signal": "preemptions_per_minute", "expect": "<= 1", "within": "10m"} == found


def test_unknown_release() -> None:
    """Without a release both keys stay, with null."""
    found = load(diagnosis(report(version=None)))["targets"][0]["vllm"]
    assert {"release_range": None, "provenance": None} == found


def test_bottleneck_has_all_keys() -> None:
    """Every resource is named, also the unknown ones."""
    found = load(diagnosis(report()))["targets"][0]["bottleneck"]
    expected = {"slots": 0.1, "kv": 0.41, "token_budget": None, "prefill": None, "decode": None, "frontend": None}
    assert expected == found


def test_fleet_finding_has_its_group() -> None:
    """A finding of a fleet rule names what it compared."""
    finding = saturated(scope="model", group={"model_name": "m", "job": "j"})
    found = load(diagnosis(report(findings=(finding,))))["targets"][0]["findings"][0]
    assert ("model", {"job": "j", "model_name": "m"}) == (found["scope"], found["group"])


def test_no_credentials() -> None:
    """The password of the source is in neither its address nor its error."""
    assert "secret" not in to_json(unreachable())


def test_time_in_milliseconds() -> None:
    """A time that is not whole has milliseconds."""
    assert "2026-03-01T14:03:30.500Z" == load(replace(one_saturated(), time=NOW + 0.5))["time"]


def test_unknown_keys_are_refused() -> None:
    """The document has no other keys."""
    with pytest.raises(ValidationError, match="facts"):
        Document.model_validate({**load(one_saturated()), "facts": {}})


@given(st.text(st.characters(codec=None)), st.text())
def test_any_label_can_be_written(value: str, title: str) -> None:
    """No label value breaks the JSON, lone surrogates included."""
    made = replace(bad_report(), target=Target.of({"model_name": value}), findings=(saturated(title=title),))
    found = load(diagnosis(made))["targets"][0]
    assert title == found["findings"][0]["title"]


def test_lone_surrogates_are_replaced() -> None:
    """A lone surrogate, which UTF-8 cannot hold, becomes the replacement character."""
    made = report(target=Target.of({"model_name": "a\ud800b"}))
    assert {"model_name": "a\ufffdb"} == load(diagnosis(made))["targets"][0]["target"]
