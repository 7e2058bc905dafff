"""From sources to a verification: find the change, lay out both sides of it, read them, compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palanca.changes import Change, find_change, plan, plan_of_two, scrape_interval
from palanca.errors import UsageError
from palanca.expressions import nearest
from palanca.facts import add_facts
from palanca.poll import INTERVAL_S, Question, reading_of, run
from palanca.signals.leaves import Grid
from palanca.verify import recommending_rule, verify

if TYPE_CHECKING:
    from palanca.changes import Plan
    from palanca.model import Catalogue, Rule
    from palanca.poll import Source
    from palanca.verify import Verification

HOUR_S = 3600.0
Span = tuple[float, float]
"""First and last moment with data, unix seconds."""


@dataclass(frozen=True)
class Trial:
    """What is to be verified.

    ``change_at`` is unix seconds; None for a change that is found from a restart or changed configuration in the last
    hour of the data. ``period`` in seconds is how much is compared on each side. ``rule`` is the one whose advice was
    followed; None for the one that a diagnosis before the change gives.
    """

    change_at: float | None = None
    period: float = 600.0
    rule: str | None = None
    matchers: Mapping[str, str] = field(default_factory=dict)


def verify_change(catalogue: Catalogue, source: Source, span: Span, trial: Trial) -> Verification:
    """Compare both sides of a change within one source. Raises ``SourceError`` and ``UsageError``."""
    oldest, newest = span
    change = _change(catalogue, source, span, trial)
    opened = source.open(Question(at=newest, matchers=trial.matchers), catalogue)
    laid = plan(change, oldest, newest, scrape_interval(opened.reader.discover()), period=trial.period)
    chosen = _rule(catalogue, source, trial, change.first)
    return _compared(catalogue, (source, source), trial, laid, chosen)


def verify_two(
    catalogue: Catalogue, pair: tuple[Source, Source], spans: tuple[Span, Span], trial: Trial
) -> Verification:
    """Compare the ends of two sources. Raises ``SourceError`` and ``UsageError``."""
    opened = [
        source.open(Question(at=span[1], matchers=trial.matchers), catalogue)
        for source, span in zip(pair, spans, strict=True)
    ]
    interval = max(scrape_interval(one.reader.discover()) for one in opened)
    laid = plan_of_two(*spans, interval, period=trial.period)
    return _compared(catalogue, pair, trial, laid, _rule(catalogue, pair[0], trial, spans[0][1]))


def _change(catalogue: Catalogue, source: Source, span: Span, trial: Trial) -> Change:
    oldest, newest = span
    if trial.change_at is not None:
        if not oldest < trial.change_at < newest:
            raise UsageError("the moment of the change is outside the data; give one with data on both sides")
        return Change(trial.change_at, trial.change_at, "given")
    steps = int(min(newest - oldest, HOUR_S) / INTERVAL_S) + 1
    found = find_change(reading_of(catalogue, source, trial.matchers)(Grid(newest, steps, INTERVAL_S), None))
    if found is None:
        raise UsageError(
            "no restart and no changed configuration in the last hour of the data; say when the change was made"
        )
    return found


def _rule(catalogue: Catalogue, source: Source, trial: Trial, moment: float) -> Rule | None:
    rule_id = trial.rule
    if rule_id is None:
        rule_id = recommending_rule(run(catalogue, source, Question(at=moment, matchers=trial.matchers)))
    known = {one.id: one for one in catalogue.rules}
    if rule_id is not None and rule_id not in known:
        raise UsageError(f"there is no rule {rule_id!r}; {nearest(rule_id, known) or 'palanca rules list'}")
    return known.get(rule_id or "")


def _compared(
    catalogue: Catalogue, pair: tuple[Source, Source], trial: Trial, laid: Plan, rule: Rule | None
) -> Verification:
    sides = [
        add_facts(reading_of(catalogue, source, trial.matchers)(grid, laid.window), catalogue)
        for source, grid in zip(pair, (laid.before, laid.after), strict=True)
    ]
    return verify(catalogue, sides[0], sides[1], rule=rule)
