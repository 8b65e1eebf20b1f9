"""The heat map: a sign and a shade for each cell of a sweep, mechanisms beside each other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from dpframe.report import words
from dpframe.report.group import (
    Group,
    Spot,
    axes,
    called,
    parts,
    same,
    short,
    telling,
    weight,
    worst,
)
from dpframe.report.terminal.ink import GAP, STYLE, SYMBOL, UNEXPECTED, Ink, padded

if TYPE_CHECKING:
    from collections.abc import Iterator


SHADES = (
    (0.0, "·", "0"),
    (0.5, "░", "up to 0.5"),
    (1.0, "▒", "up to 1"),
    (10.0, "▓", "up to 10"),
    (float("inf"), "█", "more"),
)
"""A shade, up to which certified ε divided by claimed ε it goes, and that in words."""

WIDEST_LEAD = 0.5
"""Share of the width that names of rows may take before they get lines of their own."""


class Map(NamedTuple):
    """Rows of cells under one title."""

    title: str
    directions: str
    """What goes down and across."""
    heads: list[str]
    rows: list[tuple[str, list[Spot | None]]]


def mapped(found: list[Group]) -> list[Group]:
    """Groups that a map can show: something is swept, and something certified beside a claim."""
    return [
        group
        for group in found
        if group.keys and any(weight(cell) for spot in group.spots for cell in spot.done)
    ]


def heat(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Draws maps, as many beside each other as there is room for.

    Args:
        found: what `mapped` gives, at least one.
        ink: of the console.
        width: columns of the console.
    """
    maps = [*_bands(found), *_squares(found)]
    directions = {one.directions for one in maps}
    spots = [spot for group in found for spot in group.spots]
    if len(directions) == 1:
        maps = [one._replace(directions="") for one in maps]
    yield from _key(found, spots, directions.pop() if len(directions) == 1 else "", ink, width)
    mark = any(spot.unexpected for spot in spots)
    blocks = [list(_block(one, mark, ink, width)) for one in maps]
    widest = max(line.cell_len for block in blocks for line in block)
    across = max((width + GAP) // (widest + GAP), 1)
    for start in range(0, len(blocks), across):
        yield Text()
        for line in itertools.zip_longest(*blocks[start : start + across]):
            yield _beside(line, widest)


def _beside(parts: tuple[Text | None, ...], width: int) -> Text:
    line = Text(overflow="fold")
    for index, part in enumerate(parts):
        line.append(" " * (index * (width + GAP) - line.cell_len))
        line.append_text(part or Text())
    return line


def _key(
    found: list[Group], spots: list[Spot], directions: str, ink: Ink, width: int
) -> Iterator[Text]:
    """How to read the shades, and who is meant by all maps."""
    everyone = [found[0].names[part] for part in (1, 2) if part not in telling(found)]
    yield ink.text(" · ".join(everyone) if everyone else "Map", "bold").append(
        ink.plain(f"; {directions}" if directions else ""), "not bold"
    )
    yield ink.text("Beside each verdict, certified ε over claimed ε:", "dim")
    used = {_shade(spot) for spot in spots}
    shades = [ink.text(f"{shade} {text}", "dim") for _, shade, text in SHADES if shade in used]
    if any(len(spot.cells) > 1 for spot in spots):
        shades.append(ink.text("of repeats the worst", "dim"))
    yield ink.joined(shades, width)


def _bands(found: list[Group]) -> Iterator[Map]:
    """Groups that sweep one key over the same values, each in a row of one map."""
    naming = telling(found)
    alike: dict[str, list[Group]] = {}
    for group in found:
        if len(group.keys) == 1:
            alike.setdefault(same([group.keys, group.axis(group.keys[0])]), []).append(group)
    for groups in alike.values():
        key = groups[0].keys[0]
        name, values = short(key, groups[0].swept), groups[0].axis(key)
        rows = []
        for group in groups:
            at = {same(spot.values[key]): spot for spot in group.spots}
            rows.append((called(group, naming), [at.get(same(v)) for v in values]))
        yield Map("", f"across {name}", [words.setting(value) for value in values], rows)


def _squares(found: list[Group]) -> Iterator[Map]:
    """Groups that sweep two keys or more: a map each, and for each value of further keys."""
    naming = telling(found)
    for group in found:
        if len(group.keys) < 2:
            continue
        for name, part in parts(group):
            down, across = axes(part)
            rows, columns = part.axis(down), part.axis(across)
            at = {(same(s.values[down]), same(s.values[across])): s for s in part.spots}
            labels = words.align([words.setting(row) for row in rows])
            yield Map(
                ", ".join(filter(None, [called(group, naming), name])),
                f"down {short(down, group.swept)}, across {short(across, group.swept)}",
                [words.setting(value) for value in columns],
                [
                    (label, [at.get((same(row), same(column))) for column in columns])
                    for label, row in zip(labels, rows, strict=True)
                ],
            )


def _block(one: Map, mark: bool, ink: Ink, width: int) -> Iterator[Text]:
    """The lines of one map; of one that is too wide, several maps below each other."""
    for text in filter(None, (one.title, one.directions)):
        yield from ink.folded(text, "bold" if text == one.title else "dim", width)
    labels = [ink.plain(label).replace("\n", " ") for label, _ in one.rows]
    lead = max(Text(label).cell_len for label in labels)
    alone = lead > max(width * WIDEST_LEAD, 1)
    lead = 0 if alone else lead + 1
    heads = [ink.plain(head).replace("\n", " ") for head in one.heads]
    sizes = [max(2 + mark, Text(head).cell_len + mark) for head in heads]
    for start, stop in _cuts(sizes, width - lead):
        line = Text(" " * lead, "dim", no_wrap=True)
        for head, size in zip(heads[start:stop], sizes[start:stop], strict=True):
            line.append(f"{' ' * mark}{padded(head, size - mark)} ")
        yield _trimmed(line)
        for label, (_, spots) in zip(labels, one.rows, strict=True):
            if alone:
                yield from ink.folded(label, "bold", width)
            line = Text("" if alone else padded(label, lead), "bold", no_wrap=True)
            for spot, size in zip(spots[start:stop], sizes[start:stop], strict=True):
                line.append_text(_cell(spot, size, mark, ink)).append(" ")
            yield _trimmed(line)


def _cuts(sizes: list[int], room: int) -> Iterator[tuple[int, int]]:
    """Where to cut columns, with a blank between them, so that each part has room."""
    start = 0
    while start < len(sizes):
        stop = start + 1
        while stop < len(sizes) and sum(sizes[start : stop + 1]) + stop - start <= room:
            stop += 1
        yield start, stop
        start = stop


def _trimmed(line: Text) -> Text:
    line.rstrip()
    return line


def _cell(spot: Spot | None, size: int, mark: bool, ink: Ink) -> Text:
    text = Text(style="not bold")
    if spot is not None:
        if mark:
            text.append(ink.plain(UNEXPECTED) if spot.unexpected else " ", STYLE["failed"])
        text.append(ink.plain(SYMBOL[spot.verdict] + _shade(spot)), STYLE[spot.verdict])
    return text.append(" " * (size - text.cell_len))


def _shade(spot: Spot) -> str:
    cell = worst(spot.done)
    found = None if cell is None else weight(cell)
    if found is None:
        return " "
    return next(shade for most, shade, _ in SHADES if found.ratio <= most)
