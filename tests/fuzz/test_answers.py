"""A whole diagnosis over the answers of a real server, changed at random: palanca's own error, or a sound document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.engines import RECORDINGS, ROOT, shipped
from tests.fuzz.entry import told
from tests.fuzz.profile import examples
from tests.fuzz.sources import Wire
from tests.recorded import AT
from tests.servers import prometheus

from palanca.errors import NoTargetsError, SourceError
from palanca.model import Diagnosis
from palanca.poll import Question, run
from palanca.render import markdown
from palanca.render import text as plain_text
from palanca.render.document import to_json
from palanca.sources.prometheus import Prometheus
from palanca.sources.server import PrometheusSource
from palanca.sources.session import Access

NAME = "kv-saturated"
URL = "http://prometheus:9090"
Json = Any


class Remembering(Wire):
    """Asks a real server, each question once; answers with what it said, after ``change`` was made in it."""

    def __init__(self, behind: str) -> None:
        super().__init__()
        self.behind = behind
        self.known: dict[tuple[str, bytes], Json] = {}
        self.change: Callable[[Json], Json | bytes] = lambda document: document

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        assert request.url is not None
        asked = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        key = request.url, asked
        if key not in self.known:
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = requests.post(request.url.replace(URL, self.behind), asked, headers=form, timeout=30)
            self.known[key] = answer.json()
        made = self.change(deepcopy(self.known[key]))
        self.body = made if isinstance(made, bytes) else json.dumps(made).encode()
        return super().send(request)


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remembering]:
    with prometheus(RECORDINGS / f"{NAME}.om.gz", tmp_path_factory.mktemp("server")) as url:
        yield Remembering(url)


def diagnosis(wire: Remembering) -> Diagnosis:
    """Diagnose the moment when the load ended."""
    with closing(Prometheus(URL, Access(attempts=1))) as client:
        client._session.mount(URL, wire)
        source = PrometheusSource(client, clock=lambda: AT[NAME], threads=1)
        return run(shipped(), source, Question(at=AT[NAME]))


@cache
def validator() -> Draft202012Validator:
    path = ROOT / "docs" / "schema" / "diagnosis-v1.schema.json"
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def sound(found: Diagnosis) -> Json:
    """Check all that a diagnosis is written as; its JSON."""

    def refuse(text: str) -> None:
        raise AssertionError(text)

    document = json.loads(to_json(found).encode(), parse_constant=refuse)
    assert [] == [error.message for error in validator().iter_errors(document)]
    for written in (plain_text.render(found, width=80, color=False, catalogue=shipped()), markdown.render(found)):
        assert written.encode()
    return document


# --- rows in another order, and rows of nobody ---------------------------------------------------------


def rows_of(document: Json) -> list[Json]:
    found: list[Json] = document["data"]["result"]
    return found


@examples(3)
@given(seed=st.integers(0, 2**32))
def test_the_order_does_not_matter(wire: Remembering, seed: int) -> None:
    """Neither that of rows, nor that of labels."""

    def change(document: Json) -> Json:
        dice, rows = Random(seed), rows_of(document)  # answers come in several threads
        dice.shuffle(rows)
        for row in rows:
            labels = list(row["metric"].items())
            dice.shuffle(labels)
            row["metric"] = dict(labels)
        return document

    wire.change = lambda document: document
    expected = sound(diagnosis(wire))
    assert "kv-cache-saturated" in [one["rule"] for one in expected["targets"][0]["findings"]]
    wire.change = change
    assert expected == sound(diagnosis(wire))


# --- anything at all ---------------------------------------------------------------------------------

JUNK: st.SearchStrategy[Json] = st.sampled_from([
    None, True, 0, -1, 1e308, -1e308, 1e18, float("nan"), float("inf"), "", "NaN", "+Inf", "-Inf", "-0", "1e400",
    "1e308", "-7", "0.1e-400", [], {}, [[]], [1], {"a": 1}, "\ud800", "x" * 70_000, "0x1", "1_0", "é\n\0", 10**400,
])  # fmt: skip
LABELS = st.sampled_from(["job", "instance", "model_name", "engine", "le", "__name__", "", "é", "pid", "version"])
TEXTS = st.sampled_from(
    ["", "vllm", "127.0.0.1:8000", "0", "+Inf", "NaN", "1", "\ud800", "a\nb", "vllm:kv_cache_usage"]
)


@st.composite
def changes(draw: Any) -> Callable[[Json], Json | bytes]:  # noqa: ANN401  hypothesis' own
    """One way to change an answer; rows are named by their share of the way through."""
    share, junk, text, label = draw(st.floats(0, 1)), draw(JUNK), draw(TEXTS), draw(LABELS)
    number, seconds = draw(st.floats()), draw(st.floats(-1e6, 1e6))

    def row(document: Json) -> Json | None:
        rows = rows_of(document)
        return rows[int(share * (len(rows) - 1))] if rows else None

    def in_row(work: Callable[[Json], object]) -> Callable[[Json], Json]:
        def change(document: Json) -> Json:
            found = row(document)
            if found is not None:
                work(found)
            return document

        return change

    def values(found: Json, value: Json) -> None:
        for pair in found["values"] if "values" in found else [found["value"]]:
            pair[1] = value

    def later(found: Json) -> None:
        for pair in found["values"] if "values" in found else [found["value"]]:
            pair[0] += seconds

    def node(document: Json) -> Json:
        """Replace something, however deep."""
        parent, path = document, [document]
        for step in steps:
            inside = list(parent.values() if isinstance(parent, dict) else parent) if parent else []
            deeper = [one for one in inside if isinstance(one, dict | list) and one]
            if not deeper:
                break
            parent = deeper[int(step * (len(deeper) - 1))]
            path.append(parent)
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        parent[keys[int(share * (len(keys) - 1))]] = junk
        return document

    steps = draw(st.lists(st.floats(0, 1), max_size=5))
    made: Callable[[Json], Json | bytes] = draw(st.sampled_from([
        node,
        node,
        in_row(lambda found: values(found, junk)),
        in_row(lambda found: values(found, str(number))),
        in_row(later),
        in_row(lambda found: found["metric"].update({label: text})),
        in_row(lambda found: found["metric"].pop(label, None)),
        in_row(lambda found: found["values"].reverse() if "values" in found else None),
        lambda document: {**document, "data": {**document["data"], "result": rows_of(document)[::2]}},
        lambda document: {**document, "data": {**document["data"], "result": rows_of(document) * 2}},
        lambda document: {**document, "warnings": junk, "infos": [junk]},
        lambda document: json.dumps(document).encode()[: int(share * 500)],
        lambda document: json.dumps(document).encode() + b"\xff",
    ]))  # fmt: skip
    return made


@examples(40)
@given(change=changes(), every=st.integers(1, 7))
def test_whatever_a_server_answers(wire: Remembering, change: Callable[[Json], Json | bytes], every: int) -> None:
    """Each n-th answer is changed; the others are what they were."""
    asked = iter(range(10**6))
    wire.change = lambda document: change(document) if next(asked) % every == 0 else document
    try:
        found = diagnosis(wire)
    except SourceError as error:
        told(error, URL)
    else:
        sound(found)


def test_what_cannot_be_read(wire: Remembering) -> None:
    """Answers are refused where they must be, and only there."""
    wire.change = lambda _: b"{"
    with pytest.raises(SourceError, match="cut off or damaged"):
        diagnosis(wire)
    wire.change = lambda document: {**document, "data": {**document["data"], "result": []}}
    with pytest.raises(NoTargetsError, match="no vLLM series"):
        diagnosis(wire)
