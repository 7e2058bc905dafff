"""What was found at each back end, as the tables in ``docs/compatibility.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.engines import ROOT
from tests.generated import block, table, with_block

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

    def text(self, date: str, before: str) -> str:
        """The table: rows of which everything was tried, with the day; the others as in the table ``before``."""
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in before.splitlines() if "|" in line]
        kept = {cells[0]: cells for cells in lines if len(cells) == len(self.columns) + 2}
        rows = [kept[row] if not self._complete(row) else self._row(row, date) for row in self._known(kept)]
        return table(["", *self.columns, "tried on"], rows) if rows else before

    def _known(self, kept: Mapping[str, object]) -> list[str]:
        return [row for row in self.rows if self._complete(row) or row in kept]

    def _complete(self, row: str) -> bool:
        """Whether everything was tried there, and nothing failed before it was noted."""
        return all((row, column) in self.cells for column in self.columns)

    def _row(self, row: str, date: str) -> list[str]:
        return [row, *(self.cells[row, column] for column in self.columns), date]


def write(results: Sequence[Results], date: str, page: Path = PAGE) -> None:
    """Replace the rows of back ends that passed everything; the others stay as they are."""
    text = page.read_text(encoding="utf-8")
    for one in results:
        text = with_block(text, one.name, one.text(date, block(text, one.name)))
    page.write_text(text, encoding="utf-8")
