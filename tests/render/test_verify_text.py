"""What a change did, as text and as data."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from tests.engines import shipped, target
from tests.recorded import BUDGET, FP8, changed

from palanca.batches import Difference
from palanca.comparison import Compared
from palanca.expectations import Outcome
from palanca.loads import Axis, Match
from palanca.render.verify import document, render
from palanca.verify import EngineChange, Verification


def test_a_cure_reads_from_the_top() -> None:
    """The verdict and why come first, then the load, what was changed, goals, and numbers."""
    text = render(changed(*FP8), width=110, color=False, catalogue=shipped())
    lines = text.splitlines()
    assert (
        "Compared 2026-11-29 20:41:02 UTC + 1 min with 2026-11-29 20:43:46 UTC + 1 min, in batches of 10 s" == lines[0]
    )
    assert "The change helped: preemptions_per_minute (<= 1): met, waiting (falls): met." == lines[2]
    assert "  load        equal by requests in the system (6 + 6 batches); arriving 7 requests/s ->" in text
    assert "  goal        Preemptions per minute <= 1: met" in lines
    assert any(
        line.startswith("  Generation tokens                 4,552 tokens/s -> 5,703 tokens/s, +25 %") for line in lines
    )
    assert "cache_dtype auto -> fp8" in text
    assert all(len(line) <= 110 for line in lines)


def test_the_price_is_told() -> None:
    """What got worse has a line of its own, and a limit that was broken too."""
    text = render(changed(*BUDGET), width=120, color=False, catalogue=shipped())
    assert "limit       Inter-token latency, p99 <= 0.2: broken" in text
    assert "price       Inter-token latency, p99: 42.1 ms -> 216 ms, +412 %" in text


def test_loads_that_do_not_compare() -> None:
    """The reason is said in place of numbers that would mislead."""
    text = render(changed("healthy", "kv-saturated", None, 60.0, 0.0, 5.0), width=200, color=True)
    assert "Cannot tell:" in text
    assert "does not compare: the prompts after are 0.52 times as long" in text
    assert ": helped" not in text


def test_loads_that_differ_in_opposite_directions() -> None:
    """They are not called equal."""
    made = changed(*FP8)
    levels: tuple[tuple[Axis, float, float], ...] = (("arrivals", 0.7, 3.6), ("in_system", 4.0, 3.0))
    engines = tuple(replace(one, load=replace(one.load, axis="in_system", levels=levels)) for one in made.engines)
    text = render(replace(made, engines=engines), width=200, color=False)
    assert "load        one measure rose and the other fell, so the server itself has changed (6 + 6 batches);" in text
    assert "equal by" not in text


def test_colors_only_where_wanted() -> None:
    """Escape codes are for terminals."""
    assert "\x1b[1;32mThe change helped:" in render(changed(*FP8), width=110, color=True)
    assert "\x1b" not in render(changed(*FP8), width=110, color=False)


def test_the_document_is_strict_json() -> None:
    """All signals are in the data, with their intervals, and no number that JSON lacks."""
    made = json.loads(json.dumps(document(changed(*BUDGET)), allow_nan=False))
    assert ("palanca.verification/v1", "helped", "token-budget", 10) == (
        made["schema"], made["verdict"], made["rule"], made["batch_s"]
    )  # fmt: skip
    (engine,) = made["engines"]
    assert ("arrivals", None, {"before": 6, "after": 6}) == (
        engine["load"]["equal_by"], engine["load"]["why_not"], engine["load"]["batches"]
    )  # fmt: skip
    itl = next(one for one in engine["signals"] if one["signal"] == "itl_p99")
    assert ("made it worse", [6, 6]) == (itl["verdict"], itl["batches"])
    assert itl["interval"][0] < itl["change"] < itl["interval"][1]


def odd() -> Verification:
    """Hostile labels, numbers that do not exist, several engines."""
    nothing = np.zeros(0, dtype=bool)
    level: tuple[tuple[Axis, float, float], ...] = (("arrivals", float("nan"), float("inf")),)
    signals = (
        Compared("waiting", "requests", None, "cannot tell", "no numbers before, or none after"),
        Compared("itl_p99", "s", Difference(0.0, 1.0, 1.0, 1.0, 1.0, (1, 1)), "cannot tell", "few"),
    )
    engine = EngineChange(
        target(model_name="\x1b[31mred"), (2, 3), "cannot tell", "x\ny", Match(nothing, nothing, None, level, "x\ny"),
        signals, (Outcome("waiting", "falls", "cannot tell", "no numbers"),), ("waiting",), (("a\n", "1", "2"),) * 9,
    )  # fmt: skip
    return Verification("cannot tell", "x\ny", None, (0.0, 60.0), (90.0, 150.0), 10.0, 120.0, (engine,))


def test_hostile_text_is_escaped() -> None:
    """Nothing from a label reaches the terminal as it is, and missing numbers are dashes."""
    text = render(odd(), width=80, color=False)
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text
    assert "x\\ny" in text
    assert "(2 engines before, 3 after, their means)" in text
    assert "and 3 more" in text
    made = document(odd())
    json.dumps(made, allow_nan=False)
    assert (None, None) == (made["engines"][0]["signals"][0]["before"], made["engines"][0]["signals"][1]["relative"])
