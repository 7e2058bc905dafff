"""Options of the service that are settings as well, and how they become some."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from palanca.commands import options

if TYPE_CHECKING:
    from palanca.settings import Flag

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(https?://.*)", re.DOTALL)


@dataclass(frozen=True)
class Service:
    """Options of ``serve`` and ``config show`` (see ``serving``); they go before variables and the file."""

    prometheus: Annotated[
        list[str] | None,
        typer.Option("--prometheus", metavar="[NAME=]URL", help="A Prometheus-compatible server (repeatable)."),
    ] = None
    scrape: options.Scrape = None
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on (127.0.0.1).")] = None
    port: Annotated[int | None, typer.Option("--port", help="Port to listen on (9797).")] = None
    interval: Annotated[
        str | None, typer.Option("--interval", metavar="DURATION", help="How often each source is polled (30s).")
    ] = None
    external_url: Annotated[
        str | None, typer.Option("--external-url", metavar="URL", help="Where people reach the service.")
    ] = None
    database: Annotated[
        str | None, typer.Option("--database", metavar="URL", help="SQLite file or postgresql:// of the history.")
    ] = None
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Answer everybody, on any address.")] = False
    log_format: Annotated[str | None, typer.Option("--log-format", help="console or json.")] = None
    log_level: Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.")] = None
    rules: options.Rules = None

    def flags(self, reach: options.Reach) -> tuple[Flag, ...]:
        """Return the options as flags of the settings; ``reach`` tells of the sources among them.

        Raises ``UsageError``.
        """
        from palanca.settings import Flag

        made = [
            Flag("--host", ("listen", "host"), self.host),
            Flag("--port", ("listen", "port"), self.port),
            Flag("--interval", ("interval",), self.interval),
            Flag("--external-url", ("external_url",), self.external_url),
            Flag("--database", ("history", "database"), self.database),
            Flag("--no-auth", ("auth", "disabled"), True if self.no_auth else None),
            Flag("--log-format", ("log", "format"), self.log_format),
            Flag("--log-level", ("log", "level"), self.log_level),
            Flag("--rules", ("rules",), None if self.rules is None else str(self.rules)),
        ]
        way = _way(reach)
        servers, scraped = self.prometheus or [], self.scrape or []
        if way and not servers and not scraped:
            name = next(iter(way)).replace("_", "-").removesuffix("s" if "headers" in way else "")
            raise options.usage(f"--{name} without a source", "it belongs to --prometheus or --scrape")
        sources = [*_prometheus(servers), *([{"name": "scrape", "scrape": list(scraped)}] if scraped else [])]
        option = " and ".join(one for one, given in (("--prometheus", servers), ("--scrape", scraped)) if given)
        made.append(Flag(option, ("sources",), [{**one, **way} for one in sources] or None))
        return tuple(made)


def serving(command: Any) -> Any:  # noqa: ANN401  any command
    """Give a command the options of ``Service`` and ``Reach``, where ``service`` and ``reach`` stand."""
    return options.sharing("service", Service, options.reaching(command))


def _prometheus(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Read ``[NAME=]URL``; without a name it is ``prometheus``, and of several the host."""
    taken: set[str] = set()
    for text in texts:
        named = _NAMED.fullmatch(text)
        url = named[2] if named else text
        name = named[1] if named else "prometheus" if len(texts) == 1 else _host(url)
        if not named:
            name = next(one for one in (name, *(f"{name}-{number}" for number in range(2, 1000))) if one not in taken)
        taken.add(name)
        yield {"name": name, "prometheus": url}


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    return re.sub(r"[^A-Za-z0-9_.-]", "-", host or "prometheus").strip("-.") or "prometheus"


def _way(reach: options.Reach) -> dict[str, Any]:
    """Return the settings of a source that say how it is reached, those that were given."""
    plain = {one.name: getattr(reach, one.name) for one in fields(reach)}
    way: dict[str, Any] = {name: str(value) for name, value in plain.items() if isinstance(value, Path)}
    if plain["insecure"]:
        way["insecure"] = True
    if plain["timeout"] != options.Reach.timeout:
        way["timeout"] = plain["timeout"]
    if plain["header"]:
        way["headers"] = dict(options.headers(plain["header"]))
    return way
