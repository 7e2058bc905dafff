"""Where the files that ship with palanca are: in the wheel under ``palanca/data``, in a checkout at the top."""

from __future__ import annotations

from pathlib import Path


def shipped(name: str) -> Path:
    """Return the folder ``rules``, ``docs/rules`` or ``examples``: the packaged one if present, else the checkout's."""
    here = Path(__file__).resolve().parent
    packaged = here / "data" / name
    return packaged if packaged.exists() else here.parent.parent / name
