"""Episodes as JSON lines, and the summary of a backtest."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.engines import END, advice, finding, reports, rule, target
from tests.engines import readings as made_readings

from palanca.episodes import Episode, RuleSummary
from palanca.render.backtest import document, line, render, summary_document

FOUND = finding(reports(made_readings({"kv_cache_usage": 0.9, "running_max": 12.0}), rule(levers=[advice()]))[0])
OPEN = Episode(
    "a-rule", target(), "firing", END - 60, False, FOUND, FOUND, "critical", END, None,
    peak=(replace(FOUND.evidence[0], value=float("inf")),), worsened=((END + 30, "critical"),),
)  # fmt: skip


def test_a_line() -> None:
    """One episode is one line of strict JSON with its times, peak and the recommendation of its time."""
    text = line(OPEN, END + 90)
    assert "\n" not in text
    made = json.loads(text)
    assert ("palanca.episode/v1", "a-rule", "critical") == (made["schema"], made["rule"], made["severity"])
    assert ("2027-01-15T07:59:00Z", "2027-01-15T08:00:00Z", "still", 90) == (
        made["since"], made["began"], made["ended"], made["lasted_s"]
    )  # fmt: skip
    assert [{"time": "2027-01-15T08:00:30Z", "severity": "critical"}] == made["worsened"]
    assert [("kv_cache_usage", None, ">", 0.5)] == [
        (one["signal"], one["value"], one["op"], one["threshold"]) for one in made["peak"]
    ]
    assert ("max_num_seqs", "raise", 12, "--max-num-seqs 12") == tuple(
        made["recommendation"][key] for key in ("lever", "direction", "proposed", "argument")
    )
    assert "m" == made["target"]["model_name"]


@pytest.mark.parametrize(("value", "written"), [("fp8", "fp8"), (True, True), (None, None), (float("inf"), None)])
def test_settings(value: object, written: object) -> None:
    """Words, switches and numbers are written as they are; what is no number is null."""
    changed = replace(FOUND.recommendations[0], proposed=value)  # type: ignore[arg-type]
    episode = replace(OPEN, first=replace(FOUND, recommendations=(changed,)))
    assert written == document(episode, END)["recommendation"]["proposed"]


def test_an_episode_that_is_over() -> None:
    """It has an end, and nothing to do where nothing was recommended."""
    made = document(replace(OPEN, ended=END + 15, first=replace(FOUND, recommendations=()), began=None), END + 90)
    assert ("2027-01-15T08:00:15Z", None, None, 0) == (
        made["ended"], made["recommendation"], made["began"], made["lasted_s"]
    )  # fmt: skip


def summary(rule_id: str, **changes: object) -> RuleSummary:
    plain: dict[str, object] = {
        "rule": rule_id, "severity": "warning", "episodes": 0, "firing_s": 0.0, "longest_s": 0.0, "looks": 100,
        "firing": 0, "pending": 0, "unknown": 0, "not_applicable": 0,
    }  # fmt: skip
    return RuleSummary(**(plain | changes))  # type: ignore[arg-type]


def test_the_summary_puts_the_loudest_first() -> None:
    """Rules that fired by severity and time, then what could not be judged."""
    made = [
        summary("quiet-rule"),
        summary("some-rule", episodes=1, firing_s=300.0, longest_s=300.0),
        summary("loud-rule", severity="critical", episodes=2, firing_s=60.0, longest_s=45.0),
        summary("short-rule", pending=3),
        summary("dark-rule", unknown=50),
        summary("dim-rule", unknown=50, not_applicable=50, looks=10_000),
    ]
    text = render(made, END, END + 3600, 15.0, width=100)
    assert [
        "Backtest 2027-01-15 08:00:00 UTC to 2027-01-15 09:00:00 UTC, judged every 15 s",
        "",
        "Rules that would have fired",
        "  loud-rule                     critical  2 episodes, 1 min in all, the longest 45 s",
        "  some-rule                     warning   1 episode, 5 min in all",
        "",
        "Held, but not for long enough to fire",
        "  short-rule",
        "",
        "Could not be judged (share of the time)",
        "  dark-rule                     50 %",
        "  dim-rule                      under 1 %",
        "",
        "4 rules of 6 never fired.",
    ] == [row.replace(", 1 h,", ",") for row in text.splitlines()]


def test_a_quiet_range() -> None:
    """Nothing fired is said as such, and a long list is cut."""
    text = render([summary(f"rule-{n}", unknown=1) for n in range(14)], END, END, 15.0, width=100)
    assert "No rule would have fired." in text
    assert "and 2 rules more for less of the time" in text


def test_the_summary_as_data() -> None:
    """One entry a rule, in order, and strict JSON."""
    made = summary_document([summary("b"), summary("a", unknown=25)], END, END + 60, 15.0)
    json.dumps(made, allow_nan=False)
    assert ["b", "a"] == [one["rule"] for one in made["rules"]]
    assert (0.25, 15, "2027-01-15T08:01:00Z") == (made["rules"][1]["unknown_share"], made["step_s"], made["to"])
