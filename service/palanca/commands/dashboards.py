"""``palanca dashboards export``: dashboards for Grafana."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from palanca.commands import options

app = typer.Typer(no_args_is_help=True, help="Write dashboards for Grafana.")
# A further dashboard is a line in palanca.dashboards.export.DASHBOARDS and a word here.
Name = Literal["five", "fleet", "engine", "itself", "diagnosis"]


@app.command("list")
def list_() -> None:
    """Show the dashboards: name, uid, and what they show."""
    from palanca.dashboards.export import DASHBOARDS

    wide = max(len(spec.uid) for spec in DASHBOARDS.values())
    for name, spec in DASHBOARDS.items():
        options.say(f"{name:<10} {spec.uid:<{wide}}  {spec.title}. {spec.text}")


@app.command("export")
def export(
    *,
    out: options.Out = None,
    form: Annotated[Name | None, typer.Option("--format", help="Print one dashboard instead.")] = None,
    vllm: options.Releases = "all",
    prefix: Annotated[
        list[str] | None,
        typer.Option("--prefix", metavar="TEXT", help="Prefix of vLLM's metric names (repeatable); all if not given."),
    ] = None,
    selector: Annotated[
        str, typer.Option("--selector", metavar="MATCHERS", help="""Targets that are meant, e.g. 'cluster="eu"'.""")
    ] = "",
    recorded: Annotated[
        bool, typer.Option("--recorded/--raw", help="Read what the exported rules record, or vLLM's own metrics.")
    ] = False,
    external_url: options.ExternalUrl = None,
    config: options.Config = None,
    rules: options.Rules = None,
) -> None:
    """Write the dashboards, and files that provision them.

    They need a Prometheus that scrapes vLLM, and for findings one that scrapes palanca. Lines and colours are the
    thresholds of the matrix and the objectives, with those that the settings (--config) give for all targets.
    """
    from palanca.alerting.options import matchers, release_range
    from palanca.dashboards.export import Exported
    from palanca.dashboards.options import Options
    from palanca.settings import load, matrix
    from palanca.settings.dashboards import with_settings

    options.one_way(out, form, "fleet")
    settings = load(config, {}).settings if config is not None else None
    catalogue, _ = matrix(rules or (settings.rules if settings is not None else None))
    chosen = Options(
        releases=release_range(vllm, catalogue.metrics),
        prefixes=tuple(prefix or ()),
        selector=matchers(selector),
        external_url=external_url,
        recorded=recorded,
    )
    if settings is not None:
        chosen = with_settings(chosen, settings)
    made = Exported.of(catalogue, chosen)
    if form is not None:
        options.say(made.file(form).rstrip("\n"))
        return
    options.write_files(out or Path(), made.files())
