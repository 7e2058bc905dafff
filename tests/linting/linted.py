"""Short ways to lint texts in tests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml
from tests.engines import ROOT, shipped

from palanca.alerting.options import release_range
from palanca.linting import Finding, LintReport, Live, lint
from palanca.linting.names_file import load_names
from palanca.linting.vocabulary import Vocabulary
from palanca.releases import Release, ReleaseRange
from palanca.sources.rule_files import read_text

GOOD = {"for": "5m", "labels": {"severity": "warning"}, "annotations": {"summary": "it is so"}}
GUARD = {"alert": "Gone", "expr": "absent(vllm:num_requests_running)", **GOOD}


@cache
def vocabulary(vllm: str | None = None) -> Vocabulary:
    metrics = shipped().metrics
    span = None
    if vllm is not None:
        span = release_range(vllm, metrics) or ReleaseRange(Release(metrics.releases[0]))
    return Vocabulary(metrics, load_names([ROOT / "rules"]), span)


def linted(text: str, vllm: str | None = None, interval: float = 15.0, live: Live | None = None) -> LintReport:
    return lint([read_text("rules.yml", text.encode())], vocabulary(vllm), interval_s=interval, live=live)


def file_of(*rules: Mapping[str, Any]) -> str:
    """A rule file with a guard and these rules, each filled up to a good alert."""
    filled = [dict(rule) if "record" in rule else {"alert": "Case", **GOOD, **rule} for rule in rules]
    return yaml.safe_dump({"groups": [{"name": "g", "rules": [*filled, GUARD]}]}, sort_keys=False, width=1000)


def ids(findings: list[Finding] | tuple[Finding, ...]) -> list[str]:
    return [one.check for one in findings]
