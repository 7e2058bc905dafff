"""What goes wrong, one thing after another, drawn by a seed; and when, for those who judge what could be seen."""

from __future__ import annotations

import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from soak.world import World

REST_S = (15.0, 35.0)
"""Between two faults."""
SETTLED_S = 10.0
"""After a fault: until what it kept from being seen is seen again."""
SLACK_HANGS_S = 15.0
Outage = Callable[[World, float, random.Random], None]


@dataclass(frozen=True)
class Injected:
    """One fault, from one moment to another, unix seconds."""

    kind: str
    begin: float
    end: float


@dataclass
class Log:
    """The faults so far, and the one that is there now."""

    done: list[Injected] = field(default_factory=list)
    now: str = ""
    since: float = 0.0

    def blind(self, kinds: tuple[str, ...], settled: float = SETTLED_S) -> list[tuple[float, float]]:
        """When faults of these kinds kept something from being seen, with the time to settle."""
        return [(one.begin - 1.0, one.end + settled) for one in self.done if one.kind in kinds]


def killed_program(name: str, number: signal.Signals, world: World, seconds: float, _: random.Random) -> None:
    """End a program, and start it again later."""
    world.programs.send(name, number)
    world.programs.wait(name)
    time.sleep(seconds)
    world.start(name)


def stopped_prometheus(world: World, seconds: float, _: random.Random) -> None:
    """Let Prometheus hang: it takes connections and does not answer."""
    world.programs.send("prometheus", signal.SIGSTOP)
    time.sleep(seconds)
    world.programs.send("prometheus", signal.SIGCONT)


def slack_answers(
    reply: Callable[[], tuple[int, str, dict[str, str]]], world: World, seconds: float, _: random.Random
) -> None:
    """Let Slack answer otherwise."""
    world.slack.failing = lambda _path: reply()
    time.sleep(seconds)
    world.slack.failing = lambda _path: None


def _hang() -> tuple[int, str, dict[str, str]]:
    time.sleep(SLACK_HANGS_S)
    return 500, "", {}


def _drop() -> tuple[int, str, dict[str, str]]:
    raise ConnectionResetError


def slack_loses(world: World, seconds: float, dice: random.Random) -> None:
    """Let Slack take messages and hang up without an answer, now and then."""

    def lose(_: str) -> None:
        world.slack.lose_answer = dice.random() < 0.5  # noqa: PLR2004  every second one

    world.slack.failing = lose
    time.sleep(seconds)
    world.slack.failing = lambda _path: None
    world.slack.lose_answer = False


def reloaded(world: World, seconds: float, dice: random.Random) -> None:
    """Send SIGHUP, with settings that have changed, or that are wrong; in the end they are right again."""
    for _ in range(1 + int(seconds) // 10):
        if dice.random() < 0.3:  # noqa: PLR2004  now and then
            (world.folder / "palanca.yaml").write_text("interval: [soon\n", encoding="utf-8")
        else:
            world.configure(dice.choice(["info", "warning"]))
        world.programs.send("palanca", signal.SIGHUP)
        time.sleep(5.0)
    world.configure()
    world.programs.send("palanca", signal.SIGHUP)


def full_disk(world: World, seconds: float, _: random.Random) -> None:
    """Let every write of palanca to a file fail, as on a disk that is full."""
    pid = world.programs.pid("palanca")
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, before[1]))
    time.sleep(seconds)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


FAULTS: dict[str, Outage] = {
    "prometheus killed": partial(killed_program, "prometheus", signal.SIGKILL),
    "prometheus stopped": stopped_prometheus,
    "alertmanager killed": partial(killed_program, "alertmanager", signal.SIGKILL),
    "slack 500": partial(slack_answers, lambda: (500, "", {})),
    "slack 429": partial(slack_answers, lambda: (429, '{"ok":false,"error":"ratelimited"}', {"Retry-After": "3"})),
    "slack hangs": partial(slack_answers, _hang),
    "slack drops": partial(slack_answers, _drop),
    "slack loses answers": slack_loses,
    "palanca reloaded": reloaded,
    "palanca's disk full": full_disk,
    "palanca killed": partial(killed_program, "palanca", signal.SIGKILL),
    "palanca ended": partial(killed_program, "palanca", signal.SIGTERM),
}
OF_PROMETHEUS = ("prometheus killed", "prometheus stopped")
OF_PALANCA = ("palanca killed", "palanca ended")
OF_THE_DISK = ("palanca's disk full",)
OF_ALERTMANAGER = ("alertmanager killed",)
OF_SLACK = ("slack 500", "slack 429", "slack hangs", "slack drops", "slack loses answers")
LONGEST_S = {"palanca killed": 8.0, "palanca ended": 8.0}


def inject(world: World, dice: random.Random, over: threading.Event, log: Log, spare: Callable[[float], bool]) -> None:
    """Inject one fault after another until it is over; ``spare`` says when palanca itself is left to live."""
    bag: list[str] = []
    while not over.wait(dice.uniform(*REST_S)):
        bag = bag or dice.sample(sorted(FAULTS), len(FAULTS))
        alive = spare(time.monotonic())
        kind = next((one for one in bag if not (alive and one in OF_PALANCA)), None)
        if kind is None:
            bag = []
            continue
        bag.remove(kind)
        begin = log.since = time.time()
        log.now = kind
        FAULTS[kind](world, dice.uniform(3.0, LONGEST_S.get(kind, 35.0)), dice)
        log.done.append(Injected(kind, begin, time.time()))
        log.now = ""
