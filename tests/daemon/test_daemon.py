"""The daemon: polls on a schedule, publishes, answers fresh questions, stops quickly."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
from tests.daemon.fakes import KV, Clock, Ear, Recorded, few, watching
from tests.recorded import AT

from palanca.daemon.daemon import FRESH_AT_ONCE, FRESH_WAITING, Daemon
from palanca.daemon.watch import Duty, Poll, Watch
from palanca.errors import BusyError, NoTargetsError, SourceError
from palanca.poll import Question, Stretch

Test = Callable[[Daemon, Ear], Awaitable[None]]


def live(*watches: Watch, test: Test) -> Ear:
    """Run a test in a daemon that polls; it must stop within 3 s whatever it does then."""
    ear = Ear()

    async def main() -> None:
        daemon = Daemon(watches, [ear], watches[0].source.clock)  # type: ignore[attr-defined]
        daemon.start()
        try:
            await test(daemon, ear)
        finally:
            begin = time.monotonic()
            await daemon.stop()
            assert time.monotonic() - begin < 3

    asyncio.run(main())
    return ear


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        await asyncio.sleep(0.01)


def states(daemon: Daemon) -> list[str]:
    return [one.state for one in daemon.snapshot.diagnosis.sources]


def test_the_first_polls() -> None:
    """Every source is polled at once, and one document has the targets of all."""
    clock = Clock()

    async def test(daemon: Daemon, ear: Ear) -> None:
        await asyncio.wait_for(daemon.first.wait(), 10)
        await until(lambda: len(daemon.snapshot.diagnosis.targets) == 2 and len(ear.polls) == 2)
        assert ["ok", "ok"] == states(daemon)

    ear = live(watching(Recorded(clock), cluster="eu"), watching(Recorded(clock), name="us", cluster="us"), test=test)
    assert {"eu", "us"} == {name for name, _ in ear.polls}


def test_before_the_first_poll() -> None:
    """A snapshot is there from the beginning: nothing is known, and it says so."""

    async def main() -> Daemon:
        return Daemon([watching(Recorded(Clock()))], [], Clock())

    daemon = asyncio.run(main())
    said = json.loads(daemon.snapshot.json.body)
    assert ("unreachable", "not polled yet", []) == (said["source"]["state"], said["source"]["error"], said["targets"])


def test_polls_go_on() -> None:
    """Again and again, each with a snapshot of its own."""
    clock = Clock()

    async def test(daemon: Daemon, ear: Ear) -> None:
        await until(lambda: len(ear.polls) >= 3)
        assert daemon.snapshot.number >= 3

    ear = live(watching(Recorded(clock), interval=0.2), test=test)
    numbers = [one.number for one in ear.snapshots]
    assert sorted(set(numbers)) == numbers


def test_a_source_that_fails_and_recovers() -> None:
    """Stale with the reason while it fails, well again by itself."""
    source = Recorded(Clock())

    async def test(daemon: Daemon, _: Ear) -> None:
        await until(lambda: states(daemon) == ["ok"])
        source.failure = SourceError("refused")
        await until(lambda: states(daemon) == ["stale"])
        assert daemon.snapshot.diagnosis.source.error == "refused"
        assert len(daemon.snapshot.diagnosis.targets) == 1
        source.failure = None
        await until(lambda: states(daemon) == ["ok"])

    live(watching(source, interval=0.2), test=test)


def test_a_slow_poll_is_seen_and_not_queued() -> None:
    """One poll is under way, the others are left out, and the age is told; stopping ends it."""
    source = Recorded(Clock(), hang=True)

    async def test(daemon: Daemon, ear: Ear) -> None:
        await until(lambda: len(ear.skips) >= 2)
        assert len(source.questions) == 1
        assert ["unreachable"] == states(daemon)

    live(watching(source, interval=0.2), test=test)
    assert source.closed


def test_a_hanging_source_does_not_hold_up_another() -> None:
    """Each source is polled by itself."""
    good, bad = Recorded(Clock()), Recorded(Clock(), hang=True)

    async def test(daemon: Daemon, ear: Ear) -> None:
        await until(lambda: sum(name == "good" for name, _ in ear.polls) >= 3)
        assert {"ok", "unreachable"} == set(states(daemon))

    live(watching(good, name="good", interval=0.2), watching(bad, name="bad", interval=0.2), test=test)


def test_a_fresh_diagnosis() -> None:
    """It asks the sources, now or for a moment in the past, and is not published."""
    source = Recorded(Clock())

    async def test(daemon: Daemon, _: Ear) -> None:
        await until(lambda: states(daemon) == ["ok"])
        number = daemon.snapshot.number
        past = await daemon.fresh(AT[KV] - 90.0)
        assert AT[KV] - 90.0 == pytest.approx(past.time)
        assert past.source.state == "ok"
        assert len((await daemon.fresh(None)).targets) == 1
        assert number == daemon.snapshot.number

    live(watching(source), test=test)


def test_too_many_fresh_questions() -> None:
    """Some are answered, some wait, and the rest is told to come again; nothing is left behind."""
    source = Recorded(Clock())

    async def test(daemon: Daemon, _: Ear) -> None:
        await until(lambda: states(daemon) == ["ok"])
        many = FRESH_AT_ONCE + FRESH_WAITING + 5
        done = await asyncio.gather(*(daemon.fresh(None) for _ in range(many)), return_exceptions=True)
        busy = [one for one in done if isinstance(one, BusyError)]
        assert len(busy) == 5
        assert not isinstance(await daemon.fresh(None), BusyError)

    live(watching(source), test=test)


def test_other_watches_after_a_reload() -> None:
    """What was known stays until the new watch has polled; the old one is closed and tells nothing more."""
    old, new = Recorded(Clock()), Recorded(Clock())

    async def test(daemon: Daemon, ear: Ear) -> None:
        await until(lambda: states(daemon) == ["ok"])
        new.failure = SourceError("refused")
        await daemon.replace([watching(new, interval=0.2), watching(Recorded(Clock()), name="us", cluster="us")])
        assert old.closed
        await until(lambda: states(daemon) == ["stale", "ok"])
        assert len(daemon.snapshot.diagnosis.targets) == 2
        await until(lambda: sum(name == "eu" for name, _ in ear.polls) >= 3)

    live(watching(old), test=test)
    assert new.closed


def test_a_source_that_is_gone_after_a_reload() -> None:
    """Its targets go with it."""

    async def test(daemon: Daemon, _: Ear) -> None:
        await until(lambda: len(daemon.snapshot.diagnosis.targets) == 2)
        await daemon.replace([watching(Recorded(Clock()), cluster="eu")])
        await until(lambda: len(daemon.snapshot.diagnosis.targets) == 1)

    live(watching(Recorded(Clock()), cluster="eu"), watching(Recorded(Clock()), name="us", cluster="us"), test=test)


class Slow(Ear):
    """A listener that hangs, as a database can."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    def polled(self, watch: Watch, poll: Poll) -> None:
        super().polled(watch, poll)
        self.over.wait(20)


def test_a_listener_that_hangs_holds_up_no_poll() -> None:
    """Diagnoses go on; it is told the newest poll when it has come round."""
    slow, clock = Slow(), Clock()

    async def main() -> None:
        daemon = Daemon([watching(Recorded(clock), interval=0.2)], [slow], clock)
        daemon.start()
        await until(lambda: daemon.snapshot.number >= 5)
        assert len(slow.polls) == 1
        slow.over.set()
        await until(lambda: len(slow.polls) >= 3)
        await daemon.stop()

    asyncio.run(main())


def test_a_clock_that_is_set_back() -> None:
    """Polls go on by the new clock, and what is from the future is not called new."""
    shift = [0.0]

    def clock() -> float:
        return time.time() + shift[0]

    source = Recorded(Clock())

    async def main() -> None:
        ear = Ear()
        duty = Duty("eu", source, Question(), 1.0, windowed=False)
        daemon = Daemon([Watch(duty, few(), clock=clock, timer=time.monotonic)], [ear], clock)
        daemon.start()
        await until(lambda: len(ear.polls) >= 2)
        shift[0] = -600.0
        assert daemon.watches[0].view.info(clock()).state == "stale"
        seen = len(ear.polls)
        await until(lambda: len(ear.polls) >= seen + 3, seconds=15)
        await daemon.stop()

    asyncio.run(main())


# --- a stretch of time -----------------------------------------------------------------------------


def test_the_source_that_knows_an_engine_is_asked() -> None:
    """First; where it has it no more, the others, and in the end it is said that nobody has."""
    eu, us = Recorded(Clock()), Recorded(Clock())
    watches = watching(us, name="us", cluster="us"), watching(eu, name="eu", cluster="eu")

    async def test(daemon: Daemon, _: Ear) -> None:
        await daemon.first.wait()
        target = next(one.target for one in daemon.snapshot.diagnosis.targets if one.target.get("cluster") == "eu")
        stretch = Stretch(("running",), eu.clock(), span=60.0, steps=5)
        before = len(us.questions)
        assert (target,) == (await daemon.series(target, stretch)).targets
        assert before == len(us.questions)
        eu.failure = NoTargetsError("none here")
        with pytest.raises(NoTargetsError):
            await daemon.series(target, stretch)
        assert {"eu"} & set(us.questions[-1].matchers.values())
        eu.failure = SourceError("refused")
        with pytest.raises(SourceError, match="refused"):
            await daemon.series(target, stretch)

    live(*watches, test=test)
