"""Lines and colours are the numbers of the YAML files, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml
from tests.dashboards.boards import PROMETHEUS_BOARDS, Json, panels
from tests.engines import ROOT, shipped

from palanca.alerting.options import Override
from palanca.dashboards.export import Exported
from palanca.dashboards.limits import Limit, Limits, steps
from palanca.dashboards.options import Options

FACTS = yaml.safe_load((ROOT / "rules" / "facts.yaml").read_text(encoding="utf-8"))["facts"]
RULES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
         for path in (ROOT / "rules" / "matrix").rglob("*.yaml")}  # fmt: skip
SEVERITIES = {"critical": "red", "warning": "orange", "info": "yellow"}
NAMED = re.compile(r"^- (above|below) .*: (?:threshold|objective) `([\w.]+)` of `([a-z-]+)`", re.MULTILINE)


def drawn(panel: Json) -> Iterator[list[tuple[float | None, str]]]:
    """Steps of the panel, and of its overrides."""
    config = panel["fieldConfig"]
    sources = [config["defaults"].get("thresholds")]
    sources += [one["value"] for override in config["overrides"] for one in override["properties"]
                if one["id"] == "thresholds"]  # fmt: skip
    for one in filter(None, sources):
        assert one["mode"] == "absolute"
        yield [(step["value"], step["color"]) for step in one["steps"]]


def in_yaml(rule: str, name: str) -> float:
    return float(FACTS[name]["default"] if name.startswith("slo.") else RULES[rule]["thresholds"][name]["value"])


@pytest.mark.parametrize("name", PROMETHEUS_BOARDS)
def test_every_line_is_a_threshold_of_the_matrix(name: str) -> None:
    """That the description names with its rule; and each that is named is drawn, in the colour of the severity."""
    for panel in panels(name):
        named = {(rule, threshold): side for side, threshold, rule in NAMED.findall(panel["description"])}
        values = {in_yaml(*one) for one in named}
        found = {value for every in drawn(panel) for value, _ in every if value is not None}
        assert values == found, panel["title"]
        colours = {colour for every in drawn(panel) for _, colour in every}
        assert colours <= {"green"} | {SEVERITIES[RULES[rule]["severity"]] for rule, _ in named}


def test_some_are_drawn() -> None:
    """The five panels have the seed article's numbers."""
    five = {panel["title"]: [value for every in drawn(panel) for value, _ in every][1:] for panel in panels("five")}
    assert [0.5, 1.0] == five["Time to first token, p50 and p99"]
    assert [0.85] == five["KV cache in use, and preemptions"]
    assert [0.6] == five["Speculative decoding: draft tokens accepted"]


def test_what_holds_for_all_targets_replaces_them() -> None:
    """Thresholds and objectives of the settings that match some targets only have no line of their own."""
    options = Options(overrides=(
        Override(thresholds={"kv-cache-saturated": {"full": 0.7}}, slo={"ttft_p99": 3.0}),
        Override({"model_name": "a"}, thresholds={"kv-cache-saturated": {"full": 0.5}}),
    ))  # fmt: skip
    limits = Limits(shipped(), options.overrides)
    assert 0.7 == limits.line(Limit("kv-cache-saturated", "full")).value
    assert 3.0 == limits.line(Limit("ttft-high", "slo.ttft_p99")).value
    assert "above 0.7: threshold `full`" in Exported.of(shipped(), options).file("five")


def test_a_catalogue_without_the_rules() -> None:
    """Lines of rules that are not there are left out; signals are shown all the same."""
    bare = replace(shipped(), rules=())
    made = Exported.of(bare, Options()).file("five")
    assert "threshold `" not in made
    assert "time_to_first_token_seconds_bucket" in made


def severe(*limits: Limit) -> list[tuple[float | None, str]]:
    return steps(Limits(shipped()).lines(limits))


def test_steps() -> None:
    """From below; where low is bad the colour of a line reaches down to the next lower one."""
    assert [(None, "green")] == severe()
    some, many = Limit("kv-cache-preempting", "some"), Limit("kv-cache-saturated", "many")
    assert [(None, "green"), (1.0, "orange"), (30.0, "red")] == severe(many, some)
    low, broken = (
        Limit("speculation-ineffective", "low", below=True),
        Limit("prefix-cache-cold", "low_hits", below=True),
    )
    assert [(None, "orange"), (0.3, "orange"), (0.6, "green")] == severe(low, broken)
    weak = Limit("speculation-weak", "low", below=True)
    assert [(None, "orange"), (0.6, "green")] == severe(low, weak)
    with pytest.raises(ValueError, match="different bad sides"):
        severe(low, some)
    with pytest.raises(KeyError):
        Limits(shipped()).line(Limit("kv-cache-saturated", "none-such"))
