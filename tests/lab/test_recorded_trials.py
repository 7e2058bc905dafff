"""Two trials as ``make lab`` recorded them: broken, then restarted with the first recommendation, all in one file."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

import pytest
from lab.faults import FAULTS
from lab.processes import serve_line
from lab.treatment import first_advice, treat
from lab.trial import PERIOD_S
from tests.engines import ROOT, shipped

from palanca.facts import parse_serve_args
from palanca.poll import Question, run
from palanca.render.document import to_json
from palanca.sources.recording import RecordingSource
from palanca.verifying import Trial, verify_change

RECORDINGS = ROOT / "tests" / "data" / "lab"


@dataclass(frozen=True)
class Recorded:
    """End of the load before, and the moment of the change as it was found (unix seconds); what was recommended."""

    fault: str
    at: float
    changed: float
    rule: str
    argument: str


RECORDED = (
    Recorded("kv-cache", 1796041024.086, 1796041026.450, "kv-cache-saturated", "remove --num-gpu-blocks-override"),
    Recorded("slots", 1796041373.803, 1796041376.980, "slot-limit", "--max-num-seqs 40"),
)


@pytest.fixture(params=RECORDED, ids=lambda one: one.fault)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    assert isinstance(request.param, Recorded)
    return request.param


def source(one: Recorded) -> RecordingSource:
    return RecordingSource(RECORDINGS / f"{one.fault}.om.gz")


def test_the_same_is_recommended(recorded: Recorded) -> None:
    """The first recommendation is what was followed, and can be followed."""
    fault = next(one for one in FAULTS if one.name == recorded.fault)
    line = serve_line("model", fault.context, fault.flags)
    question = Question(at=recorded.at, flags=parse_serve_args(shlex.join(line)))
    advice = first_advice(json.loads(to_json(run(shipped(), source(recorded), question))))
    assert advice is not None
    assert (recorded.rule, recorded.argument) == (advice.finding["rule"], advice.said)
    assert "" == treat(line, fault.load, advice).why_not


def test_it_helped(recorded: Recorded) -> None:
    """The verdict is that which the Prometheus of the trial gave."""
    catalogue, opened = shipped(), source(recorded)
    trial = Trial(recorded.changed, PERIOD_S, recorded.rule)
    found = verify_change(catalogue, opened, opened.span(catalogue), trial)
    assert ("helped", "in_system") == (found.verdict, found.engines[0].load.axis)
