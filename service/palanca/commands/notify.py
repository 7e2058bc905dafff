"""``palanca notify test``: whether messages reach people."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from palanca.commands import options

app = typer.Typer(no_args_is_help=True, help="Try how people are told.")


@app.command("test")
def try_all(
    *,
    config: options.Config = None,
    receiver: Annotated[
        list[str] | None, typer.Option("--receiver", metavar="NAME", help="Only this receiver (repeatable).")
    ] = None,
) -> None:
    """Send a message that is marked as a test to each receiver of the settings.

    Exit code: 0 all arrived, 1 some did not (why goes to stderr), 2 the settings have faults or no such receiver.
    """
    from palanca.app.telling import trial
    from palanca.errors import EXIT_FINDINGS
    from palanca.settings import load, settings_file

    made = load(settings_file(config, os.environ), os.environ)
    lost = False
    for one in trial(made, receiver or [], time.time()):
        if one.error is None:
            options.say(f"{one.receiver}: sent" + (f", {one.where}" if one.where else ""))
        else:
            lost = True
            typer.echo(f"{one.receiver}: not sent: {one.error}", err=True)
    if lost:
        raise typer.Exit(EXIT_FINDINGS)
