"""The command line. Heavy things are imported by the command that needs them."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from palanca import __version__
from palanca.errors import EXIT_FINDINGS, EXIT_NOTHING_JUDGED, EXIT_OK, EXIT_USAGE, PalancaError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.model import Catalogue, Diagnosis

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which vLLM flag to change, to what value, why, and whether it worked.",
)
rules_app = typer.Typer(no_args_is_help=True, help="List, show, check and test the rules of the matrix.")
app.add_typer(rules_app, name="rules")

RulesOption = Annotated[
    Path | None,
    typer.Option("--rules", metavar="DIR", help="Folder of rule files that add to or replace the shipped ones."),
]


def _version(wanted: bool) -> None:
    if wanted:
        _say(f"palanca {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda value: _version(wanted=value), is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Hold the options of the program itself."""


@app.command()
def diagnose(
    *,
    recording: Annotated[
        Path | None, typer.Option(metavar="FILE", help="OpenMetrics text with timestamps, plain or gzip.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="RFC 3339, unix seconds, or -30m before the newest data.")
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Replaces the windows of the signals, e.g. 60s.")
    ] = None,
    match: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=VALUE", help="Only targets with this label (repeatable).")
    ] = None,
    serve_args: Annotated[
        str | None, typer.Option(metavar="ARGS", help="The arguments that vllm serve was started with.")
    ] = None,
    output: Annotated[
        Literal["text", "json", "markdown"], typer.Option("--format", help="How the result is written.")
    ] = "text",
    fail_on: Annotated[
        Literal["warning", "critical"], typer.Option(help="Severity from which the exit code is 1.")
    ] = "warning",
    rules: RulesOption = None,
) -> None:
    """Say what is wrong with each vLLM engine, and which flag to change.

    Exit code: 0 nothing firing at or above --fail-on, 1 findings, 2 usage, 3 no target could be judged.
    """
    from palanca.facts import parse_serve_args
    from palanca.moments import parse_moment
    from palanca.poll import Question, run
    from palanca.sources.recording import RecordingSource

    if recording is None:
        raise _usage("nothing to read", "give --recording FILE")
    catalogue = _catalogue(rules)
    try:
        newest = 0.0 if at is None or not at.strip().startswith("-") else _newest(recording, catalogue)
        question = Question(
            at=None if at is None else parse_moment(at, now=newest),
            window=None if window is None else _window(window),
            matchers=_matchers(match or []),
            flags={} if serve_args is None else parse_serve_args(serve_args),
        )
        result = run(catalogue, RecordingSource(recording), question)
    except SourceError as error:
        if output == "json" and error.exit_code == EXIT_NOTHING_JUDGED:
            _say(_empty_document(recording, error))
        raise
    _write(result, output)
    raise typer.Exit(exit_code(result, fail_on))


def _usage(message: str, hint: str) -> PalancaError:
    from palanca.errors import UsageError

    return UsageError(f"{message}; {hint}")


def _catalogue(overlay: Path | None) -> Catalogue:
    from palanca.check import load_catalogue
    from palanca.resources import shipped

    return load_catalogue([shipped("rules"), *([overlay] if overlay else [])])


def _newest(recording: Path, catalogue: Catalogue) -> float:
    from palanca.poll import Question
    from palanca.sources.recording import RecordingSource

    return RecordingSource(recording).open(Question(), catalogue).grid.end


def _window(text: str) -> float:
    from palanca.moments import seconds

    try:
        value = seconds(text)
    except ValueError as error:
        raise _usage(f"--window: {error}", "e.g. --window 60s") from None
    if value <= 0:
        raise _usage("--window must be longer than 0", "e.g. --window 60s")
    return value


def _matchers(texts: Sequence[str]) -> dict[str, str]:
    import re

    made: dict[str, str] = {}
    for text in texts:
        label, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label):
            raise _usage(f"--match {text!r} is not LABEL=VALUE", "e.g. --match model_name=llama")
        if made.get(label, value) != value:
            raise _usage(f"--match gives {label} two values", "one value for each label")
        made[label] = value
    return made


def _empty_document(recording: Path, error: SourceError) -> str:
    from palanca.model import Diagnosis, SourceInfo
    from palanca.render.document import to_json

    info = SourceInfo("recording", str(recording), state="unreachable", error=str(error))
    return to_json(Diagnosis(0.0, info, ()))


def _write(result: Diagnosis, output: str) -> None:
    if output == "json":
        from palanca.render.document import to_json

        _say(to_json(result))
    elif output == "markdown":
        from palanca.render import markdown

        _say(markdown.render(result))
    else:
        from rich.console import Console

        from palanca.render import text

        console = Console()
        _say(text.render(result, width=console.width, color=console.is_terminal and not console.no_color), color=True)


def exit_code(result: Diagnosis, fail_on: str) -> int:
    """0 nothing at or above ``fail_on``, 1 findings, 3 no target could be judged."""
    loud = {"critical"} if fail_on == "critical" else {"critical", "warning"}
    statuses = [report.status for report in result.targets]
    if any(status in loud for status in statuses):
        return EXIT_FINDINGS
    if not statuses or all(status == "unknown" for status in statuses):
        return EXIT_NOTHING_JUDGED
    return EXIT_OK


@rules_app.command("list")
def rules_list(*, rules: RulesOption = None) -> None:
    """List the rules: area, id, severity, cause, title."""
    catalogue = _catalogue(rules)
    rows = [(rule.area, rule.id, rule.severity, rule.cause or "symptom", rule.title) for rule in catalogue.rules]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in sorted(rows):
        _say("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))


@rules_app.command("show")
def rules_show(rule_id: Annotated[str, typer.Argument(metavar="ID")], *, rules: RulesOption = None) -> None:
    """Show one rule: its file and its runbook."""
    from palanca.check import load_documents
    from palanca.resources import shipped

    places = load_documents([shipped("rules"), *([rules] if rules else [])])
    if rule_id not in places:
        from palanca.expressions import nearest

        raise _usage(f"there is no rule {rule_id!r}", nearest(rule_id, places) or "palanca rules list shows them")
    _say(places[rule_id].read_text(encoding="utf-8").rstrip())
    runbook = shipped("docs/rules") / f"{rule_id}.md"
    if runbook.is_file():
        _say("\n" + runbook.read_text(encoding="utf-8").rstrip())


@rules_app.command("check")
def rules_check(*, rules: RulesOption = None) -> None:
    """Check every rule file; faults as file:line:column."""
    from palanca.check import check_runbooks
    from palanca.errors import RuleFileError
    from palanca.resources import shipped

    catalogue = _catalogue(rules)
    faults = check_runbooks(catalogue, shipped("docs/rules")) if rules is None else []
    if faults:
        raise RuleFileError(faults)
    _say(f"{len(catalogue.rules)} rules, {len(catalogue.signals)} signals: no faults")


@rules_app.command("test")
def rules_test(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...", help="Case files or folders.")] = None,
    *,
    rules: RulesOption = None,
) -> None:
    """Run the cases of the rules (by default those under tests/rules)."""
    from palanca.cases import run_cases

    catalogue = _catalogue(rules)
    files = [file for path in paths or [Path("tests/rules")] for file in _case_files(path)]
    if not files:
        raise _usage("no case files found", "name files or folders with cases, e.g. tests/rules")
    outcomes = list(run_cases(catalogue, files))
    failed = [outcome for outcome in outcomes if outcome.fault is not None]
    for outcome in failed:
        typer.echo(str(outcome.fault), err=True)
    _say(f"{len(outcomes)} cases of {len(files)} files: {len(failed)} failed")
    if failed:
        raise typer.Exit(EXIT_FINDINGS)


def _case_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.yaml"))
    if not path.exists():
        raise _usage(f"{path} does not exist", "name case files or folders")
    return [path]


def _say(text: str, *, color: bool | None = None) -> None:
    """Write to stdout; a reader that has gone (``| head``) is no error and leaves the exit code alone."""
    try:
        typer.echo(text, color=color)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the program; every ``PalancaError`` becomes one message on stderr and its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="palanca")
    except PalancaError as error:
        typer.echo(f"palanca: {error}", err=True)
        sys.exit(error.exit_code or EXIT_USAGE)


if __name__ == "__main__":
    main()
