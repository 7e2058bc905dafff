"""Which loads are equal, and what is said of those that are not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines import STEPS
from tests.engines import readings as made_readings

from palanca.loads import Load, load_of, match

N = 6


def load(
    arrivals: float | list[float], in_system: float | list[float], prompt: float = 500.0, answer: float = 100.0
) -> Load:
    def steps(value: float | list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array(value if isinstance(value, list) else [value] * N, dtype=float)

    system = steps(in_system)
    return Load(steps(arrivals), system, (prompt, answer), np.isfinite(system) & (system > 0))


@pytest.mark.parametrize(
    ("before", "after", "axis"),
    [
        (load(7.0, 86.0), load(8.8, 85.0), "in_system"),
        (load(8.5, 39.0), load(8.4, 6.0), "arrivals"),
        (load(1.0, 2.0), load(1.0, 2.1), "arrivals"),
        (load(float("nan"), 2.0), load(float("nan"), 2.0), "in_system"),
    ],
)
def test_equal_loads(before: Load, after: Load, axis: str) -> None:
    """One equal number is enough: the other is the effect of the change."""
    found = match(before, after)
    assert (axis, "") == (found.axis, found.why)
    assert found.gap <= 0.15
    assert not found.opposed


@pytest.mark.parametrize(
    ("before", "after", "axis"),
    [
        (load(0.69, 3.67), load(3.6, 2.75), "in_system"),
        (load(3.6, 2.75), load(0.69, 3.67), "in_system"),
        (load(2.0, 8.0), load(2.6, 2.0), "arrivals"),
    ],
)
def test_opposed_loads(before: Load, after: Load, axis: str) -> None:
    """Clients that pause: more requests with fewer in the system, or the reverse, is what only the server can bring."""
    found = match(before, after)
    assert (axis, "") == (found.axis, found.why)
    assert found.opposed
    assert 0.15 < found.gap <= 0.5
    assert all(steps.all() for steps in (found.before, found.after))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (
            load(2.0, 4.0), load(3.2, 2.5),
            "the load after is 1.6 times that before (requests arriving: 2 to 3.2 requests/s)",
        ),
        (
            load(2.0, 4.0), load(2.6, 6.0),
            "the load after is 1.3 times that before (requests arriving: 2 to 2.6 requests/s)",
        ),
        (
            load(2.0, 4.0), load(float("nan"), 2.9),
            "the load after is 0.72 times that before (requests in the system: 4 to 2.9 requests)",
        ),
        (
            load(2.0, 4.0), load(6.0, 14.0),
            "the load after is 3 times that before (requests arriving: 2 to 6 requests/s)",
        ),
        (
            load(2.0, 4.0), load(2.0, 4.0, prompt=1500.0),
            "the prompts after are 3 times as long as those before (500 to 1,500 tokens)",
        ),
        (
            load(2.0, 4.0), load(2.0, 4.0, answer=10.0),
            "the answers after are 0.1 times as long as those before (100 to 10 tokens)",
        ),
        (load(2.0, 0.0), load(2.0, 4.0), "there is no load before the change"),
        (load(2.0, 4.0), load(2.0, float("nan")), "there is no load after the change"),
    ],
)  # fmt: skip
def test_loads_that_differ(before: Load, after: Load, why: str) -> None:
    """The reason names the number that differs least, or the lengths."""
    found = match(before, after)
    assert (None, why) == (found.axis, found.why)


def test_unknown_lengths_do_not_part() -> None:
    """Where no request has finished the lengths are not known, and nothing speaks against."""
    assert "arrivals" == match(load(2.0, 4.0, prompt=float("nan")), load(2.0, 4.0)).axis


def test_steps_of_equal_load_are_found() -> None:
    """A ramp before is left out: only what has a like one after is compared."""
    found = match(load([1, 1, 1, 1, 1, 8, 8, 8, 8, 8], [1, 1, 1, 1, 1, 40, 40, 40, 40, 40]), load(8.0, 5.0))
    assert "arrivals" == found.axis
    assert [False] * 5 + [True] * 5 == found.before.tolist()


def test_the_load_of_engines() -> None:
    """Arrivals are the finished requests plus the growth of what is in the system."""
    grown = [float(10 * step) for step in range(STEPS)]
    made = load_of(made_readings({
        "running_now": grown, "waiting_now": 0.0, "running": grown, "waiting": 5.0, "requests_per_second": 2.0,
        "prompt_length_mean": 100.0,
    }), [0])  # fmt: skip
    assert 2.0 + 10 / 15 == pytest.approx(made.arrivals[-1])
    assert 405.0 == made.in_system[-1]
    assert 100.0 == made.shape[0]
    assert np.isnan(made.shape[1])
    assert made.busy.all()


def test_without_the_signals() -> None:
    """A source without these signals has no load, and says so."""
    nothing = load_of(made_readings({}), [0])
    assert not nothing.busy.any()
    known = match(load(float("nan"), [1.0] * N), load(float("nan"), [1e9] * N))
    assert known.why.startswith("the load after is ")


def test_a_load_that_cannot_be_measured() -> None:
    """Requests that only ever were there between two scrapes, over one batch, give no number to compare."""
    nothing = np.full(1, np.nan)
    short = Load(nothing, np.zeros(1), (float("nan"), float("nan")), np.ones(1, dtype=bool))
    assert match(short, short).why.startswith("the load is not known")
