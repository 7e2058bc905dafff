"""Whether it held: nothing lost, nothing doubled, nothing leaked, nothing said that nobody could know. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from soak.engines import Span
from soak.watch import Shown, Usage

Stretch = tuple[float, float]
SEEN_S = 30.0
"""What lasts so long where it can be seen must be known; what is shorter may be."""
LATE_S = 45.0
"""How late something may be noticed where it can be seen: a scrape, a poll, and a machine that is busy."""
WARM = 0.25
"""Share of a life until memory has its size."""
GREW_MIB, MORE_FILES, MORE_THREADS = 16.0, 6, 6


@dataclass(frozen=True)
class Known:
    """An episode of the history, unix seconds; ``ended`` None while it is open."""

    began: float
    ended: float | None


def seen(begin: float, end: float, blind: Sequence[Stretch]) -> float:
    """Longest stretch in seconds between two moments in which nothing kept it from being seen."""
    edges = [begin]
    for start, stop in sorted(blind):
        if stop > begin and start < end:
            edges += [max(start, begin), min(stop, end)]
    edges.append(end)
    longest, at = 0.0, begin
    for index in range(0, len(edges), 2):
        at = max(at, edges[index])
        longest = max(longest, edges[index + 1] - at)
        at = max(at, edges[index + 1])
    return longest


def _late(moment: float, blind: Sequence[Stretch]) -> float:
    """Moment until which something may be noticed that was so at a moment: after so long in which it could be."""
    at, left = moment, LATE_S
    for start, stop in sorted(blind):
        if stop > at:
            if start - at >= left:
                break
            left -= max(start - at, 0.0)
            at = stop
    return at + left


def episodes(name: str, truth: Sequence[Span], known: Sequence[Known], blind: Sequence[Stretch]) -> list[str]:
    """Compare the history of one engine with the truth; what is wrong."""
    wrong = []
    ill = [one for one in truth if one.state == "ill"]
    for one in ill:
        found = [each for each in known if each.began < one.end and (each.ended or np.inf) > one.begin]
        inside = [each for each in found if each.began >= one.begin - 1.0]
        visible = seen(one.begin, one.end, blind)
        if not found and visible >= SEEN_S:
            wrong.append(f"{name}: ill for {one.end - one.begin:.0f} s, seen for {visible:.0f} s, and no episode")
        if len(inside) > 1:
            wrong.append(f"{name}: {len(inside)} episodes of one illness of {one.end - one.begin:.0f} s")
    for each in known:
        of = [one for one in ill if one.begin - 1.0 <= each.began <= _late(one.end, blind)]
        if not of:
            wrong.append(f"{name}: an episode at {each.began:.0f} and no illness")
            continue
        if each.ended is None:
            wrong.append(f"{name}: an episode at {each.began:.0f} that never ended")
            continue
        between = [one for one in truth if one.state != "ill" and each.began < one.begin and one.end < each.ended]
        wrong += [
            f"{name}: an episode goes on over {one.end - one.begin:.0f} s in which it was {one.state}"
            for one in between
            if seen(one.begin, one.end, blind) >= SEEN_S + LATE_S
        ]
        if each.ended > _late(max(one.end for one in of if one.begin <= each.ended), blind) and not between:
            wrong.append(f"{name}: an episode that ended {each.ended - of[-1].end:.0f} s late")
    return wrong


def messages(
    name: str, told: Sequence[Shown], known: Sequence[Known], summarised: int, slack_away: Sequence[Stretch]
) -> list[str]:
    """Compare what people saw of one problem with its episodes; what is wrong.

    One message an episode; episodes of which people could not be told in time are in a summary, or share a message.
    """
    wrong = []
    told = sorted(told, key=lambda one: one.came)
    for one, after in pairwise(told):
        if one.over is None or after.came < one.over:
            wrong.append(f"{name}: a second message at {after.came:.0f} while the one of {one.came:.0f} was open")
    wrong += [f"{name}: the message of {one.came:.0f} was never resolved" for one in told if one.over is None]
    used: set[str] = set()
    missing = 0
    for each in sorted(known, key=lambda one: one.began):
        ended = each.ended if each.ended is not None else np.inf
        mine = [one for one in told if one.came >= each.began - 1.0 and one.ts not in used]
        shared = [one for one in told if one.came < each.began and (one.over is None or one.over >= each.began)]
        if mine and mine[0].came <= _late(ended, slack_away):
            used.add(mine[0].ts)
        elif not shared:
            missing += 1
    if missing > summarised:
        wrong.append(f"{name}: {missing} of {len(known)} episodes without a message, {summarised} in summaries")
    wrong += [f"{name}: the message of {one.came:.0f} is of no episode" for one in told if one.ts not in used]
    return wrong


def leaks(life: Sequence[Usage]) -> tuple[list[str], dict[str, float]]:
    """What grew in a life after it was warm; the figures."""
    late = life[int(len(life) * WARM) :]
    few = max(len(late) // 10, 1)

    def grew(values: Sequence[float]) -> float:
        return float(np.median(values[-few:]) - np.median(values[:few]))

    hours = (np.array([one.time for one in late]) - late[0].time) / 3600
    memory = [one.memory for one in late]
    figures = {
        "seconds": life[-1].time - life[0].time,
        "memory MiB": memory[-1],
        "memory peak MiB": max(one.memory for one in life),
        "memory grew MiB": grew(memory),
        "memory slope MiB/h": float(np.polyfit(hours, memory, 1)[0]),
        "files": float(late[-1].files),
        "files grew": grew([one.files for one in late]),
        "threads": float(late[-1].threads),
        "threads grew": grew([one.threads for one in late]),
    }
    limits = {"memory grew MiB": GREW_MIB, "files grew": MORE_FILES, "threads grew": MORE_THREADS}
    return [f"{name}: {figures[name]:+.1f}" for name, most in limits.items() if figures[name] > most], figures
