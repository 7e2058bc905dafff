"""The exported tests for promtool, written so that ``vmalert-tool unittest`` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import yaml

_ROUNDED = re.compile(r"round\((?P<series>.+), 1e-6\)")
_STATES = re.compile(r"(?P<count>count by \(alertstate, case.*?\)) \((?P<alerts>ALERTS\{.*)\}\)")
_NAME = re.compile(r"^[^{]*")
_STEPS = re.compile(r"(?<=x)\d+")
_LATER = 2
"""An alert may see signals of signals so many steps late."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
Check = dict[str, Any]


def for_vmalert(text: str) -> str:
    """Translate: what has another name, and what vmalert does otherwise.

    MetricsQL keeps names in ``round``, and its numbers differ in the seventh digit. A rule sees what the group has
    recorded at the evaluation before, not at this one: cases last as much longer, and which of them have fired is asked
    when all must have.
    """
    content = yaml.load(text, Loader=_LOADER)
    for test in content["tests"]:
        checks = test.pop("promql_expr_test", [])
        if any(_STATES.fullmatch(check["expr"]) for check in checks):
            for line in test["input_series"]:
                line["values"] = _STEPS.sub(lambda steps: str(int(steps[0]) + _LATER), line["values"], count=1)
        test["metricsql_expr_test"] = [
            one for expr, same in groupby(checks, key=lambda check: check["expr"]) for one in _translated(expr, [*same])
        ]
    made: str = yaml.dump(content, Dumper=_DUMPER, sort_keys=False, width=1e9)
    return made


def _translated(expr: str, checks: Sequence[Check]) -> Iterator[Check]:
    rounded, states = _ROUNDED.fullmatch(expr), _STATES.fullmatch(expr)
    if rounded is not None:
        for check in checks:
            (sample,) = check["exp_samples"]
            alike = f"abs({rounded['series']} - {sample['value']}) < bool 1e-5"
            yield {**check, "expr": alike, "exp_samples": [{"labels": _NAME.sub("", sample["labels"]), "value": 1}]}
    elif states is not None:
        fires = next(check for check in checks if all("firing" in one["labels"] for one in check["exp_samples"]))
        fired = f'{states["count"]} (count_over_time({states["alerts"]}, alertstate="firing"}}[1h]))'
        yield {**fires, "expr": fired, "eval_time": checks[-1]["eval_time"]}
    else:
        yield from checks
