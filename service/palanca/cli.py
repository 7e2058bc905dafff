"""The command line: puts the commands together, and turns errors into messages and exit codes."""

from __future__ import annotations

import errno
import io
import sys
from typing import Annotated

import typer

from palanca import __version__
from palanca.commands import (
    alerts,
    alerts_check,
    backtest,
    config,
    dashboards,
    diagnose,
    doctor,
    notify,
    options,
    rules,
    serve,
    size,
    verify,
)
from palanca.errors import EXIT_USAGE, PalancaError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which vLLM flag to change, to what value, why, and whether it worked.",
)
app.command("diagnose")(diagnose.diagnose)
app.command("serve")(serve.serve)
app.command("demo")(serve.demo)
app.command("doctor")(doctor.doctor)
app.command("verify")(verify.verify)
app.command("backtest")(backtest.backtest)
app.command("size")(size.size)
app.add_typer(rules.app, name="rules")
alerts.app.command("check")(alerts_check.check)
app.add_typer(alerts.app, name="alerts")
app.add_typer(dashboards.app, name="dashboards")
app.add_typer(config.app, name="config")
app.add_typer(notify.app, name="notify")


def _version(wanted: bool) -> None:
    if wanted:
        options.say(f"palanca {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hold the options of the program itself."""
    del version


def main() -> None:
    """Run the program; every ``PalancaError`` becomes one message on stderr and its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="palanca")
    except PalancaError as error:
        typer.echo(f"palanca: {error}", err=True)
        sys.exit(error.exit_code or EXIT_USAGE)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        options.drop_output()
        typer.echo(f"palanca: standard output cannot be written: {error.strerror}", err=True)
        sys.exit(EXIT_USAGE)


if __name__ == "__main__":
    main()
