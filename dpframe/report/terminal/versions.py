"""The version matrix in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.report.terminal.ink import STYLE, Ink
from dpframe.report.versions import blocks, versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table
    from rich.text import Text

    from dpframe.record.model import Record
    from dpframe.report.versions import Versions

NARROW = 16
"""Columns that a mechanism needs beside others; where there are fewer, each has lines."""


def matrix(record: Record, ink: Ink, width: int) -> Iterator[Text | Table]:
    """A row for each environment, a column for each mechanism."""
    found = versions(record)
    if found is None:
        return
    tables = blocks(found)
    if any(width // (1 + len(table.mechanisms)) < NARROW for table in tables):
        yield from _lines(found, ink, width)
        return
    for number, table in enumerate(tables):
        yield from [ink.text("")] * (number > 0)
        yield _table(table, ink)


def _table(found: Versions, ink: Ink) -> Table:
    table = ink.table()
    for head in ("environment", *found.mechanisms):
        table.add_column(ink.text(head), overflow="fold", vertical="top")
    for name, places in found.rows:
        told = [
            ink.text("–") if p is None else ink.text(p.text, STYLE.get(p.verdict, ""))
            for p in places
        ]
        table.add_row(ink.text(name), *told)
    return table


def _lines(found: Versions, ink: Ink, width: int) -> Iterator[Text]:
    """The same, one below the other."""
    for name, places in found.rows:
        yield from ink.folded(name, "bold", width)
        for mechanism, place in zip(found.mechanisms, places, strict=True):
            if place is not None:
                text = ink.text(f"  {mechanism}: {place.text}", STYLE.get(place.verdict, ""))
                yield from ink.wrapped(text, width)
