"""What the query of a page means."""

from __future__ import annotations

import pytest
from fastapi.exceptions import RequestValidationError

from palanca.errors import UsageError
from palanca.web.asked import AskedFleet, AskedSize, AskedTimeline, of_pairs


def test_fields_that_a_form_leaves_empty() -> None:
    """Are not given."""
    wanted = of_pairs(AskedFleet, [("q", ""), ("status", ""), ("status", "ok"), ("limit", ""), ("time", "")])
    assert ("", ["ok"], 100, None) == (wanted.q, wanted.status, wanted.limit, wanted.time)


def test_spaces_are_a_value() -> None:
    """A label may consist of them."""
    assert [" "] == of_pairs(AskedFleet, [("model", " ")]).model


def test_several_values() -> None:
    """Of a list all count, of anything else the last."""
    wanted = of_pairs(AskedFleet, [("model", "a"), ("model", "b"), ("limit", "5"), ("limit", "7")])
    assert (["a", "b"], 7) == (wanted.model, wanted.limit)


@pytest.mark.parametrize(
    ("name", "value"),
    [("status", "bad"), ("colour", "red"), ("limit", "0"), ("match", "no-equals"), ("time", "noon"), ("offset", "-1"),
     ("q", "x" * 1025)],
)  # fmt: skip
def test_faults(name: str, value: str) -> None:
    """Each names its parameter."""
    with pytest.raises(RequestValidationError) as found:
        of_pairs(AskedFleet, [(name, value)])
    assert ("query", name) == found.value.errors()[0]["loc"][:2]


def test_moments() -> None:
    """As in the REST API."""
    assert 400.0 == of_pairs(AskedFleet, [("time", "-10m")]).at(1000.0)
    assert of_pairs(AskedFleet, []).at(1000.0) is None


def test_the_future_is_refused() -> None:
    """Save what is now by another clock."""
    assert 1000.0 == of_pairs(AskedFleet, [("time", "1030")]).at(1000.0)
    with pytest.raises(UsageError, match=r"00:20:00Z is in the future; it is 1970-01-01T00:16:40Z"):
        of_pairs(AskedTimeline, [("time", "1200")]).at(1000.0)


def test_labels_of_the_timeline() -> None:
    """Model and instance are labels too."""
    wanted = of_pairs(AskedTimeline, [("model", "m"), ("match", "job=vllm"), ("match", "engine=")])
    assert {"model_name": "m", "job": "vllm", "engine": ""} == wanted.labels


def test_numbers() -> None:
    """Of the calculator."""
    wanted = of_pairs(AskedSize, [("gpus", "2"), ("utilization", "0.9"), ("users", "")])
    assert (2, 0.9, None) == (wanted.gpus, wanted.utilization, wanted.users)
