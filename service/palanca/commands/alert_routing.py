"""Options of ``alerts export`` that are about the configuration of Alertmanager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palanca.commands import options

if TYPE_CHECKING:
    from palanca.alerting.routing import Routing


@dataclass(frozen=True)
class Route:
    """How Alertmanager is to be configured (see ``routed``)."""

    alertmanager: Annotated[
        str, typer.Option("--alertmanager", metavar="RELEASE", help="Release of Alertmanager, 0.25 or newer.")
    ] = "0.25"
    receiver_url: Annotated[
        str | None,
        typer.Option("--receiver-url", metavar="URL", help="palanca's webhook; by default below --external-url."),
    ] = None
    credentials_file: Annotated[
        str,
        typer.Option(
            "--credentials-file", metavar="FILE", help="Where Alertmanager finds palanca's token; '' without one."
        ),
    ] = "/etc/alertmanager/palanca.token"
    group_wait: Annotated[
        str, typer.Option("--group-wait", metavar="DURATION", help="How long a new group waits for more alerts.")
    ] = "30s"
    group_interval: Annotated[
        str, typer.Option("--group-interval", metavar="DURATION", help="How long news of a group wait for more.")
    ] = "5m"
    repeat_interval: Annotated[
        str, typer.Option("--repeat-interval", metavar="DURATION", help="When warnings are told again, 4d at most.")
    ] = "4h"
    deadman_url: Annotated[
        str | None,
        typer.Option("--deadman-url", metavar="URL", help="Told every minute that alerts are evaluated and sent."),
    ] = None
    identity: Annotated[
        list[str] | None,
        typer.Option("--identity", metavar="LABEL", help="Label that tells engines apart, too (repeatable)."),
    ] = None

    def routing(self) -> Routing:
        """Return what was chosen. Raises ``UsageError``."""
        from palanca.alerting.routing import Routing, parse_release

        return Routing(
            release=parse_release(self.alertmanager),
            receiver_url=self.receiver_url,
            credentials_file=self.credentials_file,
            group_wait=_seconds(self.group_wait, "--group-wait"),
            group_interval=_seconds(self.group_interval, "--group-interval"),
            repeat_interval=_seconds(self.repeat_interval, "--repeat-interval"),
            deadman_url=self.deadman_url,
            identity=tuple(self.identity or ()),
        )


def routed(command: Any) -> Any:  # noqa: ANN401  any command
    """Give a command the options of ``Route``, where ``route`` stands."""
    return options.sharing("route", Route, command)


def _seconds(text: str, option: str) -> float:
    from palanca.moments import seconds

    try:
        return seconds(text)
    except ValueError as error:
        raise options.usage(f"{option}: {error}", f"e.g. {option} 5m") from None
