"""Addresses that pages link to select what is meant."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
from tests.api.apps import fleet, odd

from palanca.model import Target
from palanca.web.asked import AskedEngine, of_pairs
from palanca.web.links import at, engine_link, link, of_target, rule_link
from palanca.web.looks import meant


def test_relative() -> None:
    """To the first page, whichever path leads there."""
    assert "" == link("")
    assert "?q=a+b%26c" == link("", [("q", "a b&c"), ("model", "")])
    assert "rules/a%2Fb" == rule_link("a/b")
    assert "engine?match=job%3Dvllm&time=2027-01-15T08%3A00%3A00Z" == engine_link(Target.of({"job": "vllm"}), 1.8e9)
    assert [] == at(None)


@pytest.mark.parametrize("row", range(6))
def test_each_odd_engine_is_found(row: int) -> None:
    """Whatever is in its labels."""
    report = odd().targets[row]
    query = engine_link(report.target, None).partition("?")[2]
    wanted = of_pairs(AskedEngine, parse_qsl(query, keep_blank_values=True))
    assert [report] == meant(wanted, odd())


def test_all_labels_or_none_too_many() -> None:
    """What is too long for a query is left out."""
    target = Target.of({f"label_{number}": "x" * 1000 for number in range(30)} | {"z": "y" * 1025})
    pairs = of_target(target)
    assert 0 < len(pairs) < 9
    assert all(len(value) < 1025 for _, value in pairs)


def test_an_engine_whose_labels_are_among_those_of_another() -> None:
    """The one with exactly these labels is meant."""
    plain = fleet(1)
    one = plain.targets[0]
    other = replace(one, target=Target.of({**one.target.as_dict(), "engine": "1"}))
    both = replace(plain, targets=(other, one))
    wanted = of_pairs(AskedEngine, parse_qsl(engine_link(one.target, None).partition("?")[2]))
    assert [one] == meant(wanted, both)
    assert [other, one] == meant(of_pairs(AskedEngine, [("model", "qwen")]), both)
