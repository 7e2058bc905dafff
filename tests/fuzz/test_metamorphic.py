"""What says the same in other words is read alike, and what has nothing to do with an engine changes nothing."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines import RECORDINGS, shipped
from tests.fuzz.profile import examples
from tests.fuzz.sources import pages, rows
from tests.recorded import AT

from palanca.diagnosis import diagnose
from palanca.model import SourceInfo
from palanca.poll import Opened, Question, grid_for, readings_for
from palanca.render.document import to_json
from palanca.signals.samples import SampleReader
from palanca.signals.store import SampleStore
from palanca.sources import openmetrics
from palanca.sources.exposition import ExpositionParser
from palanca.sources.recording import known_names

NAME = "kv-saturated"
SPAN_S = 400.0
SERIES = re.compile(r"^([^{\s]+)(?:\{(.*)\})?( .*)$")
PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
STAMPED = re.compile(r"\} \S+ \d+\.\d+$")
Lines = list[str]
Change = Callable[[random.Random, Lines], Lines]


# --- changes of a text that change nothing -----------------------------------------------------------


def labels_shuffled(dice: random.Random, lines: Lines) -> Lines:
    """Write the labels of each series in another order, the same at each of its samples."""

    def again(line: str) -> str:
        found = SERIES.match(line)
        if line.startswith("#") or found is None or found[2] is None:
            return line
        pairs = PAIR.findall(found[2])
        random.Random(f"{seed} {found[1]}{found[2]}").shuffle(pairs)
        return found[1] + "{" + ",".join(f'{name}="{value}"' for name, value in pairs) + "}" + found[3]

    seed = dice.random()
    return [again(line) for line in lines]


def commented(dice: random.Random, lines: Lines) -> Lines:
    """Put comments and empty lines between."""
    more = ["", "# a comment", "#", "# HELP vllm:x it is é", "# UNIT vllm:x s"]
    return [one for line in lines for one in ([dice.choice(more), line] if dice.random() < 0.1 else [line])]


def carriage_returns(_: random.Random, lines: Lines) -> Lines:
    """End lines as other systems do."""
    return [line + "\r" for line in lines]


def spaced(dice: random.Random, lines: Lines) -> Lines:
    """Put more spaces, and a comma behind the last label."""
    return [
        line if line.startswith("#") else line.replace('"} ', dice.choice(['"}  ', '",} ', '" } ', '"}\t'])) + " "
        for line in lines
    ]


def strangers(dice: random.Random, lines: Lines) -> Lines:
    """Add series that say nothing of vLLM: of other exporters, of other releases, of nobody."""
    tail = f" {AT[NAME]:.3f}" if STAMPED.search(lines[-1]) else ""
    names = ["node_load1", "vllm:brand_new_total", "vllm:brand_new_bucket", "go_goroutines", "vllmish", "python_info"]
    more = [f'{name}{{job="vllm",instance="127.0.0.1:8000",a="{dice.random()}",le="1"}} 7{tail}' for name in names]
    return more + lines


def exemplars(dice: random.Random, lines: Lines) -> Lines:
    """Add exemplars, as OpenMetrics has them, to buckets and counters."""
    return [
        line + f' # {{trace_id="{dice.random()}"}} 0.5' if "_bucket{" in line or "_total{" in line else line
        for line in lines
    ]


SAME: dict[str, Change] = {
    one.__name__: one for one in (labels_shuffled, commented, carriage_returns, spaced, strangers, exemplars)
}


def series_shuffled(dice: random.Random, lines: Lines) -> Lines:
    """Put whole series of a recording in another order; the samples of each stay in theirs."""
    by_series: dict[str, Lines] = {}
    for line in lines:
        by_series.setdefault(line.rsplit(" ", 2)[0], []).append(line)
    groups = list(by_series.values())
    dice.shuffle(groups)
    return [line for group in groups for line in group]


def interleaved(_: random.Random, lines: Lines) -> Lines:
    """Write scrape after scrape instead of series after series."""
    return sorted(lines, key=lambda line: float(line.rsplit(" ", 1)[1]))


# --- recordings --------------------------------------------------------------------------------------


@cache
def lines_of() -> tuple[str, ...]:
    """Samples of the end of the load, as lines."""
    text = gzip.decompress((RECORDINGS / f"{NAME}.om.gz").read_bytes()).decode()
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    keep = known_names(shipped().metrics)
    return tuple(
        line
        for line in samples
        if AT[NAME] - SPAN_S < float(line.rsplit(" ", 1)[1]) <= AT[NAME] and keep(re.split(r"[{\s]", line)[0])
    )


class Text:
    """A source over the text of a recording."""

    def __init__(self, text: str) -> None:
        self.store = SampleStore(openmetrics.parse(text, path="r", keep=known_names(shipped().metrics)))

    def open(self, question: Question, _: object) -> Opened:
        assert question.at is not None
        grid = grid_for(shipped(), question.at)
        return Opened(SampleReader(self.store, shipped().metrics, grid), grid, lambda: SourceInfo("r", "r"))


def diagnosis_of(lines: list[str]) -> str:
    """Return the document of a recording of these samples."""
    source = Text("".join(f"{line}\n" for line in lines) + "# EOF\n")
    return to_json(diagnose(shipped(), readings_for(shipped(), source, Question(at=AT[NAME]))))


@cache
def plain() -> str:
    return diagnosis_of(list(lines_of()))


@pytest.mark.parametrize("change", [*SAME.values(), series_shuffled, interleaved], ids=lambda one: one.__name__)
@examples(2)
@given(seed=st.integers(0, 2**32))
def test_a_recording_in_other_words(change: Change, seed: int) -> None:
    """The whole diagnosis is the same, to the letter; and it is that of a server in trouble."""
    assert '"kv-cache-saturated"' in plain()
    changed = change(random.Random(seed), list(lines_of()))
    assert list(lines_of()) != changed
    assert plain() == diagnosis_of(changed)


@examples(3)
@given(seed=st.integers(0, 2**32), changes=st.lists(st.sampled_from(sorted(SAME)), min_size=2, unique=True))
def test_a_recording_in_quite_other_words(seed: int, changes: list[str]) -> None:
    """All sorts of changes together."""
    dice = random.Random(seed)
    lines = series_shuffled(dice, list(lines_of()))
    for name in sorted(changes, key=lambda one: (one == "carriage_returns", one == "exemplars", one)):
        lines = SAME[name](dice, lines)
    assert plain() == diagnosis_of(lines)


# --- pages -------------------------------------------------------------------------------------------


def stamped(dice: random.Random, lines: Lines) -> Lines:
    """Add timestamps in milliseconds."""
    return [f"{line} {dice.randrange(10**13)}" if line and not line.startswith("#") else line for line in lines]


def lines_shuffled(dice: random.Random, lines: Lines) -> Lines:
    """Send the lines in any order."""
    return dice.sample(lines, len(lines))


PAGE_CHANGES: dict[str, Change] = {**SAME, "stamped": stamped, "lines_shuffled": lines_shuffled}
LATE = {"stamped": 1, "exemplars": 2, "spaced": 3, "carriage_returns": 4}
"""Changes of the end of a line, in the order in which they can be made."""


@examples(30)
@given(
    body=st.sampled_from(list(pages())),
    seed=st.integers(0, 2**32),
    changes=st.lists(st.sampled_from(sorted(PAGE_CHANGES)), min_size=1, unique=True),
)
def test_a_page_in_other_words(body: bytes, seed: int, changes: list[str]) -> None:
    """The same samples, and those of strangers beside them."""
    dice = random.Random(seed)
    lines = body.decode().splitlines()
    for name in sorted(changes, key=lambda one: (LATE.get(one, 0), one)):
        lines = PAGE_CHANGES[name](dice, lines)
    found = ExpositionParser().parse("".join(f"{line}\n" for line in lines).encode())
    expected = rows(ExpositionParser().parse(body))
    assert set(expected) <= set(rows(found))
    assert len(expected) + 6 * ("strangers" in changes) == len(found.samples)


# --- the same written and read -----------------------------------------------------------------------

LABEL_VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
LABELS = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True), LABEL_VALUES, max_size=4)
SAMPLES = st.lists(
    st.tuples(st.sampled_from(["vllm:a", "b_total", "c"]), LABELS, st.floats()),
    min_size=1, max_size=8, unique_by=lambda one: (one[0], frozenset(one[1].items())),
)  # fmt: skip


def written(name: str, labels: dict[str, str], value: float) -> str:
    pairs = [f"{label}={_quoted(text)}" for label, text in labels.items()]
    number = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(repr(value), repr(value))
    return f"{name}{{{','.join(pairs)}}} {number}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@examples(60)
@given(SAMPLES)
def test_what_is_written_is_read(samples: list[tuple[str, dict[str, str], float]]) -> None:
    """Any label value and any number, on a page and in a recording."""
    expected = sorted((name, tuple(sorted(labels.items())), repr(value)) for name, labels, value in samples)
    lines = [written(*one) for one in samples]
    page = ExpositionParser().parse("".join(f"{line}\n" for line in lines).encode())
    assert expected == sorted(rows(page))
    text = "".join(f"{line} 1800000000.5\n{line} 1800000001\n" for line in lines) + "# EOF\n"
    read = openmetrics.parse(text, path="r")
    assert expected == sorted(
        (one.name, tuple(sorted(one.labels.items())), repr(one.values.tolist()[1])) for one in read
    )
    assert {(1_800_000_000_500, 1_800_000_001_000)} == {tuple(one.times.tolist()) for one in read}
