"""The findings of ``palanca alerts check`` for people, for GitHub and as data."""

from __future__ import annotations

import json
from pathlib import Path

from palanca.errors import Fault
from palanca.linting import Finding, LintReport
from palanca.linting.report import Corrected
from palanca.render import lint

DEAD = Finding(
    "removed-name", "error", "a.yml", 4, 15, "file", "g", "Full", "alert",
    "vllm:gpu_cache_usage_perc was removed in 0.12.0", "use vllm:kv_cache_usage_perc", "vllm:kv_cache_usage_perc > 0.9",
)  # fmt: skip
LOADED = Finding(
    "no-for", "warning", "/etc/b.yml", 1, 1, "expression", "h", "Q\x1b[31m", "alert", "no for", "add\nfor", None
)
REPORT = LintReport(
    "0.33.0", "0.33.0", 15.0, ("a.yml", "/etc/b.yml"), 3, 2, (DEAD, LOADED),
    (Corrected("a.yml", "g", "Full", "vllm:kv_cache_usage_perc\n> 0.9"),),
)  # fmt: skip


def test_text() -> None:
    """A line a finding that editors can follow, what to do, the mended expressions, and a sum."""
    assert lint.text(REPORT, color=False) == (
        """\
a.yml:4:15: error: Full: vllm:gpu_cache_usage_perc was removed in 0.12.0 [removed-name]
    -> use vllm:kv_cache_usage_perc
/etc/b.yml: h/Q\\x1b[31m: expression 1:1: warning: Q\\x1b[31m: no for [no-for]
    -> add\\nfor

Expressions with their errors mended, as far as that can be computed:
  Full (a.yml)
      vllm:kv_cache_usage_perc
      > 0.9

3 rules, 2 about vLLM, checked for 0.33.0: 1 error, 1 warning"""
    )


def test_text_in_colour() -> None:
    assert "a.yml:4:15: \x1b[1;31merror\x1b[0m: Full" in lint.text(REPORT, color=True)


def test_nothing_found() -> None:
    none = LintReport("0.4.0", "0.33.0", 15.0, ("a.yml",), 1, 1, (), ())
    assert "1 rule, 1 about vLLM, checked for 0.4.0 to 0.33.0: nothing found" == lint.text(none, color=False)
    other = LintReport("0.33.0", "0.33.0", 15.0, ("a.yml",), 4, 0, (), ())
    assert "4 rules, none about vLLM: nothing found" == lint.text(other, color=False)


def test_files_that_could_not_be_read() -> None:
    """They are counted, so that nobody takes the rest for all."""
    none = LintReport("0.33.0", "0.33.0", 15.0, ("a.yml",), 1, 1, (), ())
    faults = [
        Fault(Path("b.yml"), 3, 1, "not YAML", "mend it"),
        Fault(Path("b.yml"), 4, 1, "x"),
        Fault(Path("c"), 0, 0, "y"),
    ]
    assert lint.text(none, faults, color=False).endswith(": nothing found; 2 files could not be read")
    assert [
        "::error file=b.yml,line=3,title=unreadable::not YAML (mend it)",
        "::error file=b.yml,line=4,title=unreadable::x",
        "::error file=c,line=1,title=unreadable::y",
    ] == lint.github(none, faults).splitlines()


def test_github() -> None:
    """Line feeds and the signs of the syntax are escaped, so that no text can write a command of its own."""
    place = "file=a.yml,line=4,col=15"
    assert lint.github(REPORT).splitlines() == [
        f"::error {place},title=removed-name::Full: {DEAD.message} -> {DEAD.mend}",
        "::warning file=/etc/b.yml,title=no-for::Q\x1b[31m: no for -> add%0Afor",
    ]


def test_json() -> None:
    fault = Fault(Path("c.yml"), 3, 1, "not YAML", "quote it")
    document = json.loads(lint.to_json(REPORT, [fault]))
    assert ("palanca.lint/v1", {"error": 1, "warning": 1, "info": 0}) == (document["schema"], document["counts"])
    assert {"file": "c.yml", "line": 3, "column": 1, "message": "not YAML", "hint": "quote it"} == document[
        "unreadable"
    ][0]
    assert ["file", "expression"] == [one["where"] for one in document["findings"]]
