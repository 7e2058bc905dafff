"""Faults at random around a real service, for half an hour, and whether anything was lost, doubled, or leaked.

    python -m soak [--minutes 30] [--seed N] [--engines 4] [--keep FOLDER]

A real Prometheus scrapes made-up engines that fall ill, recover, and stop answering; a real Alertmanager sends what
Prometheus finds; palanca polls, keeps its history in SQLite, and tells a local Slack that keeps Slack's limits. One
fault after another is injected, drawn by the seed. In the end all is well again, and what is known and was told is
compared with what was so. Prints a report; exit code 1 where something did not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from soak import checks
from soak.engines import live
from soak.faults import OF_ALERTMANAGER, OF_PALANCA, OF_PROMETHEUS, OF_SLACK, OF_THE_DISK, Log, inject
from soak.watch import Seen, longest_life, look, watch
from soak.world import DOWN, RULE, TITLE, World, build, until

SETTLE_S = 240.0
SPARED = (0.2, 0.85)
"""Between these shares of the time palanca is not killed, so that one life is long enough to look for leaks."""
LEAST_LIFE_S = 300.0
AGAIN_S = 35.0
"""After an outage of Slack of half a minute: until it is tried again (1 s, 2 s, 4 s ... 16 s)."""
EPISODES = """
SELECT e.began, e.ended FROM palanca_episodes e JOIN palanca_targets t ON t.id = e.target_id
WHERE e.rule = ? AND t.labels LIKE ? ORDER BY e.began
"""
MODEL = re.compile(r"model-\d+")


@dataclass
class Report:
    """What came of it."""

    wrong: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Add a line, and print it at once."""
        self.lines.append(text)
        print(text, flush=True)


def soak(seconds: float, seed: int, engines: int, folder: Path) -> Report:
    """Run for so long."""
    report = Report()
    report.say(f"seed {seed}, {engines} engines, {seconds / 60:.1f} min")
    with ExitStack() as stack:
        world = build(stack, folder, engines)
        log, seen, begin = Log(), Seen(), time.monotonic()
        _run(world, seed, seconds, log, seen)
        report.say(f"all is well again after {time.monotonic() - begin:.0f} s; waiting until that is known and told")
        try:
            until(lambda: _settled(world, seen), SETTLE_S, "everything is known and told")
        except TimeoutError as error:
            report.wrong.append(str(error))
        look(world, log, seen)
        world.programs.send("palanca", signal.SIGTERM)
        code = world.programs.wait("palanca")
        report.wrong += [f"palanca ended with {code}"] if code else []
        _judge(world, log, seen, report)
    return report


def _run(world: World, seed: int, seconds: float, log: Log, seen: Seen) -> None:
    over, all_over = threading.Event(), threading.Event()
    begin = time.monotonic()
    low, high = (begin + share * seconds for share in SPARED)
    threads = [
        threading.Thread(target=live, args=(one, random.Random(f"{seed} {one.model}"), over)) for one in world.engines
    ]
    failed: list[BaseException] = []

    def injecting() -> None:
        try:
            inject(world, random.Random(f"{seed} faults"), over, log, lambda now: low < now < high)
        except BaseException as error:  # noqa: BLE001  told in the thread that waits
            failed.append(error)

    threads.append(threading.Thread(target=injecting))
    watching = threading.Thread(target=watch, args=(world, log, seen, all_over))
    for one in (*threads, watching):
        one.start()
    try:
        while time.monotonic() - begin < seconds and not failed:
            time.sleep(0.5)
    finally:
        over.set()
        for one in threads:
            one.join()
        all_over.set()
        watching.join()
    if failed:
        raise failed[0]


def _settled(world: World, seen: Seen) -> bool:
    """Whether nothing is open and nothing waits; what is seen meanwhile is noted."""
    look(world, Log(), seen)
    ours = [one for one in seen.messages.values() if _model(one.title, TITLE) or _model(one.title, DOWN)]
    waiting = world.query("SELECT count(*) FROM palanca_outbox WHERE pending")
    started = world.query("SELECT count(*) FROM palanca_episodes WHERE rule = ? AND ended IS NULL", RULE)
    return [(0,)] == waiting == started and all(one.over is not None for one in ours)


def _model(title: str, what: str) -> str | None:
    """Return the model of a message about something; None for one about something else."""
    found = MODEL.match(title.removeprefix(what + " (")) if title.startswith(what) else None
    return found and found[0]


def _judge(world: World, log: Log, seen: Seen, report: Report) -> None:
    raw = {"seen": asdict(seen), "faults": asdict(log), "truth": {one.model: one.spans() for one in world.engines}}
    (world.folder / "record.json").write_text(json.dumps(raw, default=asdict, indent=1), encoding="utf-8")
    report.say(f"faults injected: {dict(sorted(Counter(one.kind for one in log.done).items()))}")
    blind = log.blind((*OF_PROMETHEUS, *OF_PALANCA, *OF_THE_DISK))
    untold = log.blind((*OF_SLACK, *OF_PROMETHEUS, *OF_PALANCA, *OF_THE_DISK, *OF_ALERTMANAGER), AGAIN_S)
    total = Counter[str]()
    for engine in world.engines:
        truth = engine.spans()
        known = [checks.Known(began, ended) for began, ended in world.query(EPISODES, RULE, f'%"{engine.model}"%')]
        told = [one for one in seen.messages.values() if _model(one.title, TITLE) == engine.model]
        down = [one for one in seen.messages.values() if _model(one.title, DOWN) == engine.model]
        summarised = sum(one.count(engine.model) for one in seen.summaries)
        report.wrong += checks.episodes(engine.model, truth, known, blind)
        report.wrong += checks.messages(engine.model, told, known, summarised, untold)
        dead = [checks.Known(one.begin, one.end) for one in truth if one.state == "dead"]
        away = log.blind((*OF_PROMETHEUS, *OF_ALERTMANAGER))
        sure = [one for one in dead if checks.seen(one.began, one.ended or one.began, away) >= checks.SEEN_S]
        report.wrong += [
            one
            for one in checks.messages(f"{engine.model} down", down, dead, summarised + len(dead) - len(sure), untold)
            if "is of no episode" not in one
        ]
        total += Counter(one.state for one in truth)
        total += Counter({"episodes": len(known), "messages": len(told), "down messages": len(down)})
        total += Counter({"sure deaths": len(sure), "summarised": summarised})
    report.say(f"engines: {dict(total)}")
    others = Counter(one.title for one in seen.messages.values() if TITLE not in one.title and DOWN not in one.title)
    report.say(f"other messages: {dict(others)}; problems that Slack had with them: {len(world.slack.problems)}")
    report.say(f"answers looked at: {seen.answers}, {seen.away} while Prometheus was away")
    report.wrong += list(dict.fromkeys(seen.dishonest))[:10]
    life = longest_life(seen.usage)
    if life and life[-1].time - life[0].time >= LEAST_LIFE_S:
        grown, figures = checks.leaks(life)
        report.wrong += grown
        report.say("longest life of palanca: " + ", ".join(f"{name} {value:,.1f}" for name, value in figures.items()))
    errors = [
        line for line in world.programs.log("palanca").splitlines() if "Traceback" in line or '"exception"' in line
    ]
    report.wrong += [f"the log of palanca has {len(errors)} tracebacks: {errors[0][:1500]}"] if errors else []
    report.wrong += [
        f"the database is damaged: {found}" for found in world.query("PRAGMA integrity_check") if found != ("ok",)
    ]


def main() -> None:
    """Soak, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument(
        "--keep", type=Path, help="an empty folder for logs, database and report; without it nothing stays"
    )
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palanca-soak-")))
        folder.mkdir(parents=True, exist_ok=True)
        report = soak(arguments.minutes * 60, arguments.seed, arguments.engines, folder.resolve())
        for one in report.wrong:
            report.say(f"WRONG: {one}")
        report.say("it held" if not report.wrong else f"{len(report.wrong)} things did not hold")
        (folder / "report.txt").write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    sys.exit(1 if report.wrong else 0)


if __name__ == "__main__":
    main()
