"""The cases of the shipped rules: each is a test, and no rule goes without.

``tests/rules/<area>/<id>.yaml`` holds the cases of a rule; ``palanca rules test`` runs the same.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from palanca import expressions
from palanca.cases import Case, CaseFile, Outcome, lacking_kinds, readings_of, run_cases
from palanca.check import load_catalogue
from palanca.engine import evaluate
from palanca.loader import build, read
from palanca.model import Catalogue, Rule, Truth
from palanca.resources import shipped

HERE = Path(__file__).resolve().parent
CATALOGUE = load_catalogue([shipped("rules")])
FILES = sorted(HERE.rglob("*.yaml"))

NEVER_ALONE = {
    # At a draft cost of 0.25 every acceptance from 0.25 on is no loss, so the article's alert never decides.
    ("speculation-ineffective", "acceptance_rate < low"),
    # An engine alone is never more than the mean, or less than the most, of its model.
    ("replica-configuration", "fleet_count(kv_tokens) > several"),
    ("replica-imbalance", "fleet_count(load) > several"),
}
"""Parts of conditions that consistent numbers cannot make false alone."""


@cache
def case_file(path: Path) -> CaseFile:
    return build(CaseFile, read(path))


def path_of(rule: Rule) -> Path:
    return HERE / rule.area / f"{rule.id}.yaml"


def only(rule: Rule) -> Catalogue:
    """The catalogue with one rule, as the runner of cases uses it."""
    return Catalogue(CATALOGUE.metrics, CATALOGUE.signals, CATALOGUE.facts, CATALOGUE.levers, (rule,))


def parts_of(rule: Rule) -> tuple[expressions.Node, ...]:
    """What a condition joins by ``and``, or the condition itself."""
    node = expressions.parse(rule.when)
    return node.parts if isinstance(node, expressions.Logic) and node.op == "and" else (node,)


def truths(rule: Rule, case: Case) -> list[Truth]:
    """Truth of each part of the condition at the last step of a case."""
    (verdict,) = evaluate((rule,), readings_of(only(rule), case))
    tables = [np.atleast_2d(expressions.holds(part, verdict.environment)) for part in parts_of(rule)]
    return [Truth(int(table[0, -1])) for table in tables]


def case_id(outcome: Outcome) -> str:
    return f"{outcome.rule}:{outcome.case}"


@pytest.mark.parametrize("outcome", list(run_cases(CATALOGUE, FILES)), ids=case_id)
def test_a_rule_says_what_its_case_expects(outcome: Outcome) -> None:
    """A case of a shipped rule passes."""
    assert outcome.fault is None, str(outcome.fault)


@pytest.mark.parametrize("rule", CATALOGUE.rules, ids=lambda rule: rule.id)
def test_every_rule_has_cases_of_every_kind(rule: Rule) -> None:
    """A rule fires in one of its cases, is quiet in another, and lacks data in a third."""
    assert path_of(rule).is_file()
    assert rule.id == case_file(path_of(rule)).rule
    assert [] == lacking_kinds(case_file(path_of(rule)))


@pytest.mark.parametrize("rule", CATALOGUE.rules, ids=lambda rule: rule.id)
def test_every_part_of_a_condition_decides_a_case(rule: Rule) -> None:
    """Each part of a condition has a quiet case in which it alone is false, so none can be dropped unnoticed."""
    decided = set()
    for case in case_file(path_of(rule)).cases:
        found = truths(rule, case)
        if found.count(Truth.TRUE) == len(found) - 1 and Truth.FALSE in found:
            decided.add(found.index(Truth.FALSE))
    missing = {expressions.text(part) for index, part in enumerate(parts_of(rule)) if index not in decided}
    assert {text for rule_id, text in NEVER_ALONE if rule_id == rule.id} == missing


@pytest.mark.parametrize("rule", [rule for rule in CATALOGUE.rules if rule.levers], ids=lambda rule: rule.id)
def test_every_lever_of_a_rule_is_expected_in_a_case(rule: Rule) -> None:
    """No advice of a rule is out of reach of its cases."""
    expected = {
        wanted.partition(":")[0]
        for case in case_file(path_of(rule)).cases
        for wanted in case.expect.recommendations or ()
    }
    assert {advice.lever for advice in rule.levers} == expected


@pytest.mark.parametrize("rule", [rule for rule in CATALOGUE.rules if rule.for_], ids=lambda rule: rule.id)
def test_every_rule_that_waits_has_a_pending_case(rule: Rule) -> None:
    """A rule with a duration is shown pending: with history enough, and where the source is too young.

    Facts have no history, so a condition over facts alone is never pending.
    """
    pending = [case for case in case_file(path_of(rule)).cases if case.expect.state == "pending"]
    measured = any(name in CATALOGUE.signals for name in expressions.names(expressions.parse(rule.when)))
    assert ({True, False} if measured else set()) == {case.covered >= rule.for_ for case in pending}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_case_file_belongs_to_a_rule(path: Path) -> None:
    """A case file is called and filed as its rule."""
    places = {rule.id: path_of(rule) for rule in CATALOGUE.rules}
    assert path == places.get(path.stem)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_names_of_cases_are_unique_in_a_file(path: Path) -> None:
    """No two cases of a rule have one name."""
    names = Counter(case.name for case in case_file(path).cases)
    assert [] == [name for name, count in names.items() if count > 1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_findings_are_expected_to_have_details(path: Path) -> None:
    """The runner compares severity, confidence and recommendations of findings only, and missing names of unknowns."""
    for case in case_file(path).cases:
        details = {
            name for name in ("severity", "confidence", "recommendations") if getattr(case.expect, name) is not None
        }
        assert not details or case.expect.state in {"firing", "pending"}, case.name
        assert case.expect.missing is None or case.expect.state == "unknown", case.name
