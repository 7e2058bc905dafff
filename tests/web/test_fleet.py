"""The fleet as it is arranged: the worst first, filters that stay, what is unknown."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
from tests.api.apps import fleet
from tests.engines import shipped
from tests.web.served import QUIET, SICK, SILENT, engines

from palanca.model import Diagnosis
from palanca.web.asked import AskedFleet, of_pairs
from palanca.web.fleet import FleetView, fleet_view
from palanca.web.pages import Frame, html


def view(diagnosis: Diagnosis, query: str = "", time: float | None = None) -> FleetView:
    return fleet_view(diagnosis, shipped(), of_pairs(AskedFleet, parse_qsl(query)), time)


def shown(made: FleetView, query: str = "", time: str | None = None) -> str:
    wanted = of_pairs(AskedFleet, parse_qsl(query))
    return html("fleet.html", Frame("Fleet", "", kept=(), time=time), view=made, wanted=wanted, causes=())


def test_the_worst_first() -> None:
    """With what is wrong there and what to change."""
    made = view(fleet(12))
    assert "4 of 12 engines need attention." == made.verdict
    assert ["critical"] * 4 + ["ok"] * 8 == [row.status for row in made.rows]
    first = made.rows[0]
    assert "KV cache is full and requests are being preempted" == first.what
    assert "--kv-cache-dtype -> fp8" == first.change
    assert ("2", "30", "0.97", "300 ms", "-") == first.cells
    assert "" == made.rows[-1].what
    (problem,) = made.problems
    assert ("4 of 12 engines", "kv-capacity") == (problem.where, problem.cause)
    assert {"critical": 4, "ok": 8} == {one.status: one.number for one in made.counts if one.number}


def test_models() -> None:
    """Each with its engines by status."""
    made = view(fleet(12))
    assert [("llama", 6, (("critical", 2), ("ok", 4))), ("qwen", 6, (("critical", 2), ("ok", 4)))] == [
        (one.name, one.engines, one.counts) for one in made.models
    ]


@pytest.mark.parametrize(
    ("query", "count"),
    [("status=ok", 8), ("status=ok&model=llama", 4), ("q=LLAMA", 6), ("q=vllm-1", 3), ("q=kv-capacity", 4),
     ("q=llama+critical", 2), ("cause=kv-capacity&severity=critical", 4), ("match=job%3Dnone", 0),
     ("q=job%3Dvllm", 12)],
)  # fmt: skip
def test_filters_and_search(query: str, count: int) -> None:
    """They narrow the list, and not what is counted of the whole fleet."""
    made = view(fleet(12), query)
    assert count == len(made.rows)
    assert made.filtered
    assert 12 == sum(one.number for one in made.counts)
    assert "4 of 12 engines need attention." == made.verdict


def test_filters_stay_in_links() -> None:
    """A status is chosen and let go; the moment stays too."""
    made = view(fleet(12), "q=llama&model=llama&status=ok", 1.8e9)
    links = {one.status: one.href for one in made.counts}
    moment = "time=2027-01-15T08%3A00%3A00Z"
    assert f"?model=llama&q=llama&status=critical&{moment}" == links["critical"]
    assert f"?model=llama&q=llama&{moment}" == links["ok"]
    assert f"?{moment}" == made.everything
    assert made.rows[0].href.endswith(moment)


def test_pages() -> None:
    """A hundred at a time, all of a thousand at once."""
    made = view(fleet(250), "q=vllm")
    assert (100, "1 to 100 of 250 engines") == (len(made.rows), made.shown)
    assert [("Next page", "?q=vllm&offset=100&limit=100"), ("Show 250", "?q=vllm&limit=1000")] == [*made.pages]
    last = view(fleet(250), "offset=200")
    assert (50, "201 to 250 of 250 engines") == (len(last.rows), last.shown)
    assert "Previous page" == last.pages[0][0]
    assert (250, ()) == (len(view(fleet(250), "limit=1000").rows), view(fleet(250), "limit=1000").pages)
    assert "Next page" == view(fleet(250), "offset=100").pages[1][0]


def test_a_page_after_the_last() -> None:
    """Leads back to the last one."""
    made = view(fleet(250), "offset=900")
    assert ("none of 250 engines here", ("Last page", "?offset=200&limit=100")) == (made.shown, made.pages[0])
    text = shown(made, "offset=900")
    assert "The list ends before this page: none of 250 engines here." in text
    assert "No engine fits" not in text
    assert "none of 1 engine here" == view(fleet(1), "offset=900").shown
    none = view(fleet(250), "offset=900&q=nobody")
    assert (("Last page", "?q=nobody&limit=100"),) == none.pages
    assert "No engine fits" in shown(none, "offset=900&q=nobody")


def test_without_engines() -> None:
    """Of a moment it is not said that none has been seen yet."""
    empty = replace(fleet(1), targets=())
    assert "No engine has been seen yet." in shown(view(empty))
    made = view(empty, time=1.8e9)
    assert "No engine is known of that moment." == made.verdict
    assert "The sources have no engine at that moment" in shown(made, time="2027-01-15T08:00:00Z")


def test_large_numbers() -> None:
    """Are written alike everywhere."""
    made = view(fleet(1200))
    assert "400 of 1,200 engines need attention." == made.verdict
    assert "400 of 1,200 engines" == made.problems[0].where
    assert "1200" not in re.sub("<[^>]*>", "", shown(view(engines(*[QUIET] * 1200))))


@pytest.mark.parametrize(
    ("kinds", "verdict", "worst"),
    [
        ([SILENT, SILENT], "Nothing can be said: all 2 engines cannot be judged.", "unknown"),
        ([SILENT, QUIET], "Nothing to change at 1 of 2 engines; 1 cannot be judged.", "unknown"),
        ([SILENT, SICK], "1 of 2 engines needs attention; 1 cannot be judged.", "critical"),
        ([QUIET], "Nothing to change at 1 of 1 engine.", "ok"),
        ([], "No engine is known.", "unknown"),
    ],
)
def test_unknown_is_never_ok(kinds: list[dict[str, object]], verdict: str, worst: str) -> None:
    """In the sentence for the fleet, and in its word."""
    made = view(engines(*kinds) if kinds else replace(fleet(1), targets=()))
    assert (verdict, worst) == (made.verdict, made.worst)


def test_why_it_is_unknown() -> None:
    """The engine says what it lacks, the gaps which rules and where."""
    made = view(engines(SILENT, QUIET))
    assert "lacks Requests running (stale), Requests waiting (stale), KV cache in use (stale)" in made.rows[0].what
    gap = next(one for one in made.gaps if "metrics-missing" not in dict(one.rules) and "1 of 2" not in one.where)
    assert gap.rules
    assert gap.lacks.endswith(")")
    assert made.unjudged == len({rule for one in made.gaps for rule, _ in one.rules}) or made.more_gaps
    assert 50 == made.rules


@pytest.mark.parametrize("limit", [100, 1000])
def test_a_thousand_engines(limit: int) -> None:
    """Less than 1 MB; ``bench/pages.py`` says how long it takes."""
    wanted = AskedFleet(limit=limit)
    made = fleet_view(fleet(1000), shipped(), wanted)
    page = html("fleet.html", Frame("Fleet", "", kept=()), view=made, wanted=wanted, causes=())
    assert limit == page.count('<tr><td><span class="badge')
    assert len(page.encode()) < 1_000_000
