"""``palanca doctor``: can the servers be judged, and what is in the way?"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from palanca.commands import options, sources
from palanca.errors import EXIT_FINDINGS, EXIT_NOTHING_JUDGED, EXIT_OK


@options.reaching
def doctor(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="A Prometheus or a vLLM server, told apart by asking.")
    ] = None,
    *,
    prometheus: options.PrometheusUrl = None,
    scrape: options.Scrape = None,
    wait: options.Wait = "15s",
    at: options.At = None,
    match: options.Match = None,
    output: options.TextOrJson = "text",
    reach: options.Reach,
    rules: options.Rules = None,
) -> None:
    """Check reachability, names, targets, scrape interval and buckets, and say which rules cannot be judged and why.

    Exit code: 0 nothing in the way, 1 something to mend, 2 usage, 3 nothing could be reached or judged.
    """
    from palanca.moments import parse_moment
    from palanca.poll import Question
    from palanca.render import doctor as writer
    from palanca.sources.checkup import check_prometheus, check_servers
    from palanca.sources.prometheus import Prometheus

    catalogue = options.catalogue(rules)
    access = reach.access()
    moment = None if at is None else parse_moment(at, now=time.time())
    question = Question(at=moment, matchers=options.matchers(match or []))
    kind, addresses = sources.servers(url=url, prometheus=prometheus, scrape=scrape, access=access, catalogue=catalogue)
    if kind == "vllm":
        source = sources.scraping(addresses, access, options.positive(wait, "--wait"))
        report = check_servers(source, question, catalogue, clock=time.time)
    else:
        client = Prometheus(addresses[0], access)
        report = check_prometheus(client, question, catalogue, clock=time.time, timer=time.monotonic)
    if output == "json":
        options.say(writer.to_json(report))
    else:
        width, color = options.terminal()
        options.say(writer.text(report, width=width, color=color), color=True)
    codes = {"ok": EXIT_OK, "note": EXIT_OK, "error": EXIT_NOTHING_JUDGED}
    raise typer.Exit(codes.get(report.level, EXIT_FINDINGS))
