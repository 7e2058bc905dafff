"""One Prometheus for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.dashboards.worlds import Server, serving, write_palanca, write_recordings


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prometheus that has scraped every recorded server, and palanca."""
    with serving(tmp_path_factory.mktemp("recordings"), [write_recordings, write_palanca]) as server:
        yield server
