"""``palanca verify``: did a change help?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palanca.commands import options, sources
from palanca.errors import EXIT_FINDINGS, EXIT_NOTHING_JUDGED, EXIT_OK

if TYPE_CHECKING:
    from palanca.model import Catalogue
    from palanca.verify import Verification


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
    from palanca.verifying import Trial, verify_change, verify_two

    catalogue = options.catalogue(rules)
    trial = Trial(None, options.positive(period, "--period"), rule, options.matchers(match or []))
    if (before is None) != (after is None):
        raise options.usage("--before and --after go together", "give both recordings")
    if before is not None and after is not None:
        if any(one is not None for one in (url, prometheus, recording, change_at)):
            raise options.usage("two recordings and something else", "--before and --after stand alone")
        from palanca.sources.recording import RecordingSource

        pair = RecordingSource(before), RecordingSource(after)
        result = verify_two(catalogue, pair, (pair[0].span(catalogue), pair[1].span(catalogue)), trial)
    else:
        access = reach.access()
        source = sources.make_with_history(
            url=url, prometheus=prometheus, recording=recording, access=access, catalogue=catalogue
        )
        trial = replace(trial, change_at=sources.moment(change_at, source, catalogue))
        result = verify_change(catalogue, source, sources.span(source, catalogue), trial)
    _write(result, output, catalogue)
    raise typer.Exit({"helped": EXIT_OK, "cannot tell": EXIT_NOTHING_JUDGED}.get(result.verdict, EXIT_FINDINGS))


def _write(result: Verification, output: str, catalogue: Catalogue) -> None:
    from palanca.render import verify as writer

    if output == "json":
        options.say(json.dumps(writer.document(result), indent=2))
        return
    width, color = options.terminal()
    options.say(writer.render(result, width=width, color=color, catalogue=catalogue), color=True)
