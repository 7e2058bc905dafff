"""The runbooks of the rules, ``docs/rules/<id>.md``: form, names and PromQL."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.servers import tool

from palanca.check import check_runbooks, load_catalogue
from palanca.model import Rule
from palanca.releases import Release
from palanca.resources import shipped

RUNBOOKS = shipped("docs/rules")
CATALOGUE = load_catalogue([shipped("rules")])
PAGES = sorted(RUNBOOKS.glob("*.md"))
NEWEST = Release(CATALOGUE.metrics.releases[-1])
LIVE_PREFIX = "vllm:"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMQL = re.compile(r"vllm:|rate\(|_over_time\(|histogram_quantile\(")
_RULE_ID = re.compile(r"`([a-z]+(?:-[a-z]+)+)`")
_NOT_NAMES = (
    re.compile(r'"[^"]*"'),
    re.compile(r"\{[^}]*\}|\[[^\]]*\]"),
    re.compile(r"\boffset\s+\w+"),
    re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"),
    re.compile(r"\b[a-z_]+\s*(?=\()"),  # functions and aggregations
    re.compile(r"\b(?:and|or|unless|bool|offset)\b"),
)
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")
_PARTS = {"histogram": ("_bucket", "_sum", "_count")}


def title_of(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0]


def blocks_of(path: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    return _FENCE.findall(path.read_text(encoding="utf-8"))


def expressions_of(path: Path) -> list[str]:
    """PromQL expressions of a page, one a line; a line that begins with a space goes on with the one before."""
    return [
        expression
        for language, text in blocks_of(path)
        if language == "promql"
        for expression in re.sub(r"\n +", " ", text).splitlines()
    ]


def names_of(expression: str) -> set[str]:
    """Names of metrics in an expression."""
    for pattern in _NOT_NAMES:
        expression = pattern.sub(" ", expression)
    return set(_NAME.findall(expression))


def known_names() -> set[str]:
    """Names of metrics that the newest release exposes, as they are queried."""
    return {
        (LIVE_PREFIX if family.prefixed else "") + name.name + part
        for family in CATALOGUE.metrics.families.values()
        for name in family.names
        if name.v1 is not None and NEWEST in name.v1
        for part in _PARTS.get(family.type, ("",))
    }


def test_every_rule_has_a_runbook_with_the_four_headings() -> None:
    """The check that ``palanca rules check`` makes finds nothing."""
    assert [] == [str(fault) for fault in check_runbooks(CATALOGUE, RUNBOOKS)]


@pytest.mark.parametrize("rule", CATALOGUE.rules, ids=lambda rule: rule.id)
def test_a_runbook_begins_with_the_title_of_its_rule(rule: Rule) -> None:
    """The first line is the title, so a reader knows that the link was right."""
    assert f"# {rule.title}" == title_of(RUNBOOKS / f"{rule.id}.md")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_runbook_belongs_to_a_rule(path: Path) -> None:
    """No page outlives its rule."""
    assert path.stem in {rule.id for rule in CATALOGUE.rules}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_rules_named_in_a_runbook_exist(path: Path) -> None:
    """Words in backticks with hyphens and without dashes in front are ids of rules."""
    named = set(_RULE_ID.findall(path.read_text(encoding="utf-8")))
    assert set() == named - {rule.id for rule in CATALOGUE.rules}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_runbook_shows_promql(path: Path) -> None:
    """Each page has something to paste, and blocks with PromQL say so."""
    assert expressions_of(path)
    assert [] == [text for language, text in blocks_of(path) if _PROMQL.search(text) and language != "promql"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_promql_of_runbooks_uses_names_of_today(path: Path) -> None:
    """Every metric in a block of PromQL is one that the newest release exposes."""
    used = {name for expression in expressions_of(path) for name in names_of(expression)}
    assert set() == used - known_names()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_promql_of_runbooks_never_averages_engines_away(path: Path) -> None:
    """An average over replicas hides the one that is in trouble; a sum may drop named labels only."""
    for expression in expressions_of(path):
        assert re.search(r"\b(?:avg|stddev|quantile)\s*(?:\(|by|without)", expression) is None, expression
        assert re.search(r"\b(?:sum|min|max|count|topk)\s*(?:\(|by)", expression) is None, expression


def test_promql_of_runbooks_is_valid(tmp_path: Path) -> None:
    """Promtool accepts every expression."""
    rules = [
        {"record": f"runbook:{path.stem.replace('-', '_')}:{index}", "expr": expression}
        for path in PAGES
        for index, expression in enumerate(expressions_of(path))
    ]
    file = tmp_path / "runbooks.yaml"
    file.write_text(json.dumps({"groups": [{"name": "runbooks", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run([tool("promtool"), "check", "rules", file], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
