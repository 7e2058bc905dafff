"""What can be asked for: any text is either a moment, a matcher, a list of fields, or a fault with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from palanca.api.selection import Asked, NoParameters, Where

NOW = 1_800_000_000.0
SLOPPY = st.text(alphabet="0123456789-+:.TZtz dhms_eEnaif", max_size=30)


@given(st.one_of(st.text(max_size=70), SLOPPY, st.floats().map(str), st.integers().map(str)))
def test_any_text_is_a_moment_or_a_fault(text: str) -> None:
    """What passes as a moment can be used as one."""
    try:
        asked = Asked(time=text)
    except ValidationError:
        return
    moment = asked.at(NOW)
    assert moment is not None
    assert moment >= 0


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001  naive on purpose
    st.integers(-23 * 60, 23 * 60),
    st.sampled_from(["T", "t", " "]),
    st.booleans(),
)
def test_every_moment_with_an_offset(naive: datetime, minutes: int, between: str, lost: bool) -> None:
    """Also where the plus sign came as a space."""
    there = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    text = there.isoformat(sep=between)
    text = text[:-6] + text[-6:].replace("+", " ") if lost else text
    assert pytest.approx(there.astimezone(UTC).timestamp()) == Asked(time=text).at(NOW)


def test_no_moment() -> None:
    """Means now."""
    assert (None, None) == (Asked().at(NOW), Asked(fresh=True).at(NOW))


@given(st.lists(st.integers(), max_size=50), st.integers(1, 1000), st.integers(0, 100))
def test_pages(rows: list[int], limit: int, offset: int) -> None:
    """Never more than the limit, and in order."""
    assert rows[offset : offset + limit] == Where(limit=limit, offset=offset).page(rows)
    assert rows[offset:] == Where(offset=offset).page(rows)


def test_nothing_else() -> None:
    """Unknown parameters are faults."""
    for model in (Where, Asked, NoParameters):
        with pytest.raises(ValidationError):
            model.model_validate({"x": "1"})
