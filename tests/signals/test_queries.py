"""The PromQL reader before a fake query API: what it asks, and what it makes of the answers."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest

from palanca.check import load_catalogue
from palanca.errors import SourceError, UsageError
from palanca.model import Catalogue, SourceInfo, Target
from palanca.resources import shipped
from palanca.signals.asking import LONGEST_QUERY
from palanca.signals.inventory import (
    ALIKE_TAG,
    LEAF_TAG,
    LONGEST_FILTER,
    NAME_TAG,
    Selection,
    narrowest,
    one_of,
    places,
)
from palanca.signals.leaves import MISSING, Grid, Leaf
from palanca.signals.promql import UNOBSERVED
from palanca.signals.queries import PromQLReader, planned
from palanca.signals.readings import read
from palanca.signals.store import Series

END = 1_800_000_000.0


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue([shipped("rules")])


@pytest.fixture(scope="module")
def running(catalogue: Catalogue) -> Leaf:
    """The leaf of the signal ``running``."""
    return next(leaf for leaf in planned(catalogue) if (leaf.function, leaf.family) == ("avg", "num_requests_running"))


def series(labels: Mapping[str, str], *values: float, end: float = END, step: float = 15) -> Series:
    times = np.round((end - step * np.arange(len(values) - 1, -1, -1)) * 1000).astype(np.int64)
    return Series("", labels, times, np.array(values))


class Fleet:
    """Says that every target has the given names, answers every leaf with one value, and keeps what it was asked."""

    def __init__(self, targets: Iterable[Mapping[str, str]], names: Iterable[str], *, tag: str | None = None) -> None:
        self.targets, self.names, self.tag = list(targets), list(names), tag
        self.texts: list[str] = []
        self.ranges: list[tuple[float, float, float]] = []
        self.value = 1.0
        self.busy, self.most, self._company = 0, 0, threading.Condition()
        self.patience_s = 0.0

    def query(self, text: str, time: float) -> Sequence[Series]:
        assert time == END
        self._note(text)
        if "histogram_quantile(1, " in text:
            return []
        if text.startswith("count by (palanca_name)"):
            return [series({NAME_TAG: name}, len(self.targets)) for name in self._fitting(text) if self.targets]
        if ALIKE_TAG in text:
            groups = re.findall(rf'group without (.*?)"{ALIKE_TAG}", "(\d+)"', text)
            tags = [tag for group, tag in groups if self._fitting(group)]
            return [series({**labels, ALIKE_TAG: tag}, 1) for labels in self.targets for tag in tags]
        if NAME_TAG in text:
            fitting = self._fitting(text)
            return [series({**labels, NAME_TAG: name}, 1) for labels in self.targets for name in fitting]
        if LEAF_TAG in text:
            return self._leaves(text, 1)
        return [] if "cache_config_info" in text else [series(labels, 1, 1, 1) for labels in self.targets]

    def _fitting(self, text: str) -> list[str]:
        """Names that a selector of the text fits."""
        plain = {name: rf"[|(\"]{re.escape(_plain(name))}(_count|_bucket)?[|)\"]" for name in self.names}
        return [name for name, pattern in plain.items() if re.search(pattern, text)]

    def query_range(self, text: str, start: float, end: float, step: float) -> Sequence[Series]:
        self._note(text)
        self.ranges.append((start, end, step))
        return self._leaves(text, round((end - start) / step) + 1)

    def _note(self, text: str) -> None:
        """Count who is here at once; until the first two meet, a query waits ``patience_s`` for another."""
        with self._company:
            self.texts.append(text)
            self.busy += 1
            self.most = max(self.most, self.busy)
            self._company.notify_all()
            self._company.wait_for(lambda: self.most > 1, timeout=self.patience_s)
        time.sleep(0.002)
        with self._company:
            self.busy -= 1

    def _leaves(self, text: str, steps: int) -> list[Series]:
        tags = [self.tag] if self.tag is not None else re.findall(rf'"{LEAF_TAG}", "(\d+)"', text)
        return [series({**labels, LEAF_TAG: tag}, *[self.value] * steps) for labels in self.targets for tag in tags]


def _plain(name: str) -> str:
    return re.sub("^(vllm:|ray_vllm_|kserve_vllm:|vllm_)", "", name)


def fleet(count: int, *names: str) -> Fleet:
    labels = [{"job": "vllm", "instance": f"host{at}:8000", "model_name": "m", "engine": "0"} for at in range(count)]
    return Fleet(labels, names or ["vllm:num_requests_running"])


# --- how much is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 41])
def test_few_queries_for_every_name_that_there_is(catalogue: Catalogue, steps: int) -> None:
    """All names under two prefixes at 200 targets: at most 40 queries, each short, four at once."""
    names = [name for name, place in places(catalogue.metrics).items() if place.prefix in {"", "vllm:", "ray_vllm_"}]
    api, grid = fleet(200, *names), Grid(END, steps, 15)
    api.patience_s = 1.0

    made = read(catalogue, PromQLReader(api, catalogue, grid), grid, SourceInfo("p", ""))

    assert 200 == len(made.targets)
    assert len(api.texts) <= 40
    assert max(len(text) for text in api.texts) <= LONGEST_QUERY
    assert 1 < api.most <= 4
    assert ({(END - 600, END, 15)} if steps > 1 else set()) == set(api.ranges)


def test_what_the_source_lacks_is_not_asked(catalogue: Catalogue, running: Leaf) -> None:
    """No query names a family that the source does not have, and an unknown source is asked once."""
    api = fleet(1)
    reader = PromQLReader(api, catalogue, Grid(END, 1, 15))
    target = reader.discover().targets[0]

    assert [1.0] == [*reader.leaf(running)[target]]
    assert {} == reader.leaf(Leaf("rate", "preemptions", 120.0))
    leaves = [text for text in api.texts if LEAF_TAG in text and "histogram_quantile(1, " not in text]
    assert 1 == len(leaves)
    assert "preemptions" not in leaves[0]
    assert frozenset({"vllm:num_requests_running"}) == reader.names


def test_no_targets_no_questions(catalogue: Catalogue, running: Leaf) -> None:
    api = fleet(0)
    reader = PromQLReader(api, catalogue, Grid(END, 400, 15))

    assert () == reader.discover().targets
    assert {} == reader.leaf(running)
    assert not any(LEAF_TAG in text for text in api.texts)


def test_a_leaf_beside_the_plan_is_asked_alone(catalogue: Catalogue) -> None:
    api = fleet(1)
    reader = PromQLReader(api, catalogue, Grid(END, 1, 15))
    odd = Leaf("max", "num_requests_running", 77.0)

    assert odd not in planned(catalogue)
    assert [[1.0]] == [[*values] for values in reader.leaf(odd).values()]
    assert "[1m17s]" in api.texts[-1]


def test_nothing_observed_is_no_number_also_where_such_are_left_out(catalogue: Catalogue) -> None:
    """VictoriaMetrics answers no NaN, as if there were no series: a number is asked for in its place."""
    api = fleet(1, "vllm:num_requests_running", "vllm:time_to_first_token_seconds")
    api.value = UNOBSERVED
    reader = PromQLReader(api, catalogue, Grid(END, 1, 15))
    (values,) = reader.leaf(Leaf("quantile", "time_to_first_token", 77.0, quantile=0.9)).values()

    assert np.isnan(values).all()
    observed = 'rate(vllm:time_to_first_token_seconds_bucket{le="+Inf"}[1m17s])'
    gone = "prometheus_replica, replica"
    (text,) = (text for text in api.texts if "histogram_quantile(0.9, " in text)
    assert f"or (max without (le) (max without ({gone}) (sum without (pid) ({observed}))) == 0) + -1" in text


def test_the_window_replaces_all_windows(catalogue: Catalogue) -> None:
    assert {60.0} == {leaf.window for leaf in planned(catalogue, 60.0)}


def test_a_long_grid_asks_for_the_names_of_its_time(catalogue: Catalogue) -> None:
    """Discovery looks at the last hour; a grid of a day also needs names that are gone by now."""
    api = fleet(1, "vllm:num_requests_running")
    reader = PromQLReader(api, catalogue, Grid(END, 1441, 60))
    reader.discover()

    assert any(f"group by ({NAME_TAG})" in text and "[1d40m]" in text for text in api.texts)
    assert any(text.endswith("[1d40m]") for text in api.texts)


# --- what is selected ------------------------------------------------------------------------------


def test_matchers(catalogue: Catalogue) -> None:
    """Engine series need the label; server-wide ones may lack it; own labels of a family are looked at if there."""
    families = catalogue.metrics.families
    selection = Selection({"model_name": "m", "reason": "x.y"}, frozenset({"a", "b"}))

    assert ('model_name="m"', 'reason="x.y"') == selection.of(families["num_requests_running"])
    waiting = families["num_requests_waiting_by_reason"]
    assert ('model_name="m"', 'reason=~"|x\\\\.y"') == selection.of(waiting)
    assert ('model_name=~"|m"', 'reason=~"|x\\\\.y"', 'job=~"a|b"') == selection.of(families["up"])


@pytest.mark.parametrize("value", ['x"} or vector(1) or {a="', "x\\", "x\ny", "x|y.*", "ü", "", " "])
def test_values_cannot_leave_their_quotes(value: str, catalogue: Catalogue) -> None:
    """Whatever a value holds, it is one string of PromQL."""
    strings = re.compile(r'"(?:[^"\\\n]|\\.)*"')
    for family in (catalogue.metrics.families["num_requests_running"], catalogue.metrics.families["up"]):
        (text,) = Selection({"a": value}).of(family)
        assert text.startswith("a=")
        assert re.fullmatch(r'a=~?"(?:[^"\\\n]|\\.)*"', text)
        assert "a=" == strings.sub("", text).rstrip("~")


@pytest.mark.parametrize("label", ["", "1a", "a-b", "a b", 'a"', "__name__", "job=x", "ä"])
def test_label_names_are_checked(label: str, catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match="is not a label name"):
        PromQLReader(fleet(1), catalogue, Grid(END, 1, 15), matchers={label: "x"})


def test_a_value_that_is_no_text() -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        Selection({"a": "\udc80"})


def test_very_many_jobs_are_not_listed(catalogue: Catalogue) -> None:
    up = catalogue.metrics.families["up"]
    assert () == Selection({}, frozenset(f"job-number-{at}" for at in range(200))).of(up)
    assert ('job="a"',) == Selection({}, frozenset({"a"})).of(up)
    assert ('job=~"|a"',) == Selection({}, frozenset({"a", ""})).of(up)
    assert 'job=""' == one_of("job", [""])
    assert LONGEST_FILTER < LONGEST_QUERY / 4


def test_the_narrowest_label() -> None:
    """Of all labels the one that leaves out most, where its values are few; servers have job and instance only."""
    engines = [
        Target.of({"job": "vllm", "instance": f"engine-{at}:8000", "model_name": f"m{at // 50}"}) for at in range(1000)
    ]
    one = 'instance="engine-7:8000"'
    assert {"engine": one, "server": one} == narrowest(engines[7:8], engines)
    assert {"engine": 'model_name=~"m1|m2"', "server": 'job="vllm"'} == narrowest(engines[50:150], engines)
    assert {"engine": 'job="vllm"', "server": 'job="vllm"'} == narrowest(engines[::3], engines[::3])
    assert {} == narrowest([], engines)
    assert {} == narrowest([Target.of({"a": "1"}), Target.of({"b": "2"})], engines)


def test_a_narrow_reader_asks_for_its_targets_only(catalogue: Catalogue, running: Leaf) -> None:
    api = fleet(100)
    reader = PromQLReader(api, catalogue, Grid(END, 1, 15))
    (_, second, *_) = reader.discover().targets
    narrow = reader.at(Grid(END, 1, 15), ["running"], [second])
    narrow.leaf(running)

    assert f'{{instance="{second.get("instance")}"}}' in api.texts[-1]


# --- grids and answers -----------------------------------------------------------------------------


def test_grids_that_no_query_can_express(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match="whole number of milliseconds"):
        PromQLReader(fleet(1), catalogue, Grid(END, 3, 0.0001))


def test_steps_without_a_sample_are_missing(catalogue: Catalogue, running: Leaf) -> None:
    """Samples find their step by time; those beside the grid are left out."""

    class Gappy(Fleet):
        def _leaves(self, text: str, steps: int) -> list[Series]:
            tag = str(planned(catalogue).index(running))
            return [series({**self.targets[0], LEAF_TAG: tag}, 5, 6, 7, end=END + 22.5, step=22.5)]

    api = Gappy([{"job": "a", "instance": "b"}], ["vllm:num_requests_running"])
    reader = PromQLReader(api, catalogue, Grid(END, 3, 22.5))

    assert [[MISSING, 5.0, 6.0]] == [[*values] for values in reader.leaf(running).values()]


@pytest.mark.parametrize("tag", ["", "x", "100000", "-1"])
def test_an_answer_without_its_tag(tag: str, catalogue: Catalogue, running: Leaf) -> None:
    api = Fleet([{"job": "a", "instance": "b"}], ["vllm:num_requests_running"], tag=tag)
    with pytest.raises(SourceError, match=r"with another palanca_leaf .* than the query sets"):
        PromQLReader(api, catalogue, Grid(END, 1, 15)).leaf(running)


def test_names_of_no_family_are_left_out(catalogue: Catalogue) -> None:
    """A proxy that answers with more than was asked for makes no target."""

    class Talkative(Fleet):
        def query(self, text: str, time: float) -> Sequence[Series]:
            more = [series({"job": "x", NAME_TAG: "node_load1"}, 1)] if NAME_TAG in text else []
            return [*super().query(text, time), *more]

    api = Talkative([{"job": "a", "instance": "b"}], ["vllm:num_requests_running"])

    assert (Target.of({"job": "a", "instance": "b"}),) == PromQLReader(
        api, catalogue, Grid(END, 1, 15)
    ).discover().targets


def test_errors_pass() -> None:
    """A failed query ends the reading with its own words."""

    class Failing(Fleet):
        def query(self, text: str, time: float) -> Sequence[Series]:
            raise SourceError("http://p: connection refused")

    catalogue = load_catalogue([shipped("rules")])
    with pytest.raises(SourceError, match="connection refused"):
        PromQLReader(Failing([], []), catalogue, Grid(END, 1, 15)).discover()
