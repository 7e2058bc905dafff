"""Moments as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.errors import UsageError
from palanca.moments import parse_moment, rfc3339

NOW = 1_795_982_951.17


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (1795982951.0, "2026-11-29T20:09:11Z"),
        (1795982951.17, "2026-11-29T20:09:11.17Z"),
        (1795982951.0, "2026-11-29T22:09:11+02:00"),
        (1795982951.0, "2026-11-29 20:09:11+00:00"),
        (1795982951.0, " 2026-11-29T20:09:11Z "),
        (1795982951.0, "1795982951"),
        (1795982951.17, "1795982951.17"),
        (1795982951.0, "1.795982951e9"),
        (0.0, "0"),
        (NOW - 1800, "-30m"),
        (NOW - 5400, "-1h30m"),
        (NOW, "-0s"),
    ],
)
def test_moments(moment: float, text: str) -> None:
    """RFC 3339 with any offset, unix seconds, and how long before now."""
    assert moment == pytest.approx(parse_moment(text, now=NOW), abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "now", "yesterday", "-", "-m", "-5x", "-30", "-1e5", "nan", "inf", "-inf", "1e20", "1795982951170",
        "2026-13-29T20:09:11Z", "2026-11-29T25:09:11Z", "30m", "-99999999d", "0001-01-01T00:00:00+14:00",
        "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.9999Z", "1_0", "1_795_982_951", "-" + "9" * 400 + "s",
    ],
)  # fmt: skip
def test_what_is_no_moment(text: str) -> None:
    """Whatever cannot be meant is refused with examples, also moments before 1970 and in milliseconds."""
    with pytest.raises(UsageError, match="is no moment; write 2026-11-29T20:09:11Z, unix seconds"):
        parse_moment(text, now=NOW)


def test_a_time_zone_is_needed() -> None:
    """Local time is not guessed."""
    with pytest.raises(UsageError, match="has no time zone; write 2026-11-29T20:09:11Z for UTC or add an offset"):
        parse_moment("2026-11-29T20:09:11", now=NOW)


def test_a_day_is_no_moment() -> None:
    """A date alone gets a hint that can be followed."""
    with pytest.raises(UsageError, match="write 2026-11-29T00:00:00Z for UTC"):
        parse_moment("2026-11-29", now=NOW)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-29T20:09:11Z", 1795982951.0),
        ("2026-11-29T20:09:11.170Z", 1795982951.17),
        ("2026-11-29T20:09:12Z", 1795982951.9999),
        ("2261-12-20T09:26:11.220Z", 9213643571.22),
        ("1970-01-01T00:00:00Z", 0.0),
    ],
)
def test_rfc3339(text: str, moment: float) -> None:
    """UTC, with milliseconds where there are some."""
    assert text == rfc3339(moment)


@given(st.floats(min_value=0, max_value=4e9))
def test_there_and_back(moment: float) -> None:
    """What is written can be read, to the millisecond."""
    assert moment == pytest.approx(parse_moment(rfc3339(moment), now=NOW), abs=0.00051)
