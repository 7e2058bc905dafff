"""``palanca alerts check``: what is wrong with anybody's Prometheus rules about vLLM."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from palanca.commands import options
from palanca.errors import EXIT_FINDINGS, EXIT_USAGE

if TYPE_CHECKING:
    from palanca.model import Metrics
    from palanca.releases import ReleaseRange


@options.reaching
def check(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Rule files, folders with such, - for stdin.")
    ] = None,
    *,
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus", metavar="URL", help="Tells which series exist; without FILE its rules are checked."
        ),
    ] = None,
    vllm: Annotated[
        str | None,
        typer.Option("--vllm", metavar="RELEASE", help="0.33, 0.24.0-0.33.0, 0.24+ or all; by default the newest."),
    ] = None,
    scrape_interval: Annotated[
        str, typer.Option("--scrape-interval", metavar="DURATION", help="Time between two scrapes of an engine.")
    ] = "15s",
    fail_on: Annotated[
        Literal["error", "warning", "info", "never"],
        typer.Option("--fail-on", help="The least severity that makes exit code 1."),
    ] = "warning",
    output: Annotated[
        Literal["text", "json", "github"], typer.Option("--format", help="How the findings are written.")
    ] = "text",
    reach: options.Reach,
    rules: options.Rules = None,
) -> None:
    """Find alerts and recording rules that never fire, always fire, or hide what they should show.

    Reads rule files, PrometheusRule objects, Helm values, mixins as JSON, and the syntax of Prometheus 1. A comment
    `# palanca:ignore CHECK` in or above a rule silences a check. docs/alerts-check.md describes every check.

    Exit code: 0 clean, 1 findings, 2 usage or a file that cannot be read, 3 the Prometheus could not be read.
    """
    from palanca.linting import SEVERITIES, lint
    from palanca.linting.names_file import load_names
    from palanca.linting.vocabulary import Vocabulary
    from palanca.render import lint as writer
    from palanca.resources import shipped
    from palanca.sources.prometheus import Prometheus
    from palanca.sources.rule_files import ReadFiles, look, read_files, read_loaded

    if not files and prometheus is None:
        raise options.usage("nothing to check", "give FILE... or --prometheus URL")
    catalogue = options.catalogue(rules)
    interval = options.positive(scrape_interval, "--scrape-interval")
    names = load_names([shipped("rules"), *([rules] if rules else [])])
    vocabulary = Vocabulary(catalogue.metrics, names, _span(vllm, catalogue.metrics))
    found = read_files(files, sys.stdin.buffer.read) if files else ReadFiles((), ())
    live = None
    if prometheus is not None:
        with Prometheus(prometheus, reach.access()) as client:
            found = found if files else ReadFiles(read_loaded(client), ())
            live = look(client, found.sources, vocabulary, time.time)
    report = lint(found.sources, vocabulary, interval_s=interval, live=live)
    for fault in sorted(found.faults):  # first: what follows is about the other files
        typer.echo(f"palanca: {fault}", err=True)
    if output == "json":
        options.say(writer.to_json(report, found.faults))
    elif output == "github":
        options.say(writer.github(report, found.faults))
    elif found.sources or not found.faults:
        _, color = options.terminal()
        options.say(writer.text(report, found.faults, color=color), color=True)
    if found.faults:
        raise typer.Exit(EXIT_USAGE)
    counted = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on != "never" else ()
    if any(report.count(severity) for severity in counted):
        raise typer.Exit(EXIT_FINDINGS)


def _span(text: str | None, metrics: Metrics) -> ReleaseRange | None:
    """Read ``--vllm``; None for the newest. Raises ``UsageError``."""
    from palanca.alerting.options import release_range
    from palanca.releases import Release, ReleaseRange

    if text is None:
        return None
    return release_range(text, metrics) or ReleaseRange(Release(metrics.releases[0]))
