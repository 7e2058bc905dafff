"""Coverage-guided fuzzing of the entry points of ``tests/fuzz``: inputs that reach new code are kept and changed on.

    python -m fuzz.guided [NAME ...] [--seconds 60]

Each entry point runs in a process of its own, with the seeds and words of its entry; what it finds worth keeping stays
in ``.fuzz/NAME`` for the next time. An input that raises what it should not, takes 20 s, or 2 GiB, is kept beside it
and named at the end (exit code 1). Needs atheris (``make fuzz`` brings it).
"""

from __future__ import annotations

import argparse
import hashlib
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.entry import Entry

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / ".fuzz"
LONGEST_INPUT = 20_000
LONGEST_WORD = 60
"""Of a word in a dictionary of libFuzzer."""
LONGEST_S, MOST_MIB = 20, 2048
_PROGRESS = re.compile(r"^#(\d+)\s.*\bcov: (\d+) ft: (\d+) corp: (\d+)", re.MULTILINE)
_FOUND = re.compile(r"Test unit written to (\S+)")


@dataclass(frozen=True)
class Done:
    """How it went: inputs tried, edges of palanca's code reached, inputs kept, and the one that broke it."""

    tried: int
    edges: int
    kept: int
    broken: str | None
    log: str


def folder_of(entry: Entry) -> Path:
    """Folder of an entry point, with its seeds and words."""
    folder = KEPT / entry.name
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    for seed in entry.seeds():
        body = seed[:LONGEST_INPUT]
        (folder / "corpus" / hashlib.sha256(body).hexdigest()[:16]).write_bytes(body)
    words = ["".join(f"\\x{one:02x}" for one in word.encode()) for word in entry.words if len(word) < LONGEST_WORD]
    (folder / "words.dict").write_text("".join(f'"{word}"\n' for word in words), encoding="ascii")
    return folder


def guided(name: str, options: list[str]) -> None:
    """Run in this process, under the fuzzer; does not return."""
    import atheris  # noqa: PLC0415  only this process needs it

    with atheris.instrument_imports(include=["palanca"]):
        from tests.fuzz.entries import ENTRIES  # noqa: PLC0415  what is imported here is watched

    run = ENTRIES[name].run

    def one(data: bytes) -> None:
        signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
        run(data)
        signal.setitimer(signal.ITIMER_REAL, 0)

    atheris.Setup([sys.argv[0], *options], one)
    signal.signal(signal.SIGALRM, _late)
    atheris.Fuzz()


class _LateError(BaseException):
    """An input took too long; nothing that handles errors may catch it."""


def _late(*_: object) -> None:
    raise _LateError


def fuzzed(name: str, seconds: int) -> Done:
    """Run an entry point for so long in a process of its own."""
    from tests.fuzz.entries import ENTRIES  # noqa: PLC0415  not before the imports of a guided process

    folder = folder_of(ENTRIES[name])
    options = [
        str(folder / "corpus"), f"-artifact_prefix={folder}/",
        f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", "-timeout=0",
        f"-rss_limit_mb={MOST_MIB}", "-verbosity=1",
    ]  # fmt: skip
    options += [f"-dict={folder / 'words.dict'}"] if ENTRIES[name].words else []
    command = [sys.executable, "-m", "fuzz.guided", "--guided", name, "--", *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", cwd=ROOT)
    log = done.stdout + done.stderr
    (folder / "log").write_text(log, encoding="utf-8")
    tried, edges, _, kept = max((tuple(map(int, found)) for found in _PROGRESS.findall(log)), default=(0, 0, 0, 0))
    found = _FOUND.search(log)
    broken = found[1] if found else None if done.returncode == 0 else f"it ended with {done.returncode}"
    return Done(tried, edges, kept, broken, log)


def main() -> None:
    """Fuzz one entry point after another, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="entry points; all of them if none is named")
    parser.add_argument("--seconds", type=int, default=60, help="for each (default 60)")
    parser.add_argument("--guided", metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.guided:
        guided(arguments.guided, arguments.names)
        return
    from tests.fuzz.entries import ENTRIES  # noqa: PLC0415  as above

    broken = []
    print(f"{'entry point':<18} {'tried':>10} {'per s':>8} {'edges':>7} {'kept':>6}")
    for name in arguments.names or ENTRIES:
        done = fuzzed(name, arguments.seconds)
        row = f"{name:<18} {done.tried:>10,} {done.tried / arguments.seconds:>8,.0f} {done.edges:>7,} {done.kept:>6,}"
        print(row + (f"  BROKEN: {done.broken}" if done.broken else ""), flush=True)
        broken += [(name, done)] if done.broken else []
    for name, done in broken:
        print(f"\n{name}: {done.broken}\n{done.log[-3000:]}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
