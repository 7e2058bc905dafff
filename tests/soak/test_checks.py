"""What the soak calls lost, doubled, late and leaked; and what it does not."""

from __future__ import annotations

import pytest
from soak.checks import Known, episodes, leaks, messages, seen
from soak.engines import Span
from soak.watch import Shown, Usage

TRUTH = [
    Span("well", 0, 100),
    Span("ill", 100, 200),
    Span("well", 200, 300),
    Span("ill", 300, 400),
    Span("well", 400, 600),
]
FOUND = [Known(104, 205), Known(306, 404)]


@pytest.mark.parametrize(
    ("blind", "expected"),
    [
        ([], 100.0),
        ([(0, 50)], 100.0),
        ([(90, 130)], 70.0),
        ([(120, 140)], 60.0),
        ([(120, 140), (130, 190)], 20.0),
        ([(150, 300)], 50.0),
        ([(0, 1000)], 0.0),
    ],
)
def test_what_can_be_seen(blind: list[tuple[float, float]], expected: float) -> None:
    """The longest stretch between 100 and 200."""
    assert expected == seen(100, 200, blind)


def test_episodes_that_are_right() -> None:
    """Each illness has one, a little late."""
    assert [] == episodes("m", TRUTH, FOUND, [])
    assert [] == episodes("m", TRUTH, [FOUND[1]], [(90, 195)])
    assert [] == episodes("m", TRUTH, [Known(104, 404)], [(190, 310)])


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ([FOUND[0]], "no episode"),
        ([Known(104, 150), Known(150, 204), FOUND[1]], "2 episodes of one illness"),
        ([*FOUND, Known(520, 560)], "and no illness"),
        ([FOUND[0], Known(306, None)], "never ended"),
        ([FOUND[0], Known(306, 590)], "s late"),
        ([Known(104, 404)], "goes on over 100 s in which it was well"),
    ],
)
def test_episodes_that_are_wrong(known: list[Known], said: str) -> None:
    assert any(said in one for one in episodes("m", TRUTH, known, []))


def shown(came: float, over: float | None) -> Shown:
    return Shown(str(came), "t", came, over)


def test_messages_that_are_right() -> None:
    """One an episode; or one for two, where nobody could be told of the end of the first."""
    assert [] == messages("m", [shown(106, 207), shown(308, 406)], FOUND, 0, [])
    assert [] == messages("m", [shown(106, 406)], FOUND, 0, [])
    assert [] == messages("m", [shown(106, 207)], FOUND, 1, [])
    assert [] == episodes("m", TRUTH, [FOUND[0], Known(306, 480)], [(390, 450)])
    assert [] == messages("m", [shown(230, 240), shown(308, 406)], FOUND, 0, [(100, 228)])


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([shown(106, 207)], "1 of 2 episodes without a message"),
        ([shown(106, 207), shown(107, 208), shown(308, 406)], "a second message"),
        ([shown(106, 207), shown(308, None)], "never resolved"),
        ([shown(106, 207), shown(308, 406), shown(500, 506)], "is of no episode"),
    ],
)
def test_messages_that_are_wrong(told: list[Shown], said: str) -> None:
    assert any(said in one for one in messages("m", told, FOUND, 0, []))


def life(grows: float, files: int = 0) -> list[Usage]:
    """A hundred looks at a process that takes 20 MiB to begin with, and grows from then on."""
    return [Usage(1, at, min(at, 20) + grows * at, 20 + files * at // 100, 9) for at in range(100)]


def test_leaks() -> None:
    """What grows after it is warm."""
    assert [] == leaks(life(0.0))[0]
    assert ["memory grew MiB: +34.0"] == leaks(life(0.5))[0]
    assert ["files grew: +14.0"] == leaks(life(0.0, files=20))[0]
