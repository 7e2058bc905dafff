"""Every check has cases in ``cases/<check>.yaml``: rules for which it speaks up, and rules for which it does not.

A case is a rule that is filled up to a good alert, or a whole ``file``. ``at`` is the text of the expression where the
finding stands, ``line`` its line; ``says`` and ``mend`` are parts of its texts. ``live`` is what a Prometheus has.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.engines import ROOT
from tests.linting.linted import file_of, linted

from palanca.linting import Finding, LintReport, Live
from palanca.linting.parser import parse
from palanca.linting.table import IDS

CASES = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "tests" / "linting" / "cases").glob("*.yaml"))
}
_ABOUT = {"file", "vllm", "interval", "live", "at", "line", "says", "mend", "corrected", "severity"}


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(check, case, id=f"{check}-{number}")
        for check, both in CASES.items()
        for number, case in enumerate(both[kind])
    ]


def run(case: dict[str, Any]) -> LintReport:
    text = case.get("file") or file_of({key: value for key, value in case.items() if key not in _ABOUT})
    live = None
    if "live" in case:
        names = case["live"].get("names", [])
        bounds = {name: frozenset(names[name] if isinstance(names, dict) else ()) for name in names}
        dead = frozenset(case["live"].get("dead", []))
        live = Live(bounds, dead, dead)
    release = None if case.get("vllm") is None else str(case["vllm"])
    return linted(text, release, float(case.get("interval", 15.0)), live)


@pytest.mark.parametrize(("check", "case"), cases("fires"))
def test_it_speaks_up(check: str, case: dict[str, Any]) -> None:
    report = run(case)
    findings = [one for one in report.findings if one.check == check]
    assert findings, [one.check for one in report.findings]
    one = findings[0]
    assert case.get("says", "") in one.message
    assert case.get("mend", "") in one.mend
    assert case.get("severity", one.severity) == one.severity
    if "corrected" in case:
        assert case["corrected"] == one.corrected
    if one.corrected is not None and check != "prometheus-1-syntax":
        parse(one.corrected)
    stands(case, one)


def stands(case: dict[str, Any], one: Finding) -> None:
    """The finding stands in its line, and where ``at`` begins."""
    assert one.line >= 1
    assert one.column >= 1
    if "line" in case:
        assert case["line"] == one.line
    if "at" in case:
        text = file_of({key: value for key, value in case.items() if key not in _ABOUT})
        rest = text.splitlines()[one.line - 1][one.column - 1 :]
        assert rest.replace("''", "'").startswith(str(case["at"]))


@pytest.mark.parametrize(("check", "case"), cases("quiet"))
def test_it_is_quiet(check: str, case: dict[str, Any]) -> None:
    assert [] == [one.message for one in run(case).findings if one.check == check]


def test_every_check_has_cases_of_both_kinds() -> None:
    assert sorted(IDS) == sorted(CASES)
    assert all(both["fires"] and both["quiet"] for both in CASES.values())


def test_every_check_is_described() -> None:
    """docs/alerts-check.md has a section for each, in the order of the table."""
    page = (ROOT / "docs" / "alerts-check.md").read_text(encoding="utf-8")
    assert list(IDS) == [line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")]


@pytest.mark.parametrize("check", [check for check in IDS if check != "unknown-ignore"])
def test_every_check_can_be_ignored(check: str) -> None:
    """A comment for the whole file silences it."""
    for case in CASES[check]["fires"]:
        if "file" in case or case.get("vllm"):
            continue
        text = f"# palanca:ignore-file {check}\n" + file_of({k: v for k, v in case.items() if k not in _ABOUT})
        assert check not in [one.check for one in linted(text).findings]
