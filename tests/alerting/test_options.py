"""What a user can choose, and how overrides part the targets."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines import shipped

from palanca.alerting.options import Cell, Matcher, Options, Override, matchers, release_range
from palanca.errors import UsageError
from palanca.releases import Release


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ('job="vllm"', (Matcher("job", "=", "vllm"),)),
        ('{job="vllm"}', (Matcher("job", "=", "vllm"),)),
        (' job = "a" , team!="x"', (Matcher("job", "=", "a"), Matcher("team", "!=", "x"))),
        (r'job=~"a|b\\.c",note!~"q\"x"', (Matcher("job", "=~", r"a|b\.c"), Matcher("note", "!~", 'q"x'))),
    ],
)
def test_matchers(text: str, expected: tuple[Matcher, ...]) -> None:
    """As PromQL writes them, in braces or not; written back they mean the same."""
    made = matchers(text)
    assert expected == made
    assert made == matchers(",".join(str(one) for one in made))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job=vllm", "no matcher at column 1"),
        ('job="vllm" team="x"', "column 12"),
        ('{job="a", 1x="b"}', "column 10"),
        ('job="a', "column 1"),
        ('job=="a"', "column 1"),
        ('job=~"("', "no regular expression"),
        ('job=~"(?!a)"', "look-around"),
        (r'job=~"(a)\\1"', "back-references"),
    ],
)
def test_matchers_that_are_none(text: str, said: str) -> None:
    """The place is named."""
    with pytest.raises(UsageError, match=re.escape(said)):
        matchers(text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("0.33", "0.33.0", "0.32.0"),
        ("0.8", "0.8.5.post1", "0.9.0"),
        ("0.8.3", "0.8.3", "0.8.4"),
        ("0.24.0-0.33.0", "0.30.0", "0.23.0"),
        ("0.9-0.10", "0.10.2", "0.11.0"),
        ("0.24+", "0.33.0", "0.23.0"),
    ],
)
def test_releases(text: str, inside: str, outside: str) -> None:
    """Two numbers mean all that begin with them."""
    made = release_range(text, shipped().metrics)
    assert made is not None
    assert Release(inside) in made
    assert Release(outside) not in made


def test_all_releases() -> None:
    assert release_range("all", shipped().metrics) is None


@pytest.mark.parametrize(
    ("text", "said"), [("new", "e.g. --vllm 0.33"), ("0.99", "0.4.0 to"), ("0.9-0.8", "ends before")]
)
def test_no_releases(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        release_range(text, shipped().metrics)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"alert_prefix": "v-"}, "letters, digits"),
        ({"prefixes": ()}, "at least one prefix"),
        ({"prefixes": ("foo_",)}, "choose from vllm:"),
        ({"labels": {"a-b": "c"}}, "not a label name"),
        ({"labels": {"severity": "x"}}, "set by the rules themselves"),
        ({"interval": 120.0}, "not from 1s to 1m"),
        ({"selector": matchers('finished_reason="stop"')}, "belongs to single metrics"),
        ({"rules": ("kv-cach*d", "kv-cache-saturate")}, "did you mean kv-cache-saturated"),
        ({"overrides": (Override(thresholds={"kv-cache-saturate": {"full": 1.0}}),)}, "did you mean"),
        ({"overrides": (Override(thresholds={"kv-cache-saturated": {"ful": 1.0}}),)}, "it has full"),
        ({"overrides": (Override(slo={"ttft": 1.0}),)}, "ttft_p99"),
        ({"overrides": (Override({"a b": "c"}),)}, "not a label name"),
    ],
)
def test_wrong_options(wrong: Mapping[str, object], said: str) -> None:
    """What would never match, or Prometheus would refuse, is refused with what would do."""
    with pytest.raises(UsageError, match=re.escape(said)):
        Options(**wrong).checked(shipped())  # type: ignore[arg-type]


# --- cells -------------------------------------------------------------------------------------------

LABELS = ("model_name", "job", "team")
VALUES = ("x", "y", "")
targets = st.fixed_dictionaries(dict.fromkeys(LABELS, st.sampled_from(VALUES)))
matches = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(VALUES), max_size=2)
overrides = st.lists(
    st.builds(
        Override,
        match=matches,
        thresholds=st.dictionaries(
            st.just("a-rule"), st.dictionaries(st.sampled_from(["one", "two"]), st.floats(0, 9), min_size=1), max_size=1
        ),
        slo=st.dictionaries(st.sampled_from(["ttft_p99", "itl_p99"]), st.floats(0, 9), max_size=1),
    ),
    max_size=4,
)


def fits(cell: Cell, target: Mapping[str, str]) -> bool:
    return all((target[one.label] == one.value) == (one.op == "=") for one in cell.matchers)


@given(given_=overrides, target=targets)
def test_cells(given_: list[Override], target: dict[str, str]) -> None:
    """Each target fits exactly one, which has what the overrides say for it, the later ones first."""
    cells = Options(overrides=tuple(given_)).cells("a-rule", ("slo.ttft_p99",))
    values: dict[str, float] = {}
    for one in given_:
        if all(target[label] == value for label, value in one.match.items()):
            values |= one.thresholds.get("a-rule", {})
            values |= {f"slo.{name}": value for name, value in one.slo.items() if name == "ttft_p99"}
    (mine,) = [cell for cell in cells if fits(cell, target)]
    assert values == mine.values


def test_cells_of_models() -> None:
    """One for each model, and the base for all others; rules that nothing changes have the base alone."""
    options = Options(overrides=tuple(Override({"model_name": name}, slo={"ttft_p99": 2.0}) for name in "ab"))
    named = [cell.name for cell in options.cells("ttft-high", ("slo.ttft_p99",))]
    assert ['model_name!="a",model_name!="b"', 'model_name="a"', 'model_name="b"'] == named
    assert [Cell()] == [*options.cells("queue-waiting", ())]


def test_too_many_cells() -> None:
    """It is said how to make them fewer."""
    many = tuple(Override({f"l{at}": "x", f"m{at}": "y"}, thresholds={"a-rule": {"one": float(at)}}) for at in range(8))
    with pytest.raises(UsageError, match="match by the same label everywhere"):
        Options(overrides=many).cells("a-rule", ())


@pytest.mark.parametrize(
    ("url", "said"),
    [("https://x/{{y}}", "would be a template of Prometheus"), ("https://u:secret@x/", "leave them out")],
)
@pytest.mark.parametrize("name", ["external_url", "dashboard_url"])
def test_urls_that_would_do_harm(name: str, url: str, said: str) -> None:
    """In every alert."""
    with pytest.raises(UsageError, match=said) as told:
        Options(**{name: url})  # type: ignore[arg-type]
    assert "secret" not in str(told.value)
