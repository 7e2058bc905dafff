"""Where lines, thresholds and axes lie, and that the words say the same."""

from __future__ import annotations

import numpy as np
import pytest

from palanca.web.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Limit, plot

END = 1_800_000_000.0
TIMES = np.arange(-4, 1, dtype=np.float64) * 60.0 + END


def test_line_and_threshold() -> None:
    """Zero lies on the lower edge, the largest number below the upper one, the threshold between."""
    made = plot(TIMES, np.array([0.0, 0.2, 0.4, 0.6, 0.8]), title="KV cache in use", unit="ratio",
                limits=[Limit(">", 0.4)], began=END - 60.0)  # fmt: skip
    assert made.path.startswith(f"M{LEFT},{HEIGHT - BOTTOM} L")
    assert made.path.count("L") == 4
    assert made.path.endswith(f"L{WIDTH - RIGHT},{made_y(0.8, 0.8):g}")
    assert [(made_y(0.4, 0.8), "> 0.4")] == [(one.at, one.text) for one in made.limits]
    assert LEFT + (WIDTH - LEFT - RIGHT) * 0.75 == pytest.approx(made.began)
    assert made.times[-1].text == "08:00"
    assert "lowest 0, highest 0.8, last 0.8; threshold > 0.4; the finding began at 07:59:00 UTC." in made.description
    assert made.caption == "0.8, threshold > 0.4"


def made_y(value: float, highest: float) -> float:
    return round(HEIGHT - BOTTOM - value / (highest * 1.06) * (HEIGHT - TOP - BOTTOM), 1)


def test_gaps_stay_gaps() -> None:
    """No line over what was not measured; a number alone is a dot."""
    made = plot(TIMES, np.array([1.0, np.nan, 2.0, 3.0, np.nan]), title="t", unit="requests")
    assert made.path.count("M") == 1
    assert len(made.dots) == 1
    assert "none at the end" in made.description
    assert made.caption == "no number now"


@pytest.mark.parametrize("values", [[np.nan] * 5, [np.inf, np.nan, np.inf, np.inf, np.inf]])
def test_without_numbers(values: list[float]) -> None:
    """It says so, and draws nothing."""
    made = plot(TIMES, np.array(values), title="t", unit="s")
    assert (made.path, made.dots) == ("", ())
    assert "no numbers" in made.description


@pytest.mark.parametrize("values", [[0.0] * 5, [-1.0, -2.0, 0.0, 1.0, 2.0], [1e-9] * 5, [1e18] * 5])
def test_any_scale(values: list[float]) -> None:
    """Everything lies within the frame, with a few round levels."""
    made = plot(TIMES, np.array(values), title="t", unit="tokens/s", limits=[Limit("<", 3.0)])
    places = [float(part) for point in made.path.replace("M", "").replace("L", "").split() for part in point.split(",")]
    assert all(0 <= place <= max(WIDTH, HEIGHT) for place in places)
    assert 1 <= len(made.levels) <= 7
    assert all(TOP <= one.at <= HEIGHT - BOTTOM for one in made.levels)


def test_what_began_before_is_not_marked() -> None:
    """The mark would lie outside."""
    assert plot(TIMES, np.ones(5), title="t", unit="s", began=END - 3600.0).began is None
