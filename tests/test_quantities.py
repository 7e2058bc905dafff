"""Numbers with units as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.quantities import plain, quantity, seconds


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("84 ms", 0.084, "s"),
        ("0.97", 0.97, "ratio"),
        ("3", 3, ""),
        ("101 preemptions/min", 101.2, "preemptions/min"),
        ("1,234 tokens/s", 1234.4, "tokens/s"),
        ("4 requests", 4, "requests"),
        ("0 requests", 0, "requests"),
        ("-2 requests", -2, "requests"),
    ],
)
def test_quantity(text: str, value: float, unit: str) -> None:
    """A number stands with its unit, a ratio alone."""
    assert text == quantity(value, unit)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("unit", ["s", "ratio", "tokens/s"])
def test_what_is_not_known(value: float, unit: str) -> None:
    """No NaN or infinity reaches a reader."""
    assert "?" == quantity(value, unit)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0 s", 0),
        ("120 us", 0.00012),
        ("999 us", 0.000999),
        ("1 ms", 0.0009999),
        ("8.39 ms", 0.008388),
        ("999 ms", 0.9992),
        ("1 s", 0.99996),
        ("4.8 s", 4.8),
        ("-50 ms", -0.05),
        ("599 s", 599),
        ("10 min", 600),
        ("599 min", 35940),
        ("10 h", 36000),
        ("2,778 h", 1e7),
    ],
)
def test_seconds(text: str, value: float) -> None:
    """Times choose their unit by what is shown, so that 0.9999 s is not "1e+03 ms"."""
    assert text == seconds(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("0.028", 0.028), ("99.9", 99.94), ("100", 99.96), ("1,234,568", 1234567.8), ("-1,000", -1000)],
)
def test_plain(text: str, value: float) -> None:
    """Three significant digits, thousands separated."""
    assert text == plain(value)


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_no_exponents_for_ordinary_sizes(value: float) -> None:
    """From a microsecond to the age of a mountain no time is shown with an exponent."""
    assert "e" not in seconds(value)
