"""How long the page of a fleet of 1,000 engines takes, and how large it is; beside the same texts escaped and joined.

usage: python -m bench.pages [--engines N]

Exit status 1 where a page takes longer than 200 ms or is larger than 1 MB.
"""

from __future__ import annotations

import argparse
import html as escaping
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from tests.api.apps import fleet
from tests.engines import shipped

from palanca.web.asked import AskedFleet
from palanca.web.fleet import fleet_view
from palanca.web.pages import Frame, html

ROUNDS = 9
LONGEST_S, LARGEST = 0.2, 1_000_000


def main() -> int:
    """Print a line for each page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=1000)
    diagnosis, catalogue = fleet(parser.parse_args().engines), shipped()

    def page(limit: int, q: str = "") -> str:
        wanted = AskedFleet(limit=limit, q=q)
        view = fleet_view(diagnosis, catalogue, wanted)
        return html("fleet.html", Frame("Fleet", "", kept=()), view=view, wanted=wanted, causes=())

    print(f"{len(diagnosis.targets)} engines     median ms   best ms   floor ms      bytes")
    good = True
    pages: Sequence[tuple[str, Callable[[], str]]] = (
        ("first 100 rows", lambda: page(100)),
        ("all rows", lambda: page(1000)),
        ("search", lambda: page(100, "vllm-99")),
    )
    for name, make in pages:
        text = make()
        times = _times(make)
        floor = _times(partial(_joined, re.split(r"(<[^>]*>)", text)))
        median, size = times[ROUNDS // 2], len(text.encode())
        good &= median <= LONGEST_S and size <= LARGEST
        print(f"{name:<16}{median * 1e3:12.1f}{times[0] * 1e3:10.1f}{floor[ROUNDS // 2] * 1e3:11.1f}{size:11,}")
    return 0 if good else 1


def _joined(pieces: Sequence[str]) -> str:
    return "".join(escaping.escape(one) for one in pieces)


def _times(work: Callable[[], str]) -> list[float]:
    """Seconds of several rounds, the shortest first."""
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
