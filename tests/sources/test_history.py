"""The rolling window of scrapes."""

from __future__ import annotations

import pytest

from palanca.sources.exposition import ExpositionParser, Page
from palanca.sources.history import History


def page(text: str) -> Page:
    return ExpositionParser().parse(text.encode())


def samples(history: History, name: str) -> list[tuple[dict[str, str], list[int], list[float]]]:
    return [
        (dict(labels), [*block.times], [*row])
        for block in history.store().blocks(name)
        for labels, row in zip(block.labels, block.values, strict=True)
    ]


def test_samples_get_the_labels_of_a_scrape() -> None:
    """Those of the same name on the page are kept under another, as Prometheus does it; ``up`` is added."""
    history = History({"a"}.__contains__, 60.0)
    history.add("h:1", 10.0, page('a{job="x",instance="y",z="1"} 5\nb 6\n'))
    history.add("h:1", 11.0, None)

    labels = {"exported_job": "x", "exported_instance": "y", "z": "1", "job": "scrape", "instance": "h:1"}
    assert [(labels, [10_000], [5.0])] == samples(history, "a")
    assert [] == samples(history, "b")
    assert [({"job": "scrape", "instance": "h:1"}, [10_000, 11_000], [1.0, 0.0])] == samples(history, "up")
    assert (10.0, 11.0) == history.span()


def test_times_ascend_when_the_clock_is_set_back() -> None:
    """No time twice, and none before the last; servers do not matter to each other."""
    history = History({"a"}.__contains__, 60.0)
    for server, moment in (("h:1", 10.0), ("h:1", 10.0), ("h:1", 4.0), ("h:2", 4.0)):
        history.add(server, moment, page("a 1\n"))

    assert [[10_000, 10_001, 10_002], [4_000]] == [times for _, times, _ in samples(history, "a")]


def test_what_is_too_old_is_forgotten() -> None:
    """Samples beyond the length, and series without any left."""
    history = History({"a", "b"}.__contains__, 60.0)
    history.add("h:1", 0.0, page("a 1\nb 1\n"))
    history.add("h:1", 50.0, page("a 2\n"))
    history.add("h:1", 100.0, page("a 3\n"))

    assert [[50_000, 100_000]] == [times for _, times, _ in samples(history, "a")]
    assert [] == samples(history, "b")


@pytest.mark.parametrize("text", ["", "b 1\n"])
def test_nothing(text: str) -> None:
    """An empty history has no span; one of unwanted names only ``up``."""
    history = History({"a"}.__contains__, 60.0)
    assert (0.0, 0.0) == history.span()
    history.add("h:1", 1.0, page(text) if text else None)
    assert frozenset({"up"}) == history.store().names
