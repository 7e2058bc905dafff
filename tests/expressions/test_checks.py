"""Names and units of expressions."""

from __future__ import annotations

import pytest

from palanca.expressions import FLAG, ExpressionError, check_condition, nearest, parse, unit_of, uses_fleet
from palanca.units import RATIO, Unit

UNITS: dict[str, Unit | str] = {
    "a": RATIO,
    "b": RATIO,
    "c": RATIO,
    "ttft_p99": Unit.parse("s"),
    "itl_p99": Unit.parse("s"),
    "running": Unit.parse("requests"),
    "rate": Unit.parse("requests/s"),
    "slo.ttft_p99": Unit.parse("s"),
    "chunked_prefill": FLAG,
}


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1.5", "ratio"),
        ("ttft_p99", "s"),
        ("slo.ttft_p99 - itl_p99", "s"),
        ("ttft_p99 / itl_p99", "ratio"),
        ("running / ttft_p99", "requests/s"),
        ("rate * ttft_p99", "requests"),
        ("2 * ttft_p99", "s"),
        ("1 / ttft_p99", "1/s"),
        ("ttft_p99 + 0", "s"),
        ("0 + ttft_p99", "s"),
        ("max(ttft_p99 - itl_p99, 0)", "s"),
        ("max(0, ttft_p99 - itl_p99)", "s"),
        ("max(0, 0, ttft_p99)", "s"),
        ("0 * ttft_p99", "s"),
        ("ttft_p99 + 0 * itl_p99", "s"),
        ("min(running, running)", "requests"),
        ("round_down(0.9 * running, 8)", "requests"),
        ("floor(running)", "requests"),
        ("ceil(ttft_p99 / itl_p99)", "ratio"),
    ],
)
def test_units(text: str, unit: str) -> None:
    """Products multiply units, sums keep them, and 0 fits everything."""
    assert Unit.parse(unit) == unit_of(parse(text), UNITS)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("ttft_p99 + running", "units differ: s + request", 0),
        ("1 + ttft_p99", "units differ: ratio + s", 0),
        ("2 * (ttft_p99 - running)", "units differ: s - request", 5),
        ("min(ttft_p99, running)", "units differ: s min request", 0),
        ("max(0, ttft_p99, running)", "units differ: s max request", 0),
        ("a + ttft_p9", "unknown name 'ttft_p9'", 4),
        ("a + chunked_prefill", "'chunked_prefill' is a flag, not a number", 4),
        ("a > b", "a number is needed here, not a condition", 0),
        ("1 + (a > b)", "a number is needed here, not a condition", 5),
        ("a + (b and c)", "a number is needed here, not a condition", 5),
        ("floor(not a)", "a number is needed here, not a condition", 6),
    ],
)
def test_unit_faults(text: str, message: str, column: int) -> None:
    """Units that differ, unknown names and conditions are refused where a number is needed."""
    with pytest.raises(ExpressionError) as caught:
        unit_of(parse(text), UNITS)

    assert (message, column) == (caught.value.message, caught.value.column)


@pytest.mark.parametrize(
    "text",
    [
        "ttft_p99 > slo.ttft_p99",
        "ttft_p99 / itl_p99 > a",
        "chunked_prefill",
        "not chunked_prefill and a > b",
        "a > b or not (b > c and c > a)",
        "max(a, b) > c",
    ],
)
def test_conditions(text: str) -> None:
    """Comparisons of one unit and flags make conditions."""
    check_condition(parse(text), UNITS)


@pytest.mark.parametrize(
    ("text", "message", "column", "hint"),
    [
        ("ttft_p99 > running", "units differ: s > request", 0, "both sides need the same unit"),
        ("a > 0.85", "bare number 0.85 in a condition", 4, "name it under thresholds"),
        ("a > 0", "bare number 0 in a condition", 4, "name it under thresholds"),
        ("a > b * 2", "bare number 2 in a condition", 8, "name it under thresholds"),
        ("a > b and a > -1", "bare number -1 in a condition", 14, "name it under thresholds"),
        ("a > b and ttft_p9 > c", "unknown name 'ttft_p9'", 10, "did you mean ttft_p99"),
        ("a > b and chunked_prefil", "unknown name 'chunked_prefil'", 10, "did you mean chunked_prefill?"),
        ("a", "a condition is needed here, not a number", 0, "compare it with a threshold"),
        ("a > b and running", "a condition is needed here, not a number", 10, "compare it with a threshold"),
        ("1", "a condition is needed here, not a number", 0, "compare it with a threshold"),
        ("a + b", "a condition is needed here, not a number", 0, "compare it with a threshold"),
        ("not max(a, b)", "a condition is needed here, not a number", 4, "compare it with a threshold"),
        ("a > (b > c)", "a number is needed here, not a condition", 5, ""),
        ("chunked_prefill > a", "'chunked_prefill' is a flag, not a number", 0, ""),
    ],
)
def test_condition_faults(text: str, message: str, column: int, hint: str) -> None:
    """Bare numbers, mixed units, unknown names and numbers are no conditions."""
    with pytest.raises(ExpressionError) as caught:
        check_condition(parse(text), UNITS)

    assert (message, column) == (caught.value.message, caught.value.column)
    assert hint in caught.value.hint
    assert bool(hint) == bool(caught.value.hint)


def test_fleet_functions_have_units() -> None:
    """A count is of engines, everything else keeps its unit."""
    units = {"load": Unit.parse("requests")}
    assert Unit.parse("requests") == unit_of(parse("fleet_median(load)"), units)
    assert Unit.parse("engines") == unit_of(parse("fleet_count(load)"), units)
    assert uses_fleet(parse("load > fleet_mean(load)"))
    assert not uses_fleet(parse("load > load"))


def test_default_is_no_condition() -> None:
    """In a condition it would make unknown look known."""
    with pytest.raises(ExpressionError, match="would make an unknown look known"):
        check_condition(parse("default(a, b) > b"), {"a": Unit(), "b": Unit()})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ttft_p9", "did you mean ttft_p99 or itl_p99?"),
        ("runing", "did you mean running?"),
        ("zzz", ""),
    ],
)
def test_nearest(name: str, hint: str) -> None:
    """A name with a slip gets the names that look like it."""
    assert hint.split(" or ", maxsplit=1)[0].rstrip("?") in nearest(name, UNITS)
    assert bool(hint) == bool(nearest(name, UNITS))
