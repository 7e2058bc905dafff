"""Rules folders for tests: copies of the small valid one that tests break."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from palanca.check import load_catalogue
from palanca.errors import RuleFileError

MINIMAL = Path(__file__).parent / "data" / "rules_minimal"
SATURATED = "matrix/kv-cache/kv-cache-saturated.yaml"
TTFT_HIGH = "matrix/prefill/ttft-high.yaml"


def copied(folder: Path) -> Path:
    """Copy the small rules folder below ``folder``."""
    return shutil.copytree(MINIMAL, folder / "rules")


def written(path: Path, text: str | bytes) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def changed(folder: Path, name: str, old: str, new: str) -> Path:
    """Replace one text, which must be there once, in a file of the folder."""
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert 1 == text.count(old), f"{old!r} is there {text.count(old)} times"
    return written(path, text.replace(old, new))


def place(path: Path, needle: str) -> str:
    """``file:line:column`` of a text that is in a file once."""
    text = path.read_text(encoding="utf-8")
    assert 1 == text.count(needle), f"{needle!r} is there {text.count(needle)} times"
    index = text.index(needle)
    return f"{path}:{text.count(chr(10), 0, index) + 1}:{index - text.rfind(chr(10), 0, index)}"


def faults(*folders: Path) -> list[str]:
    """Every fault of folders that have some."""
    with pytest.raises(RuleFileError) as caught:
        load_catalogue(folders)
    return [str(fault) for fault in caught.value.faults]
