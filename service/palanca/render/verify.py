"""What a change did, for people at a terminal and as data, ``palanca.verification/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from palanca.loads import AXES
from palanca.quantities import finite, moment, number, rfc3339, time_span
from palanca.render.text import Page
from palanca.render.words import encodable, plural, printable, signal_title, target_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.comparison import Compared
    from palanca.expectations import Outcome, Verdict
    from palanca.loads import Axis, Match
    from palanca.model import Catalogue
    from palanca.verify import EngineChange, Verification

SCHEMA: Literal["palanca.verification/v1"] = "palanca.verification/v1"
WORDS: dict[Verdict, str] = {
    "helped": "The change helped:",
    "made it worse": "The change made it worse:",
    "did nothing": "The change did nothing:",
    "cannot tell": "Cannot tell:",
}
_STYLES = {"helped": "ok", "made it worse": "critical", "did nothing": "warning", "cannot tell": "unknown"}
_SHOWN = (
    "ttft_p50", "ttft_p99", "itl_mean", "itl_p99", "e2e_mean", "waiting", "preemptions_per_minute",
    "generation_tokens_per_second",
)  # fmt: skip
"""Signals that are always in the table; the others only as a goal or a price."""
_PRICES_SHOWN = 6
_SETTINGS_SHOWN = 6
_TITLE = 34


def render(result: Verification, *, width: int, color: bool, catalogue: Catalogue | None = None) -> str:
    """Write the result for people. The catalogue gives the titles of signals."""
    page = Page(width, color=color)
    page.add(
        f"{_span(result.before)} with {_span(result.after)}, in batches of {time_span(result.window)}", lead="Compared"
    )
    page.blank()
    page.add(_sentence(result.why), lead=WORDS[result.verdict], style=_STYLES[result.verdict])
    for one in result.engines:
        _engine(page, one, catalogue)
    return page.text()


def _span(moments: tuple[float, float]) -> str:
    return f"{moment(moments[0])} + {time_span(moments[1] - moments[0])}"


def _sentence(text: str) -> str:
    return printable(text).rstrip(".") + "."


def _engine(page: Page, one: EngineChange, catalogue: Catalogue | None) -> None:
    page.heading(_name(one))
    page.pair("verdict", one.verdict)
    page.pair("load", _load(one.load))
    if one.changed:
        page.pair("changed", _settings(one.changed))
    for outcome in one.outcomes:
        page.pair("goal" if outcome.came not in {"kept", "broken"} else "limit", _outcome(outcome, catalogue))
    for signal in one.prices[:_PRICES_SHOWN]:
        found = next(compared for compared in one.signals if compared.signal == signal)
        page.pair("price", f"{signal_title(signal, catalogue)}: {_numbers(found)}")
    if len(one.prices) > _PRICES_SHOWN:
        page.pair("", f"and {plural(len(one.prices) - _PRICES_SHOWN, 'signal')} more that got worse")
    page.blank()
    goals = [outcome.signal for outcome in one.outcomes]
    for compared in one.signals:
        if compared.difference is not None and (compared.signal in goals or compared.signal in _SHOWN):
            text = f"{_numbers(compared)}: {compared.verdict}" + (f" ({compared.note})" if compared.note else "")
            page.pair(signal_title(compared.signal, catalogue), text, column=_TITLE)


def _name(one: EngineChange) -> str:
    before, after = one.engines
    many = f" ({plural(before, 'engine')} before, {after} after, their means)" if max(before, after) > 1 else ""
    return target_name(one.target) + many


def _settings(changed: Sequence[tuple[str, str, str]]) -> str:
    parts = [f"{printable(name)} {printable(old)} -> {printable(new)}" for name, old, new in changed[:_SETTINGS_SHOWN]]
    more = len(changed) - _SETTINGS_SHOWN
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _load(load: Match) -> str:
    words = {axis: (word, unit) for axis, word, unit in AXES}

    def level(axis: Axis, before: float, after: float) -> str:
        word, unit = words[axis]
        return f"{word.removeprefix('requests ')} {number(before, unit)} -> {number(after, unit)}"

    levels = ", ".join(level(*one) for one in load.levels)
    if load.axis is None:
        return f"does not compare: {printable(load.why)}; {levels}"
    steps = f"{int(load.before.sum())} + {int(load.after.sum())} batches"
    if load.opposed:
        return f"one measure rose and the other fell, so the server itself has changed ({steps}); {levels}"
    return f"equal by {words[load.axis][0]} ({steps}); {levels}"


def _outcome(one: Outcome, catalogue: Catalogue | None) -> str:
    note = f" ({printable(one.note)})" if one.note else ""
    return f"{signal_title(one.signal, catalogue)} {printable(one.expect)}: {one.came}{note}"


def _numbers(one: Compared) -> str:
    made = one.difference
    if made is None:
        return "-"
    parts = f"{number(made.before, one.unit)} -> {number(made.after, one.unit)}"
    if one.relative is None or made.before == 0 or made.change == 0:
        return parts
    size = abs(made.before)
    low, high = (f"{value / size * 100:+.0f}" for value in (made.low, made.high))
    return f"{parts}, {one.relative * 100:+.0f} % ({low} to {high} %)"


def document(result: Verification) -> dict[str, Any]:
    """Return the result as data; no NaN, a number that does not exist is null."""
    return {
        "schema": SCHEMA,
        "verdict": result.verdict,
        "why": encodable(result.why),
        "rule": result.rule,
        "before": {"from": rfc3339(result.before[0]), "to": rfc3339(result.before[1])},
        "after": {"from": rfc3339(result.after[0]), "to": rfc3339(result.after[1])},
        "batch_s": finite(result.window),
        "warm_up_s": finite(result.left_out),
        "engines": [_engine_document(one) for one in result.engines],
    }


def _engine_document(one: EngineChange) -> dict[str, Any]:
    return {
        "target": {encodable(name): encodable(value) for name, value in one.target.labels},
        "engines": {"before": one.engines[0], "after": one.engines[1]},
        "verdict": one.verdict,
        "why": encodable(one.why),
        "load": {
            "equal_by": one.load.axis,
            "why_not": encodable(one.load.why) or None,
            "batches": {"before": int(one.load.before.sum()), "after": int(one.load.after.sum())},
            "levels": {
                axis: {"before": finite(before), "after": finite(after)} for axis, before, after in one.load.levels
            },
        },
        "changed": [
            {"name": encodable(name), "before": encodable(old), "after": encodable(new)}
            for name, old, new in one.changed
        ],
        "expected": [
            {"signal": goal.signal, "expect": goal.expect, "came": goal.came, "note": goal.note or None}
            for goal in one.outcomes
        ],
        "side_effects": list(one.prices),
        "signals": [_signal(compared) for compared in one.signals],
    }


def _signal(one: Compared) -> dict[str, Any]:
    made = one.difference
    return {
        "signal": one.signal,
        "unit": one.unit,
        "before": finite(made.before) if made else None,
        "after": finite(made.after) if made else None,
        "change": finite(made.change) if made else None,
        "relative": finite(one.relative),
        "interval": [finite(made.low), finite(made.high)] if made else None,
        "p": finite(made.p) if made and made.enough else None,
        "batches": list(made.batches) if made else None,
        "verdict": one.verdict,
        "note": one.note or None,
    }
