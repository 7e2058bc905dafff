"""``palanca doctor``: can the servers be judged, and what is in the way?"""

from __future__ import annotations

import time
from typing import Annotated, Literal

import typer

from palanca.commands import options, sources
from palanca.errors import EXIT_FINDINGS, EXIT_NOTHING_JUDGED, EXIT_OK


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
    output: Annotated[Literal["text", "json"], typer.Option("--format", help="How the result is written.")] = "text",
    header: options.Header = None,
    bearer_file: options.BearerFile = None,
    basic_file: options.UserFile = None,
    ca_file: options.CaFile = None,
    client_cert: options.ClientCert = None,
    client_key: options.ClientKey = None,
    insecure: options.Insecure = False,
    timeout: options.Timeout = "30s",
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
    from palanca.sources.scrape import ScrapeSource

    catalogue = options.catalogue(rules)
    reach = options.access(
        header=header,
        bearer_file=bearer_file,
        basic_file=basic_file,
        ca_file=ca_file,
        client_cert=client_cert,
        client_key=client_key,
        insecure=insecure,
        timeout=timeout,
    )
    moment = None if at is None else parse_moment(at, now=time.time())
    question = Question(at=moment, matchers=options.matchers(match or []))
    kind, addresses = sources.servers(url=url, prometheus=prometheus, scrape=scrape, access=reach, catalogue=catalogue)
    if kind == "vllm":
        span = options.positive(wait, "--wait")
        source = ScrapeSource(
            addresses, reach, wait=span, clock=time.time, sleep=time.sleep, progress=sources.progress()
        )
        report = check_servers(source, question, catalogue, clock=time.time)
    else:
        client = Prometheus(addresses[0], reach)
        report = check_prometheus(client, question, catalogue, clock=time.time, timer=time.monotonic)
    if output == "json":
        options.say(writer.to_json(report))
    else:
        width, color = options.terminal()
        options.say(writer.text(report, width=width, color=color), color=True)
    codes = {"ok": EXIT_OK, "note": EXIT_OK, "error": EXIT_NOTHING_JUDGED}
    raise typer.Exit(codes.get(report.level, EXIT_FINDINGS))
