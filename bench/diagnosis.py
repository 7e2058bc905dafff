"""Wall time and peak memory of one diagnosis of a recording, beside a floor. Prints a table."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "tests" / "data" / "recordings"
RUNS = 7
FLOOR = """
import gzip, sys
import numpy, pydantic, yaml, typer, rich
with gzip.open(sys.argv[1], "rb") as file:
    file.read()
"""


def measured(command: list[str]) -> tuple[float, float, int]:
    """Run a command: wall time in seconds, peak resident memory in MiB, exit code."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - began, usage.ru_maxrss / 1024, process.returncode


def row(name: str, command: list[str]) -> str:
    """Measure a command several times."""
    measured(command)
    runs = [measured(command) for _ in range(RUNS)]
    times = [one[0] for one in runs]
    memory = max(one[1] for one in runs)
    return f"{name:44} {min(times):6.2f} {statistics.median(times):6.2f} {max(times):6.2f} s {memory:7.0f} MiB"


def main() -> None:
    """Print the table."""
    python = sys.executable
    print(f"{'':44} {'min':>6} {'median':>6} {'max':>6}   {'peak':>7}")
    print(row("palanca --version", [python, "-m", "palanca.cli", "--version"]))
    for name in ("healthy", "kv-saturated", "h200-A_kv_saturated"):
        path = str(RECORDINGS / f"{name}.om.gz")
        print(row(f"diagnose {name}", [python, "-m", "palanca.cli", "diagnose", "--recording", path]))
        print(row(f"  floor: imports and gunzip of {name}", [python, "-c", FLOOR, path]))


if __name__ == "__main__":
    main()
