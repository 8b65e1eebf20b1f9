"""The heat map: a sign and a shade for each cell of a sweep."""

from collections.abc import Iterator

from rich.text import Text

from dpframe.report import group, words
from dpframe.report.group import Group, Map, Spot, maps
from dpframe.report.terminal.ink import GAP, STYLE, Ink, beside, cuts, padded

SHADES = (
    (0.0, "·", "0"),
    (0.5, "░", "up to 0.5"),
    (1.0, "▒", "up to 1"),
    (10.0, "▓", "up to 10"),
    (float("inf"), "█", "more"),
)
"""Shades: largest certified ε divided by claimed ε, sign, and that limit in words."""

WIDEST_LEAD = 0.5
"""Share of the width that names of rows may take before they get lines of their own."""


def mapped(found: list[Group]) -> list[Group]:
    """Return the groups of a sweep that have a certified bound beside a claim."""
    return [
        one
        for one in found
        if one.keys and any(group.weight(cell) for spot in one.spots for cell in spot.done)
    ]


def heat(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Draw the maps of groups, as many beside each other as fit into `width`."""
    drawn = list(maps(found))
    directions = {one.directions for one in drawn}
    common = directions.pop() if len(directions) == 1 else ""
    spots = [spot for one in found for spot in one.spots]
    yield from _key(found, spots, common, ink, width)
    mark = any(spot.unexpected for spot in spots)
    blocks = [
        list(_block(one, "" if common else one.directions, mark, ink, width)) for one in drawn
    ]
    widest = max(line.cell_len for block in blocks for line in block)
    across = max((width + GAP) // (widest + GAP), 1)
    for start in range(0, len(blocks), across):
        yield Text()
        yield from beside(blocks[start : start + across], widest)


def _key(
    found: list[Group], spots: list[Spot], directions: str, ink: Ink, width: int
) -> Iterator[Text]:
    """Explain the shades, and name the attack and estimator of all maps."""
    naming = group.telling(found)
    everyone = [found[0].names[part] for part in (1, 2) if part not in naming]
    yield ink.text(" · ".join(everyone) if everyone else "Map", "bold").append(
        ink.plain(f"; {directions}" if directions else ""), "not bold"
    )
    used = set(map(_shade, spots))
    shades = [ink.text("Certified ε ÷ claimed ε", "dim")]
    shades += [ink.text(f"{shade} {text}", "dim") for _, shade, text in SHADES if shade in used]
    if any(len(spot.cells) > 1 for spot in spots):
        shades.append(ink.text("of repeats the worst", "dim"))
    yield ink.joined(shades, width)


def _block(one: Map, directions: str, mark: bool, ink: Ink, width: int) -> Iterator[Text]:
    """Return the lines of one map; a map that is too wide is cut into several."""
    for text in filter(None, (one.title, directions)):
        yield from ink.folded(text, "bold" if text == one.title else "dim", width)
    labels = [ink.line(label) for label, _ in one.rows]
    lead = max(Text(label).cell_len for label in labels)
    alone = lead > max(width * WIDEST_LEAD, 1)
    lead = 0 if alone else lead + 1
    heads = [ink.line(head) for head in one.heads]
    sizes = [max(2 + mark, Text(head).cell_len + mark) for head in heads]
    for start, stop in cuts(sizes, width - lead, 1):
        line = Text(" " * lead, "dim", no_wrap=True)
        for head, size in zip(heads[start:stop], sizes[start:stop], strict=True):
            line.append(f"{' ' * mark}{padded(head, size - mark)} ")
        line.rstrip()
        yield line
        for label, (_, spots) in zip(labels, one.rows, strict=True):
            if alone:
                yield from ink.folded(label, "bold", width)
            line = Text("" if alone else padded(label, lead), "bold", no_wrap=True)
            for spot, size in zip(spots[start:stop], sizes[start:stop], strict=True):
                line.append_text(_cell(spot, size, mark, ink)).append(" ")
            line.rstrip()
            yield line


def _cell(spot: Spot | None, size: int, mark: bool, ink: Ink) -> Text:
    text = Text(style="not bold")
    if spot is not None:
        if mark:
            text.append(ink.plain(words.UNEXPECTED) if spot.unexpected else " ", STYLE["failed"])
        sign = words.SYMBOL[spot.verdict] + _shade(spot)
        text.append(ink.plain(sign), STYLE[spot.verdict])
    return text.append(" " * (size - text.cell_len))


def _shade(spot: Spot) -> str:
    cell = group.worst(spot.done)
    found = None if cell is None else group.weight(cell)
    if found is None:
        return " "
    return next(shade for most, shade, _ in SHADES if found.ratio <= most)
