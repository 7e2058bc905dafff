"""What README.md shows is what the program prints."""

from __future__ import annotations

import re
import subprocess
from itertools import pairwise

from tests.engines import ROOT


def test_demo() -> None:
    """Every line that the README shows of the demo is printed, in that order; "..." stands for what is left out."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"`make demo` prints:\n\n```text\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    command = subprocess.run(
        ["make", "--silent", "demo"], check=True, capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    printed = command.stdout.splitlines()
    lines = [line for line in shown[1].splitlines() if line and line.strip() != "..."]
    assert len(lines) > 5
    places = [printed.index(line) for line in lines]
    assert all(one < other for one, other in pairwise(places))
