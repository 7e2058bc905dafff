"""``palanca config check | show | schema``: the settings, their faults and their origins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from palanca.commands import options
from palanca.commands.service import Service, serving

app = typer.Typer(no_args_is_help=True, help="Check and show the settings.")


@app.command("check")
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Settings file; by default the one of PALANCA_CONFIG.")
    ] = None,
) -> None:
    """Check a settings file, the environment, the rules and the files that they name; all faults are told.

    Exit code: 0 no faults (warnings go to stderr), 2 faults.
    """
    from palanca.errors import RuleFileError
    from palanca.settings import examine, settings_file
    from palanca.settings.checkup import check_all

    path = settings_file(file, os.environ)
    if path is None:
        raise options.usage("no settings file", "palanca config check FILE")
    made = examine(path, os.environ)
    result = check_all(made)
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if result.faults:
        raise RuleFileError(result.faults)
    counts = ((len(made.settings.sources), "source"), (len(made.settings.auth.tokens), "token"))
    told = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    options.say(f"{path}: no faults ({told})")


@app.command("show")
@serving
def show(
    *,
    config: options.Config = None,
    service: Service,
    reach: options.Reach,
) -> None:
    """Show the effective settings with the origin of each: file:line, variable, flag or default. Secrets are hidden."""
    from palanca.settings import load, settings_file
    from palanca.settings import show as write

    made = load(settings_file(config, os.environ), os.environ, service.flags(reach))
    options.say(write(made).rstrip("\n"))


@app.command("schema")
def schema(
    *,
    output: Annotated[
        Literal["json", "markdown"], typer.Option("--format", help="JSON Schema for editors, or a table.")
    ] = "json",
) -> None:
    """Print the JSON Schema of a settings file."""
    from palanca.settings import to_json_schema, to_markdown

    options.say((to_json_schema() if output == "json" else to_markdown()).rstrip("\n"))
