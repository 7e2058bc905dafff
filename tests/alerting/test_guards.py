"""What no exported test can show: what the guards know after Prometheus itself was away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.alerting import replays
from tests.engines import shipped

from palanca.alerting import guards, names
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Matcher, Options
from palanca.alerting.rules import RecordingRule

if TYPE_CHECKING:
    from pathlib import Path

AWAY = 20
"""Minutes for which nothing was recorded, after the first 30."""
BACK = 30 + AWAY
SERVER = '{instance="a:8000", job="pods", model_name="%s"}'


def remembered(tmp_path: Path, up: int, alive: str, *seen: str, minute: int = BACK + 2) -> str:
    """Let promtool ask for what is remembered, by default two minutes after the gap; what it found."""
    rule = next(
        one
        for one in guards.group(Matrix(shipped(), Options())).rules
        if isinstance(one, RecordingRule) and one.record == names.SERVER
    )
    inputs = [
        {"series": 'up{instance="a:8000", job="pods"}', "values": f"1x30 _x5 {up}x60"},
        {"series": names.GUARDED, "values": alive},
        *(
            {"series": names.SERVER + series, "values": values}
            for series, values in zip(seen[::2], seen[1::2], strict=True)
        ),
    ]
    check = {"expr": rule.expr, "eval_time": f"{minute}m", "exp_samples": []}
    return replays.promtool(tmp_path, "groups: []\n", 60, inputs, [check])


GAP = f"1x30 _x{AWAY} 1x20"
RECORDED = "0+60x30"


def test_a_server_that_is_down_after_the_gap_is_still_known(tmp_path: Path) -> None:
    assert 'model_name="m"' in remembered(tmp_path, 0, GAP, SERVER % "m", RECORDED)


def test_a_server_that_answers_after_the_gap_is_what_it_shows(tmp_path: Path) -> None:
    """Its address may be that of something else now."""
    assert remembered(tmp_path, 1, GAP, SERVER % "m", RECORDED) == ""


def test_without_a_gap_the_memory_ends_with_the_target(tmp_path: Path) -> None:
    assert remembered(tmp_path, 0, "1x90", SERVER % "m", RECORDED) == ""


def test_a_gap_that_a_query_does_not_look_back_over(tmp_path: Path) -> None:
    """Six minutes, just after the start and until every target was scraped."""
    short = "1x30 _x6 1x40"
    for minute in (38, 44):
        assert 'model_name="m"' in remembered(tmp_path, 0, short, SERVER % "m", RECORDED, minute=minute)
    assert remembered(tmp_path, 0, short, SERVER % "m", RECORDED, minute=60) == ""


def test_the_newest_model_alone_is_known(tmp_path: Path) -> None:
    found = remembered(tmp_path, 0, GAP, SERVER % "old", "0+60x20", SERVER % "new", "_x21 1260+60x9")
    assert 'model_name="new"' in found
    assert 'model_name="old"' not in found


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ((Matcher("job", "=", "vllm"),), True),
        ((Matcher("job", "=~", "vllm.*"), Matcher("namespace", "!=", "test")), True),
        ((Matcher("job", "!=", "node"),), False),
        ((Matcher("job", "=~", ".+"),), False),
        ((Matcher("job", "=", "vllm"), Matcher("model_name", "=", "m")), False),
        ((), False),
    ],
)
def test_selectors_that_tell_which_jobs_are_meant(selector: tuple[Matcher, ...], told: bool) -> None:
    assert told == guards.tells_jobs(selector)
    never_up = next(
        one for one in guards.group(Matrix(shipped(), Options(selector=selector))).alerts
        if one.alert.endswith("TargetNeverUp")
    )  # fmt: skip
    assert told == (names.JOB not in never_up.expr)
