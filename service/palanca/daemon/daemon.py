"""Polls all sources on a schedule and publishes a snapshot after each poll; makes fresh diagnoses beside that."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from palanca.daemon.fleet import merged
from palanca.daemon.schedule import Aligned
from palanca.daemon.snapshot import Snapshot, taken
from palanca.errors import BusyError, NoTargetsError, PalancaError, SourceError, UsageError

if TYPE_CHECKING:
    from palanca.daemon.watch import Poll, Watch
    from palanca.model import Diagnosis, Readings, Target
    from palanca.poll import Stretch
    from palanca.verify import Verification
    from palanca.verifying import Trial

R = TypeVar("R")

FRESH_AT_ONCE = 2
"""Fresh diagnoses under way at once; each asks a server as much as a poll does."""
FRESH_WAITING = 8
LONGEST_STOP_S = 3.0
FILL_S = 15.0
"""How often a server that palanca scrapes itself is looked at: Prometheus' usual interval."""
MOST_UNTOLD = 20
"""Polls that wait for a slow database; beyond that the oldest are left out, as if they had not been made."""
CLOCK_LOOK_S = 2.0
CLOCK_STEP_S = 1.0
"""A clock that is corrected more than that at once was set; what drifts is slower."""
_FILL = "fill:"


class Listener(Protocol):
    """Is told what the daemon does. ``polled`` is called in a worker thread, the others in that of the event loop."""

    def polled(self, watch: Watch, poll: Poll) -> None:
        """Learn that a poll has ended."""

    def skipped(self, name: str) -> None:
        """Learn that a poll was left out, since the one before was still under way."""

    def published(self, snapshot: Snapshot) -> None:
        """Learn of a new snapshot."""


class Daemon:
    """Owns the watches. Made and used in one event loop; polls run in threads of its own.

    ``finish`` adds what is known from elsewhere to a diagnosis of now; it must be quick, and not fail.
    """

    def __init__(
        self,
        watches: Sequence[Watch],
        listeners: Sequence[Listener],
        clock: Callable[[], float],
        finish: Callable[[Diagnosis], Diagnosis] = lambda one: one,
    ) -> None:
        self._watches, self._listeners, self._clock = tuple(watches), tuple(listeners), clock
        self._finish = finish
        self._pool = _pool(len(self._watches))
        self._scheduler = AsyncIOScheduler(timezone="UTC")
        self._scheduler.add_listener(self._skipped, EVENT_JOB_MAX_INSTANCES)
        self._publishing, self._fresh = asyncio.Lock(), asyncio.Semaphore(FRESH_AT_ONCE)
        self._asking = 0
        self._untold: dict[str, deque[tuple[Watch, Poll]]] = {}
        self._telling: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self.snapshot = taken(self._merged(), 0)
        self.first = asyncio.Event()
        """Set when every source was polled once, with or without success."""

    @property
    def watches(self) -> tuple[Watch, ...]:
        """What is polled now."""
        return self._watches

    def start(self) -> None:
        """Poll everything at once, and from then on as scheduled."""
        self._schedule()
        self._scheduler.start()
        self._soon(self._poll_all(self._watches))
        self._soon(self._mind_the_clock())

    async def _mind_the_clock(self) -> None:
        """Schedule anew when the clock was set: what is due is told by it, and an hour back is an hour of no polls."""
        before = self._clock() - time.monotonic()
        while not self._stopped:
            await asyncio.sleep(CLOCK_LOOK_S)
            now = self._clock() - time.monotonic()
            if abs(now - before) > CLOCK_STEP_S and self._scheduler.running:
                self._scheduler.remove_all_jobs()
                self._schedule()
                self._soon(self.publish())
            before = now

    def _schedule(self) -> None:
        for watch in self._watches:
            options = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
            self._scheduler.add_job(self._poll, Aligned(watch.interval), [watch], id=watch.name, **options)
            if watch.duty.fill is not None and watch.interval > FILL_S:
                fill = self._in_thread, Aligned(FILL_S), [watch.duty.fill]
                self._scheduler.add_job(*fill, id=_FILL + watch.name, **options)

    async def stop(self) -> None:
        """Cancel what is under way and close all connections; takes ``LONGEST_STOP_S`` at most."""
        self._stopped = True
        with suppress(Exception):
            self._scheduler.shutdown(wait=False)
        self._pool.shutdown(wait=False, cancel_futures=True)
        await _hang_up(self._watches)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LONGEST_STOP_S)
        for task in self._tasks:
            task.cancel()

    async def replace(self, watches: Sequence[Watch]) -> None:
        """Poll other watches from now on. Those of a name that is known go on from what was known."""
        old = {watch.name: watch for watch in self._watches}
        known = [(watch, old[watch.name]) for watch in watches if watch.name in old]
        for watch, before in known:
            watch.resume(before)
        self._scheduler.remove_all_jobs()
        gone, self._watches = self._watches, tuple(watches)
        busy, self._pool = self._pool, _pool(len(self._watches))
        await _hang_up(gone)
        busy.shutdown(wait=False)
        for watch, before in known:
            await self._in_thread(lambda watch=watch, before=before: watch.take_over(before))  # type: ignore[misc]
        self._schedule()
        self._soon(self._poll_all(self._watches))

    # --- polls -----------------------------------------------------------------------------------

    async def _poll_all(self, watches: Sequence[Watch]) -> None:
        try:
            await asyncio.gather(*(self._poll(watch) for watch in watches))
        finally:
            self.first.set()

    async def _poll(self, watch: Watch) -> None:
        poll = await self._in_thread(watch.poll) if watch.due() else None
        await self.publish()
        if poll is not None:
            self._untold.setdefault(watch.name, deque(maxlen=MOST_UNTOLD)).append((watch, poll))
            if watch.name not in self._telling:
                self._soon(self._tell(watch.name))

    async def _tell(self, name: str) -> None:
        """Tell listeners of the polls of a source, in their order. Beside the polls: a slow database holds up none."""
        self._telling.add(name)
        try:
            while waiting := self._untold.get(name):
                watch, poll = waiting.popleft()
                if watch in self._watches:  # and not one that a reload has replaced meanwhile
                    await self._in_thread(lambda watch=watch, poll=poll: self._told(watch, poll))  # type: ignore[misc]
        finally:
            self._telling.discard(name)

    def _told(self, watch: Watch, poll: Poll) -> None:
        for listener in self._listeners:
            listener.polled(watch, poll)

    def _skipped(self, event: JobExecutionEvent) -> None:
        if not event.job_id.startswith(_FILL):
            for listener in self._listeners:
                listener.skipped(event.job_id)
            self._soon(self.publish())

    async def publish(self) -> None:
        """Put the last diagnoses together and write them as a new snapshot."""
        async with self._publishing:
            number = self.snapshot.number + 1
            self.snapshot = await self._in_thread(lambda: taken(self._merged(), number)) or self.snapshot
            for listener in self._listeners:
                listener.published(self.snapshot)

    def _merged(self) -> Diagnosis:
        return self._finish(merged([watch.view for watch in self._watches], self._clock()))

    # --- fresh -----------------------------------------------------------------------------------

    async def fresh(self, at: float | None) -> Diagnosis:
        """Diagnose all sources now, or at a moment in the past.

        Raises ``BusyError`` where too many are waiting already, ``UsageError`` for a moment that no source can know.
        """
        async with self._turn():
            views = await asyncio.gather(
                *(self._in_thread(lambda watch=watch: watch.fresh(at)) for watch in self._watches)  # type: ignore[misc]
            )
            found = [view for view in views if view is not None]
            if found and all(view.impossible for view in found):
                raise UsageError("\n".join(dict.fromkeys(str(view.error) for view in found)))
            return self._finish(merged(found, self._clock())) if at is None else merged(found, at)

    async def verify(self, name: str, target: Target, trial: Trial) -> Verification:
        """Verify a change at a target of the source of that name.

        Raises ``BusyError``, ``SourceError``, and ``UsageError`` where there is no such source or change.
        """
        watch = next((one for one in self._watches if one.name == name), None)
        if watch is None:
            message = f"there is no source {name!r} any more"
            raise UsageError(message)
        return await self._asked(lambda: watch.verify(target, trial))

    async def series(self, target: Target, stretch: Stretch) -> Readings:
        """Read some signals of a target over a stretch of time, from the source that knows it.

        Raises ``BusyError``, ``SourceError`` and ``UsageError``.
        """
        failure: PalancaError = SourceError("no source knows this engine any more")
        for watch in sorted(self._watches, key=lambda one: one.strangeness(target)):
            try:
                return await self._asked(lambda watch=watch: watch.series(target, stretch))  # type: ignore[misc]
            except NoTargetsError as error:
                failure = error
        raise failure

    async def _asked(self, question: Callable[[], R]) -> R:
        """Ask a source when there is a turn. Raises ``BusyError``, and what the question raises."""
        async with self._turn():
            result = await self._in_thread(question)
        if result is None:
            message = "palanca is stopping"
            raise BusyError(message)
        return result

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a turn among the questions that ask sources. Raises ``BusyError`` where too many wait already."""
        if self._asking >= FRESH_AT_ONCE + FRESH_WAITING:
            message = f"{self._asking} questions to the sources are under way or waiting; ask again later"
            raise BusyError(message)
        self._asking += 1
        try:
            async with self._fresh:
                yield
        finally:
            self._asking -= 1

    # --- threads ---------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[], R]) -> R | None:
        """Run blocking work in a thread; None where the daemon is stopping."""
        if self._stopped:
            return None
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _soon(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _pool(watches: int) -> ThreadPoolExecutor:
    """Threads for a poll and for what listeners do with it, for each source, and for questions beside them."""
    return ThreadPoolExecutor(watches * (2 + FRESH_AT_ONCE) + 4, thread_name_prefix="palanca")


async def _hang_up(watches: Sequence[Watch]) -> None:
    for watch in watches:
        watch.source.stop()
    await asyncio.sleep(0)
    for watch in watches:
        watch.source.close()
