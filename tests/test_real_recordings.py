"""Every real recording is diagnosed as its entry of expect.json says (meaning: README.md of the recordings)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from tests.engines import RECORDINGS, ROOT, shipped

from palanca.model import Diagnosis, Finding
from palanca.moments import seconds
from palanca.poll import Question, run
from palanca.render.document import to_json
from palanca.sources.recording import RecordingSource

EXPECT: dict[str, dict[str, Any]] = json.loads((RECORDINGS / "expect.json").read_text(encoding="utf-8"))
LOUD = {"critical", "warning"}


def having(key: str) -> list[str]:
    return [name for name, expect in EXPECT.items() if key in expect]


@cache
def diagnosed(name: str) -> Diagnosis:
    """The diagnosis at the moment, and with the window, that the entry says."""
    expect = EXPECT[name]
    window = seconds(expect["window"]) if "window" in expect else None
    source = RecordingSource(RECORDINGS / f"{name}.om.gz")
    return run(shipped(), source, Question(at=expect["at"], window=window))


def findings(name: str) -> Iterator[Finding]:
    for report in diagnosed(name).targets:
        yield from report.findings


def loud(name: str) -> list[Finding]:
    """Warnings and criticals: what a reader is shown as a problem."""
    return [one for one in findings(name) if one.severity in LOUD]


def forbidden(name: str, text: str) -> list[str]:
    """Recommendations of any finding that the entry forbids; without a direction every direction is meant."""
    lever, _, direction = text.partition(":")
    return [
        f"{finding.rule}: {one.lever}:{one.direction}"
        for finding in findings(name)
        for one in finding.recommendations
        if one.lever == lever and direction in {"", one.direction}
    ]


def test_every_recording_is_expected() -> None:
    """Each recording has an entry, and each entry a recording."""
    assert sorted(path.name.removesuffix(".om.gz") for path in RECORDINGS.glob("*.om.gz")) == sorted(EXPECT)


@pytest.mark.parametrize("name", EXPECT)
def test_one_engine_is_judged(name: str) -> None:
    """A recording has one engine, whose state is known."""
    assert ["unknown"] != [report.status for report in diagnosed(name).targets]
    assert 1 == len(diagnosed(name).targets)


@pytest.mark.parametrize("name", having("cause"))
def test_cause(name: str) -> None:
    """The first root finding has the right cause, and is loud."""
    first = next(one for one in findings(name) if one.role == "root")
    assert first.cause in EXPECT[name]["cause"]
    assert first.severity in LOUD


@pytest.mark.parametrize("name", having("flags_any"))
def test_first_levers(name: str) -> None:
    """One of the right levers is among the first two different recommendations, root findings first."""
    ordered = sorted(findings(name), key=lambda one: one.role != "root")
    made = dict.fromkeys((one.lever, one.direction) for finding in ordered for one in finding.recommendations)
    first = [word for lever, direction in list(made)[:2] for word in (lever, f"{lever}:{direction}")]
    assert set(EXPECT[name]["flags_any"]) & set(first), first


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name in having("forbid") for text in EXPECT[name]["forbid"]]
)
def test_forbidden_levers(name: str, text: str) -> None:
    """What would make it worse is nowhere in any finding."""
    assert [] == forbidden(name, text)


@pytest.mark.parametrize("name", having("healthy"))
def test_healthy(name: str) -> None:
    """Where nothing is wrong nothing is loud."""
    assert [] == [one.rule for one in loud(name)]


@pytest.mark.parametrize("name", having("quiet_or"))
def test_quiet_or(name: str) -> None:
    """Nothing is loud but the causes that may be."""
    assert [] == [one.rule for one in loud(name) if one.cause not in EXPECT[name]["quiet_or"]]


@pytest.mark.parametrize("name", EXPECT)
def test_without_nan(name: str) -> None:
    """The document of a real diagnosis is strict JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    document = json.loads(to_json(diagnosed(name)), parse_constant=refuse)
    assert "palanca.diagnosis/v1" == document["schema"]


@pytest.mark.parametrize(("name", "code"), [("kv-saturated", 1), ("h200-A2_kv_fp8", 0)])
def test_through_the_command_line(name: str, code: int) -> None:
    """The command line says the same as the library."""
    expect = EXPECT[name]
    path = RECORDINGS / f"{name}.om.gz"
    window = ["--window", expect["window"]] if "window" in expect else []
    arguments = ["diagnose", "--recording", path, "--at", str(expect["at"]), *window, "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "palanca.cli", *arguments],
        check=False, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "service")},
    )  # fmt: skip
    assert (code, "") == (done.returncode, done.stderr)
    assert json.loads(to_json(diagnosed(name))) == json.loads(done.stdout)
