"""What a rule expects of a change (``verify`` blocks), and the verdict that follows from what came of it.

An expectation is ``falls``, ``rises``, a bound (``<= 1``, ``> 0``, ``0``), or a bound by an objective
(``<= slo.itl_p99``); words after it are for readers. What was not so before is a goal of the change; a bound that held
before already is a guard.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from palanca.batches import Difference
    from palanca.model import Fact, Verify

Verdict = Literal["helped", "made it worse", "did nothing", "cannot tell"]
Came = Literal["met", "better", "not met", "worse", "kept", "broken", "cannot tell"]
"""Of a goal: met, better but not met, not met, worse. Of a guard: kept, broken."""

USERS = (
    ("ttft_p50", "TTFT p50"), ("ttft_p99", "TTFT p99"), ("itl_p99", "ITL p99"), ("e2e_mean", "request latency"),
    ("generation_tokens_per_second", "tokens/s"),
)  # fmt: skip
"""What users feel; decides without a rule, and where the goals disagree."""

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq,
}  # fmt: skip
_BOUND = re.compile(r"^(<=|>=|==|<|>)?\s*([0-9.]+(?:e[+-]?\d+)?|slo\.[a-z0-9_]+)(?:\s|$)")


class Numbers(Protocol):
    """What is known of one signal on both sides."""

    @property
    def difference(self) -> Difference | None:
        """The comparison; None without numbers."""

    @property
    def verdict(self) -> Verdict:
        """Verdict by what is better for the signal itself."""

    @property
    def note(self) -> str:
        """Why nothing can be told."""


@dataclass(frozen=True)
class Bound:
    """``op`` and limit; None where the objective is not set."""

    op: str
    limit: float | None

    def holds(self, value: float) -> bool | None:
        """Whether a value keeps to it."""
        return None if self.limit is None else _OPERATORS[self.op](value, self.limit)


@dataclass(frozen=True)
class Outcome:
    """One expectation of the rule and what came of it."""

    signal: str
    expect: str
    came: Came
    note: str = ""


def bound_of(expect: str, facts: Mapping[str, Fact]) -> Bound | None:
    """Read a bound; None for a direction and for words alone."""
    found = _BOUND.match(expect.strip())
    if found is None:
        return None
    op, text = found[1] or "==", found[2]
    if not text.startswith("slo."):
        return Bound(op, float(text))
    fact = facts.get(text)
    known = fact is not None and isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
    return Bound(op, float(fact.value) if known and fact is not None else None)


def outcome(expected: Verify, numbers: Numbers | None, facts: Mapping[str, Fact]) -> Outcome:
    """Say what came of one expectation."""

    def said(came: Came, note: str = "") -> Outcome:
        return Outcome(expected.signal, expected.expect, came, note)

    if numbers is None or numbers.difference is None:
        return said("cannot tell", "no numbers")
    made, bound = numbers.difference, bound_of(expected.expect, facts)
    if bound is None and not expected.expect.startswith(("falls", "rises")):
        return said("cannot tell", "these words cannot be checked")
    if bound is not None and bound.limit is None:
        return said("cannot tell", "no such objective is set")
    if numbers.verdict == "cannot tell":
        return said("cannot tell", numbers.note)
    wanted = _wanted(expected.expect, bound, made)
    if bound is None:
        return said(_goal(numbers.verdict, made, wanted, met=True))
    now, then = bound.holds(made.after), bound.holds(made.before)
    if then:
        return said("kept" if now else "broken")
    return said(_goal(numbers.verdict, made, wanted, met=bool(now)))


def _wanted(expect: str, bound: Bound | None, made: Difference) -> int:
    """-1 where the signal should fall, 1 where it should rise."""
    if bound is None:
        return -1 if expect.startswith("falls") else 1
    if bound.op == "==" and bound.limit is not None:
        return -1 if made.before > bound.limit else 1
    return -1 if bound.op.startswith("<") else 1


def _goal(verdict: Verdict, made: Difference, wanted: int, *, met: bool) -> Came:
    if verdict == "did nothing":
        return "not met"
    if made.change * wanted < 0:
        return "worse"
    return "met" if met else "better"


def judge(outcomes: Sequence[Outcome], users: Mapping[str, tuple[Verdict, float | None]]) -> tuple[Verdict, str]:
    """Verdict from the goals of the rule; where they disagree, or without any, from what users feel."""
    goals = [one for one in outcomes if one.came in {"met", "better", "not met", "worse"}]
    good = [one for one in goals if one.came in {"met", "better"}]
    bad = [one for one in goals if one.came == "worse"]
    broken = [one for one in outcomes if one.came == "broken"]
    if good and not bad:
        return "helped", _list([*good, *broken])
    verdict, why = _by_users(users)
    if bad and not good:
        return ("cannot tell", f"{_list(bad)}; but {why}") if verdict == "helped" else ("made it worse", _list(bad))
    if goals and not good:
        return "did nothing", _list(goals)
    if outcomes and not goals and any(one.came == "cannot tell" for one in outcomes):
        return "cannot tell", _list(outcomes)
    return verdict, f"{_list(goals)}; {why}" if goals else why


def _list(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(f"{one.signal} ({one.expect}): {one.came}" for one in outcomes)


def _by_users(users: Mapping[str, tuple[Verdict, float | None]]) -> tuple[Verdict, str]:
    told = [(title, *users[name]) for name, title in USERS if name in users and users[name][0] != "cannot tell"]
    good = [title for title, verdict, _ in told if verdict == "helped"]
    bad = [title for title, verdict, _ in told if verdict == "made it worse"]
    parts = [f"{word}: {', '.join(some)}" for word, some in (("better", good), ("worse", bad)) if some]
    why = "; ".join(parts) or ("nothing that users feel changed" if told else "nothing that users feel can be compared")
    if not told:
        return "cannot tell", why
    if len(good) == len(bad):
        return "did nothing", why
    return ("helped" if len(good) > len(bad) else "made it worse"), why


def overall(engines: Sequence[tuple[Verdict, str]]) -> tuple[Verdict, str]:
    """One verdict for all engines: that of those which can tell, unless some got better and others worse.

    "Did nothing" is a statement about all of them and needs at least half that can tell.
    """
    if not engines:
        return "cannot tell", "no engine is on both sides"
    told = [one for one in engines if one[0] != "cannot tell"]
    words = {verdict for verdict, _ in told}
    if {"helped", "made it worse"} <= words:
        return "cannot tell", "some engines got better, others worse"
    if words == {"did nothing"} and 2 * len(told) < len(engines):
        return "cannot tell", f"{len(engines) - len(told)} of {len(engines)} engines cannot tell"
    for word in ("made it worse", "helped", "did nothing"):
        if word in words:
            return next(one for one in told if one[0] == word)
    return engines[0]
