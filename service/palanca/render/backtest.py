"""A backtest as JSON lines, one an episode (``palanca.episode/v1``), and its summary, for people and as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from palanca.model import SEVERITY_ORDER
from palanca.quantities import finite, moment, rfc3339, time_span
from palanca.render.text import Page
from palanca.render.words import Setting, encodable, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.episodes import Episode, RuleSummary
    from palanca.model import Evidence, Recommendation

SCHEMA: Literal["palanca.episode/v1"] = "palanca.episode/v1"
SUMMARY_SCHEMA: Literal["palanca.backtest/v1"] = "palanca.backtest/v1"
STILL: Literal["still"] = "still"
_RULE = 30
_NEVER_SHOWN = 12


def line(episode: Episode, now: float) -> str:
    """Write one episode as a line of JSON, without the line feed. ``now`` is the last moment that was judged."""
    return json.dumps(document(episode, now), ensure_ascii=False, allow_nan=False)


def document(episode: Episode, now: float) -> dict[str, Any]:
    """One episode as data. ``began`` is when it fired, ``since`` when the condition began to hold (or earlier)."""
    first = episode.first
    return {
        "schema": SCHEMA,
        "rule": episode.rule,
        "target": {encodable(name): encodable(value) for name, value in episode.target.labels},
        "cause": first.cause,
        "role": first.role,
        "severity": episode.worst,
        "since": rfc3339(episode.since),
        "since_at_least": episode.since_at_least,
        "began": None if episode.began is None else rfc3339(episode.began),
        "worsened": [{"time": rfc3339(time), "severity": severity} for time, severity in episode.worsened],
        "ended": STILL if episode.ended is None else rfc3339(episode.ended),
        "lasted_s": finite(episode.lasted(now)),
        "summary": encodable(first.summary),
        "peak": [_evidence(one) for one in episode.peak],
        "recommendation": _recommendation(first.recommendations[0]) if first.recommendations else None,
    }


def _evidence(one: Evidence) -> dict[str, Any]:
    threshold, value = finite(one.threshold), finite(one.value)
    return {"signal": one.signal, "value": value, "op": one.op, "threshold": threshold, "unit": one.unit}


def _recommendation(one: Recommendation) -> dict[str, Any]:
    return {
        "lever": one.lever,
        "direction": one.direction,
        "flag": one.flag,
        "current": _setting(one.current),
        "proposed": _setting(one.proposed),
        "argument": None if one.argument is None else encodable(one.argument),
    }


def _setting(value: Setting) -> Setting:
    if isinstance(value, bool):
        return value
    return encodable(value) if isinstance(value, str) else finite(value)


def summary_document(summaries: Sequence[RuleSummary], start: float, end: float, step: float) -> dict[str, Any]:
    """Return the summary as data: one entry a rule, in the order given."""
    return {
        "schema": SUMMARY_SCHEMA,
        "from": rfc3339(start),
        "to": rfc3339(end),
        "step_s": finite(step),
        "rules": [
            {
                "rule": one.rule,
                "severity": one.severity,
                "episodes": one.episodes,
                "firing_s": finite(one.firing_s),
                "longest_s": finite(one.longest_s),
                "looks": one.looks,
                "firing": one.firing,
                "pending": one.pending,
                "unknown": one.unknown,
                "not_applicable": one.not_applicable,
                "unknown_share": finite(one.unknown_share),
            }
            for one in summaries
        ],
    }


def render(
    summaries: Sequence[RuleSummary], start: float, end: float, step: float, *, width: int, color: bool = False
) -> str:
    """Write the summary for people: rules that fired, the loudest first; then those that could not be judged."""
    page = Page(width, color=color)
    page.add(
        f"{moment(start)} to {moment(end)}, {time_span(end - start)}, judged every {time_span(step)}", lead="Backtest"
    )
    fired = sorted((one for one in summaries if one.episodes), key=_rank)
    page.heading("Rules that would have fired" if fired else "No rule would have fired.")
    for one in fired:
        page.pair(one.rule, _told(one), column=_RULE)
    waiting = [one.rule for one in summaries if one.pending and not one.episodes]
    if waiting:
        page.heading("Held, but not for long enough to fire")
        page.add(", ".join(waiting), indent=2)
    dark = sorted((one for one in summaries if one.unknown), key=lambda one: (-one.unknown_share, one.rule))
    if dark:
        page.heading("Could not be judged (share of the time)")
        for one in dark[:_NEVER_SHOWN]:
            page.pair(one.rule, _share(one.unknown_share), column=_RULE)
        if len(dark) > _NEVER_SHOWN:
            page.add(f"and {plural(len(dark) - _NEVER_SHOWN, 'rule')} more for less of the time", indent=2)
    quiet = sum(not one.episodes for one in summaries)
    page.blank()
    page.add(f"{plural(quiet, 'rule')} of {len(summaries)} never fired.")
    return page.text()


def _rank(one: RuleSummary) -> tuple[int, float, str]:
    return SEVERITY_ORDER.index(one.severity), -one.firing_s, one.rule


def _told(one: RuleSummary) -> str:
    longest = f", the longest {time_span(one.longest_s)}" if one.episodes > 1 else ""
    return f"{one.severity:<9} {plural(one.episodes, 'episode')}, {time_span(one.firing_s)} in all{longest}"


def _share(value: float) -> str:
    return "under 1 %" if value < 0.01 else f"{value * 100:.0f} %"  # noqa: PLR2004  a percent is the last digit shown
