"""The life of the process: load the settings, serve, reload them, end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvloop

from palanca import __version__, logs
from palanca.app.assembly import history_of, listening, plan
from palanca.app.server import Server
from palanca.app.service import Plan, Service, asgi
from palanca.settings import changed
from palanca.telemetry import Telemetry

if TYPE_CHECKING:
    from palanca.app.server import Listen
    from palanca.history.facade import History
    from palanca.model import Catalogue, Diagnosis
    from palanca.settings import Effective

First = Callable[["Diagnosis", "Catalogue"], None]


@dataclass(frozen=True)
class Told:
    """Who is told the address when the service answers, and the first diagnosis when there is one."""

    address: Callable[[str], None]
    first: First | None = None


def serve(load: Callable[[], Effective], environ: Mapping[str, str], told: Told) -> None:
    """Serve what the settings say until a signal ends it; SIGHUP loads them again.

    Raises ``RuleFileError`` and ``UsageError`` for settings that cannot be served.
    """
    made = load()
    log = made.settings.log
    logs.setup(log.format, log.level)
    history = history_of(made, environ, clock=time.time, timer=time.monotonic)
    current = [made]

    def again() -> Plan:
        new = load()
        fresh = plan(new, clock=time.time, timer=time.monotonic)
        for change in changed(current[0].settings, new.settings):
            say = logs.logger("settings")
            (say.warning if change.restart else say.info)(str(change), needs_restart=change.restart)
        logs.set_level(new.settings.log.level)
        current[0] = new
        return fresh

    run(plan(made, clock=time.time, timer=time.monotonic), history, listening(made.settings), told, reload=again)


def run(plan_: Plan, history: History | None, listen: Listen, told: Told, *, reload: Callable[[], Plan] | None) -> None:
    """Serve a plan until a signal ends it. Raises ``UsageError`` where that is not possible."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(plan_, history, listen, told, reload))


async def _live(
    plan_: Plan, history: History | None, listen: Listen, told: Told, reload: Callable[[], Plan] | None
) -> None:
    service = Service(plan_, telemetry=Telemetry(time.time), history=history, clock=time.time)
    server = Server(asgi(service), listen)
    tasks: set[asyncio.Task[None]] = set()

    def again() -> None:
        if reload is not None:
            task = asyncio.ensure_future(service.reload(reload))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    if told.first is not None:
        tasks.add(asyncio.ensure_future(_tell_first(service, told.first)))
    sources = {watch.name: watch.source.url for watch in plan_.watches}
    place = None if history is None else history.place
    logs.logger("serve").info("palanca serves", version=__version__, url=server.url, sources=sources, history=place)
    told.address(server.url)
    try:
        await server.run_until_stopped(again)
    finally:
        for task in tasks:
            task.cancel()


async def _tell_first(service: Service, first: First) -> None:
    await service.daemon.first.wait()
    first(service.snapshot.diagnosis, service.catalogue)
