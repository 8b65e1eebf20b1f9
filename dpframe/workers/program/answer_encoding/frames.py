"""Data frames of pandas and polars, their columns and indices. `reader` reads the answer."""

from __future__ import annotations

import struct
from typing import Any

from dpframe.workers.program.answer_encoding.content import sized
from dpframe.workers.program.answer_encoding.kinds import PLACES, name_of
from dpframe.workers.program.answer_encoding.words import in_short


def read_frame(reader: Any, value: Any, names: list[Any], columns: list[Any]) -> str:
    """Its index and its columns."""
    reader.part(b"P", sized(name_of(type(value)).encode()) + struct.pack("<Q", len(columns)))
    held = []
    if hasattr(value, "index"):
        held.append("index: " + read_index(reader, value.index))
    for name, column in zip(names, columns):
        mine = reader.aside()
        mine.read(name)
        reader.part(sized(b"".join(mine.parts)))
        held.append(f"{in_short(name) or 'column'}: {read_column(reader, column, '')}")
    return f"{name_of(type(value))} ({'; '.join(held)})"


def read_index(reader: Any, index: Any) -> str:
    """Of a frame: how many rows, or what they are called."""
    if all(hasattr(index, name) for name in ("start", "stop", "step")):
        bounds = [int(index.start), int(index.stop), int(index.step)]
        reader.part(b"x", sized(repr(bounds).encode()))
        return f"{len(index)} rows"
    return read_column(reader, index, "")


def read_column(reader: Any, column: Any, title: str) -> str:
    """A series; as an array where it is numbers, else value by value."""
    dtype = str(column.dtype)
    categories = getattr(column.dtype, "categories", None)
    reader.part(b"Y", sized((title + " " + dtype).encode("utf-8", "surrogatepass")))
    if categories is not None:  # they show, also those that no row has
        known = list(categories.to_list() if hasattr(categories, "to_list") else categories)
        mine = reader.aside()
        mine.several("", known)
        ordered = b"t" if getattr(column.dtype, "ordered", False) else b"u"
        reader.part(ordered, sized(b"".join(mine.parts)))
        reader.count = mine.count
        dtype += " of " + ", ".join(in_short(each) or "…" for each in known[:PLACES])
    name = getattr(column, "name", None)
    if title:
        mine = reader.aside()
        mine.read(name)
        reader.part(sized(b"".join(mine.parts)))
        if hasattr(column, "index"):
            read_index(reader, column.index)
    values = column.to_list() if hasattr(column, "to_list") else column.to_numpy().tolist()
    return str(
        (title + " " if title else "") + dtype + ", " + reader.several(str(len(values)), values)
    )
