"""The life of the process: load the settings, serve, reload them, end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import uvloop

from palanca import __version__, logs
from palanca.app.assembly import history_of, listening, plan
from palanca.app.server import Server
from palanca.app.service import Plan, Service, asgi
from palanca.history.disabled import NoHistory
from palanca.history.facade import History
from palanca.settings import changed
from palanca.telemetry import Telemetry

if TYPE_CHECKING:
    from palanca.app.server import Listen
    from palanca.model import Catalogue, Diagnosis
    from palanca.settings import Effective

First = Callable[["Diagnosis", "Catalogue"], None]

LONGEST_END_S = 4.5
"""From the signal to the end of the process, whatever hangs: supervisors that kill after 5 s need not."""


@dataclass(frozen=True)
class Told:
    """Who is told the address when the service answers, and the first diagnosis when there is one."""

    address: Callable[[str], None]
    first: First | None = None


def serve(load: Callable[[], Effective], environ: Mapping[str, str], told: Told) -> None:
    """Serve what the settings say until a signal ends it; SIGHUP loads them again.

    Raises ``RuleFileError`` and ``UsageError`` for settings that cannot be served.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # one that comes too early ends nothing
    made = load()
    log = made.settings.log
    logs.setup(log.format, log.level)
    history = history_of(made, environ, clock=time.time, timer=time.monotonic)
    current = [made]

    def again() -> Plan:
        new = load()
        # Where it listens holds until the restart; who is let in must go with that.
        fresh = plan(_listening_as(made, new), clock=time.time, timer=time.monotonic)
        say = logs.logger("settings")
        for change in changed(made.settings, new.settings):
            if change.restart:
                say.warning(str(change), needs_restart=True)
        for change in changed(current[0].settings, new.settings):
            if not change.restart:
                say.info(str(change))
        logs.set_level(new.settings.log.level)
        current[0] = new
        return fresh

    run(plan(made, clock=time.time, timer=time.monotonic), history, listening(made.settings), told, reload=again)


def _listening_as(old: Effective, new: Effective) -> Effective:
    return replace(new, settings=new.settings.model_copy(update={"listen": old.settings.listen}))


def run(
    plan_: Plan, history: History | NoHistory, listen: Listen, told: Told, *, reload: Callable[[], Plan] | None
) -> None:
    """Serve a plan until a signal ends it. Raises ``UsageError`` where that is not possible."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(plan_, history, listen, told, reload))


async def _live(
    plan_: Plan, history: History | NoHistory, listen: Listen, told: Told, reload: Callable[[], Plan] | None
) -> None:
    service = Service(plan_, telemetry=Telemetry(time.time), history=history, clock=time.time)
    server = Server(asgi(service), listen)
    tasks: set[asyncio.Task[None]] = set()

    def again() -> None:
        if reload is not None:
            task = asyncio.ensure_future(service.reload(reload))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def end() -> None:
        _end_soon()
        tasks.add(asyncio.ensure_future(service.daemon.stop()))  # so that answers that wait for a source end too

    if told.first is not None:
        tasks.add(asyncio.ensure_future(_tell_first(service, told.first)))
    server.heed(reload=again, stop=end)
    sources = {watch.name: watch.source.url for watch in plan_.watches}
    place = history.place if isinstance(history, History) else None
    if isinstance(history, NoHistory):
        logs.logger("history").warning("there is no history; diagnoses go on without it", reason=history.reason)
    logs.logger("serve").info("palanca serves", version=__version__, url=server.url, sources=sources, history=place)
    gc.collect()
    gc.freeze()  # the rules and modules stay for good: looking through them would hold up answers by 0.1 s
    told.address(server.url)
    try:
        await server.run_until_stopped()
    finally:
        for task in tasks:
            task.cancel()


async def _tell_first(service: Service, first: First) -> None:
    await service.daemon.first.wait()
    first(service.snapshot.diagnosis, service.catalogue)


def _end_soon() -> None:
    """End the process in any case: a thread may wait for a server or a disk that does not answer."""

    def leave() -> None:
        logs.logger("serve").error("work under way is abandoned: it did not end in time", seconds=LONGEST_END_S)
        sys.stdout.flush()
        os._exit(0)

    timer = threading.Timer(LONGEST_END_S, leave)
    timer.daemon = True
    timer.start()
