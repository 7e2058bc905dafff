"""The running service: daemon, API, history, telemetry and logs, and what is replaced on reload."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from palanca.advice.hardware import Hardware
from palanca.alerting.options import Options
from palanca.api import alertmanager as webhook
from palanca.api import alerts, dashboards, verify
from palanca.api import history as past
from palanca.api.application import application
from palanca.api.guard import Audited, Guard, Rules, Served
from palanca.app.alertmanagers import Alertmanagers, Contacts
from palanca.app.recorder import Keeping, Recorder
from palanca.app.telling import Reports, Telling
from palanca.daemon.daemon import Daemon
from palanca.dashboards.options import Options as Boards
from palanca.errors import PalancaError
from palanca.history.disabled import NoHistory
from palanca.history.facade import History
from palanca.logs import logger
from palanca.notify.courier import Courier
from palanca.notify.dispatcher import Dispatcher
from palanca.notify.group_notices import GroupSink
from palanca.notify.sender import Clocks
from palanca.settings.targets import Knowledge
from palanca.telemetry import Telemetry
from palanca.web.pages import refuse
from palanca.web.routes import routers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from palanca.daemon.daemon import Listener
    from palanca.daemon.snapshot import Snapshot
    from palanca.daemon.watch import Poll, Watch
    from palanca.model import Catalogue, Diagnosis, Readings, SourceInfo, Target
    from palanca.notify.alert_groups import Sink
    from palanca.outgoing import Look, Posting
    from palanca.poll import Stretch
    from palanca.verify import Verification
    from palanca.verifying import Trial


@dataclass(frozen=True)
class Plan:
    """What can be replaced while the service runs."""

    catalogue: Catalogue
    watches: Sequence[Watch]
    rules: Rules
    retention: float = 90 * 86400.0
    """How long the history is kept, in seconds."""
    alerts: Options = field(default_factory=Options)
    """What the exported alerts are like."""
    contacts: Contacts = field(default_factory=Contacts)
    telling: Telling = field(default_factory=Telling)
    dashboards: Boards = field(default_factory=Boards)
    """What the exported dashboards are like."""
    knowledge: Knowledge = field(default_factory=Knowledge)
    """What the settings say of targets."""
    hardware: Hardware = field(default_factory=Hardware)


class Service:
    """The running service; satisfies ``palanca.api.backend.Backend``. ``clock`` gives unix seconds."""

    def __init__(
        self, plan: Plan, *, telemetry: Telemetry, history: History | NoHistory, clock: Callable[[], float]
    ) -> None:
        self.plan, self.telemetry, self._clock = plan, telemetry, clock
        self.history = history
        listeners: list[Listener] = [telemetry, _PollLog()]
        self.dispatcher: Dispatcher | None = None
        self.courier: Courier | None = None
        """Tells people; None where there is no history, which remembers what was told."""
        self.recorder: Recorder | None = None
        if isinstance(history, History):
            boxes = plan.telling.mailboxes
            self.dispatcher = Dispatcher(history.outbox, boxes, Clocks(clock, time.monotonic), Reports(telemetry))
            self.courier = Courier(history.outbox, lambda: self.plan.telling.routing, self.dispatcher.nudge)
            self.recorder = Recorder(history, telemetry, self._keeping, self.dispatcher.nudge)
        if self.recorder is not None:
            listeners.append(self.recorder)
        self.alertmanagers = Alertmanagers(telemetry, lambda: self.plan.catalogue, clock)
        listeners.append(self.alertmanagers)
        self.daemon = Daemon(plan.watches, listeners, clock, finish=self.alertmanagers.marked)
        self._reloading = asyncio.Lock()

    def _keeping(self) -> Keeping:
        plan = self.plan
        names = [watch.name for watch in plan.watches]
        return Keeping(plan.catalogue, names, plan.retention, plan.telling.tell and self._tell)

    def _tell(self, look: Look) -> Sequence[Posting]:
        """What people shall be told of a look, with the silences of now."""
        tell = self.plan.telling.tell
        if tell is None:
            return ()
        marked = None if look.diagnosis is None else self.alertmanagers.marked(look.diagnosis)
        return tell(replace(look, diagnosis=marked))

    def sink(self) -> Sink | None:
        """Where groups of alerts go that Alertmanager sends; None where nobody can be told."""
        if self.courier is None or not self.plan.telling.mailboxes:
            return None
        return GroupSink(self.courier, lambda: self.plan.telling.places, lambda: self.plan.catalogue, self._clock)

    @property
    def snapshot(self) -> Snapshot:
        """The last finished diagnosis."""
        return self.daemon.snapshot

    @property
    def catalogue(self) -> Catalogue:
        """The rules in force."""
        return self.plan.catalogue

    @property
    def knowledge(self) -> Knowledge:
        """What the settings say of targets."""
        return self.plan.knowledge

    @property
    def hardware(self) -> Hardware:
        """The GPUs in force, and the reference configurations."""
        return self.plan.hardware

    def sources(self) -> Sequence[SourceInfo]:
        """Every source as of now."""
        return [watch.view.info(self._clock()) for watch in self.daemon.watches]

    def now(self) -> float:
        """Unix seconds."""
        return self._clock()

    async def fresh(self, at: float | None) -> Diagnosis:
        """Make a diagnosis now, or of a moment in the past. Raises ``BusyError`` and ``UsageError``."""
        return await self.daemon.fresh(at)

    async def verify(self, source: str, target: Target, trial: Trial) -> Verification:
        """Verify a change at a target of a source. Raises ``BusyError``, ``SourceError`` and ``UsageError``."""
        return await self.daemon.verify(source, target, trial)

    async def series(self, target: Target, stretch: Stretch) -> Readings:
        """Read some signals of one target. Raises ``BusyError``, ``SourceError`` and ``UsageError``."""
        return await self.daemon.series(target, stretch)

    async def reload(self, make: Callable[[], Plan]) -> None:
        """Put new settings in force, all or nothing: what is wrong with them is logged, and the old ones stay."""
        log = logger("settings")
        async with self._reloading:
            try:
                plan = await asyncio.to_thread(make)
            except PalancaError as error:
                self.telemetry.reloaded(successful=False)
                log.error("the settings are not reloaded; those before stay in force", error=str(error))  # noqa: TRY400
                return
            except Exception:
                self.telemetry.reloaded(successful=False)
                log.exception("the settings are not reloaded, since palanca failed; those before stay in force")
                return
            if self.dispatcher is not None:  # before anything is written for them
                await asyncio.to_thread(self.dispatcher.replace, plan.telling.mailboxes)
            self.plan = plan
            self.alertmanagers.use(plan.contacts)
            await self.daemon.replace(plan.watches)
            self.telemetry.reloaded(successful=True)
            log.info("the settings are reloaded", sources=[watch.name for watch in plan.watches])


class _PollLog:
    """Says in the log what changes: a source that fails, recovers, or cannot keep up."""

    def __init__(self) -> None:
        self._failing: set[str] = set()
        self._log = logger("poll")

    def polled(self, watch: Watch, poll: Poll) -> None:
        failed, known = poll.result == "error", watch.name in self._failing
        if failed and not known:
            self._failing.add(watch.name)
            self._log.warning("source fails", source=watch.name, error=poll.view.error, exc_info=poll.fault)
        elif not failed and known:
            self._failing.discard(watch.name)
            self._log.info("source has recovered", source=watch.name)
        targets = len(poll.view.diagnosis.targets) if poll.view.diagnosis else 0
        self._log.debug(
            "polled", source=watch.name, result=poll.result, seconds=round(poll.seconds, 3), targets=targets
        )

    def skipped(self, name: str) -> None:
        self._log.warning("poll left out: the one before is still under way", source=name)

    def published(self, snapshot: Snapshot) -> None:
        self._log.debug("published", number=snapshot.number, bytes=len(snapshot.json.body))


def asgi(service: Service) -> ASGIApp:
    """Make the application that a server runs; starting and stopping the daemon is part of its lifespan."""
    audit = logger("audit")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # A database that does not answer keeps nobody from a diagnosis.
        opening = None if service.recorder is None else asyncio.ensure_future(asyncio.to_thread(service.recorder.open))
        service.alertmanagers.use(service.plan.contacts)
        service.daemon.start()
        if service.dispatcher is not None:
            service.dispatcher.start()
        try:
            yield
        finally:
            sending = None if service.dispatcher is None else asyncio.to_thread(service.dispatcher.stop)
            await asyncio.gather(service.daemon.stop(), *([] if sending is None else [sending]))
            await asyncio.to_thread(service.alertmanagers.stop)
            if service.recorder is not None and opening is not None:
                await asyncio.gather(opening, return_exceptions=True)
                await asyncio.to_thread(service.recorder.close)

    def audited(one: Audited) -> None:
        audit.info("write", caller=one.caller, client=one.client, method=one.method, path=one.path, status=one.status)

    def served(one: Served) -> None:
        service.telemetry.served(one.method, one.path, one.status, one.seconds)

    def rules() -> Rules:
        return service.plan.rules

    more = [
        verify.router(service, service.history),
        past.router(service, service.history),
        webhook.router(service, service.sink),
        alerts.router(lambda: (service.plan.catalogue, service.plan.alerts)),
        dashboards.router(lambda: (service.plan.catalogue, service.plan.dashboards)),
        *routers(service, service.history, rules),
    ]
    app = application(service, metrics=service.telemetry.text, lifespan=lifespan, more=more)
    return Guard(
        app,
        rules=rules,
        audit=audited,
        served=served,
        timer=time.monotonic,
        clock=service.now,
        refuse=refuse,
    )
