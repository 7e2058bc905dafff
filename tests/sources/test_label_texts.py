"""Labels that are read late are the labels that would have been read at once."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.errors import SourceError
from palanca.signals.store import LabelSets
from palanca.sources.label_texts import LabelTexts

URL = "http://prometheus:9090"
TAG = "tag"
names = st.sampled_from(["a", "b", "tag", "xtag", "tagx", "__name__", "le"])
values = st.one_of(st.sampled_from(["", "1", "tag", ":", ",", '"tag":"', "{", "\\", "\n"]), st.text(max_size=4))
sets_of_labels = st.lists(st.dictionaries(names, values, max_size=4), max_size=6)


def texts(rows: list[dict[str, str]], *, spaced: bool = False) -> LabelTexts:
    separators = (", ", ": ") if spaced else (",", ":")
    return LabelTexts([json.dumps(row, separators=separators, ensure_ascii=False).encode() for row in rows], URL)


@given(sets_of_labels, st.booleans())
def test_labels_and_names(rows: list[dict[str, str]], spaced: bool) -> None:
    made = texts(rows, spaced=spaced)
    assert len(rows) == len(made)
    assert [row.get("__name__", "") for row in rows] == [*made.names]
    assert [{name: row[name] for name in row if name != "__name__"} for row in rows] == [*made.labels]


@given(sets_of_labels, st.booleans())
def test_groups_are_those_of_labels_that_were_read(rows: list[dict[str, str]], spaced: bool) -> None:
    """Whatever is in the labels, and however the JSON is written."""
    read = LabelSets(["" for _ in rows], [{name: row[name] for name in row if name != "__name__"} for row in rows])
    assert read.by(TAG) == texts(rows, spaced=spaced).by(TAG)


@pytest.mark.parametrize("text", [b'{"tag": ":"}', b'{"tag" : ":"}', b'{"tag":":"}', b'{ "a":"b","tag":":" }'])
def test_a_value_that_looks_like_what_stands_between(text: bytes) -> None:
    rows, _, sets = LabelTexts([text], URL).by(TAG)
    assert {":": [0]} == rows
    assert [0] == sets


def test_a_series_without_the_label() -> None:
    rows, labels, sets = texts([{"tag": "x", "a": "1"}, {"a": "1"}, {"a": "1", "tag": "y"}]).by(TAG)
    assert {"x": [0], "": [1], "y": [2]} == rows
    assert [{"a": "1"}] == labels
    assert [0, 0, 0] == sets


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (b"[]", "a result without labels: []"),
        (b"null", "a result without labels: null"),
        (b'{"a":1}', "a label that is no text: {"),
        (b'{"a":null,"b":"c"}', "a label that is no text: {"),
        (b'{"a":{"b":"c"}}', "a label that is no text: {"),
    ],
)
def test_what_are_no_labels(odd: bytes, expected: str) -> None:
    """It is refused at once, beside others that are right."""
    with pytest.raises(SourceError, match="^" + re.escape(f"{URL}: {expected}")):
        LabelTexts([b'{"a":"b"}', odd], URL)


def test_half_of_a_surrogate_pair() -> None:
    """Prometheus sends none; what does is read as it was."""
    made = LabelTexts([b'{"a":"\\ud800","tag":"x"}'], URL)
    assert {"x": [0]} == made.by(TAG).rows


def test_a_text_that_only_looks_like_labels() -> None:
    """It is refused when it is read, before anybody takes it for labels."""
    made = LabelTexts([b'{"a":[":"]}'], URL)
    for look in (lambda: made.labels, lambda: made.by(TAG)):
        with pytest.raises(SourceError, match="a label that is no text"):
            look()
