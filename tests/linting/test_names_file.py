"""``rules/names.yaml`` with ``rules/metrics.yaml`` against what 22 pairs of release and engine expose."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tests.engines import ROOT
from tests.linting.linted import vocabulary

from palanca.linting.checks.histograms import le_text
from palanca.linting.parser import parse
from palanca.linting.vocabulary import is_one_two_five, written
from palanca.releases import Release

PAGES = sorted((ROOT / "tests" / "data" / "exposition").glob("*-v[01]*.txt"))
_TYPE = re.compile(r"^# TYPE (vllm:\S+) (\w+)", re.MULTILINE)
_SAMPLE = re.compile(r"^(vllm:[\w:]+)(?:\{(.*)\})? \S+$", re.MULTILINE)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


@cache
def page(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def release_of(path: Path) -> str:
    return path.name.split("-")[0]


@pytest.mark.parametrize("path", PAGES, ids=lambda one: one.stem)
def test_every_name_of_a_page_is_known_in_its_release(path: Path) -> None:
    """Each sample's name resolves, in that release, with its type and its labels."""
    words = vocabulary(release_of(path))
    types = dict(_TYPE.findall(page(path)))
    for full, labels in _SAMPLE.findall(page(path)):
        metric = words.metric(full)
        assert metric is not None, full
        hidden = "hidden" in path.stem
        assert words.shows(metric.entry) or (hidden and words.hides(metric.entry)), full
        if metric.part != "_created":
            stated = (
                types.get(metric.prefix + metric.entry.name)
                or types[(metric.prefix + metric.entry.name).removesuffix("_total")]
            )
            assert stated == {"info": "gauge"}.get(metric.entry.type, metric.entry.type), full
        if metric.entry.type != "info":
            assert {name for name, _ in _LABEL.findall(labels)} <= metric.labels, full


@pytest.mark.parametrize("path", PAGES, ids=lambda one: one.stem)
def test_the_buckets_of_a_page_are_known(path: Path) -> None:
    words = vocabulary(release_of(path))
    bounds: dict[str, list[str]] = {}
    for full, labels in _SAMPLE.findall(page(path)):
        if full.endswith("_bucket"):
            le = dict(_LABEL.findall(labels))["le"]
            bounds.setdefault(full, []).extend([le] if le != "+Inf" else [])
    for full, every in bounds.items():
        metric = words.metric(full)
        assert metric is not None
        if words.is_length(metric.entry):
            assert all(is_one_two_five(float(one)) for one in every), full
            continue
        for known in words.bounds(metric.entry):
            assert [le_text(one) for one in known] == list(dict.fromkeys(every)), full


def test_the_latencies_have_known_buckets_in_every_release() -> None:
    for text in vocabulary("all").known:
        words = vocabulary(str(text))
        for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "inter_token_latency_seconds"):
            entry = words.entries[name]
            assert 1 == len(words.bounds(entry)) or not words.shows(entry), f"{name} {text}"


def test_what_is_to_be_asked_instead_exists() -> None:
    """Successors are names of the newest release, and their expressions are PromQL."""
    words = vocabulary()
    for name, one in {**words.names.successors, **words.names.mistaken}.items():
        assert one.name or one.expression or one.note, name
        if one.name is not None:
            assert words.shows(words.entries[one.name]), name
        if one.expression is not None:
            text = written(one.expression, "vllm:", '{model_name="m"}')
            parse(text)
            asked = re.findall(r"vllm:\w+", text)
            assert asked
            assert all((metric := words.metric(full)) and words.shows(metric.entry) for full in asked), name


def test_names_that_went_say_what_to_ask_instead() -> None:
    """Each name that is gone today has a successor or a note, unless it belonged to a feature alone."""
    words = vocabulary()
    newest = words.releases[-1]
    gone = {entry.name for entry in words.entries.values() if entry.last < newest}
    assert set() == {name for name in gone if words.successor(words.entries[name]) is None}


def test_mistaken_names_never_were() -> None:
    words = vocabulary("all")
    for name in words.names.mistaken:
        assert words.metric(f"vllm:{name}") is None, name


def test_labels_and_values_belong_to_metrics() -> None:
    words = vocabulary()
    for name, labels in words.names.label_values.items():
        assert set(labels) <= words.entries[name].labels
    for name in (*words.names.lengths, *words.names.configurable.histograms, *words.names.deprecated):
        assert name in words.entries
    for buckets in words.names.buckets:
        assert all(words.entries[name].type == "histogram" for name in buckets.histograms)
        assert list(buckets.bounds) == sorted(set(buckets.bounds))
    assert Release("0.4.0") == words.known[0]
