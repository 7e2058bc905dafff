"""Units: how they are read, multiplied and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.units import RATIO, Unit

WORDS = ["s", "min", "bytes", "flops", "requests", "token", "blocks", "draft", "steps", "ratio"]
UNITS = st.builds(
    lambda above, below: Unit.parse(" ".join(above or ["1"]) + (f"/{' '.join(below)}" if below else "")),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.lists(st.sampled_from(WORDS), max_size=3),
)


@pytest.mark.parametrize(
    ("text", "powers"),
    [
        ("s", (("s", 1),)),
        ("tokens/s", (("s", -1), ("token", 1))),
        ("token/s", (("s", -1), ("token", 1))),
        ("1/min", (("min", -1),)),
        ("/min", (("min", -1),)),
        ("tokens/request", (("request", -1), ("token", 1))),
        ("tokens*s", (("s", 1), ("token", 1))),
        ("tokens tokens", (("token", 2),)),
        ("bytes/s s", (("bytes", 1), ("s", -2))),
        ("", ()),
        ("1", ()),
        ("ratio", ()),
        ("s/s", ()),
        ("ratio/1", ()),
    ],
)
def test_reading(text: str, powers: tuple[tuple[str, int], ...]) -> None:
    """Words above and below the slash, singular or plural; ratio and 1 are the empty product."""
    assert powers == Unit.parse(text).powers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seconds", "'seconds' in 'seconds' is no unit"),
        ("tokens/sec", "'sec' in 'tokens/sec' is no unit"),
        ("tokens/s/s", "'s/s' in 'tokens/s/s' is no unit"),
        ("any", "'any' in 'any' is no unit"),
        ("tokens/", "'tokens/' ends with a slash"),
    ],
)
def test_what_is_no_unit(text: str, message: str) -> None:
    """The error names the word and the whole text."""
    with pytest.raises(ValueError, match=message):
        Unit.parse(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [("tokens/s", "token/s"), ("1/min", "1/min"), ("ratio", "ratio"), ("s/s", "ratio"), ("bytes/s s", "bytes/s s")],
)
def test_writing(text: str, written: str) -> None:
    """A unit is written in the singular; the empty product as ratio."""
    assert written == str(Unit.parse(text))


@given(UNITS)
def test_written_units_can_be_read(unit: Unit) -> None:
    """``parse`` undoes ``str``."""
    assert unit == Unit.parse(str(unit))


@given(UNITS, UNITS)
def test_division_undoes_multiplication(one: Unit, other: Unit) -> None:
    """Times commutes, has ratio as its one, and dividing again gives the unit back."""
    assert other.times(one) == one.times(other)
    assert one == one.times(RATIO)
    assert one == one.times(other).times(other, -1)


@pytest.mark.parametrize(
    ("text", "expected"), [("tokens/s", "tokens/s"), ("1/min", "1/min"), ("ratio", "ratio"), ("request", "requests")]
)
def test_plural(text: str, expected: str) -> None:
    """Behind a number a unit stands in the plural."""
    assert expected == Unit.parse(text).plural
