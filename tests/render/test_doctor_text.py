"""The report of doctor for people and as data."""

from __future__ import annotations

import json

import pytest
from tests.engines import END, target

from palanca.doctor import DoctorReport, Gap, TargetSeen
from palanca.inspections.evidence import Check, ServerSeen
from palanca.model import SourceInfo, VllmVersion
from palanca.render import doctor

VERSION = VllmVersion("0.26.0", "0.26.0", ("v1",), "reported")
GAP = Gap(("errors-high", "slot-limit"), ("max_num_seqs is not known: give it with --serve-args --max-num-seqs",))


def report(**changes: object) -> DoctorReport:
    plain: dict[str, object] = {
        "time": END,
        "source": SourceInfo("scrape", "http://a:8000"),
        "servers": (ServerSeen("http://a:8000", "vllm", 0.0204, "0.26.0", 52_266, 445),),
        "checks": (
            Check("names-old", "warning", "names that go", ("gpu_cache_usage_perc: last in 0.11.2",), "look for them"),
            Check("reachability", "ok", "the server answers"),
        ),
        "names": {"vllm:num_requests_running": 1},
        "targets": (TargetSeen(target(), VERSION, 2.5, 82, (GAP,), ("speculation-weak",)),),
    }
    return DoctorReport(**(plain | changes))  # type: ignore[arg-type]


def test_the_whole_page() -> None:
    """Servers, checks with the worst first, and engines with what cannot be judged there."""
    assert doctor.text(report(), width=100, color=False) == (
        """\
2027-01-15 08:00:00 UTC, doctor: 1 warning
vLLM 0.26.0, http://a:8000, answered in 20.4 ms, 445 series, 51 KiB

Checks
  WARNING  names that go
           gpu_cache_usage_perc: last in 0.11.2
           -> look for them
  ok       the server answers

Engines
  m @ a:8000: vLLM 0.26.0 (reported), 82 signals, a sample every 2.5 s
    not judged: errors-high, slot-limit
      max_num_seqs is not known: give it with --serve-args --max-num-seqs
    not applicable: speculation-weak
"""
    )


def test_a_server_that_does_not_answer() -> None:
    """No engines, no credentials, and no numbers that nobody has."""
    broken = ServerSeen("http://ana:s3cret@a:8000", "unknown", error="http://ana:s3cret@a:8000: refused")
    check = Check("reachability", "error", "1 of 1 servers cannot be read", ("http://ana:s3cret@a:8000: refused",))
    made = report(servers=(broken,), checks=(check,), targets=(), names={})

    assert doctor.text(made, width=100, color=False) == (
        """\
2027-01-15 08:00:00 UTC, doctor: 1 error
unknown server, http://a:8000

Checks
  ERROR    1 of 1 servers cannot be read
           http://a:8000: refused
"""
    )
    assert "s3cret" not in doctor.to_json(made)


def test_engines_alike_stand_together() -> None:
    """One line for all engines with the same release and the same gaps; the slowest scrape counts."""
    seen = [
        TargetSeen(target(str(index)), None if index == 3 else VERSION, every, 82, (), ())
        for index, every in enumerate((5.0, 15.0, None, 5.0))
    ]
    lines = doctor.text(report(targets=tuple(seen)), width=100, color=False).partition("Engines\n")[2].splitlines()

    assert 3 == len(lines)
    assert ["m @ a:8000 engine 0, m @ a:8000 engine 1, m @ a:8000 engine 2: vLLM 0.26.0 (reported), 82 signals,"] == [
        lines[0].strip()
    ]
    assert "a sample every 15 s" == lines[1].strip()
    assert lines[2].endswith("release unknown, 82 signals, a sample every 5 s")


def test_nothing_to_remark() -> None:
    made = report(checks=(Check("reachability", "ok", "the server answers"),), targets=())

    assert doctor.text(made, width=100, color=False).startswith("2027-01-15 08:00:00 UTC, doctor: nothing to remark\n")


@pytest.mark.parametrize("width", [10, 60, 200])
def test_hostile_text_stays_on_its_line(width: int) -> None:
    """Whatever comes from labels or answers is escaped, and nothing is wider than the terminal."""
    evil = "a\x1b[31m\nred\u202e" + "x" * 300
    server = ServerSeen("http://a", "vllm", version=evil)
    gap = Gap(("a-rule",), (evil,))
    made = report(
        servers=(server,),
        checks=(Check("names-unknown", "note", evil, (evil,), evil),),
        targets=(TargetSeen(target(model_name=evil), None, None, 0, (gap,), ()),),
    )
    text = doctor.text(made, width=width, color=False)

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) <= max(width, 40)
    assert "\x1b[1;31mERROR" in doctor.text(report(checks=(Check("a", "error", "b"),)), width=width, color=True)


def test_data() -> None:
    """The same as JSON, with a schema name and no NaN."""
    document = json.loads(doctor.to_json(report()))

    assert ("palanca.doctor/v1", "2027-01-15T08:00:00Z", "warning") == (
        document["schema"],
        document["time"],
        document["level"],
    )
    assert [
        {
            "id": "names-old",
            "level": "warning",
            "title": "names that go",
            "details": ["gpu_cache_usage_perc: last in 0.11.2"],
            "hint": "look for them",
        }
    ] == document["checks"][:1]
    assert {"release_range": "0.26.0", "provenance": "reported"} == document["targets"][0]["vllm"]
    assert [{"rules": list(GAP.rules), "reasons": list(GAP.reasons)}] == document["targets"][0]["unknown"]
    seen = TargetSeen(target(), None, float("inf"), 0, (), ())
    other = json.loads(doctor.to_json(report(targets=(seen,))))["targets"][0]
    assert (None, {"release_range": None, "provenance": None}) == (other["interval_s"], other["vllm"])
