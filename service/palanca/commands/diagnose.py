"""``palanca diagnose``: one diagnosis of a Prometheus, of vLLM servers, or of a recording."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from palanca.commands import options, sources
from palanca.errors import EXIT_FINDINGS, EXIT_NOTHING_JUDGED, EXIT_OK, SourceError

if TYPE_CHECKING:
    from palanca.model import Catalogue, Diagnosis


@options.reaching
def diagnose(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="A Prometheus or a vLLM server, told apart by asking.")
    ] = None,
    *,
    prometheus: options.PrometheusUrl = None,
    scrape: options.Scrape = None,
    wait: options.Wait = "15s",
    recording: options.Recording = None,
    at: options.At = None,
    window: options.Window = None,
    match: options.Match = None,
    serve_args: options.ServeArgs = None,
    manifest: options.Manifest = None,
    slo: options.Slo = None,
    config: options.Config = None,
    output: options.Format = "text",
    fail_on: Annotated[
        Literal["warning", "critical"], typer.Option(help="Severity from which the exit code is 1.")
    ] = "warning",
    reach: options.Reach,
    rules: options.Rules = None,
) -> None:
    """Say what is wrong with each vLLM engine, and which flag to change.

    Exit code: 0 nothing firing at or above --fail-on, 1 findings, 2 usage, 3 no target could be judged.
    """
    from palanca.poll import Question, run

    configured = options.configured(config, rules)
    catalogue = configured.catalogue
    access = reach.access()
    name = str(url or prometheus or recording or ", ".join(scrape or ()))
    try:
        source = sources.make(
            url=url,
            prometheus=prometheus,
            scrape=scrape,
            recording=recording,
            access=access,
            wait=options.positive(wait, "--wait"),
            catalogue=catalogue,
        )
        question = Question(
            at=sources.moment(at, source, catalogue),
            window=None if window is None else options.positive(window, "--window"),
            matchers=options.matchers(match or []),
            flags=options.flags(serve_args, manifest),
            objectives=options.objectives(slo or [], catalogue),
            settings=configured.facts,
            thresholds=configured.thresholds,
        )
        result = run(catalogue, source, question)
    except SourceError as error:
        if output == "json" and error.exit_code == EXIT_NOTHING_JUDGED:
            options.say(_empty_document(name, error))
        raise
    _write(result, output, catalogue)
    raise typer.Exit(exit_code(result, fail_on))


def _empty_document(name: str, error: SourceError) -> str:
    from palanca.model import Diagnosis, SourceInfo
    from palanca.render.document import to_json

    info = SourceInfo("source", name, state="unreachable", error=str(error))
    return to_json(Diagnosis(time.time(), info, ()))


def _write(result: Diagnosis, output: str, catalogue: Catalogue) -> None:
    if output == "json":
        from palanca.render.document import to_json

        options.say(to_json(result))
    elif output == "markdown":
        from palanca.render import markdown

        options.say(markdown.render(result, catalogue))
    else:
        from palanca.render import text

        width, color = options.terminal()
        options.say(text.render(result, width=width, color=color, catalogue=catalogue), color=True)


def exit_code(result: Diagnosis, fail_on: str) -> int:
    """0 nothing at or above ``fail_on``, 1 findings, 3 no target could be judged."""
    loud = {"critical"} if fail_on == "critical" else {"critical", "warning"}
    statuses = [report.status for report in result.targets]
    if any(status in loud for status in statuses):
        return EXIT_FINDINGS
    if not statuses or all(status == "unknown" for status in statuses):
        return EXIT_NOTHING_JUDGED
    return EXIT_OK
