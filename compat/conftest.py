"""Every back end once for each test that asks for it, with its commands first on the ``PATH``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from compat.back_ends import ALERTMANAGER, PROMETHEUS, VICTORIA_METRICS, BackEnd, back_ends
from compat.results import Results, write

SOURCES = back_ends(PROMETHEUS, VICTORIA_METRICS)
ALERTMANAGERS = back_ends(ALERTMANAGER)
SOURCE_COLUMNS = (
    "diagnoses as from the file",
    "values of signals",
    "all releases at once",
    "exported alerts",
    "a live incident",
)
ALERTMANAGER_COLUMNS = ("exported configuration", "alerts, silences, webhook", "a live incident")

Note = Callable[[BackEnd, str, str], None]


def _titles(back_end: BackEnd) -> str:
    return back_end.title.replace(" ", "-")


@pytest.fixture(params=SOURCES, ids=_titles)
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BackEnd:
    made: BackEnd = request.param
    monkeypatch.setenv("PATH", made.path)
    return made


@pytest.fixture(params=ALERTMANAGERS, ids=_titles)
def alertmanager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BackEnd:
    made: BackEnd = request.param
    monkeypatch.setenv("PATH", made.path)
    return made


@pytest.fixture(scope="session")
def note() -> Iterator[Note]:
    """Write down what was found; rows of back ends where everything was bring the page up to date."""
    sources = Results("sources", SOURCE_COLUMNS, [one.title for one in SOURCES])
    alertmanagers = Results("Alertmanagers", ALERTMANAGER_COLUMNS, [one.title for one in ALERTMANAGERS])

    def noted(back_end: BackEnd, column: str, text: str) -> None:
        (alertmanagers if back_end.kind == ALERTMANAGER else sources).note(back_end.title, column, text)

    yield noted
    write([sources, alertmanagers], datetime.now(UTC).date().isoformat())
