"""``palanca alerts export``: the matrix as files for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from palanca.commands import options
from palanca.commands.alert_routing import Route, routed

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix

app = typer.Typer(no_args_is_help=True, help="Write alert rules, and check those of others.")
# A further format is a line in palanca.alerting.export.FORMATS and a word here.
Format = Literal["prometheus", "operator", "alertmanager", "templates", "tests"]


@app.callback()
def _alerts() -> None:
    """Keep ``export`` a command of its own while it is the only one."""


@app.command("export")
@routed
def export(
    *,
    out: options.Out = None,
    form: Annotated[Format | None, typer.Option("--format", help="Print one file instead.")] = None,
    vllm: options.Releases = "all",
    prefix: Annotated[
        list[str] | None,
        typer.Option("--prefix", metavar="TEXT", help="Prefix of vLLM's metric names (repeatable), e.g. ray_vllm_."),
    ] = None,
    selector: Annotated[
        str, typer.Option("--selector", metavar="MATCHERS", help="""Targets that are meant, e.g. 'job="vllm"'.""")
    ] = "",
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="ID", help="Only this rule, or a glob (repeatable).")
    ] = None,
    severity: Annotated[
        list[str] | None, typer.Option("--severity", metavar="WORD", help="Only alerts of this severity (repeatable).")
    ] = None,
    alert_prefix: Annotated[
        str, typer.Option("--alert-prefix", metavar="TEXT", help="Beginning of the names of alerts.")
    ] = "Vllm",
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="Label of every alert (repeatable).")
    ] = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="How often the rules are evaluated, 1s to 1m.")
    ] = "15s",
    external_url: options.ExternalUrl = None,
    dashboard_url: Annotated[
        str | None, typer.Option("--dashboard-url", metavar="URL", help="A Grafana dashboard, for links.")
    ] = None,
    guards: Annotated[
        bool, typer.Option("--guards/--no-guards", help="Alerts on vanished series and on palanca itself.")
    ] = True,
    palanca_job: Annotated[
        str | None,
        typer.Option(
            "--palanca-job",
            metavar="JOB",
            help="The job that scrapes palanca; given, it is missed also where it never was. By default palanca.",
        ),
    ] = None,
    route: Route,
    config: options.Config = None,
    rules: options.Rules = None,
) -> None:
    """Write the rules of the matrix as recording rules and alerts, tests for them, and Alertmanager's configuration.

    Thresholds and objectives per model come from the settings (--config). What no expression can say is listed in the
    header of the files, with the reason.
    """
    from palanca.alerting.export import FORMATS
    from palanca.alerting.matrix import Matrix
    from palanca.alerting.options import Options, matchers, release_range
    from palanca.settings import load, matrix
    from palanca.settings.alerts import with_settings

    options.one_way(out, form, "prometheus")
    settings = load(config, {}).settings if config is not None else None
    catalogue, _ = matrix(rules or (settings.rules if settings is not None else None))
    chosen = Options(
        alert_prefix=alert_prefix,
        releases=release_range(vllm, catalogue.metrics),
        prefixes=tuple(prefix or ("vllm:",)),
        selector=matchers(selector),
        rules=tuple(rule or ()),
        severities=tuple(_severity(one) for one in severity or ()),
        labels=_labels(label or []),
        interval=options.positive(interval, "--interval"),
        external_url=external_url,
        dashboard_url=dashboard_url,
        guards=guards,
        palanca_job=palanca_job or Options.palanca_job,
        palanca_scraped=palanca_job is not None,
        routing=route.routing(),
    )
    if settings is not None:
        chosen = with_settings(chosen, settings)
    made = Matrix(catalogue, chosen)
    if form is not None:
        options.say(FORMATS[form].write(made).rstrip("\n"))
        if form in {"prometheus", "operator"}:
            _say_gaps(made)
        return
    options.write_files(out or Path(), {one.file: one.write(made) for one in FORMATS.values()})
    _say_gaps(made)


def _say_gaps(made: Matrix) -> None:
    """Say what is not in the files on stderr; their header has it too."""
    from palanca.alerting.gaps import gaps

    for gap in gaps(made):
        for name, reason in sorted(gap.reasons.items()):
            typer.echo(f"{gap.word}: {name}: {reason}", err=True)


def _severity(text: str) -> Literal["critical", "warning", "info"]:
    match text:
        case "critical" | "warning" | "info":
            return text
        case _:
            raise options.usage(f"--severity {text!r} is not a severity", "critical, warning or info")


def _labels(texts: list[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise options.usage(f"--label {text!r} is not NAME=VALUE", "e.g. --label team=inference")
        made[name] = value
    return made
