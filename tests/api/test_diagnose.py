"""``GET /diagnose``: what is sent, of which moment, and which part of it."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from dataclasses import replace
from functools import cache
from urllib.parse import parse_qs, quote, urlencode

import pytest
from jsonschema import Draft202012Validator
from tests.api.apps import ODD_LABELS, Answer, World, fleet, odd, recorded, sent, world
from tests.engines import END, ROOT, shipped

from palanca.api.selection import FIELDS, LARGEST_PAGE, LONGEST_VALUE, MOST_VALUES
from palanca.daemon.snapshot import taken
from palanca.errors import BusyError, SourceError, UsageError
from palanca.model import Diagnosis, SourceInfo
from palanca.render import markdown, text
from palanca.render.document import document

SCHEMA = json.loads((ROOT / "docs" / "schema" / "diagnosis-v1.schema.json").read_text(encoding="utf-8"))
VALID = Draft202012Validator(SCHEMA)


@cache
def one() -> World:
    return world(recorded())


@cache
def many() -> World:
    return world(fleet())


@cache
def strange() -> World:
    return world(odd())


def instances(answer: Answer) -> list[str]:
    assert 200 == answer.status, answer.text
    return [target["target"]["instance"] for target in answer.json["targets"]]


def fault(answer: Answer, status: int = 422) -> str:
    assert (status, "application/problem+json") == (answer.status, answer["Content-Type"])
    return str(answer.json["detail"])


# --- the last diagnosis ----------------------------------------------------------------------------


@pytest.mark.parametrize("diagnosis", [recorded(), fleet(), odd(), Diagnosis(END, SourceInfo("x", "http://x"), ())])
def test_the_document(diagnosis: Diagnosis) -> None:
    """As the command line writes it, valid under the published schema, with the headers that dashboards use."""
    answer = world(diagnosis).get("/diagnose")
    VALID.validate(answer.json)
    assert document(diagnosis).model_dump_json(by_alias=True) == answer.text
    assert ("application/json", "12", str(len(diagnosis.targets))) == (
        answer["Content-Type"], answer["Age"], answer["X-Total-Count"],
    )  # fmt: skip
    assert answer.get("Link") is None
    assert "no-cache" == answer["Cache-Control"]


@pytest.mark.parametrize("query", ["", "limit=1000", "offset=0", "fields=" + ",".join(FIELDS)])
def test_all_ways_to_the_whole_are_the_same(query: str) -> None:
    """The quick way of dashboards and the one through parameters send the same body under the same tag."""
    plain, asked = one().get("/diagnose"), one().get("/diagnose", query)
    assert plain.json == asked.json
    if "fields" not in query:
        assert (plain.body, plain["ETag"]) == (asked.body, asked["ETag"])


def test_what_was_asked_before_is_answered_alike() -> None:
    """The second time it does not go through parameters: body and headers are the same, and so are errors."""
    mine = world(fleet())
    for query in ("model=llama&limit=2", "severity=critical", "limit=0", "fields=target"):
        for headers in ({}, {"accept": "text/plain"}, {"accept_encoding": "gzip"}):
            first, again = (mine.get("/diagnose", query, **headers) for _ in range(2))
            assert first == again
    moment = mine.get("/diagnose", "time=-5m")
    mine.backend.clock += 60
    assert moment.json["time"] != mine.get("/diagnose", "time=-5m").json["time"]


def test_no_source_is_asked() -> None:
    """However often it is answered."""
    mine = world(fleet())
    for query in ("", "model=llama", "severity=critical&limit=1"):
        mine.get("/diagnose", query)
    assert [] == mine.backend.asked


@pytest.mark.parametrize(
    ("accept", "kind"),
    [("text/markdown", "text/markdown"), ("text/plain", "text/plain"), ("text/*;q=0.3, text/plain", "text/plain")],
)
def test_other_representations(accept: str, kind: str) -> None:
    """Markdown and text are those of the command line; each has its own tag."""
    answer = one().get("/diagnose", accept=accept)
    written = {
        "text/markdown": markdown.render(recorded(), shipped()),
        "text/plain": text.render(recorded(), width=100, color=False, catalogue=shipped()),
    }
    assert (written[kind], f"{kind}; charset=utf-8") == (answer.text, answer["Content-Type"])
    assert one().get("/diagnose")["ETag"] != answer["ETag"]
    assert "Accept, Accept-Encoding" == answer["Vary"]


def test_several_lines_of_accept() -> None:
    """They count as one (RFC 9110, 5.3)."""
    lines = [("Accept", "image/png"), ("Accept", "text/plain")]
    assert "text/plain; charset=utf-8" == one().send("GET", "/diagnose", headers=lines)["Content-Type"]


@pytest.mark.parametrize("accept", ["text/html", "image/*", "application/json;q=0"])
def test_what_cannot_be_given(accept: str) -> None:
    """406 names what can."""
    assert "text/markdown" in fault(one().get("/diagnose", accept=accept), 406)


@pytest.mark.parametrize("query", ["", "limit=50"])
@pytest.mark.parametrize("accept", ["*/*", "text/markdown"])
def test_compression(query: str, accept: str) -> None:
    """Packed, unpacked and unchanged, on both ways."""
    plain = many().get("/diagnose", query, accept=accept)
    zipped = many().get("/diagnose", query, accept=accept, accept_encoding="br, gzip")
    assert "gzip" == zipped["Content-Encoding"]
    assert plain.body == gzip.decompress(zipped.body)
    assert len(zipped.body) < len(plain.body) / 2
    same = many().get("/diagnose", query, accept=accept, if_none_match=plain["ETag"], accept_encoding="gzip")
    assert (304, b"", plain["ETag"], "12") == (same.status, same.body, same["ETag"], same["Age"])


def test_the_tag_changes_with_the_diagnosis() -> None:
    """And an old one brings the new body."""
    mine = world(fleet())
    before = mine.get("/diagnose", "model=llama")
    mine.backend.snapshot = taken(replace(fleet(), time=END + 30), 2)
    after = mine.get("/diagnose", "model=llama", if_none_match=before["ETag"])
    assert 200 == after.status
    assert before.json["time"] != after.json["time"]


def test_age() -> None:
    """Of the diagnosis, in whole seconds, never below 0 though clocks differ."""
    mine = world(fleet())
    for ago, age in ((0.4, "0"), (1.6, "2"), (86400, "86400"), (-5, "0")):
        mine.backend.clock = END + ago
        assert [age] * 2 == [mine.get("/diagnose", query)["Age"] for query in ("", "limit=1")]


# --- filters ---------------------------------------------------------------------------------------

QWEN, LLAMA = (
    ["vllm-0:8000", "vllm-2:8000", "vllm-4:8000", "vllm-6:8000"],
    ["vllm-1:8000", "vllm-3:8000", "vllm-5:8000"],
)
CRITICAL = ["vllm-0:8000", "vllm-3:8000", "vllm-6:8000"]
SLOW = ["vllm-1:8000", "vllm-4:8000"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("model=llama", LLAMA),
        ("model=qwen", QWEN),
        ("model=llama&model=qwen", sorted(LLAMA + QWEN)),
        ("model=", []),
        ("model=Llama", []),
        ("instance=vllm-3:8000", ["vllm-3:8000"]),
        ("instance=vllm-3%3A8000&instance=vllm-0%3A8000", ["vllm-0:8000", "vllm-3:8000"]),
        ("match=job=vllm", sorted(LLAMA + QWEN)),
        ("match=job%3Dvllm&match=model_name%3Dllama", LLAMA),
        ("match=model_name=llama&match=model_name=qwen", []),
        ("match=namespace=", sorted(LLAMA + QWEN)),
        ("match=namespace=prod", []),
        ("match=job=", []),
        ("match=job=v.*", []),
        ('match=job="vllm"', []),
        ("status=critical", CRITICAL),
        ("status=critical&status=ok", sorted(LLAMA + QWEN)),
        ("status=idle", []),
        ("severity=critical", CRITICAL),
        ("severity=info", SLOW),
        ("severity=info&severity=critical", sorted(CRITICAL + SLOW)),
        ("cause=kv-capacity", CRITICAL),
        ("cause=unexplained", SLOW),
        ("cause=hang", []),
        ("cause=kv-capacity&severity=info", []),
        ("model=llama&severity=critical", ["vllm-3:8000"]),
    ],
)
def test_filters(query: str, expected: list[str]) -> None:
    """Values of one parameter are alternatives, different parameters all hold; nothing is a pattern."""
    answer = many().get("/diagnose", query)
    assert expected == instances(answer)
    assert str(len(expected)) == answer["X-Total-Count"]
    VALID.validate(answer.json)


def test_findings_are_filtered_too() -> None:
    """Only those of the severity and cause that were asked for are left."""
    targets = one().get("/diagnose", "severity=critical").json["targets"]
    assert [["kv-cache-saturated"]] == [[finding["rule"] for finding in target["findings"]] for target in targets]
    assert "critical" == targets[0]["status"]
    whole = one().get("/diagnose").json["targets"][0]
    assert len(whole["findings"]) > 1
    assert whole["signals"] == targets[0]["signals"]


@pytest.mark.parametrize("accept", ["text/markdown", "text/plain"])
def test_filters_hold_for_text(accept: str) -> None:
    """A ticket of one engine."""
    assert "vllm-3:8000" in many().get("/diagnose", "instance=vllm-3:8000", accept=accept).text
    assert "vllm-0:8000" not in many().get("/diagnose", "instance=vllm-3:8000", accept=accept).text


@pytest.mark.parametrize("label", [label for label in ODD_LABELS if len(label) <= LONGEST_VALUE])
def test_odd_labels(label: str) -> None:
    """An engine is found by its label as the document shows it, whatever is in it."""
    shown = label.replace("\ud800", "\ufffd")
    for query in (urlencode({"model": shown}), urlencode({"match": "model_name=" + shown})):
        answer = strange().get("/diagnose", query)
        assert [shown] == [target["target"]["model_name"] for target in answer.json["targets"]]
        VALID.validate(answer.json)


@pytest.mark.parametrize("accept", ["application/json", "text/markdown", "text/plain"])
def test_odd_labels_in_every_representation(accept: str) -> None:
    """All of it is UTF-8, and text keeps its lines."""
    answer = strange().get("/diagnose", "limit=1000", accept=accept)
    assert 200 == answer.status
    if accept != "application/json":
        assert not re.search("line\nfeed", answer.text)
        assert "\0" not in answer.text


@pytest.mark.parametrize(
    "query",
    [
        b"model=%ED%A0%80", b"model=%00", b"model=\xff\xfe", b"model=%FF%FE", b"match=a=%00", b"match=a=%ED%B0%80",
        b"model=" + "☃".encode(), b"model=%", b"model=%zz", b"model=+", b"&&&", b"=", b"model", b"model=a;b", b";",
        b"match=__name__=x", b"match=_=", b"instance=" + b"%22%7D%20or%20vector(1)%23",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/diagnose", "/api/v1/targets", "/api/v1/findings", "/api/v1/signals"])
def test_hostile_queries(path: str, query: bytes) -> None:
    """They find nothing, or are told to be wrong."""
    answer = many().get(path, query)
    assert answer.status in {200, 422}
    answer.body.decode()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("modl=x", "modl: there is no such parameter"),
        ("Model=x", "Model: there is no such parameter"),
        ("x" * 500 + "=1", "x" * 200 + ": there is no such parameter"),
        ("severity=bad", "severity.0: Input should be 'critical', 'warning' or 'info'"),
        ("severity=", "severity.0"),
        ("status=broken", "status.0"),
        ("cause=kv", "cause.0"),
        ("match=job", "match.0: write LABEL=VALUE, such as namespace=prod"),
        ("match=", "match.0: write LABEL=VALUE"),
        ("match=1job=x", "match.0: write LABEL=VALUE"),
        ("match=a-b=x", "match.0"),
        ("match={}=x", "match.0"),
        ("limit=0", "limit: "),
        ("limit=-1", "limit: "),
        (f"limit={LARGEST_PAGE + 1}", "limit: "),
        ("limit=x", "limit: "),
        ("limit=1.5", "limit: "),
        ("limit=", "limit: "),
        ("offset=-1", "offset: "),
        ("offset=" + "9" * 30, "offset: "),
        ("offset=" + "9" * 5000, "offset: "),
        ("fields=nothing", "fields: no such field: nothing (there are target, status"),
        ("fields=", "fields: no such field"),
        ("fields=target,,status", "fields: "),
        ("fields=__class__", "fields: "),
        ("fresh=perhaps", "fresh: "),
        ("time=now", "time: 'now' is no moment; write 2026-11-29T20:09:11Z"),
        ("time=", "time: "),
        ("time=2026-11-29T20:09:11", "time: '2026-11-29T20:09:11' has no time zone"),
        ("time=2026-13-29T20:09:11Z", "time: "),
        ("time=1795982951170", "time: "),
        ("time=-1", "time: "),
        ("time=nan", "time: "),
        ("time=inf", "time: "),
        ("time=-30", "time: "),
        ("time=-30x", "time: "),
        ("time=-999999d", "time: "),
        ("time=0001-01-01T00:00:00%2B23:59", "time: "),
        ("time=" + "1" * 65, "time: "),
        ("time=%00", "time: "),
        ("time=-5m&fresh=true", "time and fresh exclude each other"),
        ("model=" + "x" * (LONGEST_VALUE + 1), "model.0: "),
        ("&".join(["model=x"] * (MOST_VALUES + 1)), "model: "),
        ("&".join(["severity=info"] * (MOST_VALUES + 1)), "severity: "),
        ("limit=0&offset=-1&modl=x", "modl"),
    ],
)
def test_wrong_parameters(query: str, said: str) -> None:
    """Each fault by itself, with the name of the parameter and how to mend it."""
    answer = many().get("/diagnose", query)
    assert said in fault(answer)
    assert all({"parameter", "message"} == set(error) for error in answer.json["errors"])
    assert answer.json["errors"]


def test_all_faults_at_once() -> None:
    """Not only the first."""
    errors = many().get("/diagnose", "limit=0&offset=-1&modl=x").json["errors"]
    assert {"limit", "offset", "modl"} == {error["parameter"] for error in errors}


# --- pages and fields ------------------------------------------------------------------------------


def walk(where: World, path: str, query: str) -> list[Answer]:
    """Follow the links of all pages."""
    pages = []
    while True:
        answer = where.get(path, query)
        pages.append(answer)
        link = answer.get("Link")
        if link is None:
            return pages
        found = re.fullmatch(r'<\?([^>]*)>; rel="next"', link)
        assert found is not None, link
        query = found[1]


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8, 1000])
@pytest.mark.parametrize(
    "rest", ["", "&model=llama&model=qwen", "&severity=critical", "&match=job%3Dvllm", "&fields=target"]
)
def test_pages_make_the_whole(limit: int, rest: str) -> None:
    """In order, nothing twice, the filters kept in every link."""
    whole = many().get("/diagnose", rest.lstrip("&")).json["targets"]
    pages = walk(many(), "/diagnose", f"limit={limit}{rest}")
    assert whole == [target for page in pages for target in page.json["targets"]]
    assert max(-(-len(whole) // limit), 1) == len(pages)
    assert {str(len(whole))} == {page["X-Total-Count"] for page in pages}


def test_links_keep_odd_values() -> None:
    """What was asked for comes back as it was, escaped."""
    query = urlencode([("match", "model_name!"), ("limit", 1)]).replace("%21", "%3Dline%0Afeed") + "&match=job=vllm"
    mine = world(odd())
    assert mine.get("/diagnose", query).get("Link") is None
    link = mine.get("/diagnose", "match=job=vllm&limit=1&offset=2&instance=" + "&instance=".join("012345"))["Link"]
    found = parse_qs(link.partition("?")[2].partition(">")[0])
    assert (["job=vllm"], ["1"], ["3"], list("012345")) == (
        found["match"], found["limit"], found["offset"], found["instance"],
    )  # fmt: skip


def test_beyond_the_last_page() -> None:
    """Nothing, and no further link."""
    answer = many().get("/diagnose", "offset=100&limit=5")
    assert ([], None, "7") == (instances(answer), answer.get("Link"), answer["X-Total-Count"])


@pytest.mark.parametrize(
    "fields", ["target", "status,target", " findings , target ", "signals", "bottleneck,bottleneck"]
)
def test_fields(fields: str) -> None:
    """Only these keys of a target, as they stand in the whole; the rest of the document stays."""
    names = {name.strip() for name in fields.split(",")}
    answer, whole = many().get("/diagnose", "fields=" + quote(fields)).json, many().get("/diagnose").json
    assert [{name: target[name] for name in names} for target in whole["targets"]] == answer["targets"]
    assert {**whole, "targets": []} == {**answer, "targets": []}


# --- other moments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "moment"),
    [
        ("2026-11-29T20:09:11Z", 1795982951.0),
        ("2026-11-29T20:09:11.170Z", 1795982951.17),
        ("2026-11-29t20:09:11z", 1795982951.0),
        ("2026-11-29T22:09:11%2B02:00", 1795982951.0),
        ("2026-11-29T22:09:11+02:00", 1795982951.0),
        ("2026-11-29T15:09:11-05:00", 1795982951.0),
        ("2026-11-29%2020:09:11Z", 1795982951.0),
        ("1795982951", 1795982951.0),
        ("1795982951.17", 1795982951.17),
        ("-30m", END + 12 - 1800),
        ("-1h30m", END + 12 - 5400),
        ("-0s", END + 12),
        ("0", 0.0),
    ],
)
def test_moments(time: str, moment: float) -> None:
    """RFC 3339, also with a plus sign that nobody escaped, unix seconds, or back from now."""
    mine = world(fleet())
    answer = mine.get("/diagnose", "time=" + time)
    assert 200 == answer.status, answer.text
    assert [pytest.approx(moment)] == mine.backend.asked
    assert str(round(mine.backend.clock - moment)) == answer["Age"]


def test_fresh() -> None:
    """The sources are asked once, and filters hold as ever."""
    mine = world(fleet())
    answer = mine.get("/diagnose", "fresh=true&model=llama&limit=2")
    assert LLAMA[:2] == instances(answer)
    assert ([None], "3", "0") == (mine.backend.asked, answer["X-Total-Count"], answer["Age"])
    mine.get("/diagnose", "fresh=true&model=llama&limit=2")
    mine.get("/diagnose", "fresh=false")
    assert [None, None] == mine.backend.asked


def test_too_many_at_once() -> None:
    """503 says when to ask again."""
    mine = world(fleet())
    mine.backend.failure = BusyError("10 fresh diagnoses are under way or waiting; ask again later")
    answer = mine.get("/diagnose", "fresh=true")
    assert "ask again later" in fault(answer, 503)
    assert "5" == answer["Retry-After"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(UsageError("2030 is in the future"), 400), (SourceError("it does \ud800 not\nanswer"), 503)],
)
def test_what_a_fresh_one_can_fail_of(error: Exception, status: int) -> None:
    """A moment that cannot be is the caller's, a source that fails is not."""
    mine = world(fleet())
    mine.backend.failure = error
    assert str(error).replace("\ud800", "\ufffd") == fault(mine.get("/diagnose", "time=4e9"), status)


def test_a_fresh_one_that_takes_too_long() -> None:
    """It is given up; the last diagnosis is still answered."""
    mine = world(fleet(), longest=0.1)
    mine.backend.delay = 10
    assert "no answer within" in fault(mine.get("/diagnose", "fresh=1"), 503)
    assert 200 == mine.get("/diagnose").status


# --- many at once ----------------------------------------------------------------------------------


def test_equal_questions_are_answered_by_one_piece_of_work() -> None:
    """All dashboards reload after a poll."""
    mine = world(fleet())

    async def together() -> list[Answer]:
        return await asyncio.gather(*(sent(mine.app, "GET", "/diagnose", "model=llama") for _ in range(50)))

    answers = asyncio.run(together())
    assert 1 == len({answer.body for answer in answers})
    assert {200} == {answer.status for answer in answers}
