"""A browser for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.web.served import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()
