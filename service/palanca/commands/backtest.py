"""``palanca backtest``: how often each rule would have fired."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from palanca.commands import options, sources


@options.reaching
def backtest(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="A Prometheus server.")] = None,
    *,
    prometheus: options.PrometheusUrl = None,
    recording: options.Recording = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Default: the data's beginning, or a day ago.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Default: the newest data.")] = None,
    step: Annotated[str, typer.Option(metavar="DURATION", help="How often to look; a multiple of 15s.")] = "15s",
    match: options.Match = None,
    serve_args: options.ServeArgs = None,
    manifest: options.Manifest = None,
    slo: options.Slo = None,
    config: options.Config = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Only the summary, for people; else one JSON line an episode first.")
    ] = False,
    reach: options.Reach,
    rules: options.Rules = None,
) -> None:
    """Run all rules over a range: one JSON line for each episode, then one with a summary of each rule."""
    from palanca.backtest import Backtest, Span
    from palanca.poll import reading_of
    from palanca.render import backtest as writer

    configured = options.configured(config, rules)
    catalogue = configured.catalogue
    access = reach.access()
    source = sources.make_with_history(
        url=url, prometheus=prometheus, recording=recording, access=access, catalogue=catalogue
    )
    oldest, newest = sources.span(source, catalogue)
    first = sources.moment(begin, source, catalogue)
    last = sources.moment(end, source, catalogue)
    span = Span(oldest if first is None else first, newest if last is None else last, options.positive(step, "--step"))
    read = reading_of(catalogue, source, options.matchers(match or []))
    made = Backtest(
        catalogue,
        lambda grid: read(grid, None),
        span,
        flags=options.flags(serve_args, manifest),
        objectives=options.objectives(slo or [], catalogue),
        settings=configured.facts,
        thresholds=configured.thresholds,
    )
    for episode in made.run():
        if not summary:
            options.say(writer.line(episode, span.time(span.steps - 1)))
    if not summary:
        options.say(json.dumps(writer.summary_document(made.summaries(), span.start, span.end, span.step)))
        return
    width, color = options.terminal()
    text = writer.render(made.summaries(), span.start, span.end, span.step, width=width, color=color)
    options.say(text, color=True)
