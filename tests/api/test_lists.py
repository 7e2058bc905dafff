"""Flat lists: they say the same as the diagnosis, and page and filter as it does."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from urllib.parse import urlencode

import pytest
from tests.api.apps import ODD_LABELS, Json, World, fleet, odd, recorded, world
from tests.api.test_diagnose import fault, walk
from tests.engines import shipped

from palanca.api.selection import LARGEST_PAGE
from palanca.model import Diagnosis

ROWS = {"targets": "targets", "findings": "findings", "signals": "signals"}


@cache
def having(name: str) -> World:
    diagnoses = {"recorded": recorded, "fleet": fleet, "odd": odd}
    return world(diagnoses[name]())


def read(name: str, path: str, query: str = "") -> Json:
    answer = having(name).get(path, query)
    assert (200, "application/json") == (answer.status, answer["Content-Type"]), answer.text
    return answer.json


WORLDS = pytest.mark.parametrize("name", ["recorded", "fleet", "odd"])


@WORLDS
def test_targets_agree_with_the_diagnosis(name: str) -> None:
    """Labels, status, release, counts, the first finding and the bottleneck."""
    whole, rows = read(name, "/diagnose"), read(name, "/api/v1/targets")
    assert ("palanca.targets/v1", whole["time"], whole["source"], len(whole["targets"])) == (
        rows["schema"], rows["time"], rows["source"], rows["total"],
    )  # fmt: skip
    for target, row in zip(whole["targets"], rows["targets"], strict=True):
        first = target["findings"][0] if target["findings"] else None
        assert row == {
            **{key: target[key] for key in ("target", "status", "vllm", "bottleneck")},
            "findings": len(target["findings"]),
            "unknown": len(target["unknown"]),
            "worst": first and {key: first[key] for key in ("rule", "cause", "severity", "summary")},
        }


@WORLDS
def test_findings_agree_with_the_diagnosis(name: str) -> None:
    """Each with its engine; none is missing and none is there twice."""
    whole, rows = read(name, "/diagnose"), read(name, "/api/v1/findings")
    expected = [{**one, "target": target["target"]} for target in whole["targets"] for one in target["findings"]]
    assert sorted(map(json.dumps, expected)) == sorted(json.dumps(row) for row in rows["findings"])
    assert len(expected) == rows["total"]


def test_order_of_findings() -> None:
    """What is firing, severe and at the root first, over all engines."""
    severities = [row["severity"] for row in read("fleet", "/api/v1/findings")["findings"]]
    assert ["critical"] * 3 + ["info"] * 2 == severities
    first = read("recorded", "/api/v1/findings")["findings"][0]
    assert read("recorded", "/diagnose")["targets"][0]["findings"][0]["rule"] == first["rule"]


@WORLDS
def test_signals_agree_with_the_diagnosis(name: str) -> None:
    """Same numbers, states and units."""
    whole, rows = read(name, "/diagnose"), read(name, "/api/v1/signals")
    assert list(shipped().signals) == [row["name"] for row in rows["signals"]]
    for row in rows["signals"]:
        expected = [
            {"target": target["target"], "value": one["value"], "state": one["state"]}
            for target in whole["targets"]
            if (one := target["signals"].get(row["name"])) is not None
        ]
        assert expected == row["values"]
        assert {row["unit"]} >= {target["signals"][row["name"]]["unit"] for target in whole["targets"]}


def test_signals_by_name() -> None:
    """Any of them; in the order of the catalogue."""
    rows = read("fleet", "/api/v1/signals", "name=ttft_p99&name=kv_cache_usage&limit=2")
    assert {"ttft_p99", "kv_cache_usage"} == {row["name"] for row in rows["signals"]}
    assert [2, 2] == [len(row["values"]) for row in rows["signals"]]
    assert 7 == rows["total"]


@pytest.mark.parametrize("name", ["kv_cache_usag", "nothing-like-it", "", "\0", "x" * 1000])
def test_a_signal_that_is_none(name: str) -> None:
    """A misspelt name is told, not answered by an empty list."""
    said = fault(having("fleet").get("/api/v1/signals", urlencode({"name": name})), 400)
    assert "there is no signal" in said
    assert ("kv_cache_usage" in said) == (name == "kv_cache_usag")
    assert len(said) < 1000


@pytest.mark.parametrize("path", ["/api/v1/targets", "/api/v1/findings", "/api/v1/signals"])
@pytest.mark.parametrize(
    "query",
    [
        "model=llama", "severity=critical", "severity=info", "cause=unexplained", "status=ok",
        "match=job=vllm&model=qwen", "instance=vllm-3:8000", "model=nothing",
    ],
)  # fmt: skip
def test_filters_are_those_of_the_diagnosis(path: str, query: str) -> None:
    """The same engines and findings."""
    whole, rows = read("fleet", "/diagnose", query)["targets"], read("fleet", path, query)
    if path.endswith("targets"):
        assert [target["target"] for target in whole] == [row["target"] for row in rows["targets"]]
    elif path.endswith("findings"):
        rules = Counter((one["target"]["instance"], found["rule"]) for one in whole for found in one["findings"])
        assert rules == Counter((row["target"]["instance"], row["rule"]) for row in rows["findings"])
    else:
        assert [target["target"] for target in whole] == [row["target"] for row in rows["signals"][0]["values"]]
        assert len(whole) == rows["total"]


@pytest.mark.parametrize("path", ["/api/v1/targets", "/api/v1/findings"])
@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
@pytest.mark.parametrize("query", ["", "model=llama&", "severity=critical&"])
def test_pages_make_the_whole(path: str, limit: int, query: str) -> None:
    """By following the links."""
    key = path.rpartition("/")[2]
    whole = read("fleet", path, query.rstrip("&"))
    pages = walk(having("fleet"), path, f"{query}limit={limit}")
    assert whole[key] == [row for page in pages for row in page.json[key]]
    assert {str(whole["total"])} == {page["X-Total-Count"] for page in pages}
    assert {whole["total"]} == {page.json["total"] for page in pages}


def test_pages_of_signals_count_engines() -> None:
    """Each page has all signals that were asked for."""
    pages = walk(having("fleet"), "/api/v1/signals", "limit=3&name=up")
    assert [3, 3, 1] == [len(page.json["signals"][0]["values"]) for page in pages]


@pytest.mark.parametrize("path", ["/api/v1/targets", "/api/v1/findings", "/api/v1/signals", "/api/v1/rules"])
def test_tags_and_compression(path: str) -> None:
    """As for the diagnosis."""
    plain, zipped = having("fleet").get(path), having("fleet").get(path, accept_encoding="gzip")
    assert plain.body == gzip.decompress(zipped.body)
    assert 304 == having("fleet").get(path, if_none_match=f'"x", {plain["ETag"]}').status


@pytest.mark.parametrize("path", ["/api/v1/targets", "/api/v1/findings", "/api/v1/signals"])
@pytest.mark.parametrize("query", ["time=-5m", "fresh=true", "fields=target", "severity=x", "limit=0", "match=x",
                                   f"limit={LARGEST_PAGE + 1}", "nam=up"])  # fmt: skip
def test_wrong_parameters(path: str, query: str) -> None:
    """What only the diagnosis takes is told, too."""
    assert query.partition("=")[0] in fault(having("fleet").get(path, query))


@pytest.mark.parametrize("label", [label for label in ODD_LABELS if len(label) < 1000])
@pytest.mark.parametrize("path", ["/api/v1/targets", "/api/v1/findings"])
def test_odd_labels(path: str, label: str) -> None:
    """Found by what is shown."""
    shown = label.replace("\ud800", "\ufffd")
    rows = read("odd", path, urlencode({"match": f"model_name={shown}"}))[path.rpartition("/")[2]]
    assert {shown} == {row["target"]["model_name"] for row in rows}


@pytest.mark.parametrize("path", ["/api/v1/targets", "/api/v1/findings", "/api/v1/signals"])
def test_before_the_first_poll(path: str) -> None:
    """Empty lists, no error."""
    empty = world(Diagnosis(fleet().time, fleet().source, ()))
    answer = empty.get(path)
    assert (200, 0, "0") == (answer.status, answer.json["total"], answer["X-Total-Count"])
