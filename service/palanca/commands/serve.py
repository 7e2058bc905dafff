"""``palanca serve``: the daemon and its REST API. ``palanca demo``: the same, over a recording that is replayed."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palanca.commands import options
from palanca.commands.service import Service, serving

if TYPE_CHECKING:
    from palanca.app.life import Told
    from palanca.model import Catalogue, Diagnosis

DEMO_INTERVAL_S = 10.0
DEMO_ARGUMENTS = "--block-size 32 --num-gpu-blocks-override 256 --max-num-seqs 64 --max-model-len 4096 --enforce-eager"
"""With which the recorded server was started (examples/README.md)."""
DEMO_BEGAN_S = 700.0
"""How far the first round has come when the demo begins: in the middle of the incident."""

First = Annotated[bool, typer.Option("--print", help="Print the first diagnosis too.")]


@serving
def serve(
    *,
    config: options.Config = None,
    print_first: First = False,
    service: Service,
    reach: options.Reach,
) -> None:
    """Watch vLLM servers, and answer over HTTP what is wrong and which flag to change.

    Settings come from flags, then PALANCA_... variables, then the file. SIGHUP reloads them, SIGTERM ends the service.
    """
    from palanca.app import life
    from palanca.settings import load, settings_file

    flags = service.flags(reach)
    life.serve(lambda: load(settings_file(config, os.environ), os.environ, flags), os.environ, _told(first=print_first))


def demo(
    *,
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = 9797,
    rules: options.Rules = None,
) -> None:
    """Serve a real incident, replayed for ever: polls, history, REST API, all as in earnest. No server is needed."""
    from palanca import logs
    from palanca.advice.hardware import load_hardware
    from palanca.api.guard import Rules, own_hosts
    from palanca.app import life
    from palanca.app.server import Listen
    from palanca.app.service import Plan
    from palanca.daemon.watch import Duty, Watch
    from palanca.facts import given, parse_serve_args
    from palanca.history.facade import History
    from palanca.history.store import HistoryStore
    from palanca.poll import Question
    from palanca.resources import shipped
    from palanca.settings import Knowledge, TargetFacts
    from palanca.sources.loop import LoopSource

    logs.setup("console", "warning")
    catalogue = options.catalogue(rules)
    recording = shipped("examples") / "kv-saturated.om.gz"
    source = LoopSource(recording, start=time.time() - DEMO_BEGAN_S, clock=time.time)
    facts = given(catalogue, parse_serve_args(DEMO_ARGUMENTS), "examples/README.md")
    knowledge = Knowledge((TargetFacts({}, facts, DEMO_ARGUMENTS),))
    duty = Duty("demo", source, Question(settings=knowledge.facts), DEMO_INTERVAL_S, windowed=False)
    watch = Watch(duty, catalogue, clock=time.time, timer=time.monotonic)
    host = "127.0.0.1"
    hardware = load_hardware([shipped("rules"), *([rules] if rules else [])])
    plan = Plan(catalogue, [watch], Rules(hosts=own_hosts(host, None)), knowledge=knowledge, hardware=hardware)
    with tempfile.TemporaryDirectory(prefix="palanca-demo-") as folder:
        history = History(HistoryStore(Path(folder) / "palanca.db"), time.time, time.monotonic)
        life.run(plan, history, Listen(host, port), _told(first=True), reload=None)


def _told(*, first: bool) -> Told:
    from palanca.app.life import Told

    def address(url: str) -> None:
        typer.echo(f"palanca serves at {url} (Ctrl-C ends it); for programs {url}/diagnose and {url}/docs", err=True)

    return Told(address, _print if first else None)


def _print(diagnosis: Diagnosis, catalogue: Catalogue) -> None:
    from palanca.render import text

    width, color = options.terminal()
    options.say(text.render(diagnosis, width=width, color=color, catalogue=catalogue), color=True)
