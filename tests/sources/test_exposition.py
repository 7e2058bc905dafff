"""Pages of /metrics: both text formats, and everything that is no page."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from palanca.errors import SourceError
from palanca.sources.exposition import LONGEST_LINE, ExpositionParser, Page

DATA = Path(__file__).parents[1] / "data" / "exposition"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

RUST = b"""# HELP vllm:num_requests_running Requests running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m",engine="0"} 3
# TYPE vllm:generation_tokens counter
# UNIT vllm:generation_tokens tokens
vllm:generation_tokens_total{model_name="m",engine="0"} 17 # {trace_id="a b"} 1 1700000000.5
# EOF
"""


def read(body: bytes, content_type: str = "") -> Page:
    return ExpositionParser().parse(body, content_type=content_type)


def values(body: bytes) -> list[tuple[str, dict[str, str], float]]:
    return [(one.name, dict(one.labels), one.value) for one in read(body).samples]


def refused(body: bytes, content_type: str = "") -> str:
    with pytest.raises(SourceError) as caught:
        read(body, content_type)
    return str(caught.value)


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.txt")), ids=lambda path: path.stem)
def test_pages_of_all_releases_read_as_prometheus_client_reads_them(path: Path) -> None:
    """Another parser gives the same samples in the same order."""
    body = path.read_bytes()
    expected = [
        (sample.name, {name: value for name, value in sample.labels.items() if value}, repr(sample.value))
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    ]

    assert expected == [(name, labels, repr(value)) for name, labels, value in values(body)]


def test_openmetrics_of_the_rust_front_end() -> None:
    """Counters declared without ``_total``, units, exemplars and the end mark."""
    page = read(RUST, OPENMETRICS)

    assert page.openmetrics
    assert {"vllm:num_requests_running": "gauge", "vllm:generation_tokens": "counter"} == page.types
    assert [("vllm:num_requests_running", 3.0), ("vllm:generation_tokens_total", 17.0)] == [
        (one.name, one.value) for one in page.samples
    ]


def test_the_format_is_told_by_its_end_where_no_type_is_given() -> None:
    """A proxy may drop the content type."""
    assert read(RUST).openmetrics
    assert not read(b"a 1\n").openmetrics


def test_values_and_timestamps() -> None:
    """NaN and the infinities are values; a timestamp is left out, in either unit."""
    body = b"a NaN\nb +Inf\nc -Inf\nd 1e3 1700000000000\ne 0x10\n"

    assert "line 5: 0x10 is no number" in refused(body)
    found = {name: value for name, _, value in values(body.replace(b"e 0x10\n", b""))}
    assert math.isnan(found.pop("a"))
    assert {"b": math.inf, "c": -math.inf, "d": 1000.0} == found


def test_labels_with_everything_in_them() -> None:
    """Escapes, braces, commas, hashes and other scripts; an empty label is none."""
    body = 'a{x="\\"},{\\n\\\\ # {",y="ñ 模型",z=""} 1\n{"with space",k="v"} 2\n'.encode()

    assert [("a", {"x": '"},{\n\\ # {', "y": "ñ 模型"}, 1.0), ("with space", {"k": "v"}, 2.0)] == values(body)


def test_duplicates() -> None:
    """The same value twice is one sample, NaN too; another value is a fault of the server."""
    assert [("a", {"x": "1", "y": "2"}, 1.0)] == values(b'a{x="1",y="2"} 1\na{y="2",x="1"} 1\n')
    assert 1 == len(read(b"a NaN\na NaN\n").samples)
    assert "/metrics: line 2: a second value of a, 2.0 after 1.0 (two exporters behind one port" in refused(
        b"a 1\na 2\n"
    )


def test_later_pages_are_read_alike() -> None:
    """What is remembered of the page before changes nothing: new series, gone series, torn lines, duplicates."""
    parser = ExpositionParser()
    first = parser.parse(b'a{x="1"} 1\nb 2\n')
    second = parser.parse(b'a{x="2"} 3\nb 4 1700000000\na{x="1"}   5\n')

    assert [("a", {"x": "1"}, 1.0), ("b", {}, 2.0)] == [(one.name, one.labels, one.value) for one in first.samples]
    assert [("a", 3.0), ("b", 4.0), ("a", 5.0)] == [(one.name, one.value) for one in second.samples]
    for body, text in ((b"b four\n", "line 1: four is no number"), (b"b 1\nb 2\n", "line 2: a second value of b")):
        parser.parse(b"b 4\n")
        with pytest.raises(SourceError, match=text):
            parser.parse(body)


def test_later_pages_may_have_tabs() -> None:
    """Found by fuzzing: a timestamp behind a tab was taken for a part of the value from the second page on."""
    parser = ExpositionParser()
    for value in (1.0, 2.0, 3.0):
        page = parser.parse(f'a{{x="1"}} {value}\t1700000000000\nb\t{value}\t1700000000000\n'.encode())
        assert [value, value] == [one.value for one in page.samples]


def test_only_what_is_wanted_is_kept() -> None:
    """The values of other metrics are not looked at."""
    page = ExpositionParser({"a"}.__contains__).parse(b"a 1\nb 1\nb 2\n")

    assert ["a"] == [one.name for one in page.samples]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "/metrics: an empty page (is the server still starting?)"),
        (b" \n\n", "an empty page"),
        (b"a 1\nb{", "line 2: the page breaks off here (is a proxy limiting its size?)"),
        (b"a 1\nb 12", "line 2: the page breaks off here"),
        (b"a 1\n# TYPE b cou", "line 2: the page breaks off here"),
        (RUST.replace(b"# EOF\n", b"# EOF\na 1\n"), "line 8: text after '# EOF' (are several pages joined into one?)"),
        (b"<!DOCTYPE html>\n<html>\n", "line 1: an HTML page instead of metrics (a login page or a proxy?"),
        (b'{"detail":"Not Found"}\n', "line 1: JSON instead of metrics (is this the port"),
        (b"\x1f\x8bxx\n", "line 1: this is gzip in gzip"),
        (b"\x00\x01\n", "line 1: a NUL byte"),
        (b'a{x="\xff"} 1\n', "line 1: invalid UTF-8, byte 0xff"),
        (b"a\n", "line 1: no value: a (write: name{label=value} value)"),
        (b"a 1 2 3\n", "line 1: text after the value: 1 2 3"),
        (b"a 1 soon\n", "line 1: soon is no number"),
        (b"a 1_000\n", "line 1: 1_000 is no number"),
        (b'a{x="1"}2\n', "line 1: no space after the series"),
        (b'a{x="1" 2\n', "line 1: bad label syntax at column"),
        (b'a{x="1",x="2"} 2\n', "line 1: the label x is given twice"),
        (b"5 a\n", "line 1: no metric name: 5 a (write: name{label=value} value)"),
        (b"a" * (LONGEST_LINE + 1) + b" 1\n", "line 1: a line of more than 65,536 bytes"),
    ],
)
def test_what_is_no_page(body: bytes, expected: str) -> None:
    """The message has the line, what is wrong and what to do."""
    assert expected in refused(body)


def test_an_openmetrics_page_without_its_end() -> None:
    """Without the end mark nobody knows whether the page is whole."""
    assert "no '# EOF' at the end (the page was cut" in refused(RUST.replace(b"# EOF\n", b""), OPENMETRICS)


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("text/html; charset=utf-8", "an HTML page instead of metrics"),
        ("application/json", "JSON instead of metrics"),
        ("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily", "Prometheus protobuf"),
    ],
)
def test_content_types_that_are_no_metrics(content_type: str, expected: str) -> None:
    """Said before the body is looked at."""
    assert expected in refused(b"a 1\n", content_type)


@pytest.mark.parametrize("content_type", ["text/plain; version=1.0.0", "application/octet-stream", ""])
def test_content_types_that_are_let_through(content_type: str) -> None:
    """vLLM's own is odd, and proxies lose it: the text decides."""
    assert 1 == len(read(b"a 1\n", content_type).samples)


def test_too_many_series() -> None:
    """What one server can have is bounded."""
    body = b"".join(b'a{x="%d"} 1\n' % number for number in range(1001))
    with pytest.raises(SourceError, match=r"line 1001: more than 1,000 series \(is this the page of one server\?\)"):
        ExpositionParser(most=1000).parse(body)
    assert 1001 == len(read(body).samples)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """Whatever arrives, the only exception is ours, on one line."""
    outcome = ""
    try:
        read(body)
    except SourceError as error:
        outcome = str(error)

    assert 1 >= len(outcome.splitlines())


@given(st.lists(st.sampled_from([b"a", b"{", b"}", b'"', b"\\", b",", b"=", b" ", b"1", b"#", b"\n"]), max_size=40))
def test_any_syntax_is_read_or_refused(pieces: list[bytes]) -> None:
    """The second reading of the same bytes, with what is remembered, agrees with the first."""
    parser = ExpositionParser()
    results = []
    for _ in range(2):
        try:
            results.append(repr(parser.parse(b"".join(pieces))))
        except SourceError as error:
            results.append(str(error))

    assert results[0] == results[1]
