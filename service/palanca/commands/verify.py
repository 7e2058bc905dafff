"""``palanca verify``: did a change help?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palanca.commands import options, sources
from palanca.errors import EXIT_FINDINGS, EXIT_NOTHING_JUDGED, EXIT_OK, UsageError

if TYPE_CHECKING:
    from palanca.changes import Change, Plan
    from palanca.model import Catalogue, Rule
    from palanca.poll import Source
    from palanca.verify import Verification

HOUR_S = 3600.0


@options.reaching
def verify(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="A Prometheus server.")] = None,
    *,
    prometheus: options.PrometheusUrl = None,
    recording: options.Recording = None,
    before: Annotated[Path | None, typer.Option(metavar="FILE", help="Recording from before the change.")] = None,
    after: Annotated[Path | None, typer.Option(metavar="FILE", help="Recording from after the change.")] = None,
    change_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="When the change was made; found from a restart if it is not given."),
    ] = None,
    period: Annotated[str, typer.Option(metavar="DURATION", help="How much to compare on each side.")] = "10m",
    rule: Annotated[
        str | None, typer.Option(metavar="ID", help="Rule whose advice was followed; found by itself if not given.")
    ] = None,
    match: options.Match = None,
    output: options.TextOrJson = "text",
    reach: options.Reach,
    rules: options.Rules = None,
) -> None:
    """Compare before and after a change at equal load: helped, did nothing, made it worse, or cannot tell.

    Exit code: 0 helped, 1 did nothing or made it worse, 2 usage, 3 cannot tell.
    """
    catalogue = options.catalogue(rules)
    matchers, length = options.matchers(match or []), options.positive(period, "--period")
    if (before is None) != (after is None):
        raise options.usage("--before and --after go together", "give both recordings")
    if before is not None and after is not None:
        if any(one is not None for one in (url, prometheus, recording, change_at)):
            raise options.usage("two recordings and something else", "--before and --after stand alone")
        result = _two(catalogue, (before, after), matchers, length, rule)
    else:
        access = reach.access()
        source = sources.make_with_history(
            url=url, prometheus=prometheus, recording=recording, access=access, catalogue=catalogue
        )
        result = _one(catalogue, source, matchers, length, change_at, rule)
    _write(result, output, catalogue)
    raise typer.Exit({"helped": EXIT_OK, "cannot tell": EXIT_NOTHING_JUDGED}.get(result.verdict, EXIT_FINDINGS))


def _one(
    catalogue: Catalogue,
    source: Source,
    matchers: dict[str, str],
    period: float,
    change_at: str | None,
    rule: str | None,
) -> Verification:
    """Compare both sides of a change within one source."""
    from palanca.changes import Change, find_change, plan, scrape_interval
    from palanca.poll import INTERVAL_S, Question, reading_of
    from palanca.signals.leaves import Grid

    reading = reading_of(catalogue, source, matchers)
    oldest, newest = sources.span(source, catalogue)
    moment = sources.moment(change_at, source, catalogue)
    if moment is None:
        steps = int(min(newest - oldest, HOUR_S) / INTERVAL_S) + 1
        change: Change | None = find_change(reading(Grid(newest, steps, INTERVAL_S), None))
        if change is None:
            message = "no restart and no changed configuration in the last hour of the data; give --change-at TIME"
            raise UsageError(message)
    else:
        if not oldest < moment < newest:
            raise options.usage("--change-at is outside the data", "give a moment with data on both sides")
        change = Change(moment, moment, "given")
    opened = source.open(Question(at=newest, matchers=matchers), catalogue)
    interval = scrape_interval(opened.reader.discover())
    laid = plan(change, oldest, newest, interval, period=period)
    chosen = _rule(catalogue, source, matchers, change.first, rule)
    return _compare(catalogue, (source, source), matchers, laid, chosen)


def _two(
    catalogue: Catalogue, paths: tuple[Path, Path], matchers: dict[str, str], period: float, rule: str | None
) -> Verification:
    """Compare the ends of two recordings."""
    from palanca.changes import plan_of_two, scrape_interval
    from palanca.poll import Question
    from palanca.sources.recording import RecordingSource

    first, second = (RecordingSource(path) for path in paths)
    interval = max(
        scrape_interval(one.open(Question(matchers=matchers), catalogue).reader.discover()) for one in (first, second)
    )
    laid = plan_of_two(first.span(catalogue), second.span(catalogue), interval, period=period)
    chosen = _rule(catalogue, first, matchers, first.span(catalogue)[1], rule)
    return _compare(catalogue, (first, second), matchers, laid, chosen)


def _rule(
    catalogue: Catalogue, source: Source, matchers: dict[str, str], moment: float, rule_id: str | None
) -> Rule | None:
    """Return the rule whose advice was followed: the one named, else what a diagnosis before the change said."""
    from palanca.poll import Question, run
    from palanca.verify import recommending_rule

    if rule_id is None:
        rule_id = recommending_rule(run(catalogue, source, Question(at=moment, matchers=matchers)))
    known = {one.id: one for one in catalogue.rules}
    if rule_id is not None and rule_id not in known:
        from palanca.expressions import nearest

        raise options.usage(f"there is no rule {rule_id!r}", nearest(rule_id, known) or "palanca rules list")
    return known.get(rule_id or "")


def _compare(
    catalogue: Catalogue,
    pair: tuple[Source, Source],
    matchers: dict[str, str],
    laid: Plan,
    rule: Rule | None,
) -> Verification:
    from palanca.facts import add_facts
    from palanca.poll import reading_of
    from palanca.verify import verify as compare

    sides = [
        add_facts(reading_of(catalogue, source, matchers)(grid, laid.window), catalogue)
        for source, grid in zip(pair, (laid.before, laid.after), strict=True)
    ]
    return compare(catalogue, sides[0], sides[1], rule=rule)


def _write(result: Verification, output: str, catalogue: Catalogue) -> None:
    from palanca.render import verify as writer

    if output == "json":
        options.say(json.dumps(writer.document(result), indent=2))
        return
    width, color = options.terminal()
    options.say(writer.render(result, width=width, color=color, catalogue=catalogue), color=True)
