"""The version matrix in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.report.terminal.ink import STYLE, Ink
from dpframe.report.versions import versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table
    from rich.text import Text

    from dpframe.record.model import Record

NARROW = 16
"""Columns that a mechanism needs beside others; where there are fewer, each has lines."""


def matrix(record: Record, ink: Ink, width: int) -> Iterator[Text | Table]:
    """A row for each environment, a column for each mechanism."""
    found = versions(record)
    if found is None:
        return
    if width // (1 + len(found.mechanisms)) < NARROW:
        yield from _lines(record, ink, width)
        return
    table = ink.table()
    for head in ("environment", *found.mechanisms):
        table.add_column(ink.text(head), overflow="fold", vertical="top")
    for name, places in found.rows:
        told = [
            ink.text("–") if p is None else ink.text(p.text, STYLE.get(p.verdict, ""))
            for p in places
        ]
        table.add_row(ink.text(name), *told)
    yield table


def _lines(record: Record, ink: Ink, width: int) -> Iterator[Text]:
    """The same, one below the other."""
    found = versions(record)
    assert found is not None
    for name, places in found.rows:
        yield from ink.folded(name, "bold", width)
        for mechanism, place in zip(found.mechanisms, places, strict=True):
            if place is not None:
                text = ink.text(f"  {mechanism}: {place.text}", STYLE.get(place.verdict, ""))
                yield from ink.wrapped(text, width)
