"""Lines and tables that the terminal, pages and Markdown lay out, each in its own way."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """A sentence of a report."""

    text: str
    style: str | None = None
    """The verdict whose colour it has, "bold", "dim", or "note", which is dim and folded."""


class Row(NamedTuple):
    """A row of a table."""

    cells: Sequence[str | Line]
    style: str | None = None  # as that of a line; the name of a row is bold, unless it is dim


class Table(NamedTuple):
    """A table and what stands above it."""

    heads: Sequence[str]
    rows: list[Row]
    right: Collection[str] = ()  # titles of columns that are flush right
    title: str = ""
    explanation: str = ""
    is_named: bool = True  # the first column names the rows


Part = Line | Table


class Assumptions(dict[str, int]):
    """Assumptions, explained once below a table, with their numbers."""

    def mark(self, assumption: str) -> str:
        """Return the reference to an assumption."""
        return f"[{self.setdefault(assumption, len(self) + 1)}]"

    def lines(self) -> Iterator[Line]:
        """Explain all references."""
        for text, number in self.items():
            yield Line(f"[{number}] assumes {text}", "dim")
