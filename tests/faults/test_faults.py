"""The service as a process, a real Prometheus with an incident of now, and between them a proxy with faults.

While a fault lasts the API answers quickly, says what is stale and why, and takes back nothing; afterwards all is well
again within two intervals, by itself. Several services run at once, each through the faults of its lane.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from tests.faults import faults
from tests.faults.proxy import Fault, Proxy, proxying, refuse
from tests.faults.service import INTERVAL_S, Got, Running, serving
from tests.live import SICK, WELL, write_live
from tests.servers import prometheus

QUICK_S = 0.050
ROUNDS = 45
PAUSE_S = 0.08
LONGEST_FAULT_S = 3 * INTERVAL_S
WITHIN_S = 2 * INTERVAL_S
MARGIN_S = 4.0
"""For the jitter of the polls (0.5 s), the poll itself, and a machine that does other things too."""
PATHS = ("/diagnose", "/readyz", "/api/v1/targets")
WRITTEN_S = 1.0
"""/readyz tells of a poll at once; the snapshot is written just after it, and the history after that."""
GREW_KIB = 40 * 1024
LIMIT_KIB = 512 * 1024
"""What the shipped container may have."""


@dataclass(frozen=True)
class Case:
    """A fault, and what is to be seen of it: state of the source, a piece of its error or warning, statuses."""

    name: str
    fault: Fault
    says: str
    state: str = "stale"
    statuses: Mapping[str, str] = field(default_factory=lambda: {SICK: "critical", WELL: "unknown"})
    fresh: str = "unreachable"


BUSY = b"slow down"
UNKNOWN = {SICK: "unknown", WELL: "unknown"}
LANES: Sequence[tuple[tuple[str, ...], Sequence[Case]]] = (
    (
        ("--timeout", "4s"),
        (
            Case("refuse", refuse, "connection refused"),
            Case("429", faults.answering(429, BUSY), "HTTP 429"),
            Case("500", faults.answering(500, b"oops"), "HTTP 500"),
            Case("no part", faults.nothing, "the server has not told all"),
        ),
    ),
    (
        ("--timeout", "4s"),
        (
            Case("drip", faults.drip, "no whole answer within 4 s"),
            Case("429 for two minutes", faults.answering(429, BUSY, {"Retry-After": "120"}), "HTTP 429"),
            Case("503", faults.answering(503, b"starting"), "HTTP 503"),
            Case("clock behind", faults.clock_off(-600), "s behind ours", statuses=UNKNOWN, fresh="stale"),
        ),
    ),
    (
        (),
        (
            Case("hang", faults.hang, f"no whole answer within {INTERVAL_S:g} s"),
            Case("HTML", faults.html, "an HTML page instead of JSON"),
            Case("clock ahead", faults.clock_off(600), "s ahead of ours", fresh="stale"),
        ),
    ),
    (
        ("--timeout", "4s"),
        (
            Case("truncated", faults.truncated, "cut off or damaged"),
            Case("reset", faults.reset, ": Connection reset by peer ("),
            Case("duplicates", faults.duplicates, "the same series twice"),
        ),
    ),
    (
        ("--timeout", "4s"),
        (
            Case("text for a result", faults.text_result, "no list of results"),
            Case("objects for values", faults.object_values, "no pair of time and number"),
            Case("numbers for labels", faults.number_labels, "a label that is no text"),
        ),
    ),
    (
        ("--timeout", "4s"),
        (
            Case(
                "warnings",
                faults.warnings,
                "some series may be missing",
                "partial",
                {SICK: "critical", WELL: "ok"},
                "partial",
            ),
            Case("part", faults.partly, "some series may be missing", "partial", UNKNOWN, "partial"),
            Case("huge", faults.huge, "more than 268,435,456 bytes"),
        ),
    ),
)


@dataclass
class Seen:
    """What was seen of a fault."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {path: [] for path in PATHS})
    statuses: set[int] = field(default_factory=set)
    source: dict[str, Any] = field(default_factory=dict)
    ready: int = 0
    targets: dict[str, str] = field(default_factory=dict)
    fresh: Got | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    later: list[dict[str, Any]] = field(default_factory=list)
    open: list[list[int]] = field(default_factory=list)
    recovered: float | None = None
    after: dict[str, str] = field(default_factory=dict)
    grew: int = 0
    peak: int = 0


def source_of(service: Running) -> dict[str, Any]:
    (source,) = service.get("/readyz").body["sources"]
    assert isinstance(source, dict)
    return source


def statuses_of(service: Running) -> dict[str, str]:
    return {row["target"]["instance"]: row["status"] for row in service.get("/api/v1/targets").body["targets"]}


def critical(service: Running) -> list[int]:
    """The episodes of the saturated cache that are open."""
    episodes = service.get("/api/v1/history?open=true&rule=kv-cache-saturated").body["episodes"]
    return [one["id"] for one in episodes]


def events_after(service: Running, last: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = service.get("/api/v1/history/events?limit=1000").body["events"]
    return [event for event in reversed(events) if event["id"] > last]


def last_event(service: Running) -> int:
    return max((event["id"] for event in service.get("/api/v1/history/events").body["events"]), default=0)


def wait_for(true: Callable[[], bool], longest: float = 10.0) -> None:
    """Wait until something has become true."""
    deadline = time.monotonic() + longest
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def until_ok(service: Running, longest: float) -> float | None:
    """Wait until the source is read again; how long that took."""
    begin = time.monotonic()
    while time.monotonic() - begin < longest:
        if source_of(service)["state"] == "ok":
            return time.monotonic() - begin
        time.sleep(0.1)
    return None


def endured(service: Running, proxy: Proxy, case: Case) -> Seen:
    """Let a service live through a fault."""
    seen, before, memory = Seen(), last_event(service), service.memory()[0]
    seen.open.append(critical(service))
    with proxy.broken(case.fault), ThreadPoolExecutor(1) as aside:
        fresh = aside.submit(service.get, "/diagnose?fresh=true")
        begin, rounds = time.monotonic(), 0
        while rounds < ROUNDS or (source_of(service)["state"] != case.state and not _over(begin)):
            for path in PATHS:
                got = service.get(path)
                seen.seconds[path].append(got.seconds)
                seen.statuses.add(got.status)
            rounds += 1
            time.sleep(PAUSE_S)
        seen.fresh = fresh.result()
        time.sleep(WRITTEN_S)
        seen.ready = service.get("/readyz").status
        seen.source, seen.targets = source_of(service), statuses_of(service)
        seen.events = events_after(service, before)
        seen.open.append(critical(service))
    seen.recovered = until_ok(service, WITHIN_S + 4 * INTERVAL_S)
    time.sleep(WRITTEN_S)
    seen.after = statuses_of(service)
    seen.later = events_after(service, before)
    seen.open.append(critical(service))
    now, seen.peak = service.memory()
    seen.grew = now - memory
    return seen


def _over(begin: float) -> bool:
    return time.monotonic() - begin > LONGEST_FAULT_S


def complaints(case: Case, seen: Seen) -> Iterator[str]:
    """Yield what is not as it should be."""
    for path, seconds in seen.seconds.items():
        if statistics.median(seconds) > QUICK_S:
            yield f"{path} took {statistics.median(seconds) * 1000:.1f} ms"
    if seen.statuses - {200, 503} or len(seen.seconds[PATHS[0]]) < ROUNDS:
        yield f"answers {seen.statuses}"
    said = [*seen.source["warnings"], seen.source["error"] or ""]
    if seen.source["state"] != case.state or not any(case.says in text for text in said):
        yield f"the source is {seen.source}"
    if seen.targets != dict(case.statuses):
        yield f"targets are {seen.targets}"
    if seen.ready != (503 if case.state == "stale" else 200):
        yield f"/readyz {seen.ready}"
    yield from _fresh(case, seen)
    yield from _history(case, seen)
    if seen.recovered is None or seen.recovered > WITHIN_S + MARGIN_S:
        yield f"recovered after {seen.recovered} s"
    if seen.after != {SICK: "critical", WELL: "ok"}:
        yield f"afterwards targets are {seen.after}"
    if seen.grew > GREW_KIB:
        yield f"grew by {seen.grew} KiB"
    if seen.peak > LIMIT_KIB:
        yield f"took {seen.peak} KiB"


def _fresh(case: Case, seen: Seen) -> Iterator[str]:
    assert seen.fresh is not None
    if seen.fresh.status not in {200, 503}:
        yield f"fresh: {seen.fresh}"
    elif seen.fresh.status == 200 and seen.fresh.body["source"]["state"] != case.fresh:
        yield f"fresh: {seen.fresh.body['source']}"


def _history(case: Case, seen: Seen) -> Iterator[str]:
    kinds = [event["kind"] for event in seen.events]
    if kinds != (["source-unreachable"] if case.state == "stale" else []):
        yield f"events during it: {kinds}"
    later = [event["kind"] for event in seen.later]
    if later != (["source-unreachable", "source-recovered"] if case.state == "stale" else []):
        yield f"events after it: {later}"
    if len(seen.open[0]) != 1 or any(one != seen.open[0] for one in seen.open):
        yield f"open episodes {seen.open}"


def table(seen: Mapping[str, Seen]) -> str:
    """What was measured, for those who look."""
    lines = [f"{'fault':22}{'median ms':>11}{'p95 ms':>9}{'worst':>9}{'back s':>8}{'grew KiB':>10}{'peak MiB':>10}"]
    for name, one in seen.items():
        every = sorted(seconds * 1000 for path in PATHS for seconds in one.seconds[path])
        p95 = every[int(0.95 * len(every))]
        back = -1.0 if one.recovered is None else one.recovered
        quick = f"{statistics.median(every):11.1f}{p95:9.1f}{every[-1]:9.1f}"
        lines.append(f"{name:22}{quick}{back:8.1f}{one.grew:10}{one.peak / 1024:10.0f}")
    return "\n".join(lines)


def lane(url: str, folder: Path, options: Sequence[str], cases: Sequence[Case], start: Lock) -> dict[str, Seen]:
    """Run one service through its faults; they start one after another, since the first poll is a long one."""
    with ExitStack() as stack:
        proxy = stack.enter_context(proxying(url))
        with start:
            service = stack.enter_context(serving(proxy.url, folder, *options))
            assert until_ok(service, 60.0) is not None
            wait_for(lambda: bool(critical(service)))
        return {case.name: endured(service, proxy, case) for case in cases}


def test_every_fault_is_survived(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """States tell it, answers stay quick, nothing is resolved, and all is well within two intervals."""
    with ExitStack() as stack:
        url = stack.enter_context(prometheus(write_live(tmp_path / "live.om", time.time()), tmp_path / "server"))
        pool, start = stack.enter_context(ThreadPoolExecutor(len(LANES))), Lock()
        running = [
            pool.submit(lane, url, tmp_path / f"lane-{number}", options, cases, start)
            for number, (options, cases) in enumerate(LANES)
        ]
        seen = {name: one for future in running for name, one in future.result().items()}
    sys.stdout.write(table(seen) + "\n")
    for case in (case for _, cases in LANES for case in cases):
        with subtests.test(case.name):
            assert [] == list(complaints(case, seen[case.name]))
