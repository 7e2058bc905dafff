"""The OpenMetrics reader: what it takes, what it refuses, and the words it refuses with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.errors import RecordingError
from palanca.sources.openmetrics import parse

if TYPE_CHECKING:
    from palanca.signals.store import Series

LABEL_NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]*", fullmatch=True)
LABEL_VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


def read(body: str) -> list[Series]:
    return parse(f"{body}\n# EOF\n", path="run.om")


def only(body: str) -> Series:
    (series,) = read(body)
    return series


def refusal(text: str | list[bytes]) -> str:
    with pytest.raises(RecordingError) as caught:
        parse(text, path="run.om")
    return str(caught.value)


def escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def test_reads_name_labels_times_and_values() -> None:
    """A series has its name, its labels, whole milliseconds and floats."""
    series = only(
        'vllm:kv{engine="0",model_name="m"} 0.5 1700000000.25\nvllm:kv{engine="0",model_name="m"} 1 1700000005'
    )

    assert "vllm:kv" == series.name
    assert {"engine": "0", "model_name": "m"} == series.labels
    assert [1700000000250, 1700000005000] == series.times.tolist()
    assert [0.5, 1.0] == series.values.tolist()
    assert ("int64", "float64") == (series.times.dtype.name, series.values.dtype.name)


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        ("0", 0),
        ("1.001", 1000),
        ("1.0019", 1001),
        ("4.035", 4035),
        ("1795981636.347", 1795981636347),
        ("1.5e9", 1500000000000),
    ],
)
def test_time_is_truncated_as_promtool_does(seconds: str, milliseconds: int) -> None:
    """Seconds become milliseconds by truncating the product; promtool 2.42 stores 1.001 s as 1000 ms."""
    assert [milliseconds] == only(f"a 1 {seconds}").times.tolist()


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), ("-2.5e-3", -0.0025), ("+Inf", math.inf), ("-Inf", -math.inf), ("Inf", math.inf), ("1e+06", 1e6)],
)
def test_reads_numbers(text: str, value: float) -> None:
    """Every way to write a number that Prometheus writes is read."""
    assert [value] == only(f"a {text} 1").values.tolist()


def test_reads_nan() -> None:
    """NaN is a value."""
    assert math.isnan(only("a NaN 1").values[0])


@pytest.mark.parametrize(
    ("series", "name", "labels"),
    [
        ("up", "up", {}),
        ("up{}", "up", {}),
        (":x:y_1", ":x:y_1", {}),
        ('a{x="1",}', "a", {"x": "1"}),
        ('a{x="1", y="2"}', "a", {"x": "1", "y": "2"}),
        ('a{x="} 1 2 # {",y=","}', "a", {"x": "} 1 2 # {", "y": ","}),
        (r'a{x="\\n\"\n"}', "a", {"x": '\\n"\n'}),
        (r'a{x="\t\d"}', "a", {"x": r"\t\d"}),
        ('a{x="\r\u2028\x1f"}', "a", {"x": "\r\u2028\x1f"}),
        ('a{x="größe 模型"}', "a", {"x": "größe 模型"}),
        ('a{x="",y="1"}', "a", {"y": "1"}),
        ('{"a.b",x="1"}', "a.b", {"x": "1"}),
        ('{"a.b"}', "a.b", {}),
        ('a{"service.name"="x"}', "a", {"service.name": "x"}),
    ],
)
def test_reads_series_text(series: str, name: str, labels: dict[str, str]) -> None:
    """Names and labels come out unescaped; empty labels do not exist, as in Prometheus."""
    found = only(f"{series} 1 1\n{series} 2 2")

    assert (name, labels) == (found.name, found.labels)
    assert [1.0, 2.0] == found.values.tolist()


@given(st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=4))
def test_labels_survive_a_round_trip(labels: dict[str, str]) -> None:
    """Any text in a label value is read as it was written."""
    pairs = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())

    assert labels == only(f"a{{{pairs}}} 1 1").labels


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_values_survive_a_round_trip(values: list[float]) -> None:
    """Any float is read as it was written."""
    body = "\n".join(f"a {value!r} {second}" for second, value in enumerate(values))

    assert values == only(body).values.tolist()


@given(st.lists(st.integers(0, 10**14 - 1), min_size=1, unique=True))
def test_times_survive_a_round_trip(times: list[int]) -> None:
    """Times are those of truncated seconds and ascend."""
    seconds = sorted({int(time / 1000 * 1000): time / 1000 for time in times}.items())
    body = "\n".join(f"a 1 {second!r}" for _, second in seconds)

    assert [time for time, _ in seconds] == only(body).times.tolist()


@pytest.mark.parametrize("exemplar", ['# {trace_id="x_1"} 0.5', '# {a="}"} 1 2.5', "# {} 1"])
def test_passes_over_exemplars(exemplar: str) -> None:
    """An exemplar behind the time does not matter."""
    series = only(f'a_bucket{{le="1"}} 5 1 {exemplar}\na_bucket{{le="1"}} 6 2')

    assert ([1000, 2000], [5.0, 6.0]) == (series.times.tolist(), series.values.tolist())


def test_passes_over_comments_and_blank_lines() -> None:
    """Metadata, other comments and blank lines are no samples."""
    series = only('# HELP a Größe "x"\n# TYPE a gauge\n# UNIT a s\n\n# \na 1 1\n# TYPE a gauge\na 2 2')

    assert [1.0, 2.0] == series.values.tolist()


def test_no_sample_gives_no_series() -> None:
    """A valid text without samples is no fault."""
    assert [] == parse("# EOF", path="run.om")


@pytest.mark.parametrize("end", ["# EOF", "# EOF\n", "# EOF\r\n", "# EOF\n\n \n"])
def test_ends_at_eof(end: str) -> None:
    """Blank lines behind the end are not text."""
    assert 1 == len(parse(f"a 1 1\n{end}", path="run.om"))


def test_reads_windows_line_ends() -> None:
    """A carriage return before the newline does no harm."""
    assert [1.0, 2.0] == only("a 1 1\r\na 2 2\r").values.tolist()


def test_reads_interleaved_series() -> None:
    """Series may take turns as long as the times of each ascend."""
    first, second = read('a{x="1"} 1 1\na{x="2"} 2 1\na{x="1"} 3 2\na{x="2"} 4 2')

    assert ([1.0, 3.0], [2.0, 4.0]) == (first.values.tolist(), second.values.tolist())


def test_the_same_labels_in_another_order_are_one_series() -> None:
    """Order, spaces and empty labels do not make a series of its own."""
    assert [1.0, 2.0, 3.0] == only('a{x="1",y="2"} 1 1\na{y="2", x="1"} 2 2\na{x="1",y="2",z=""} 3 3').values.tolist()


def test_a_name_that_begins_like_another_is_its_own() -> None:
    """A prefix of a name is not the name."""
    assert ["a", "ab", "a_b"] == [series.name for series in read("a 1 1\nab 1 1\na_b 1 1")]


def test_a_tab_may_follow_a_series() -> None:
    """The separator does not make a series of its own."""
    assert [1.0, 2.0, 3.0] == only("a 1 1\na\t2 2\na 3\t3").values.tolist()


@pytest.mark.parametrize("value", ["1", "NaN", "+Inf"])
def test_the_same_sample_twice_counts_once(value: str) -> None:
    """An equal sample at an equal time is passed over, as in Prometheus."""
    assert [1000] == only(f"a {value} 1\na {value} 1.0").times.tolist()


def test_many_distinct_times_are_read() -> None:
    """The memory of times that were converted is bounded and does not change what is read."""
    series = only("\n".join(f"a {second} {second}" for second in range(100_002)))

    assert np.array_equal(np.arange(100_002) * 1000, series.times)


def test_reads_lines_of_bytes() -> None:
    """Lines may come one by one, so that nobody holds the text."""
    (series,) = parse(iter([b"a 1 1\n", b"# EOF\n"]), path="run.om")

    assert "a" == series.name


def test_keep_drops_names() -> None:
    """Only wanted names are read, and each name is asked for once."""
    asked = []

    def keep(name: str) -> bool:
        asked.append(name)
        return name in {"a", "a.b"}

    body = (
        'a 1 1\nb{x="1"} 1 1\nb{x="2"} 1 1\na 2 2\nb{x="1"} 2 2\n{"a.b"} 1 1\n{"a.c"} 1 1\n{"a.c"} 2 2\nab 1 1\n# EOF'
    )
    series = parse(body, path="run.om", keep=keep)

    assert [("a", [1.0, 2.0]), ("a.b", [1.0])] == [(one.name, one.values.tolist()) for one in series]
    assert ["a", "b", "a.b", "a.c", "ab"] == asked


def test_dropped_lines_are_not_read() -> None:
    """What is wrong in a line that nobody needs stays unseen."""
    assert [] == parse("b 1 1\nb garbage\nb{\n# EOF", path="run.om", keep=lambda _: False)


GOOD = "a 1 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "run.om: the file is empty"),
        ("<!DOCTYPE html>\n<html>", "run.om:1: this is HTML or XML"),
        ("\n  <html>", "run.om:2: this is HTML or XML"),
        ('{"status":"success","data":{}}', "run.om:1: this is JSON"),
        ('{\n  "status": "success"\n}\n', "run.om:1: this is JSON"),
        ("[1, 2]", "run.om:1: this is JSON"),
        ("\ufeffa 1 1\n# EOF", "run.om:1: a byte order mark"),
        ("PK\x03\x04rest", "run.om:1: this is a zip archive"),
        ("BZh91AY\n", "run.om:1: this is packed with bzip2"),
        ("\x7fELF\0\n", "run.om:1: a NUL byte"),
        (GOOD + 'b{x="\0"} 1 1\n# EOF\n', "run.om:2: a NUL byte"),
        (GOOD + "# HELP a \0\n# EOF\n", "run.om:2: a NUL byte"),
        (GOOD + "a 1\0 2\n# EOF\n", r"run.om:2: the value 1\x00 is no number"),
        ("a 1\n# EOF\n", "run.om:1: a sample without timestamp (a plain /metrics page"),
        (GOOD + 'b{x="1"} 2\n# EOF\n', "run.om:2: a sample without timestamp"),
        (GOOD + 'a 5 # {x="1"} 1 2\n# EOF\n', "run.om:2: a sample without timestamp"),
        ("a\n# EOF\n", "run.om:1: a series without value and time"),
        (GOOD + "a abc 2\n# EOF\n", "run.om:2: the value abc is no number"),
        (GOOD + "a 1_0 1\n# EOF\n", "run.om:2: the value 1_0 is no number"),
        (GOOD + "a 1 2_0\n# EOF\n", "run.om:2: the time 2_0 is no number"),
        (GOOD + "a 0x10 2\n# EOF\n", "run.om:2: the value 0x10 is no number"),
        (GOOD + "a 1 noon\n# EOF\n", "run.om:2: the time noon is no number"),
        (GOOD + "a x x\n# EOF\n", "run.om:2: the value x is no number"),
        (GOOD + "a 1 2 3\n# EOF\n", "run.om:2: text after the time: 3"),
        (GOOD + "a 1 2 # 3\n# EOF\n", "run.om:2: text after the time: # 3"),
        ("a 1 NaN\n# EOF\n", "run.om:1: the time nan is out of range"),
        ("a 1 -1\n# EOF\n", "run.om:1: the time -1 is out of range (times are unix seconds from 1970 on)"),
        ("a 1 1795981636347\n# EOF\n", "run.om:1: the time 1795981636347 is out of range (times are unix seconds; are"),
        ("a 1 Inf\n# EOF\n", "run.om:1: the time inf is out of range"),
        (GOOD + "a 1 0.5\n# EOF\n", "run.om:2: time goes backwards within the series a{}, from 1000 to 500 ms"),
        (GOOD + "b 1 9\na 1 0\n# EOF\n", "run.om:3: time goes backwards within the series a{}"),
        (GOOD + "a 2 1\n# EOF\n", "run.om:2: a second sample of a{} at 1000 ms, 2.0 after 1.0"),
        (GOOD + "a NaN 1.0001\n# EOF\n", "run.om:2: a second sample of a{} at 1000 ms, nan after 1.0"),
        ('b{x="\n"} 1 1\n# EOF\n', 'run.om:1: bad label syntax at column 3: x="'),
        ('b{x="1" 1 1\n# EOF\n', "run.om:1: bad label syntax at column 3"),
        ('b{x="1",,} 1 1\n# EOF\n', "run.om:1: bad label syntax at column 9"),
        ("b{,} 1 1\n# EOF\n", "run.om:1: bad label syntax at column 3"),
        ("b{x=1} 1 1\n# EOF\n", "run.om:1: bad label syntax at column 3"),
        ('b{1x="1"} 1 1\n# EOF\n', "run.om:1: bad label syntax at column 3"),
        ("b{x='1'} 1 1\n# EOF\n", "run.om:1: bad label syntax at column 3"),
        ("b{x} 1 1\n# EOF\n", "run.om:1: the label x has no value"),
        ('b{"c"} 1 1\n# EOF\n', "run.om:1: the label c has no value"),
        ('b{x="1",x="2"} 1 1\n# EOF\n', "run.om:1: the label x is given twice"),
        ('b{__name__="c"} 1 1\n# EOF\n', "run.om:1: the label __name__ is given twice"),
        ('{x="1"} 1 1\n# EOF\n', "run.om:1: no metric name"),
        ('b{x="1"}1 1\n# EOF\n', "run.om:1: no space after the series"),
        (" a 1 1\n# EOF\n", "run.om:1: no metric name"),
        ("1a 1 1\n# EOF\n", "run.om:1: no metric name"),
        ("größe 1 1\n# EOF\n", "run.om:1: no metric name"),
        (GOOD, "run.om:1: no '# EOF' at the end (an incomplete copy?"),
        (GOOD + "a 1 2", "run.om:2: no '# EOF' at the end"),
        (GOOD + "a 1 1", "run.om:2: no '# EOF' at the end"),
        (GOOD + "# EO", "run.om:2: no '# EOF' at the end"),
        ("a 1 10\na 1 1", "run.om:2: the recording breaks off here"),
        (GOOD + "a 1", "run.om:2: the recording breaks off here"),
        (GOOD + 'b{x="', "run.om:2: the recording breaks off here"),
        (GOOD + "# EOF\n\nb 1 1\n# EOF\n", "run.om:4: text after '# EOF'"),
        (GOOD + "# EOF\nb", "run.om:3: text after '# EOF'"),
    ],
)
def test_refuses_with_file_and_line(text: str, message: str) -> None:
    """Each fault is told with its file, its line and a hint in brackets, on one line."""
    told = refusal(text)

    assert message == told[: len(message)]
    assert told.endswith(")")
    assert told.isprintable()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'a{x="\xe9"} 1 1\n', "run.om:2: invalid UTF-8, byte 0xe9"),
        (b"# HELP a \xff\n", "run.om:2: invalid UTF-8, byte 0xff"),
        (b"b \xff 1\n", r"run.om:2: the value \xff is no number"),
        (b"\x89PNG\r\n", "run.om:2: no metric name"),
    ],
)
def test_refuses_bytes_that_are_no_text(line: bytes, message: str) -> None:
    """Bytes that are no UTF-8 are told with their line."""
    assert message == refusal([b"b 1 1\n", line, b"# EOF\n"])[: len(message)]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"\xff\xfea\0 \x001\0", "run.om:1: this is UTF-16 text"),
        (b"\x1f\x8b\x08", "run.om:1: this is gzip in gzip"),
        (b"\x28\xb5\x2f\xfd", "run.om:1: this is packed with zstd"),
        (b"\xfd7zXZ\0", "run.om:1: this is packed with xz"),
    ],
)
def test_tells_what_a_binary_file_is(start: bytes, message: str) -> None:
    """Usual kinds of files that are no OpenMetrics text are called by their names."""
    assert message == refusal([start])[: len(message)]


def test_a_lone_surrogate_is_invalid_text() -> None:
    """Text that no file can hold is refused like invalid UTF-8."""
    assert "run.om:1: invalid UTF-8" in refusal('a{x="\ud800"} 1 1\n# EOF\n')


def test_long_text_is_shortened_in_messages() -> None:
    """A message repeats only the start of what is wrong."""
    told = refusal(f"a {'x' * 1000} 1\n# EOF\n")

    assert f"{'x' * 80}... is no number" in told


@given(st.binary(max_size=200))
def test_any_bytes_give_series_or_a_refusal(data: bytes) -> None:
    """No input leads to another exception."""
    try:
        parse([data[:100], data[100:]], path="run.om")
    except RecordingError as error:
        assert str(error).startswith("run.om")  # noqa: PT017 -- either outcome is right


@given(st.text(alphabet='a{}="\\,# \n1.eNEOF_\t', max_size=60))
def test_any_text_of_the_grammar_gives_series_or_a_refusal(body: str) -> None:
    """Texts of the characters that matter come to an end."""
    try:
        read(body)
    except RecordingError as error:
        assert str(error).startswith("run.om")  # noqa: PT017 -- either outcome is right
