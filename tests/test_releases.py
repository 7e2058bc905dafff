"""Releases: how they are read, ordered and grouped in ranges."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palanca.releases import Release, ReleaseRange

ASCENDING = [
    "0.4.0",
    "0.4.0.post1",
    "0.4.1",
    "0.6.1.post1",
    "0.6.1.post2",
    "0.8.5",
    "0.8.5.post1",
    "0.9.0",
    "0.9.0.1",
    "0.9.1",
    "0.9.2",
    "0.10.0",
    "0.10.1",
    "0.10.1.1",
    "0.10.2",
    "0.33.0",
    "1.0",
    "10.0",
]


def test_order_is_by_number() -> None:
    """0.10 comes after 0.9, and a post release right after its release."""
    assert ASCENDING == [str(release) for release in sorted(Release(text) for text in reversed(ASCENDING))]
    assert all(Release(before) < Release(after) for before, after in pairwise(ASCENDING))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0.33", "0.33.0"),
        ("v0.10.2", "0.10.2"),
        (" 0.10.2\n", "0.10.2"),
        ("0.10.2+cu129", "0.10.2"),
        ("0.11.0rc1", "0.11.0"),
        ("0.11.0.dev3+g1f2e3d", "0.11.0"),
        ("0.8.5post1", "0.8.5.post1"),
    ],
)
def test_spellings_of_one_release(text: str, same: str) -> None:
    """A missing zero, a leading v and what a build appends make no difference, also for the hash."""
    assert Release(same) == Release(text)
    assert 1 == len({Release(same), Release(text)})


def test_text_is_kept() -> None:
    """The text comes back as it was given."""
    assert "v0.10.2" == str(Release("v0.10.2"))


def test_a_release_is_no_text() -> None:
    """A release differs from everything that is none."""
    assert Release("0.10.2") != "0.10.2"


@pytest.mark.parametrize("text", ["", "0", "10", "x.y", "0.x", "0.10.2 beta", "0.10.2-cpu", "0..1", "-0.1", "latest"])
def test_what_is_no_release(text: str) -> None:
    """The error names the text and shows how releases look."""
    with pytest.raises(ValueError, match=r"is not a vLLM release such as 0\.10\.2"):
        _ = Release(text).key


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("0.4.0-0.10.2", ["0.4.0", "0.9.0.1", "0.10.2"], ["0.3.3", "0.10.2.post1", "0.11.0"]),
        ("0.33.0", ["0.33.0", "0.33"], ["0.32.0", "0.33.0.1", "0.33.1"]),
        ("0.24.0+", ["0.24.0", "0.33.0", "1.0.0"], ["0.23.9"]),
        (" 0.4.0 - 0.5.0 ", ["0.4.0", "0.5.0"], ["0.5.0.post1"]),
    ],
)
def test_ranges_contain_both_ends(text: str, inside: list[str], outside: list[str]) -> None:
    """A range is closed; one that is open above ends nowhere."""
    span = ReleaseRange.parse(text)

    assert all(Release(one) in span for one in inside)
    assert not any(Release(one) in span for one in outside)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("0.4.0-0.10.2", "0.10.2-0.33.0", True),
        ("0.4.0-0.10.2", "0.10.3-0.33.0", False),
        ("0.4.0-0.33.0", "0.9.0", True),
        ("0.24.0+", "0.4.0-0.24.0", True),
        ("0.24.0+", "0.4.0-0.23.0", False),
        ("0.24.0+", "0.4.0+", True),
    ],
)
def test_overlaps(one: str, other: str, expected: bool) -> None:
    """Ranges overlap when a release could belong to both, in either order."""
    first, second = ReleaseRange.parse(one), ReleaseRange.parse(other)

    assert expected == first.overlaps(second) == second.overlaps(first)


@pytest.mark.parametrize("text", ["0.4.0-0.10.2", "0.33.0", "0.24.0+", "0.8.5-0.8.5.post1"])
def test_ranges_are_written_as_they_are_read(text: str) -> None:
    """``str`` gives the form that ``parse`` reads."""
    assert text == str(ReleaseRange.parse(text))


@pytest.mark.parametrize(
    "text", ["", "-", "+", "0.4.0-", "-0.4.0", "a-b", "0.4.0-b", "x+", "0.4.0-0.5.0-0.6.0", "0.4.0-0.5.0+"]
)
def test_what_is_no_range(text: str) -> None:
    """A damaged range is refused when it is read, not when it is used."""
    with pytest.raises(ValueError, match="is not a vLLM release"):
        ReleaseRange.parse(text)


def test_a_range_does_not_run_backwards() -> None:
    """A range that ends before it begins is refused."""
    with pytest.raises(ValueError, match="ends before it begins"):
        ReleaseRange.parse("0.10.0-0.9.2")


@given(st.lists(st.integers(0, 40), min_size=2, max_size=4), st.lists(st.integers(0, 40), min_size=2, max_size=4))
def test_order_agrees_with_tuples(one: list[int], other: list[int]) -> None:
    """Releases without suffix are ordered like tuples that are filled up with zeros."""
    first, second = ([*numbers, 0, 0][:4] for numbers in (one, other))

    assert (first < second) == (Release(".".join(map(str, one))) < Release(".".join(map(str, other))))
