"""What was found at each back end, as the tables in ``docs/compatibility.md``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.engines import ROOT
from tests.generated import table, with_block

PAGE = ROOT / "docs" / "compatibility.md"


@dataclass
class Results:
    """By row and column. ``columns`` are what every row has when all was tried; ``name`` is that of the table."""

    name: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: dict[tuple[str, str], str] = field(default_factory=dict)

    def note(self, row: str, column: str, text: str) -> None:
        """Write down one cell."""
        assert row in self.rows
        assert column in self.columns
        self.cells[row, column] = text

    @property
    def complete(self) -> bool:
        """Whether everything was tried, and nothing failed before it was noted."""
        return len(self.cells) == len(self.rows) * len(self.columns)

    def text(self, date: str) -> str:
        """The table, with the day of the run."""
        rows = [[row, *(self.cells[row, column] for column in self.columns)] for row in self.rows]
        return f"{table(['', *self.columns], rows)}\nTried on {date}.\n"


def write(results: Sequence[Results], date: str, page: Path = PAGE) -> None:
    """Replace the tables of which everything is known; of a run in part nothing is written."""
    text = page.read_text(encoding="utf-8")
    for one in results:
        if one.complete:
            text = with_block(text, one.name, one.text(date))
    page.write_text(text, encoding="utf-8")
