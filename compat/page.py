"""The tables in ``docs/compatibility.md`` that are made of what was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.engines import ROOT

PAGE = ROOT / "docs" / "compatibility.md"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def block(text: str, name: str) -> str:
    """What stands between the marks of a generated part. Raises ``ValueError`` where there are none."""
    return text[slice(*_place(text, name))]


def with_block(text: str, name: str, content: str) -> str:
    """The text with another generated part. Raises ``ValueError`` where it has no marks for it."""
    begin, end = _place(text, name)
    return f"{text[:begin]}{content}{text[end:]}"


def _place(text: str, name: str) -> tuple[int, int]:
    mark = f"<!-- generated: {name} -->\n\n"
    begin = text.index(mark) + len(mark)
    return begin, text.index("\n<!-- end -->", begin)


@dataclass
class Results:
    """What was found, by row and column. ``columns`` are what every row has when all was tried."""

    name: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: dict[tuple[str, str], str] = field(default_factory=dict)

    def note(self, row: str, column: str, text: str) -> None:
        """Write down one cell."""
        if row not in self.rows or column not in self.columns:
            message = f"no cell {column!r} of {row!r}"
            raise KeyError(message)
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
