"""Parts of documents that are generated, between marks: ``<!-- generated: name -->`` and ``<!-- end -->``."""

from __future__ import annotations

from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def block(text: str, name: str) -> str:
    """What stands between the marks of a part. Raises ``ValueError`` where there are none."""
    return text[slice(*_place(text, name))]


def with_block(text: str, name: str, content: str) -> str:
    """The text with a part replaced. Raises ``ValueError`` where it has no marks for it."""
    begin, end = _place(text, name)
    return f"{text[:begin]}{content}{text[end:]}"


def _place(text: str, name: str) -> tuple[int, int]:
    mark = f"<!-- generated: {name} -->\n\n"
    begin = text.index(mark) + len(mark)
    return begin, text.index("\n<!-- end -->", begin)
