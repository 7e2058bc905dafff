"""Bytes that are nearly what an entry point takes: its seeds with a few edits, and its words in any order."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st
from tests.fuzz.entries import ENTRIES

LONGEST = 12_000
"""Bytes of a seed that is edited."""
ODD = (*(bytes([one]) for one in (0, 9, 10, 13, 27, 32, 34, 39, 92, 127, 128, 192, 237, 255)), b"\xed\xa0\x80")


@cache
def seeds(name: str) -> tuple[bytes, ...]:
    """Return what an entry point starts from."""
    return tuple(one for one in ENTRIES[name].seeds() if len(one) <= LONGEST) or tuple(
        one[:LONGEST] for one in ENTRIES[name].seeds()
    )


@st.composite
def edited(draw: Any, name: str) -> bytes:  # noqa: ANN401  hypothesis' own
    """Cut, double, move or change parts of a seed, and put words of the format in."""
    made: bytes = draw(st.sampled_from(seeds(name)))
    pieces = st.sampled_from([*(word.encode() for word in ENTRIES[name].words), *ODD]) | st.binary(max_size=4)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(made)))
        end = min(start + draw(st.sampled_from([0, 1, 2, 5, 20, 200, LONGEST])), len(made))
        match draw(st.integers(0, 3)):
            case 0:
                made = made[:start] + draw(pieces) + made[end:]
            case 1:
                made = made[:end] + made[start:end] * draw(st.integers(1, 3)) + made[end:]
            case 2:
                at = draw(st.integers(0, len(made)))
                made = made[:at] + made[start:end] + made[at:]
            case _:
                made = made[:start] + made[end:]
    return made


def worded(name: str) -> st.SearchStrategy[bytes]:
    """Words of the format, and any others, in any order."""
    words = [word.encode() for word in ENTRIES[name].words] or [b""]
    return st.lists(st.sampled_from([*words, b"\n", b" ", b'"', b"a", b"1"]) | st.binary(max_size=3), max_size=12).map(
        b"".join
    )


def inputs(name: str) -> st.SearchStrategy[bytes]:
    """Return bytes for an entry point."""
    return st.one_of(edited(name), edited(name), worded(name))
