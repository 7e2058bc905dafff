"""Both databases: what holds for one holds for the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.history.looks import Opener
from tests.postgresql import Server, postgresql

from palanca.history.leases import Lease
from palanca.history.store import HistoryStore


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One PostgreSQL for all tests of a worker."""
    with postgresql() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of its own."""
    if request.param == "sqlite":
        return str(tmp_path / "state" / "palanca.db")
    running: Server = request.getfixturevalue("server")
    return running.database()


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens stores, and closes them when the test is over."""
    made: list[HistoryStore] = []

    def opener(address: str | Path, lease: Lease | None = None, wait_s: float = 5.0) -> HistoryStore:
        made.append(HistoryStore(address, lease=lease, wait_s=wait_s))
        return made[-1]

    yield opener
    for one in made:
        one.close()


@pytest.fixture
def store(address: str, opened: Callable[[str], HistoryStore]) -> HistoryStore:
    """A store over an empty database."""
    return opened(address)
