"""``palanca rules list | show | check | test``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palanca.commands import options
from palanca.errors import EXIT_FINDINGS

app = typer.Typer(no_args_is_help=True, help="List, show, check and test the rules of the matrix.")


@app.command("list")
def list_rules(*, rules: options.Rules = None) -> None:
    """List the rules: area, id, severity, cause, title."""
    catalogue = options.catalogue(rules)
    rows = [(rule.area, rule.id, rule.severity, rule.cause or "symptom", rule.title) for rule in catalogue.rules]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in sorted(rows):
        options.say("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))


@app.command("show")
def show_rule(rule_id: Annotated[str, typer.Argument(metavar="ID")], *, rules: options.Rules = None) -> None:
    """Show one rule: its file and its runbook."""
    from palanca.check import load_documents
    from palanca.expressions import nearest
    from palanca.resources import shipped

    places = load_documents([shipped("rules"), *([rules] if rules else [])])
    if rule_id not in places:
        hint = nearest(rule_id, places) or "palanca rules list shows them"
        raise options.usage(f"there is no rule {rule_id!r}", hint)
    options.say(places[rule_id].read_text(encoding="utf-8").rstrip())
    runbook = shipped("docs/rules") / f"{rule_id}.md"
    if runbook.is_file():
        options.say("\n" + runbook.read_text(encoding="utf-8").rstrip())


@app.command("check")
def check_rules(*, rules: options.Rules = None) -> None:
    """Check every rule file; faults as file:line:column."""
    from palanca.check import check_runbooks
    from palanca.errors import RuleFileError
    from palanca.resources import shipped

    catalogue = options.catalogue(rules)
    faults = check_runbooks(catalogue, shipped("docs/rules")) if rules is None else []
    if faults:
        raise RuleFileError(faults)
    options.say(f"{len(catalogue.rules)} rules, {len(catalogue.signals)} signals: no faults")


@app.command("test")
def run_cases_of_rules(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...", help="Case files or folders.")] = None,
    *,
    rules: options.Rules = None,
) -> None:
    """Run the cases of the rules (by default those under tests/rules)."""
    from palanca.cases import run_cases

    catalogue = options.catalogue(rules)
    files = [file for path in paths or [Path("tests/rules")] for file in _case_files(path)]
    if not files:
        raise options.usage("no case files found", "name files or folders with cases, e.g. tests/rules")
    outcomes = list(run_cases(catalogue, files))
    failed = [outcome for outcome in outcomes if outcome.fault is not None]
    for outcome in failed:
        typer.echo(str(outcome.fault), err=True)
    options.say(f"{len(outcomes)} cases of {len(files)} files: {len(failed)} failed")
    if failed:
        raise typer.Exit(EXIT_FINDINGS)


def _case_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.yaml"))
    if not path.exists():
        raise options.usage(f"{path} does not exist", "name case files or folders")
    return [path]
